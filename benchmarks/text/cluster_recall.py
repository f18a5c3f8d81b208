"""X-GRank with label clusters on yso-finna-en: how many of a text's labels the retrieved clusters hold, and P@k.

    python -m benchmarks.text.cluster_recall --data FOLDER --encoder FOLDER --results FOLDER [--set KEY=VALUE ...]
    python -m benchmarks.text.cluster_recall --data FOLDER --results FOLDER --draw

FOLDER of --data holds train and test .jsonl.xz (`text`, `labels`) and labels.json.xz. The first command trains
recipes/yso-finna-en/xgrank.toml and writes xgrank.npz (predictions) and xgrank.json (recall@k of the cluster stage,
times) to --results; the second computes the metrics and writes docs/lab/benchmarks/cluster-recall-yso-finna-en.json and
docs/images/cluster_recall.png (X-GRank's figure 3).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import add_out, decimals, image, markdown_table, save
from benchmarks.common.data import recipe_named
from benchmarks.common.settings import settings
from benchmarks.text.texts import K, Notes, indicator, label_texts, read
from longtail.core import codec
from longtail.core.run import Run

RETRIEVED = (1, 2, 3, 5, 10, 20, 30, 40, 60, 100)
RECIPE = "yso-finna-en/xgrank"


def train(parts: dict[str, Any], arguments: argparse.Namespace) -> None:
    ids = sorted({label for row in parts["train"][1] for label in row})
    column = {label: i for i, label in enumerate(ids)}
    texts, labels = parts["train"]
    own = {"encoder": arguments.encoder, "label_text": label_texts(arguments.data)}
    model = recipe_named(RECIPE).estimator().set_params(**own | settings(arguments.set))
    started = time.perf_counter()
    model.fit(texts, indicator(labels, column), label_names=ids, run=Run(progress=Notes()))
    record = {"parameters": codec.encode(model.get_params(deep=False)), "fit_s": time.perf_counter() - started}
    record |= {"epochs": model.history_.epochs, "torch": torch.__version__}
    record["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    texts, labels = parts["test"]
    Y = indicator(labels, column)
    record |= {"n_clusters": int(model.network_.members.shape[0]), "cluster_recall": cluster_recall(model, texts, Y)}
    started = time.perf_counter()
    found = model.predict(texts, k=K)
    record["predict_s"] = time.perf_counter() - started
    arguments.results.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.results / "xgrank.npz", label_ids=ids, labels=found.labels, scores=found.scores)
    (arguments.results / "xgrank.json").write_text(json.dumps(record, indent=1))
    print({key: record[key] for key in ("fit_s", "n_clusters", "cluster_recall")}, flush=True)


def cluster_recall(model: Any, texts: list[str], Y: Any) -> dict[int, float]:
    """Return the recall of the k best clusters, in percent.

    The mean over texts of the share of their labels, of those that training knows, that these clusters hold.
    """
    from longtail.neural.batches import to_device
    from longtail.neural.placement import place
    from longtail.neural.text.batches import by_length

    placement = place(model.device, model.precision)
    network, tokens = model.network_.to(placement.device).eval(), model.tokeniser_.tokens(texts)
    cluster_of, most = network.cluster_of.cpu().numpy(), min(max(RETRIEVED), len(network.members))
    recalled = np.zeros((len(texts), len(RETRIEVED)))
    for rows, batch in by_length(tokens, 1024, model.tokeniser_.pad):
        with torch.no_grad(), placement.autocast():
            h = network.document(to_device(batch, placement.device))
            best = network.clusters(h, network.encoder.word_vectors).topk(most).indices.cpu().numpy()
        for row, clusters in zip(rows, best, strict=True):
            wanted = cluster_of[Y.indices[Y.indptr[row] : Y.indptr[row + 1]]]
            if wanted.size:
                recalled[row] = [np.isin(wanted, clusters[:k]).mean() for k in RETRIEVED]
    with_labels = np.diff(Y.indptr) > 0
    return dict(zip(RETRIEVED, (100 * recalled[with_labels].mean(0)).round(2).tolist(), strict=True))


def draw(parts: dict[str, Any], arguments: argparse.Namespace) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from benchmarks.text.scores import metrics_of, renumbered, without_places
    from longtail import PropensityModel

    record = without_places(json.loads((arguments.results / "xgrank.json").read_text()))
    saved = np.load(arguments.results / "xgrank.npz")
    ids = sorted({label for _, labels in parts.values() for row in labels for label in row})
    column = {label: i for i, label in enumerate(ids)}
    predictions = renumbered(saved, column)
    Y = {part: indicator(labels, column) for part, (_, labels) in parts.items()}
    counts = np.bincount(Y["train"].indices, minlength=len(ids))
    metrics = metrics_of(predictions, Y["test"], PropensityModel().inverse(counts, Y["train"].shape[0]))
    recall = record["cluster_recall"]
    table = markdown_table(["clusters retrieved", *recall], [["recall of labels, %", *decimals(recall, recall, 1)]])
    cells = [*decimals(metrics, metrics), f"{record['fit_s']:.0f}"]
    table += "\n\n" + markdown_table([*metrics, "fit s"], [cells], left=())
    usual = codec.encode(recipe_named(RECIPE).estimator().get_params(deep=False))
    changed = [
        f"{name}={value}"
        for name, value in record["parameters"].items()
        if name not in ("encoder", "label_text") and value != usual[name]
    ]
    command = "python -m benchmarks.text.cluster_recall --data FOLDER --encoder FOLDER --results FOLDER"
    command += f" --set {' '.join(changed)}" if changed else ""
    machine = f"{record['device']}, torch {record['torch']}"
    content = {"table": table, "metrics": metrics} | record
    save("cluster-recall-yso-finna-en", content, command, folder=arguments.out, machine_name=machine)
    figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
    axis.plot([int(k) for k in recall], list(recall.values()), marker="o", color="tab:blue")
    axis.set(xscale="log", xlabel=f"clusters retrieved, of {record['n_clusters']}", ylabel="recall of labels, %")
    axis.set_xticks([1, 2, 5, 10, 20, 40, 100], ["1", "2", "5", "10", "20", "40", "100"])
    axis.set_title("X-GRank, yso-finna-en: labels within the clusters that are ranked")
    axis.grid(alpha=0.3)
    figure.savefig(image("cluster_recall.png", arguments.out), dpi=110)
    print(metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="parameters in place of the recipe's")
    parser.add_argument("--points", type=int, help="only the first so many points of each part")
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER", help="where predictions go")
    parser.add_argument("--draw", action="store_true", help="score and draw what lies in --results")
    add_out(parser)
    arguments = parser.parse_args()
    parts = {part: read(arguments.data / f"{part}.jsonl.xz") for part in ("train", "test")}
    parts = {part: (texts[: arguments.points], labels[: arguments.points]) for part, (texts, labels) in parts.items()}
    (draw if arguments.draw else train)(parts, arguments)


if __name__ == "__main__":
    main()
