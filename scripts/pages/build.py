"""Everything that is made: which file has which content."""

from __future__ import annotations

from pathlib import Path

from scripts.pages import gpu_tables, serve_tables, text_tables  # noqa: F401  (they add their tables)
from scripts.pages.lab import Lab
from scripts.pages.marks import filled
from scripts.pages.results import benchmarks_page, dataset_page, pictures, results_page
from scripts.pages.tables import TABLES


def outputs(root: Path) -> dict[Path, bytes]:
    """Return the content of every page and picture that is made, whole or in part, by its path."""
    lab, docs = Lab(root), root / "docs"
    whole = {docs / "results.md": results_page(lab), docs / "lab" / "benchmarks.md": benchmarks_page(lab)}
    whole |= {docs / "lab" / f"{dataset}.md": dataset_page(lab, dataset) for dataset in lab.runs}
    for page in [root / "README.md", *sorted(docs.rglob("*.md"))]:
        if page not in whole and "<!-- table: " in (text := page.read_text(encoding="utf-8")):
            whole[page] = filled(text, TABLES, lab)
    made = {path: text.encode() for path, text in whole.items()}
    return made | {docs / "images" / name: content for name, content in pictures(lab).items()}


def outdated(root: Path) -> list[Path]:
    """Return the paths whose content differs from what would be made."""
    made = outputs(root)
    return [path for path, content in made.items() if not path.is_file() or path.read_bytes() != content]


def write(root: Path) -> list[Path]:
    """Write what is out of date, and return its paths."""
    made = outputs(root)
    changed = [path for path, content in made.items() if not path.is_file() or path.read_bytes() != content]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made[path])
    return changed
