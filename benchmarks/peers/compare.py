"""Linear models and label trees beside PECOS and omikuji: the same files, one run, library defaults.

    python -m benchmarks.peers.compare --datasets eurlex57k debian-depends [--pecos-python P] [--omikuji-python P]

Every dataset that has a recipe named dismec can be given. Systems take turns, each in its own process; with several
rounds figures are medians. Writes docs/lab/benchmarks/peers-DATASET.json for each.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.common import add_out, save
from benchmarks.common.data import add_data_root, recipe_named
from benchmarks.peers import add_peers, compare, peers_of, table

OURS = {
    "DiSMEC": ("dismec", {}),
    "DiSMEC, PW": ("dismec", {"weighting": "pw"}),
    "DiSMEC, PW-cb": ("dismec", {"weighting": "pw-cb"}),
    "Parabel, 1 tree": ("parabel", {"n_trees": 1}),
    "Bonsai, 3 trees": ("bonsai", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["eurlex57k", "debian-depends", "yso-finna-en"])
    add_data_root(parser)
    add_peers(parser)
    parser.add_argument("--only", nargs="*", default=list(OURS), choices=list(OURS))
    parser.add_argument("--rounds", type=int, default=1, help="how often the systems take turns; figures are medians")
    add_out(parser)
    options = parser.parse_args()
    systems = peers_of(options)
    for name in options.only:
        model, parameters = OURS[name]
        systems[name] = (sys.executable, "longtail", model, json.dumps(parameters))
    for dataset in options.datasets:
        rows = compare(systems, recipe_named(f"{dataset}/dismec"), options.data_root, rounds=options.rounds)
        text = table(rows, "PECOS XR-Linear")
        print(f"{dataset}\n{text}", flush=True)
        command = f"python -m benchmarks.peers.compare --datasets {dataset} --rounds {options.rounds}"
        save(f"peers-{dataset}", {"table": text, "rows": rows}, command, folder=options.out)


if __name__ == "__main__":
    main()
