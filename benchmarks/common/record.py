"""Measurement files: docs/lab/benchmarks/<name>.json, each with its command, commit, date and machine."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from longtail.bench.machine import commit, machine

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "docs" / "lab" / "benchmarks"
IMAGES = ROOT / "docs" / "images"


def about(command: str, machine_name: str | None = None) -> dict[str, Any]:
    """Return what every measurement file begins with; `machine_name` names a machine other than this one's CPU."""
    today = datetime.date.today().isoformat()
    return {"command": command, "commit": commit(), "date": today, "machine": machine_name or machine()}


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the option `--out FOLDER`."""
    parser.add_argument("--out", type=Path, default=LAB, metavar="FOLDER", help="where figures go; default: docs/lab")


def save(
    name: str, content: dict[str, Any], command: str, *, folder: Path = LAB, machine_name: str | None = None
) -> Path:
    """Write <folder>/<name>.json; `python -m scripts.pages` then renews the pages that show it."""
    file = folder / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(about(command, machine_name) | content, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {file}")
    return file


def image(name: str, folder: Path = LAB) -> Path:
    """Return where a picture goes: docs/images, or the folder of the figures where that is another."""
    return (IMAGES if folder == LAB else folder) / name


def load(name: str, folder: Path = LAB) -> dict[str, Any]:
    """Return a measurement file, or {} where there is none."""
    file = folder / f"{name}.json"
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return content
