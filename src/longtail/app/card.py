"""A model card as text for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.app.console import print_sections, print_table, print_text, readable
from longtail.core.plain import plain

Section = dict[str, str]
METRICS = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5", "R@5", "macro-F1@5", "coverage@5")


def show_card(path: Path, card: dict[str, Any]) -> None:
    """Print a card as tables."""
    print_sections(str(path), sections(card).values())
    if card["evaluations"]:
        print_table("evaluations (percent)", *evaluations(card))


def print_markdown(path: Path, card: dict[str, Any]) -> None:
    """Print a card as a Markdown page."""
    print_text("\n".join(_markdown(path.resolve().name, card)))


def sections(card: dict[str, Any]) -> dict[str, Section]:
    """Return the rows of a card, as text for people, by section."""
    from longtail.core.dates import readable_date

    reads = f"{card['features']:,} features" if "features" in card else "texts"
    if card["input"] == "text" and "features" in card:
        reads = f"texts, as {reads}"
    untrained = card["labels without training points"]
    labels = f"{card['labels']:,}{', with names' if card['label names'] else ''}"
    trained = readable_date(card["date"]) if "date" in card else "–"
    if "seconds" in card:
        trained += f", in {card['seconds']:,.1f} s"
    return {
        "Model": {
            "model": card["model"],
            "reads": reads,
            "probabilities": card["probabilities"],
            "size": f"{card['size MB']:,.1f} MB",
        },
        "Training": {
            "data": card.get("data", "–"),
            "points": f"{card['training points']:,}",
            "labels": labels + (f"; {untrained:,} without training points" if untrained else ""),
            **({"vocabulary": card["vocabulary"]} if "vocabulary" in card else {}),
            "trained": trained,
            "data fingerprint": card["training data fingerprint"],
        },
        **({"Choice": _choice(card["choice"])} if card["choice"] else {}),
        "Parameters": {
            "changed parameters": readable(card["changed parameters"]),
            "at their defaults": readable(card["default parameters"]),
        },
        "Versions": {"versions": readable(card["versions"])},
    }


def _choice(found: dict[str, str]) -> Section:
    """Return the rows of an automatic choice; the data that it looked at is not the name of the data."""
    return {"chosen on" if name == "data" else name: said for name, said in found.items()}


def evaluations(card: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the kept evaluations, with the metrics that any of them has."""
    from longtail.core.dates import readable_date

    found = card["evaluations"]
    metrics = [name for name in METRICS if any(name in one["metrics"] for one in found)]
    rows = []
    for one in found:
        options = [] if one["propensity"] == "default" else [f"propensity {one['propensity']}"]
        options += [] if one["exponent"] is None else [f"exponent {one['exponent']:g}"]
        name = one["data"] + (f" ({', '.join(options)})" if options else "")
        values = [f"{one['metrics'][metric]:.2f}" if metric in one["metrics"] else "–" for metric in metrics]
        rows.append([name, readable_date(one["date"]).partition(" ")[0], f"{one['points']:,}", *values])
    return ["data", "date", "points", *metrics], rows


def _markdown(name: str, card: dict[str, Any]) -> Iterator[str]:
    yield f"# {_cell(name)}"
    shown = sections(card)
    if card["evaluations"]:
        header, rows = evaluations(card)
        yield "\n## Evaluations\n\nPercent.\n"
        yield from _rows([header, ["---", "---", *["---:"] * (len(header) - 2)], *rows])
    for title, rows_of in shown.items():
        if title == "Parameters":
            yield from _parameters(card)
            continue
        yield f"\n## {title}\n"
        yield from _rows([["", ""], ["---", "---"], *map(list, rows_of.items())])


def _parameters(card: dict[str, Any]) -> Iterator[str]:
    yield "\n## Parameters\n"
    rows = [[name, str(value), "changed"] for name, value in card["changed parameters"].items()]
    rows += [[name, str(value), "default"] for name, value in card["default parameters"].items()]
    yield from _rows([["parameter", "value", ""], ["---", "---", "---"], *rows])


def _rows(rows: list[list[str]]) -> Iterator[str]:
    yield from ("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)


def _cell(text: str) -> str:
    """Return a text as the content of a Markdown cell: names may hold anything."""
    text = plain(text, longest=100_000)
    for sign in "\\|`*<>[]":
        text = text.replace(sign, f"\\{sign}")
    return text
