"""Bonsai with one level of nodes where labels are few: what that gains alone, and beside DiSMEC.

    python -m benchmarks.tune.depth [--datasets NAME ...] [--threads N]

Datasets, samples and held-out points are those of `benchmarks/tune/defaults.toml`; the test parts are not read. With
one level every label is a child of the root, so Bonsai is one-vs-rest, once per tree. Beside the defaults stand one
level, one level with a single tree, DiSMEC, and the means of the probabilities of DiSMEC and Bonsai, as `AutoModel`
makes them. Writes docs/lab/benchmarks/bonsai-depth.json.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from typing import Any

from benchmarks.common import add_out, load, markdown_table, save
from benchmarks.common.data import add_data_root, data_root
from benchmarks.tune.defaults import GRID, one_part
from longtail.bench.split import sampled
from longtail.compose.frontier import CANDIDATES, Trials
from longtail.core import registry
from longtail.data import read_dataset
from longtail.tune.points import Part

DATASETS = ("bibtex", "delicious", "eurlex57k", "eurlex57k-whole", "debian-depends", "yso-finna-en")
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bonsai": ("bonsai", {}),
    "one level": ("bonsai", {"max_depth": 1}),
    "one level, one tree": ("bonsai", {"max_depth": 1, "n_trees": 1}),
    "dismec": ("dismec", {}),
}
PAIRS = (("bonsai", "dismec"), ("one level", "dismec"))
_NAME = "bonsai-depth"


def measured(part: Part, *, scaled: bool, threads: int) -> dict[str, list[float]]:
    """Return P@1 and PSP@1 of every model and pair."""
    train, dev = part.inputs(scaled=scaled)
    found = {}
    for title, (name, parameters) in MODELS.items():
        model = registry.estimator_class(name)(n_jobs=threads, random_state=0, **parameters).fit(train, part.Y)
        found[title] = model.predict(dev, k=min(CANDIDATES, part.Y.shape[1]))
    trials = Trials(found, part.Y_dev, part.inverse, "P@1")
    reached = {title: trials.as_it_is(title) for title in MODELS}
    reached |= {" + ".join(pair): trials.curve(pair)[0] for pair in PAIRS}
    return {title: [round(r.kept, 2), round(r.gained, 2)] for title, r in reached.items()}


def table(rows: list[dict[str, Any]]) -> str:
    """Return P@1 and PSP@1 as Markdown: models downwards, datasets sideways."""
    cells = [["labels with points", *(f"{row['labels']:,}" for row in rows)]]
    for title in rows[0]["reached"]:
        cells.append([title, *(" / ".join(f"{value:.1f}" for value in row["reached"][title]) for row in rows)])
    return markdown_table(["P@1 / PSP@1", *(row["dataset"] for row in rows)], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", default=DATASETS)
    parser.add_argument("--threads", type=int, default=-1)
    add_out(parser)
    options = parser.parse_args()
    plan = tomllib.loads(GRID.read_text(encoding="utf-8"))
    rows = {row["dataset"]: row for row in load(_NAME, options.out).get("rows", [])}
    for dataset in options.datasets:
        entry = plan["datasets"][dataset]
        data = read_dataset(data_root(options.data_root) / entry["train"])
        part = one_part(sampled(data, entry.get("sample", data.n_points), plan["split_seed"]), plan, {})
        reached = measured(part, scaled=entry.get("unit_rows", False), threads=options.threads)
        rows[dataset] = {"dataset": dataset, "labels": int((part.counts > 0).sum()), "reached": reached}
        print(rows[dataset], file=sys.stderr, flush=True)
    kept = [rows[dataset] for dataset in DATASETS if dataset in rows]
    print(table(kept))
    save(_NAME, {"rows": kept, "table": table(kept)}, "python -m benchmarks.tune.depth", folder=options.out)


if __name__ == "__main__":
    main()
