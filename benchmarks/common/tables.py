"""Markdown tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Return a Markdown table; columns are aligned right, except for those of the indices `left`."""
    rule = ["---" if column in left else "---:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def decimals(values: Mapping[str, float | None], names: Iterable[str], digits: int = 2) -> list[str]:
    """Return these values as cells; "–" stands for what was not measured."""
    return [f"{values[name]:.{digits}f}" if values.get(name) is not None else "–" for name in names]
