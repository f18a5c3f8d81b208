"""What the options of TextFeatures are worth to DiSMEC, on the dev splits of EURLEX57K and debian-depends.

    python -m benchmarks.text.features DATASET [--train 10000] [--dev 4000] [--rows base stem ...]
    python -m benchmarks.text.features DATASET --embeddings FOLDER [--train 3000] [--dev 1500] [--length 64]

Takes every n-th point of both splits, so that there are as many as asked for; the test split is not read. With
--embeddings, the rows are the base, characters beside it, and the vectors of the encoder in FOLDER beside it, which
reads the first tokens of a text.
The descriptions of debian-depends begin with the name and the section of the package; for the rows with fields they are
split into name and synopsis, section, and description. Seconds are those of a process on a machine with other work.
Rows that were measured with as many points before are kept.
Writes docs/lab/benchmarks/text-features-DATASET.json, text-embeddings-DATASET.json with --embeddings.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import add_out, decimals, load, markdown_table, save
from benchmarks.common.data import add_data_root, data_root
from benchmarks.common.metrics import METRICS
from longtail import DiSMEC, TextFeatures
from longtail.data import Dataset, read_dataset
from longtail.data.reading import prefixed
from longtail.workflow.score import score_predictions

BASES: dict[str, dict[str, Any]] = {"eurlex57k": {"min_df": 3}, "debian-depends": {"min_df": 2}}
ROWS: dict[str, dict[str, Any]] = {
    "base": {},
    "stop words": {"stop_words": "english"},
    "stems": {"stem": "english"},
    "stop words, stems": {"stop_words": "english", "stem": "english"},
    "pairs of words": {"ngram_range": (1, 2)},
    "hashing, 2^18": {"hashing": 2**18},
    "hashing, 2^14": {"hashing": 2**14},
    "hashing, 2^18, no idf": {"hashing": 2**18, "idf": False},
    "only characters, 3 to 4": {"analyzer": "char_wb", "ngram_range": (3, 4)},
    "characters beside words": {"char_ngrams": (3, 4)},
    "characters beside words, weight 1": {"char_ngrams": (3, 4), "char_weight": 1.0},
}
FIELDS: dict[str, dict[str, Any]] = {
    "separate fields": {},
    "separate fields, title 2": {"field_weights": {"title": 2.0}},
    "separate fields, title 2, section 2": {"field_weights": {"title": 2.0, "section": 2.0}},
}


def sampled(data: Dataset, size: int) -> Dataset:
    """Return points at equal distances."""
    return data.subset(np.linspace(0, data.n_points - 1, min(size, data.n_points)).astype(np.intp))


def with_fields(text: str) -> str:
    """Return a description of debian-depends with the field before each word."""
    first, _, description = text.partition("\n")
    name, section, synopsis = [*first.split(" . ", 2), "", ""][:3]
    return " ".join(
        prefixed(part, field)
        for part, field in ((f"{name} {synopsis}", "title"), (section, "section"), (description, "description"))
    )


def measured(train: Dataset, dev: Dataset, texts: Sequence[Sequence[str]], features: TextFeatures) -> dict[str, Any]:
    """Return the metrics on the dev points, the number of features, and the seconds."""
    started = time.perf_counter()
    X = features.fit_transform(texts[0])
    prepared = time.perf_counter()
    model = DiSMEC().fit(X, train.Y)
    trained = time.perf_counter()
    predictions = model.predict(features.transform(texts[1]), k=5)
    counts = {"training_counts": train.label_counts, "n_training_points": train.n_points}
    metrics = score_predictions(predictions, dev.Y, **counts).metrics
    return {name: round(float(metrics[name]), 3) for name in METRICS} | {
        "features": X.shape[1], "entries_per_point": round(X.nnz / X.shape[0], 1),
        "features_s": round(prepared - started, 1), "train_s": round(trained - prepared, 1),
    }  # fmt: skip


def shortened(folder: Path, length: int, place: Path) -> Path:
    """Return a copy of an encoder's folder, made of links, that reads `length` tokens."""
    for file in folder.iterdir():
        (place / file.name).symlink_to(file.resolve())
    settings = place / "sentence_bert_config.json"
    settings.unlink(missing_ok=True)
    settings.write_text(json.dumps({"max_seq_length": length}))
    return place


def rows_of(options: argparse.Namespace, encoder: Path | None) -> dict[str, dict[str, Any]]:
    if encoder is not None:
        few = {name: ROWS[name] for name in ("base", "characters beside words")}
        return few | {"embeddings beside words": {"embeddings": encoder}}
    known = ROWS | (FIELDS if options.dataset == "debian-depends" else {})
    return known if options.rows is None else {name: known[name] for name in options.rows}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table."""
    cells = [
        [name, *decimals(row, METRICS), f"{row['features']:,}", f"{row['entries_per_point']:,.0f}"]
        for name, row in rows.items()
    ]
    return markdown_table(["features", *METRICS, "columns", "entries per point"], cells)


def run(options: argparse.Namespace, encoder: Path | None, command: str) -> None:
    root = data_root(options.data_root) / options.dataset
    train = sampled(read_dataset(root / "train.jsonl.xz"), options.train)
    dev = sampled(read_dataset(root / "dev.jsonl.xz", label_names=train.label_names), options.dev)
    plain = (list(train.texts), list(dev.texts))
    fields = tuple([with_fields(text) for text in part] for part in plain)
    kind = f"{'text-features' if encoder is None else 'text-embeddings'}-{options.dataset}"
    size = {"part": "dev", "train_points": train.n_points, "dev_points": dev.n_points}
    before = load(kind, options.out)
    found: dict[str, dict[str, Any]] = before["rows"] if size.items() <= before.items() else {}
    for name, parameters in rows_of(options, encoder).items():
        features = TextFeatures(**BASES[options.dataset] | parameters)
        found[name] = measured(train, dev, fields if name in FIELDS else plain, features)
        print(name, found[name], file=sys.stderr, flush=True)
        save(kind, size | {"rows": found, "table": table(found)}, command, folder=options.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("dataset", choices=BASES)
    parser.add_argument("--train", type=int, default=10_000, metavar="N", help="training points")
    parser.add_argument("--dev", type=int, default=4_000, metavar="N", help="dev points")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="only these rows")
    parser.add_argument("--embeddings", type=Path, metavar="FOLDER", help="encoder; measures vectors beside TF-IDF")
    parser.add_argument("--length", type=int, default=64, metavar="N", help="tokens that the encoder reads")
    add_out(parser)
    options = parser.parse_args()
    size = f"--train {options.train} --dev {options.dev}"
    command = f"python -m benchmarks.text.features {options.dataset} {size}"
    if options.embeddings is None:
        run(options, None, command)
        return
    with tempfile.TemporaryDirectory() as place:
        encoder = shortened(options.embeddings, options.length, Path(place))
        run(options, encoder, f"{command} --embeddings {options.embeddings.name} --length {options.length}")


if __name__ == "__main__":
    main()
