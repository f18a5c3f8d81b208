"""Text models on EURLEX57K full text: predictions, times and rates of named configurations.

    python benchmarks/text_models.py --data FOLDER --encoder FOLDER [--vectors FILE] --only NAME ... --out FOLDER
    python benchmarks/text_models.py --data FOLDER --score FOLDER [--together NAME ... [--exponents 0 0.05]]
                                     [--shift NAME ...] [--json FILE]

FOLDER of --data holds train, dev and test .jsonl.xz (`text`, `labels`) and labels.json.xz or names.json (id -> name).
The first command trains and writes NAME.npz (label_ids; labels and scores of the 20 best labels of the dev and test
points) and NAME.json (seconds, points and tokens a second, share of the bf16 peak). It needs torch, transformers,
scikit-learn and safetensors, and no Numba. The second computes the metrics of what was written and prints a table.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import lzma
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from longtail.core import codec
from longtail.core.run import Run
from longtail.objectives import PW, PWcb, resolve_weighting

K = 20
BF16_PEAK = {"NVIDIA H200": 989e12, "NVIDIA H100": 989e12, "NVIDIA A100": 312e12}  # dense, from the data sheets

XGRANK: dict[str, Any] = {
    "batch_size": 64, "epochs": 12, "learning_rate": 2e-4, "head_learning_rate": 2e-3, "dropout": 0.3,
}  # fmt: skip
ATTENTION: dict[str, Any] = {"batch_size": 128, "epochs": 12, "learning_rate": 2e-3}
# Of all-mpnet-base-v2, four times as wide and deep: fewer epochs, shorter texts.
MPNET: dict[str, Any] = {"batch_size": 64, "epochs": 8, "learning_rate": 1e-4, "length": 320, "compile": True}
APLC: dict[str, Any] = MPNET | {"epochs": 5, "length": 256, "hidden_learning_rate": 1e-3}
# Short texts and few epochs: to compare losses, label names and precisions.
SHORT: dict[str, Any] = XGRANK | {"length": 128, "epochs": 5, "batch_size": 128, "learning_rate": 3e-4}
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "xgrank": ("xgrank", XGRANK),
    "xgrank-without-names": ("xgrank", XGRANK | {"label_text": False}),
    "xgrank-bce": ("xgrank", XGRANK | {"label_text": False, "loss": "bce"}),
    "xgrank-pw": ("xgrank", XGRANK | {"weighting": "pw"}),
    "xgrank-pw-cb": ("xgrank", XGRANK | {"weighting": "pw-cb"}),
    "xgrank-mpnet": ("xgrank", XGRANK | MPNET),
    "xgrank-short": ("xgrank", SHORT),
    "xgrank-short-without-names": ("xgrank", SHORT | {"label_text": False}),
    "xgrank-short-bce": ("xgrank", SHORT | {"label_text": False, "loss": "bce"}),
    "xgrank-short-float32": ("xgrank", SHORT | {"precision": "float32"}),
    "attentionxml": ("attentionxml", ATTENTION),
    "attentionxml-pw": ("attentionxml", ATTENTION | {"weighting": "pw"}),
    "attentionxml-pw-cb": ("attentionxml", ATTENTION | {"weighting": "pw-cb"}),
    "attentionxml-pw-pairs": ("attentionxml", ATTENTION | {"weighting": PW(normalise="pairs")}),
    "attentionxml-pw-cb-pairs": ("attentionxml", ATTENTION | {"weighting": PWcb(normalise="pairs")}),
    "aplc": ("aplcxlnet", APLC),
    "aplc-pw": ("aplcxlnet", APLC | {"weighting": "pw"}),
    "aplc-pw-cb": ("aplcxlnet", APLC | {"weighting": "pw-cb"}),
    "aplc-pw-cb-pairs": ("aplcxlnet", APLC | {"weighting": PWcb(normalise="pairs")}),
}
USES_VECTORS = ("attentionxml",)
# For ensembles; on TF-IDF features, so they need Numba and no GPU.
TFIDF: dict[str, Any] = {
    "min_df": 3, "max_df": 0.5, "sublinear_tf": True, "token_pattern": r"(?u)\b[^\W_][\w\-]*\b",
}  # fmt: skip
BIGRAMS: dict[str, Any] = TFIDF | {"min_df": 5, "ngram_range": (1, 2)}
LINEAR: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "dismec-pw-cb": ("dismec", {"weighting": "pw-cb"}, TFIDF),
    "dismec-pw-cb-bigrams": ("dismec", {"weighting": "pw-cb"}, BIGRAMS),
}


class Notes:
    """Progress as lines: one an epoch."""

    def __init__(self) -> None:
        self.shown = ""

    def start(self, task: str, total: int) -> None:
        print(f"{task}: {total} steps", flush=True)

    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None:
        if text.partition(",")[0] != self.shown.partition(",")[0] and self.shown:
            print(self.shown, flush=True)
        self.shown = text

    def finish(self) -> None:
        print(self.shown, flush=True)


def read(file: Path) -> tuple[list[str], list[list[str]]]:
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], [row["labels"] for row in rows]


def names_of(folder: Path, ids: list[str]) -> list[str]:
    if (folder / "names.json").is_file():
        known = json.loads((folder / "names.json").read_text())
    else:
        with lzma.open(folder / "labels.json.xz", "rt", encoding="utf-8") as file:
            known = {key: entry if isinstance(entry, str) else entry["label"] for key, entry in json.load(file).items()}
    return [known.get(i, i) for i in ids]


def indicator(labels: list[list[str]], column: dict[str, int]) -> sparse.csr_matrix:
    """Labels that training does not know are left out; scoring counts them."""
    kept = [sorted({column[label] for label in row if label in column}) for row in labels]
    indptr = np.cumsum([0, *map(len, kept)])
    indices = np.array([i for row in kept for i in row], np.int32)
    return sparse.csr_matrix((np.ones(indices.size, np.float32), indices, indptr), (len(labels), len(column)))


def build(kind: str, settings: dict[str, Any], arguments: argparse.Namespace) -> Any:
    from longtail.core.registry import estimator_class

    source = {"vectors": arguments.vectors} if kind in USES_VECTORS else {"encoder": arguments.encoder}
    changes = dict(pair.split("=", 1) for pair in arguments.set)
    parsed = {key: _value(text) for key, text in changes.items()}
    return estimator_class(kind)(**source | settings | {"token_cache": arguments.cache} | parsed)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def linear(name: str, data: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Predictions of a model on TF-IDF features, in the same form."""
    from longtail import TextFeatures, TextPipeline
    from longtail.core.registry import estimator_class

    kind, settings, features = LINEAR[name]
    model = TextPipeline(model=estimator_class(kind)(**settings), features=TextFeatures(**features))
    model.fit(*data["train"])
    arrays: dict[str, Any] = {"label_ids": np.array(data["ids"])}
    for part in ("dev", "test"):
        found = model.predict(data[part][0], k=K)
        arrays |= {f"{part}_labels": found.labels, f"{part}_scores": found.scores}
        print(name, part, [precision(found.labels, data[part][1], k) for k in (1, 3, 5)], flush=True)
    np.savez_compressed(arguments.out / f"{name}.npz", **arrays)


def floating_operations(model: Any, lengths: np.ndarray) -> float | None:
    """Of one training epoch: 6 a weight and token, 12 T d a layer and token for attention (forward and backward)."""
    encoder = getattr(model.network_, "encoder", None)
    if encoder is None or not hasattr(encoder, "word_vectors"):
        return None
    config = encoder.model.config
    weights = sum(p.numel() for n, p in encoder.named_parameters() if "embeddings" not in n)
    attention = 12.0 * config.num_hidden_layers * config.hidden_size * float((lengths.astype(float) ** 2).sum())
    heads = sum(p.numel() for n, p in model.network_.named_parameters() if not n.startswith("encoder."))
    return 6.0 * weights * float(lengths.sum()) + attention + 6.0 * heads * lengths.size


def measure(name: str, data: dict[str, Any], arguments: argparse.Namespace) -> None:
    kind, settings = CONFIGURATIONS[name]
    model = build(kind, settings, arguments)
    texts, Y = data["train"]
    started = time.perf_counter()
    model.fit(texts, Y, label_names=data["names"], run=Run(progress=Notes()))
    record: dict[str, Any] = {
        "configuration": name,
        "parameters": codec.encode(model.get_params(deep=False)),
        "fit_s": _since(started),
    }
    lengths = model.tokeniser_.tokens(texts, cache=arguments.cache).lengths
    seconds = float(np.median([epoch["seconds"] for epoch in model.history_.epochs]))
    record |= {
        "epoch_s": seconds, "train_points_per_s": lengths.size / seconds,
        "train_tokens_per_s": float(lengths.sum()) / seconds, "epochs": model.history_.epochs,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor(),
        "torch": torch.__version__,
    }  # fmt: skip
    operations = floating_operations(model, lengths)
    peak = next((peak for start, peak in BF16_PEAK.items() if record["device"].startswith(start)), None)
    if operations and peak:
        record["share_of_bf16_peak"] = operations / seconds / peak
    arrays: dict[str, Any] = {"label_ids": np.array(data["ids"])}
    for part in ("dev", "test"):
        model.predict(data[part][0][:64], k=K)  # whatever is made once at first use
        started = time.perf_counter()
        found = model.predict(data[part][0], k=K)
        record[f"predict_{part}_s"] = _since(started)
        arrays |= {f"{part}_labels": found.labels, f"{part}_scores": found.scores}
        record[f"{part}_P"] = [precision(found.labels, data[part][1], k) for k in (1, 3, 5)]
    started = time.perf_counter()
    for text in data["test"][0][:50]:
        model.predict([text], k=K)
    record["predict_one_ms"] = 1000 * _since(started) / 50
    if arguments.cpu_points:
        record["one_cpu_thread"] = on_one_thread(model, data["dev"], arguments.cpu_points)
    np.savez_compressed(arguments.out / f"{name}{arguments.suffix}.npz", **arrays)
    (arguments.out / f"{name}{arguments.suffix}.json").write_text(json.dumps(record, indent=1))
    shown = ("fit_s", "epoch_s", "train_points_per_s", "train_tokens_per_s", "share_of_bf16_peak", "dev_P", "test_P")
    print(name, {key: record.get(key) for key in shown}, flush=True)


def on_one_thread(model: Any, dev: tuple[list[str], sparse.csr_matrix], n_points: int) -> dict[str, Any]:
    """Milliseconds a text on one CPU core, and what 8-bit weights cost in P@k."""
    found = {}
    settings = {"device": "cpu", "precision": "float32"} | ({"n_jobs": 1} if "n_jobs" in model.get_params() else {})
    for quantise in ("none", "int8"):
        model.set_params(quantise=quantise, **settings)
        model.predict(dev[0][:4], k=K)
        started = time.perf_counter()
        labels = model.predict(dev[0][:n_points], k=K).labels
        found[quantise] = {"ms": 1000 * (time.perf_counter() - started) / n_points}
        found[quantise]["P"] = [precision(labels, dev[1][:n_points], k) for k in (1, 3, 5)]
    return found


def precision(labels: np.ndarray, Y: sparse.csr_matrix, k: int) -> float:
    """P@k in percent; labels that training does not know are no hits either way."""
    rows = np.repeat(np.arange(labels.shape[0]), k)
    return float(100 * np.asarray(Y[rows, labels[:, :k].ravel()]).sum() / rows.size)


def _since(started: float) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def score(arguments: argparse.Namespace, parts: dict[str, Any]) -> None:
    """Metrics of all that was written, and of those named by --together, calibrated on the dev points."""
    ids = sorted({label for rows in parts.values() for row in rows[1] for label in row})
    column = {label: i for i, label in enumerate(ids)}
    Y = {part: indicator(labels, column) for part, (_, labels) in parts.items()}
    written = {file.stem: ranked(file, column) for file in sorted(arguments.score.glob("*.npz"))}
    table = []
    for part in ("dev", "test"):
        found = {name: predictions[part] for name, predictions in written.items()}
        for exponent in arguments.exponents if arguments.together else ():
            title = " + ".join(arguments.together) + (f", exponent {exponent:g}" if exponent else "")
            found[title] = together([written[n] for n in arguments.together], part, Y, exponent)
        for name, weighting in itertools.product(arguments.shift, ("pw", "pw-cb")):
            found[f"{name}, shifted by {weighting}"] = shifted(written[name][part], weighting, Y["train"])
        for name, predictions in found.items():
            table.append({"configuration": name, "part": part, **metrics_of(predictions, Y[part], Y["train"])})
            print(f"{name:28} {part:5}", {key: value for key, value in table[-1].items() if "@" in key}, flush=True)
    if arguments.json:
        runs = [without_places(json.loads(file.read_text())) for file in sorted(arguments.score.glob("*.json"))]
        published = {
            "command": "python benchmarks/text_models.py --data FOLDER --score FOLDER --json FILE",
            "machine": ", ".join(sorted({f"{run['device']}, torch {run['torch']}" for run in runs})),
            "table": markdown(table, runs), "all_metrics": table, "runs": runs,
        }  # fmt: skip
        arguments.json.write_text(json.dumps(published, indent=1))


def markdown(table: list[dict[str, Any]], runs: list[dict[str, Any]]) -> str:
    """The metrics of the test part, and how fast each was trained."""
    columns = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
    rate = {run["configuration"]: f"{run['fit_s']:.0f} | {run['train_tokens_per_s']:,.0f}" for run in runs}
    lines = [" | ".join(["test part", *columns, "fit s", "tokens a second"]), " | ".join(["---", *["---:"] * 9])]
    for row in table:
        if row["part"] == "test":
            values = [f"{row[column]:.2f}" for column in columns]
            lines.append(" | ".join([row["configuration"], *values, rate.get(row["configuration"], " | ")]))
    return "\n".join(f"| {line} |" for line in lines)


def without_places(run: dict[str, Any]) -> dict[str, Any]:
    """A record as it is published: folders of the machine it ran on are nobody's concern."""
    kept = {key: value for key, value in run["parameters"].items() if key != "token_cache"}
    kept |= {key: Path(kept[key]).stem for key in ("encoder", "vectors") if kept.get(key)}
    return run | {"parameters": kept}


def ranked(file: Path, column: dict[str, int]) -> dict[str, Any]:
    """The predictions of a file, with the columns of all parts."""
    from longtail import Predictions

    saved = np.load(file)
    where = np.array([column[i] for i in saved["label_ids"].tolist()], np.int32)
    return {part: Predictions(where[saved[f"{part}_labels"]], saved[f"{part}_scores"]) for part in ("dev", "test")}


def together(models: list[dict[str, Any]], part: str, Y: dict[str, sparse.csr_matrix], exponent: float) -> Any:
    """What `PropensityRerank(base=Ensemble(models))` does: the mean P of calibrated probabilities, P / p^exponent."""
    from longtail import Predictions, PropensityModel
    from longtail.compose.calibration import Calibration

    total = 0
    for predictions in models:
        dev = predictions["dev"]
        rows = np.repeat(np.arange(len(dev)), dev.k)
        hits = np.asarray(Y["dev"][rows, dev.labels.ravel()]).ravel() > 0
        log_odds = Calibration.fit(dev.scores.ravel(), hits)(predictions[part].scores)
        probability = Predictions(predictions[part].labels, log_odds).to_csr(Y["dev"].shape[1]).astype(np.float64)
        probability.data = 1 / (1 + np.exp(-probability.data))
        total = total + probability
    total = sparse.csr_matrix(total)
    counts = np.bincount(Y["train"].indices, minlength=total.shape[1])
    total.data *= PropensityModel().inverse(counts, Y["train"].shape[0])[total.indices] ** exponent
    return Predictions.from_csr(total, 5)


def shifted(predictions: Any, weighting: str, Y_train: sparse.csr_matrix) -> Any:
    """What the weighting does to the scores of a model that minimises the logistic loss and is flexible enough: a
    weight w of the noted pairs adds log w to the log-odds."""
    from longtail import Predictions

    counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
    own, _ = resolve_weighting(weighting).coefficients(counts, Y_train.shape[0])
    scores = predictions.scores + np.log(own)[predictions.labels]
    return Predictions.from_csr(Predictions(predictions.labels, scores).to_csr(Y_train.shape[1]), 5)


def metrics_of(predictions: Any, Y: sparse.csr_matrix, Y_train: sparse.csr_matrix) -> dict[str, float]:
    from longtail import PropensityModel
    from longtail.metrics import evaluate

    counts = np.bincount(Y_train.indices, minlength=Y.shape[1])
    inverse = PropensityModel().inverse(counts, Y_train.shape[0])
    metrics = evaluate(predictions, Y, inverse_propensities=inverse, ks=(1, 3, 5))
    return {key: round(value, 2) for key, value in metrics.items() if key.startswith(("P@", "PSP@", "nDCG@"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--vectors")
    parser.add_argument("--only", nargs="+", choices=[*CONFIGURATIONS, *LINEAR], default=list(CONFIGURATIONS))
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="parameters for all configurations")
    parser.add_argument("--suffix", default="", help="added to the names of the files")
    parser.add_argument("--cache", default=".cache/tokens", help="where tokens are kept between configurations")
    parser.add_argument("--points", type=int, help="only the first so many points of each part")
    parser.add_argument(
        "--cpu-points", type=int, default=0, help="dev points to predict on one CPU core, and in 8 bits"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no configuration after this time")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--score", type=Path)
    parser.add_argument("--together", nargs="*", default=[], help="with --score: also these files as one ensemble")
    parser.add_argument("--exponents", type=float, nargs="+", default=[0.0], help="with --together: of propensities")
    parser.add_argument("--shift", nargs="*", default=[], help="with --score: also these, shifted by weights")
    parser.add_argument("--json", type=Path, help="with --score: write metrics and rates here")
    arguments = parser.parse_args()
    started = time.perf_counter()
    parts = {part: read(arguments.data / f"{part}.jsonl.xz") for part in ("train", "dev", "test")}
    parts = {part: (texts[: arguments.points], labels[: arguments.points]) for part, (texts, labels) in parts.items()}
    if arguments.score:
        score(arguments, parts)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    ids = sorted({label for row in parts["train"][1] for label in row})
    column = {label: i for i, label in enumerate(ids)}
    data: dict[str, Any] = {part: (texts, indicator(labels, column)) for part, (texts, labels) in parts.items()}
    data |= {"ids": ids, "names": names_of(arguments.data, ids)}
    print(f"read in {_since(started):.1f} s: {len(ids)} labels", flush=True)
    for name in arguments.only:
        if _since(started) < arguments.seconds:
            (linear if name in LINEAR else measure)(name, data, arguments)


if __name__ == "__main__":
    main()
