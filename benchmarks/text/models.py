"""Text models on EURLEX57K full text: predictions, times and rates of recipes; text/scores.py gives the metrics.

    python -m benchmarks.text.models --data FOLDER --encoder FOLDER [--vectors FILE] --only NAME ... --results FOLDER

FOLDER of --data holds train, dev and test .jsonl.xz (`text`, `labels`) and labels.json.xz or names.json (id -> name).
Every NAME, a recipe or a variant of a study, is trained on the training split. Written to --results are NAME.npz
(label_ids; labels and scores of the 20 best labels of the dev and test points) and NAME.json (seconds, points and
tokens per second, share of the bf16 peak). Models that read texts need no Numba.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import about
from benchmarks.common.data import recipe_named
from benchmarks.common.settings import settings
from benchmarks.text.texts import BF16_PEAK, K, Notes, indicator, label_texts, on_one_thread, precision, read
from longtail.bench.recipe import Recipe, text_features
from longtail.core import codec
from longtail.core.run import Run


def build(recipe: Recipe, arguments: argparse.Namespace) -> Any:
    """Return the recipe's model with the files of this machine in place of those that it names."""
    model = recipe.estimator()
    known = model.get_params(deep=False)
    here = {"encoder": arguments.encoder, "vectors": arguments.vectors, "token_cache": arguments.cache}
    if isinstance(known.get("label_text"), str):
        here["label_text"] = label_texts(arguments.data)
    own = {key: value for key, value in here.items() if key in known and value is not None}
    return model.set_params(**own | settings(arguments.set))


def linear(recipe: Recipe, data: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the predictions of a model on features of the texts, in the same form."""
    from longtail import TextPipeline

    model = TextPipeline(model=build(recipe, arguments), features=text_features(recipe.features))
    model.fit(*data["train"])
    predict(model, f"{recipe.name}{arguments.suffix}", data, arguments.results)


def predict(model: Any, name: str, data: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write the predictions of the dev and test points; return seconds and P@k of each part."""
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
    """Count those of one training epoch: 6 per weight and token, 12 T d per layer and token for attention."""
    encoder = getattr(model.network_, "encoder", None)
    if encoder is None or not hasattr(encoder, "word_vectors"):
        return None
    config = encoder.model.config
    weights = sum(p.numel() for n, p in encoder.named_parameters() if "embeddings" not in n)
    attention = 12.0 * config.num_hidden_layers * config.hidden_size * float((lengths.astype(float) ** 2).sum())
    heads = sum(p.numel() for n, p in model.network_.named_parameters() if not n.startswith("encoder."))
    return 6.0 * weights * float(lengths.sum()) + attention + 6.0 * heads * lengths.size


def measure(recipe: Recipe, data: dict[str, Any], arguments: argparse.Namespace) -> None:
    name = f"{recipe.name}{arguments.suffix}"
    model = build(recipe, arguments)
    texts, Y = data["train"]
    started = time.perf_counter()
    model.fit(texts, Y, label_names=data["ids"], run=Run(progress=Notes()))
    record: dict[str, Any] = about("python -m benchmarks.text.models") | {
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
    record |= predict(model, name, data, arguments.results)
    started = time.perf_counter()
    for text in data["test"][0][:50]:
        model.predict([text], k=K)
    record["predict_one_ms"] = 1000 * _since(started) / 50
    if arguments.cpu_points:
        record["one_cpu_thread"] = on_one_thread(model, data["dev"], arguments.cpu_points)
    (arguments.results / f"{name}.json").write_text(json.dumps(record, indent=1))
    shown = ("fit_s", "epoch_s", "train_points_per_s", "train_tokens_per_s", "share_of_bf16_peak")
    print(name, {key: record.get(key) for key in shown}, flush=True)


def _since(started: float) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--vectors")
    parser.add_argument("--only", nargs="+", required=True, metavar="NAME", help="recipes and variants of EURLEX57K")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="parameters for all of them")
    parser.add_argument("--suffix", default="", help="added to the names of the files")
    parser.add_argument("--cache", default=".cache/tokens", help="where tokens are kept between configurations")
    parser.add_argument("--points", type=int, help="only the first so many points of each part")
    parser.add_argument(
        "--cpu-points", type=int, default=0, help="dev points to predict on one CPU core, and in 8 bits"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no configuration after this time")
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER", help="where predictions go")
    arguments = parser.parse_args()
    recipes = [recipe_named(f"eurlex57k/{name}") for name in arguments.only]
    started = time.perf_counter()
    parts = {part: read(arguments.data / f"{part}.jsonl.xz") for part in ("train", "dev", "test")}
    parts = {part: (texts[: arguments.points], labels[: arguments.points]) for part, (texts, labels) in parts.items()}
    arguments.results.mkdir(parents=True, exist_ok=True)
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
