"""Metrics of what text/models.py wrote: of each model, of ensembles, and of scores shifted by a weighting.

    python -m benchmarks.text.scores --data FOLDER --results FOLDER [--together NAME ... [--exponents 0 0.05]]
                                     [--shift NAME ...]
    python -m benchmarks.text.scores --data FOLDER --results FOLDER --together NAME ... --choose NAME ...

The first writes docs/lab/benchmarks/text-models-eurlex57k.json. The second chooses an ensemble on the dev split,
beginning with the models of --together.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import add_out, decimals, markdown_table, save
from benchmarks.common.metrics import BESIDE_PSP
from benchmarks.text.texts import indicator, read
from longtail import Predictions, PropensityModel
from longtail.core.calibration import Calibration
from longtail.metrics import evaluate
from longtail.objectives import resolve_weighting

# What a chosen ensemble must have on the dev split: one more in PSP@1 than is asked of the test split, because single
# models have one more there. Among those that do, P@1 counts, and nDCG@5 half.
CHOICE: dict[str, float] = {"PSP@1": 56, "nDCG@5": 85}
EXPONENTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)


class Written:
    """What models predicted, and the labels that are true; all parts have the same columns."""

    def __init__(self, data: Path, results: Path) -> None:
        parts = {part: read(data / f"{part}.jsonl.xz") for part in ("train", "dev", "test")}
        ids = sorted({label for _, labels in parts.values() for row in labels for label in row})
        self.column = {label: i for i, label in enumerate(ids)}
        self.Y = {part: indicator(labels, self.column) for part, (_, labels) in parts.items()}
        self.models = {file.stem: self._ranked(file) for file in sorted(results.glob("*.npz"))}
        counts = np.bincount(self.Y["train"].indices, minlength=len(ids))
        self.inverse_propensities = PropensityModel().inverse(counts, self.Y["train"].shape[0])
        self._probabilities: dict[str, dict[str, sparse.csr_matrix]] = {}

    def _ranked(self, file: Path) -> dict[str, Predictions]:
        saved = np.load(file)
        return {part: renumbered(saved, self.column, f"{part}_") for part in ("dev", "test")}

    def probabilities(self, name: str) -> dict[str, sparse.csr_matrix]:
        """Return the probabilities of a model, calibrated on the dev split."""
        if name not in self._probabilities:
            found = self.models[name]
            rows = np.repeat(np.arange(len(found["dev"])), found["dev"].k)
            hits = np.asarray(self.Y["dev"][rows, found["dev"].labels.ravel()]).ravel() > 0
            log_odds = Calibration.fit(found["dev"].scores.ravel(), hits)
            self._probabilities[name] = {}
            for part, predictions in found.items():
                calibrated = Predictions(predictions.labels, log_odds(predictions.scores))
                P = calibrated.to_csr(len(self.column)).astype(np.float64)
                P.data = 1 / (1 + np.exp(-P.data))
                self._probabilities[name][part] = P
        return self._probabilities[name]

    def together(self, names: list[str], part: str, exponent: float) -> Predictions:
        """Rank as `PropensityRerank(base=Ensemble(models))`: the mean P of calibrated probabilities, P / p^exponent."""
        total = sparse.csr_matrix(sum(self.probabilities(name)[part] for name in names))
        total.data *= self.inverse_propensities[total.indices] ** exponent
        return Predictions.from_csr(total, 5)

    def shifted(self, name: str, part: str, weighting: str) -> Predictions:
        """Return the ranking after a weighting is applied to the scores of a model without one.

        In a flexible model with the logistic loss, a weight w of the observed pairs adds log w to the log-odds.
        """
        counts = np.bincount(self.Y["train"].indices, minlength=len(self.column))
        own, _ = resolve_weighting(weighting).coefficients(counts, self.Y["train"].shape[0])
        found = self.models[name][part]
        moved = Predictions(found.labels, found.scores + np.log(own)[found.labels])
        return Predictions.from_csr(moved.to_csr(len(self.column)), 5)

    def metrics(self, predictions: Predictions, part: str) -> dict[str, float]:
        return metrics_of(predictions, self.Y[part], self.inverse_propensities)


def renumbered(saved: Any, column: dict[str, int], prefix: str = "") -> Predictions:
    """Return the predictions of a file with the columns of all parts; -1 pads rows that are too short."""
    where = np.array([*(column[i] for i in saved["label_ids"].tolist()), -1], np.int32)
    return Predictions(where[saved[f"{prefix}labels"]], saved[f"{prefix}scores"])


def metrics_of(predictions: Predictions, Y: sparse.csr_matrix, inverse_propensities: np.ndarray) -> dict[str, float]:
    metrics = evaluate(predictions, Y, inverse_propensities=inverse_propensities, ks=(1, 3, 5))
    kept = [name for name in metrics if name.startswith(("P@", "PSP@", "nDCG@")) or name in BESIDE_PSP]
    return {name: round(metrics[name], 2) for name in kept}


def choose(written: Written, members: list[str], candidates: list[str]) -> None:
    """Add the candidate that gains most on the dev split, until none gains."""
    best, exponent, found = chosen_exponent(written, members)
    while True:
        print(f"{best:.3f}, exponent {exponent:g}, {found}: {' '.join(members)}", flush=True)
        trials = {name: chosen_exponent(written, [*members, name]) for name in candidates if name not in members}
        name = max(trials, key=lambda candidate: trials[candidate][0], default="")
        if not name or trials[name][0] <= best:
            return
        members, (best, exponent, found) = [*members, name], trials[name]


def chosen_exponent(written: Written, members: list[str]) -> tuple[float, float, dict[str, float]]:
    """Return the best value of the choice, its exponent, and the metrics of the dev split with it."""
    trials: list[tuple[float, float, dict[str, float]]] = [(0.0, 0.0, {})]
    for exponent in EXPONENTS:
        metrics = written.metrics(written.together(members, "dev", exponent), "dev")
        if all(metrics[name] >= least for name, least in CHOICE.items()):
            trials.append((metrics["P@1"] + metrics["nDCG@5"] / 2, exponent, metrics))
    return max(trials, key=lambda trial: trial[0])


def score(written: Written, arguments: argparse.Namespace) -> None:
    table = []
    for part in ("dev", "test"):
        found = {name: predictions[part] for name, predictions in written.models.items()}
        for exponent in arguments.exponents if arguments.together else ():
            title = " + ".join(arguments.together) + (f", exponent {exponent:g}" if exponent else "")
            found[title] = written.together(arguments.together, part, exponent)
        for name, weighting in itertools.product(arguments.shift, ("pw", "pw-cb")):
            found[f"{name}, shifted by {weighting}"] = written.shifted(name, part, weighting)
        rows = {name: written.metrics(predictions, part) for name, predictions in found.items()}
        for name, metrics in (rows | over_seeds(rows)).items():
            table.append({"configuration": name, "part": part, **metrics})
            print(f"{name:28} {part:5}", metrics, flush=True)
    runs = [
        without_places(json.loads(file.read_text())) | {"configuration": file.stem}
        for file in sorted(arguments.results.glob("*.json"))
    ]
    given = [f"--together {' '.join(arguments.together)}"] if arguments.together else []
    given += [f"--exponents {' '.join(f'{e:g}' for e in arguments.exponents)}"] if arguments.together else []
    given += [f"--shift {' '.join(arguments.shift)}"] if arguments.shift else []
    command = " ".join(["python -m benchmarks.text.scores --data FOLDER --results FOLDER", *given])
    machines = ", ".join(sorted({f"{run['device']}, torch {run['torch']}" for run in runs}))
    content = {"table": markdown(table, runs), "all_metrics": table, "runs": runs}
    save("text-models-eurlex57k", content, command, folder=arguments.out, machine_name=machines)


def over_seeds(rows: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the means of NAME, NAME-seed1, NAME-seed2, ..."""
    groups: dict[str, list[dict[str, float]]] = defaultdict(list)
    for name, metrics in rows.items():
        groups[re.sub(r"-seed\d+$", "", name)].append(metrics)
    return {
        f"{name}, mean of {len(group)} seeds": {
            key: round(float(np.mean([m[key] for m in group])), 2) for key in group[0]
        }
        for name, group in groups.items()
        if len(group) > 1
    }


def markdown(table: list[dict[str, Any]], runs: list[dict[str, Any]]) -> str:
    """Return a table of the metrics of the test split, and how fast each was trained."""
    columns = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", *BESIDE_PSP)
    on_dev = {row["configuration"]: row["P@1"] for row in table if row["part"] == "dev"}
    rate = {run["configuration"]: [f"{run['fit_s']:.0f}", f"{run['train_tokens_per_s']:,.0f}"] for run in runs}
    cells = []
    for row in table:
        if row["part"] == "test":
            name = row["configuration"]
            cells.append([name, *decimals(row, columns), f"{on_dev[name]:.2f}", *rate.get(name, ["", ""])])
    return markdown_table(["recipe, test split", *columns, "P@1, dev split", "fit s", "tokens/s"], cells)


def without_places(run: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the folders of the machine it ran on."""
    kept = {key: value for key, value in run["parameters"].items() if key != "token_cache"}
    kept |= {key: Path(kept[key]).stem for key in ("encoder", "vectors") if kept.get(key)}
    if isinstance(kept.get("label_text"), str):
        kept["label_text"] = Path(kept["label_text"]).name
    return run | {"parameters": kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--together", nargs="*", default=[], metavar="NAME", help="also these as one ensemble")
    parser.add_argument("--exponents", type=float, nargs="+", default=[0.0], help="of propensities, for the ensemble")
    parser.add_argument(
        "--choose", nargs="*", metavar="NAME", help="add of these to the ensemble while it gains on dev"
    )
    parser.add_argument("--shift", nargs="*", default=[], metavar="NAME", help="also these, shifted by weights")
    add_out(parser)
    arguments = parser.parse_args()
    if arguments.choose and not arguments.together:
        parser.error("--choose adds to the models of --together: name one at least")
    written = Written(arguments.data, arguments.results)
    unknown = {*arguments.together, *arguments.shift, *(arguments.choose or [])} - set(written.models)
    if unknown:
        parser.error(f"{arguments.results} has no predictions of {', '.join(sorted(unknown))}")
    if arguments.choose:
        choose(written, arguments.together, arguments.choose)
    else:
        score(written, arguments)


if __name__ == "__main__":
    main()
