"""python -m scripts.pages [--check]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import scripts.pages
from scripts.pages.build import outdated, write

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=scripts.pages.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if anything is out of date")
    if parser.parse_args().check:
        found = outdated(ROOT)
        for path in found:
            print(f"out of date: {path.relative_to(ROOT)}")
        return 1 if found else 0
    for path in write(ROOT):
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
