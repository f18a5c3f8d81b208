"""Datasets: read, write and generate them."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Dataset": "dataset",
    "LabelTable": "labels",
    "Texts": "texts",
    "make_longtail": "synthetic",
    "read_dataset": "formats",
    "read_label_table": "labels",
    "read_predictions": "predictions_io",
    "read_vocabulary": "vocabularies",
    "write_dataset": "formats",
    "write_predictions": "predictions_writer",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # Lazy: reading a CSV file need not import the generator, and the generator no Parquet reader.
    if name not in _HOME:
        raise AttributeError(f"module 'longtail.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"longtail.data.{_HOME[name]}"), name)
