"""Text models on EURLEX57K full text: predictions, times and rates of recipes; `text_scores.py` gives the metrics.

    python benchmarks/text_models.py --data FOLDER --encoder FOLDER [--vectors FILE] --only NAME ... --out FOLDER

FOLDER of --data holds train, dev and test .jsonl.xz (`text`, `labels`) and labels.json.xz or names.json (id -> name).
Every recipes/eurlex57k/NAME.toml is trained on the training part. Written are NAME.npz (label_ids; labels and scores of
the 20 best labels of the dev and test points) and NAME.json (seconds, points and tokens a second, share of the bf16
peak). Models that read texts need no Numba.
"""

from __future__ import annotations

import argparse
import ast
import json
import lzma
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from longtail.bench.recipe import Recipe, read_recipe, text_features
from longtail.core import codec
from longtail.core.run import Run

K = 20
BF16_PEAK = {"NVIDIA H200": 989e12, "NVIDIA H100": 989e12, "NVIDIA A100": 312e12}  # dense, from the data sheets

RECIPES = Path(__file__).parents[1] / "recipes" / "eurlex57k"


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


def label_texts(folder: Path) -> str:
    """The file of label texts in a folder of data."""
    places = [folder / name for name in ("names.json", "labels.json.xz")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise SystemExit(f"{folder} has neither names.json nor labels.json.xz")
    return str(found)


def indicator(labels: list[list[str]], column: dict[str, int]) -> sparse.csr_matrix:
    """Labels that training does not know are left out; scoring counts them."""
    kept = [sorted({column[label] for label in row if label in column}) for row in labels]
    indptr = np.cumsum([0, *map(len, kept)])
    indices = np.array([i for row in kept for i in row], np.int32)
    return sparse.csr_matrix((np.ones(indices.size, np.float32), indices, indptr), (len(labels), len(column)))


def build(recipe: Recipe, arguments: argparse.Namespace) -> Any:
    """The recipe's model with the files of this machine in the place of those that it names."""
    model = recipe.estimator()
    known = model.get_params(deep=False)
    here = {"encoder": arguments.encoder, "vectors": arguments.vectors, "token_cache": arguments.cache}
    if isinstance(known.get("label_text"), str):
        here["label_text"] = label_texts(arguments.data)
    own = {key: value for key, value in here.items() if key in known and value is not None}
    return model.set_params(**own | values(arguments.set))


def values(pairs: list[str]) -> dict[str, Any]:
    """Of KEY=VALUE; what is no Python value is a string."""

    def value(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    return {key: value(text) for key, text in (pair.split("=", 1) for pair in pairs)}


def linear(recipe: Recipe, data: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Predictions of a model on features of the texts, in the same form."""
    from longtail import TextPipeline

    model = TextPipeline(model=build(recipe, arguments), features=text_features(recipe.features))
    model.fit(*data["train"])
    predict(model, f"{recipe.path.stem}{arguments.suffix}", data, arguments.out)


def predict(model: Any, name: str, data: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write the predictions of the dev and test points; seconds and P@k of each part."""
    arrays: dict[str, Any] = {"label_ids": np.array(data["ids"])}
    measured: dict[str, Any] = {}
    for part in ("dev", "test"):
        model.predict(data[part][0][:64], k=K)  # whatever is made once at first use
        started = time.perf_counter()
        found = model.predict(data[part][0], k=K)
        measured[f"predict_{part}_s"] = _since(started)
        arrays |= {f"{part}_labels": found.labels, f"{part}_scores": found.scores}
        measured[f"{part}_P"] = [precision(found.labels, data[part][1], k) for k in (1, 3, 5)]
    np.savez_compressed(out / f"{name}.npz", **arrays)
    print(name, measured, flush=True)
    return measured


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


def measure(recipe: Recipe, data: dict[str, Any], arguments: argparse.Namespace) -> None:
    name = f"{recipe.path.stem}{arguments.suffix}"
    model = build(recipe, arguments)
    texts, Y = data["train"]
    started = time.perf_counter()
    model.fit(texts, Y, label_names=data["ids"], run=Run(progress=Notes()))
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
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
        "torch": torch.__version__,
    }  # fmt: skip
    operations = floating_operations(model, lengths)
    peak = next((peak for start, peak in BF16_PEAK.items() if record["device"].startswith(start)), None)
    if operations and peak:
        record["share_of_bf16_peak"] = operations / seconds / peak
    record |= predict(model, name, data, arguments.out)
    started = time.perf_counter()
    for text in data["test"][0][:50]:
        model.predict([text], k=K)
    record["predict_one_ms"] = 1000 * _since(started) / 50
    if arguments.cpu_points:
        record["one_cpu_thread"] = on_one_thread(model, data["dev"], arguments.cpu_points)
    (arguments.out / f"{name}.json").write_text(json.dumps(record, indent=1))
    shown = ("fit_s", "epoch_s", "train_points_per_s", "train_tokens_per_s", "share_of_bf16_peak")
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
    """P@k in percent: `longtail.metrics` needs Numba. Labels that training does not know are no hits either way."""
    rows = np.repeat(np.arange(labels.shape[0]), k)
    return float(100 * np.asarray(Y[rows, labels[:, :k].ravel()]).sum() / rows.size)


def _since(started: float) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--vectors")
    parser.add_argument("--only", nargs="+", required=True, metavar="NAME", help="recipes of recipes/eurlex57k")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="parameters for all of them")
    parser.add_argument("--suffix", default="", help="added to the names of the files")
    parser.add_argument("--cache", default=".cache/tokens", help="where tokens are kept between configurations")
    parser.add_argument("--points", type=int, help="only the first so many points of each part")
    parser.add_argument(
        "--cpu-points", type=int, default=0, help="dev points to predict on one CPU core, and in 8 bits"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no configuration after this time")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    recipes = [read_recipe(RECIPES / f"{name}.toml") for name in arguments.only]
    started = time.perf_counter()
    parts = {part: read(arguments.data / f"{part}.jsonl.xz") for part in ("train", "dev", "test")}
    parts = {part: (texts[: arguments.points], labels[: arguments.points]) for part, (texts, labels) in parts.items()}
    arguments.out.mkdir(parents=True, exist_ok=True)
    ids = sorted({label for row in parts["train"][1] for label in row})
    column = {label: i for i, label in enumerate(ids)}
    data: dict[str, Any] = {part: (texts, indicator(labels, column)) for part, (texts, labels) in parts.items()}
    data |= {"ids": ids}
    print(f"read in {_since(started):.1f} s: {len(ids)} labels", flush=True)
    for recipe in recipes:
        if _since(started) < arguments.seconds:
            (measure if recipe.reads_texts else linear)(recipe, data, arguments)


if __name__ == "__main__":
    main()
