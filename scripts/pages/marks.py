"""Parts of a page that are made by a tool: between `<!-- table: NAME -->` and `<!-- end of table -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_BLOCK = re.compile(r"(<!-- table: (?P<name>[^ ]+) -->\n)(?P<old>.*?)(<!-- end of table -->)", flags=re.DOTALL)


def filled(page: str, tables: Mapping[str, Callable[[Any], str]], lab: Any) -> str:
    """Return a page with every table between its marks made again."""
    if page.count("<!-- table: ") != len(_BLOCK.findall(page)):
        raise ValueError("a mark '<!-- table: NAME -->' has no '<!-- end of table -->'")

    def made(block: re.Match[str]) -> str:
        if block["name"] not in tables:
            raise KeyError(f"no table is called {block['name']!r}; known: {', '.join(sorted(tables))}")
        return f"{block[1]}{tables[block['name']](lab)}\n{block[4]}"

    return _BLOCK.sub(made, page)


def names(page: str) -> list[str]:
    """Return the names of the tables that a page shows."""
    return [block["name"] for block in _BLOCK.finditer(page)]
