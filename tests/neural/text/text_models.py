"""The text models as their tests train them: tiny, on planted texts."""

from __future__ import annotations

from typing import Any

import numpy as np

import longtail
from contract.planted import planted
from neural.text.tiny import planted_encoder

TRAIN, TEST = planted(120), planted(40, seed=1)


SMALL: dict[str, Any] = {"length": 32, "epochs": 20, "batch_size": 16, "dropout": 0.0}


ENCODER: dict[str, Any] = SMALL | {"learning_rate": 5e-3, "head_learning_rate": 0.02, "n_jobs": 1}


CLUSTERED: dict[str, Any] = {"clusters_above": 2, "cluster_size": 2, "n_retrieved": 2, "label_width": 8, "epochs": 60}


WORDS: dict[str, Any] = SMALL | {
    "hidden": 16, "widths": (16,), "word_width": 16, "learning_rate": 0.02, "epochs": 30, "word_dropout": 0.0,
    "average_from": None,
}  # fmt: skip


def xgrank(**changes: Any) -> longtail.XGRank:
    return longtail.XGRank(**ENCODER | {"encoder": planted_encoder()} | changes)


def aplc(**changes: Any) -> longtail.APLCXLNet:
    return longtail.APLCXLNet(
        **ENCODER | {"encoder": planted_encoder(), "width": 16, "hidden_learning_rate": 0.02} | changes
    )


def attention(**changes: Any) -> longtail.AttentionXML:
    return longtail.AttentionXML(**WORDS | changes)


def share_found(model: Any, k: int = 2) -> float:
    rows = model.predict(TEST.texts, k=k).labels
    return float(np.mean([len(set(row) & set(true)) / len(true) for row, true in zip(rows, TEST.lists, strict=True)]))
