"""Sound files of every format that longtail reads, for attacks that change them."""

from __future__ import annotations

import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from attack.frame import Finding
from attack.own_files import OWN
from longtail.core import store
from longtail.core.predictions import Predictions
from longtail.data import (
    Dataset,
    read_dataset,
    read_label_table,
    read_predictions,
    read_vocabulary,
    write_dataset,
    write_predictions,
)

_X = np.array([[0, 1.5, 0], [0, 0, 1e-9], [2, -1, 3], [0, 0, 0]], np.float32)
_FEATURES = Dataset(Y=[[0, 2], [], [1], [0]], X=_X)
_TEXTS = Dataset(Y=[[0, 2], [], [1]], texts=['one, "two"', "", "drei é\nvier"], label_names=["law", "ärt", "3"])
_PREDICTIONS = Predictions([[2, 0], [1, -1]], [[0.5, 0.25], [1e-3, -np.inf]])
_TABLE = pa.table({"text": ["one", "two", "drei é", "one"] * 8, "labels": [["law"], [], ["ärt", "law"], None] * 8})
_TURTLE = b"""@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<x:1> a skos:Concept ; skos:prefLabel "law"@en, "Recht"@de ; skos:notation "1" ; skos:narrower <x:2> .
<x:2> skos:prefLabel "tax law"@en ; skos:altLabel "taxes"@en ; skos:broader <x:1> .
"""
_RDF_XML = b"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#">
<skos:Concept rdf:about="x:1"><skos:prefLabel xml:lang="en">law</skos:prefLabel><skos:broader rdf:resource="x:2"/>
</skos:Concept></rdf:RDF>
"""
_TRIPLES = (
    b'<x:1> <http://www.w3.org/2004/02/skos/core#prefLabel> "law"@en .\n'
    b"<x:1> <http://www.w3.org/2004/02/skos/core#broader> <x:2> .\n"
)
_VOCABULARY = b"id,label,language,notation,parents\nx:1,law,en,1,\nx:1,Recht,de,,\nx:2,tax,en,2,x:1;x:3\n"
_CONCEPTS = b'[{"id": "x:1", "label": {"en": "law"}, "parents": ["x:2"], "notation": "1"}, {"uri": "x:2", "name": "b"}]'


def _parquet(table: pa.Table, **options: Any) -> dict[str, bytes]:
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, **options)
    return {"a.parquet": sink.getvalue()}


def _dictionaries() -> pa.Table:
    return _TABLE.set_column(0, "text", _TABLE["text"].dictionary_encode())


def _objects() -> pa.Table:
    """Labels as lists of structures with a relevance."""
    labels = [[{"label": "law", "weight": 0.5}], [], [{"label": "art", "weight": None}, {"label": "law", "weight": 1}]]
    return pa.table({"text": ["one", "two", "three"], "labels": labels})


def saved_frame(table: pa.Table) -> dict[str, bytes]:
    """Return what `save_to_disk` of a Hugging Face dataset writes."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "0", "_split": "train"}
    return {
        "saved/state.json": json.dumps(state).encode(),
        "saved/dataset_info.json": b"{}",
        "saved/data-00000-of-00001.arrow": sink.getvalue(),
    }


def _several_array_files() -> dict[str, bytes]:
    """Return a dataset directory whose arrays are spread over files, as those of large datasets are."""
    before, store._FILE_BYTES = store._FILE_BYTES, 8
    try:
        return {name.replace("#files", ""): content for name, content in _files(_FEATURES, "directory#files").items()}
    finally:
        store._FILE_BYTES = before


_read_objects = functools.partial(read_dataset, labels="labels[].label")


def read_vectors(path: Path) -> Any:
    """Read word vectors; the module is imported here, because the room that it is in takes a while."""
    from longtail.neural.text.vocabulary import word_vectors

    return word_vectors(path, ["law", "tax"], np.random.default_rng(0))


def _vectors() -> dict[str, bytes]:
    sink = io.BytesIO()
    np.savez(sink, words=np.array(["law", "art"]), vectors=np.ones((2, 3), np.float32))
    return {"w.npz": sink.getvalue()}


# Name -> what writes it (data, files, or a function that returns files) and what reads it. "#" separates variants.
SEEDS: dict[str, tuple[Any, Callable[[Path], Any]]] = {
    **{f"a.txt{ending}": (_FEATURES, read_dataset) for ending in ("", ".gz", ".xz", ".zst")},
    "a.X.npz": (_FEATURES, read_dataset),
    "directory": (_FEATURES, read_dataset),
    "directory#files": (_several_array_files, read_dataset),
    **dict.fromkeys(("a.jsonl", "a.json", "a.jsonl.zst", "a.csv", "a.tsv.gz", "a.parquet"), (_TEXTS, read_dataset)),
    "texts": (_TEXTS, read_dataset),
    "a.parquet#plain": (lambda: _parquet(_TABLE, compression="none", use_dictionary=False), read_dataset),
    "a.parquet#dictionaries": (lambda: _parquet(_dictionaries(), compression="none"), read_dataset),
    "a.parquet#objects": (lambda: _parquet(_objects(), compression="snappy"), _read_objects),
    "saved": (lambda: saved_frame(_TABLE), read_dataset),
    "saved#dictionaries": (lambda: saved_frame(_dictionaries()), read_dataset),
    "saved#objects": (lambda: saved_frame(_objects()), _read_objects),
    **dict.fromkeys(("p.npz", "p.jsonl", "p.txt", "p.txt.xz"), (_PREDICTIONS, read_predictions)),
    "trn_X_Xf.txt": ({"trn_X_Xf.txt": b"2 3\n0:1 2:0.5\n1:2\n", "trn_X_Y.txt": b"2 2\n0:1\n1:1 0:1\n"}, read_dataset),
    "train_texts.txt": ({"train_texts.txt": b"one\ntwo\n", "train_labels.txt": b"a b\n\n"}, read_dataset),
    "labels.json": ({"labels.json": b'{"1": "law", "2": {"label": "x", "parents": ["1"]}}'}, read_label_table),
    "v.csv": ({"v.csv": _VOCABULARY}, read_vocabulary),
    "v.json": ({"v.json": _CONCEPTS}, read_vocabulary),
    "v.ttl": ({"v.ttl": _TURTLE}, read_vocabulary),
    "v.rdf": ({"v.rdf": _RDF_XML}, read_vocabulary),
    "v.nt": ({"v.nt": _TRIPLES}, read_vocabulary),
    "w.txt": ({"w.txt": b"2 3\nlaw 0.1 -2 3e-1\ntax 1 2 3\n"}, read_vectors),
    "w.npz": (_vectors, read_vectors),
    **OWN,
}  # fmt: skip


@functools.cache
def files_of(name: str) -> dict[str, bytes]:
    """Return the files that belong to a seed, by path."""
    content = SEEDS[name][0]
    if callable(content):
        content = content()
    return content if isinstance(content, dict) else _files(content, name)


def _files(content: Dataset | Predictions, name: str) -> dict[str, bytes]:
    """Return the files that writing data or predictions makes."""
    with tempfile.TemporaryDirectory() as folder:
        write = write_predictions if isinstance(content, Predictions) else write_dataset
        write(content, Path(folder) / name)
        files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file()]
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def members(archive: bytes) -> dict[str, bytes]:
    """Return the members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def archive(content: dict[str, bytes]) -> bytes:
    """Return a zip archive; its checksums are right, so a reader gets as far as the members."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as opened:
        for name, member in content.items():
            opened.writestr(name, member)
    return sink.getvalue()


def place_of(name: str, folder: Path) -> Path:
    """Return the file or folder that a seed is read from."""
    return folder / name.partition("#")[0]


def read_seed(name: str, folder: Path) -> Any:
    """Read the files of a seed in a folder; contradictions in what is read raise Finding."""
    found = SEEDS[name][1](place_of(name, folder))
    if isinstance(found, Dataset):
        check_data(found)
    return found


def check_data(data: Dataset) -> None:
    """Raise Finding if a dataset contradicts itself."""
    for matrix in (data.Y, data.X):
        if matrix is None:
            continue
        matrix.check_format(full_check=True)
        if matrix.shape[0] != data.n_points or not np.isfinite(matrix.data).all():
            raise Finding("a matrix with other points, or values that are not finite")
    if data.texts is not None and len(list(data.texts)) != data.n_points:
        raise Finding("other texts than points")
    if data.label_names is not None and len(set(data.label_names)) != data.n_labels:
        raise Finding("label names that repeat")
