"""Attack longtail for a while, and say what it did not withstand.

python -m scripts.attack --minutes 30
python -m scripts.attack --minutes 5 --only models
python -m scripts.attack --only models/resigned --seed 0 --first 17 --trials 1

Attacks are in tests/attack; a small number of trials runs there in every test run. Exits with 1 after a finding, whose
folder is kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from attack import frame  # noqa: E402 - tests is on the path only now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="time limit, shared evenly by the attacks")
    parser.add_argument("--trials", type=int, help="trials per attack, at most")
    parser.add_argument(
        "--only", help="a group (models, files, kills, commands, service) or one attack, e.g. models/resigned"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides everything random (default: 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial (default: 0)")
    options = parser.parse_args()
    if options.minutes is None and options.trials is None:
        parser.error("give --minutes or --trials")
    frame.load_attacks()
    names = frame.chosen(options.only)
    for group, reason in frame.LEFT_OUT.items():
        if options.only is None:
            print(f"left out: {group} ({reason})", file=sys.stderr)
        elif options.only.split("/")[0] == group:
            parser.error(f"{group} {reason}")
    if not names:
        parser.error(f"no attack {options.only!r}; known: {', '.join(frame.ATTACKS) or 'none'}")
    report = frame.run(names, minutes=options.minutes, trials=options.trials, seed=options.seed, first=options.first)
    print("\n".join(report.lines()))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
