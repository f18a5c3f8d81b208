"""What GLaS costs against the number of labels: a training step, and the prediction of one point.

    python -m benchmarks.neural.glas_labels [--labels 1000 4000 16000 50000] [--negatives auto all] [--width 1024]
                                            [--epochs 5] [--points 0] [--held-out 0.1] [--seeds 0]
                                            [--device cpu] [--accuracy] [--name glas-labels]

The data is that of a recipe with only its most frequent labels, as many as asked for; a share of the training points is
held out and measured on, so that the test part stays unseen. One thread. A step is the median over the steps of a
training, in CPU seconds. A prediction is the median of single points, from features to labels, by exact search and by
codes; recall@5 is the share of the true 5 best labels that the codes find for points that were held out. Every figure
is the mean over the seeds. With `--accuracy`, and on a GPU, there are no times. Writes docs/lab/benchmarks/NAME.json.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from scipy import sparse

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, features_of, recipe_named
from benchmarks.common.metrics import METRICS, measured
from longtail import GLaS
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.neural import held_out
from longtail.neural.mips import LabelSearch, recall_of
from longtail.neural.placement import place

COLUMNS = ("step s", "train s", *METRICS, "exact ms", "codes ms", "recall@5")
SINGLE = 200  # points predicted one at a time


class StepTimes(Silent):
    """Keep the CPU seconds of each step of a training."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def start(self, task: str, total: int) -> None:
        self.last = time.process_time()

    def advance(self, amount: int = 1) -> None:
        now = time.process_time()
        if amount:  # 0 where a training begins
            self.seconds.append(now - self.last)
        self.last = now


def main() -> None:
    options = arguments()
    train, _ = features_of(recipe_named(options.recipe), options.data_root)
    learning, tested = held_out.split(options.points or train.X.shape[0], options.held_out, 0)
    rows: list[dict[str, Any]] = []
    for n_labels in options.labels:
        X, Y = train.X, most_frequent(train.Y, n_labels)
        for negatives in options.negatives:
            runs = []
            for seed in options.seeds:
                model = GLaS(
                    width=options.width, epochs=options.epochs, n_jobs=1, device=options.device, random_state=seed,
                    negatives=negatives if negatives in ("auto", "all") else int(negatives),
                )  # fmt: skip
                parts = X[learning], Y[learning], X[tested], Y[tested]
                runs.append(accuracy(model, *parts) if options.accuracy else measure(model, *parts))
            row = {"labels": Y.shape[1], "negatives": negatives}
            rows.append(row | {column: float(np.mean([run[column] for run in runs])) for column in runs[0]})
            print(rows[-1], flush=True)
            content = {"recipe": options.recipe, "width": options.width, "epochs": options.epochs}
            content |= {"seeds": options.seeds, "table": table(rows), "rows": rows}
            save(options.name, content, command(options), folder=options.out, machine_name=machine_name(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="debian-depends/dismec", help="whose data and features are taken")
    add_data_root(parser)
    parser.add_argument("--labels", type=int, nargs="+", default=[1000, 4000, 16_000, 50_000])
    parser.add_argument("--negatives", nargs="+", default=["auto"], help="auto, all, or a number")
    parser.add_argument("--width", type=int, default=GLaS.width)
    parser.add_argument("--epochs", type=int, default=GLaS.epochs)
    parser.add_argument("--points", type=int, default=0, help="take only the first points of the training data")
    parser.add_argument("--held-out", type=float, default=0.1, help="share of the points that is measured on")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--accuracy", action="store_true", help="leave times out, e.g. where other work is done")
    parser.add_argument("--name", default="glas-labels", help="of the file that is written")
    add_out(parser)
    options = parser.parse_args()
    options.accuracy |= options.device == "cuda"
    return options


def most_frequent(Y: sparse.csr_matrix, n_labels: int) -> sparse.csr_matrix:
    """Return the columns of the most frequent labels, in their order."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    return Y[:, np.sort(np.argsort(-counts, kind="stable")[:n_labels])]


def accuracy(model: GLaS, X: Any, Y: Any, Xt: Any, Yt: Any) -> dict[str, float]:
    """Train and test."""
    return measured(model.fit(X, Y).predict(Xt, k=5), Yt, model.label_counts_, model.n_points_)


def measure(model: GLaS, X: Any, Y: Any, Xt: Any, Yt: Any) -> dict[str, float]:
    """Train and test, and time steps and predictions of single points by either search."""
    times = StepTimes()
    started = time.process_time()
    model.fit(X, Y, run=Run(times))
    result = {"train s": time.process_time() - started, "step s": float(np.median(times.seconds))}
    found = measured(model.predict(Xt, k=5), Yt, model.label_counts_, model.n_points_)
    return result | found | searched(model, X, Xt)


def searched(model: GLaS, X: Any, Xt: Any) -> dict[str, float]:
    """Return the milliseconds of a prediction by either search, and what the codes find."""
    # Private in the library: a model has one search, and here it is compared with the other.
    vectors, placement, among = model._label_vectors(), place("cpu"), model.label_counts_ > 0
    searches = {
        "exact": LabelSearch(vectors, among=among),
        "codes": LabelSearch.build(vectors, model._embedded(X[:1000], placement), kind="codes", n_jobs=1, among=among),
    }
    found = {}
    for name, search in searches.items():
        model._set_search(search)
        found[f"{name} ms"] = single_point_ms(model, Xt)
    queries = model._embedded(Xt, placement)
    exact, codes = (search.top(queries, 5, n_jobs=1) for search in searches.values())
    return found | {"recall@5": recall_of(codes, exact)}


def single_point_ms(model: GLaS, X: Any) -> float:
    points = [X[i] for i in range(min(SINGLE, X.shape[0]))]
    model.predict(points[0], k=5)
    seconds = []
    for point in points:
        started = time.perf_counter()
        model.predict(point, k=5)
        seconds.append(time.perf_counter() - started)
    return 1000 * float(np.median(seconds))


def machine_name(options: argparse.Namespace) -> str | None:
    return torch.cuda.get_device_name() if options.device == "cuda" else None


def command(options: argparse.Namespace) -> str:
    text = f"python -m benchmarks.neural.glas_labels --labels {' '.join(map(str, options.labels))}"
    text += f" --negatives {' '.join(options.negatives)} --width {options.width} --epochs {options.epochs}"
    text += f" --points {options.points} --held-out {options.held_out} --seeds {' '.join(map(str, options.seeds))}"
    text += " --device cuda" * (options.device == "cuda") + " --accuracy" * options.accuracy
    return text + f" --name {options.name}"


def table(rows: list[dict[str, Any]]) -> str:
    columns = [column for column in COLUMNS if column in rows[0]]
    cells = []
    for row in rows:
        shown = [f"{row[c]:.2f}" if c in METRICS else f"{row[c]:.3g}" for c in columns]
        cells.append([f"{row['labels']:,}", row["negatives"], *shown])
    return markdown_table(["labels", "negatives", *columns], cells, left=())


if __name__ == "__main__":
    main()
