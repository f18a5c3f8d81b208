"""What an installation takes on disk, package by package.

    python -m benchmarks.commands.installed_size

Adds up the files that each package and the packages that it needs have installed, as pip recorded them, in the
environment that runs this. Extras are left out. Writes docs/lab/benchmarks/installed-size.json.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib import metadata

from benchmarks.common import add_out, markdown_table, save

PURPOSE = {
    "llvmlite": "the compiler behind Numba",
    "pyarrow": "CSV, Parquet and XC files",
    "scipy": "sparse matrices",
    "numpy": "arrays",
    "scikit-learn": "cross-validation, scikit-learn's conventions",
    "numba": "compiled kernels: training, features, metrics",
    "zstandard": "files that end in .zst",
    "safetensors": "arrays of saved models",
    "typer": "the command line",
    "rich": "tables and progress on a terminal",
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def installed(package: str, seen: dict[str, int] | None = None) -> dict[str, int]:
    """Return the bytes of a package and of all that it needs, without extras, by name."""
    seen = {} if seen is None else seen
    name = re.sub(r"[-_.]+", "-", package).lower()
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:  # for another system or Python
        return seen
    if name in seen:
        return seen
    files = [file.locate() for file in found.files or []]
    seen[name] = sum(file.stat().st_size for file in files if file.is_file())
    for needed in found.requires or []:
        if "extra ==" not in needed.partition(";")[2]:
            installed(_NAME.match(needed)[0], seen)
    return seen


def table(sizes: dict[str, int]) -> str:
    """Return a table of the packages whose purpose is known here, largest first, and one row for all others."""
    known = sorted(PURPOSE.keys() & sizes.keys(), key=lambda name: -sizes[name])
    rows = [[name, f"{sizes[name] / 1e6:.0f}", PURPOSE[name]] for name in known]
    rest = sum(size for name, size in sizes.items() if name not in known)
    rows += [["others", f"{rest / 1e6:.0f}", "what these packages need"]]
    rows += [["together", f"{sum(sizes.values()) / 1e6:.0f}", ""]]
    return markdown_table(["package", "MB", "for"], rows, left=(0, 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_out(parser)
    arguments = parser.parse_args()
    sizes = installed("longtail")
    del sizes["longtail"]  # two megabytes, or none in a clone
    content = {"sizes": sizes, "table": table(sizes)}
    print(content["table"])
    save("installed-size", content, f"python -m {__spec__.name}", folder=arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
