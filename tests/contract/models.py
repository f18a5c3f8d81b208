"""Every registered estimator as the contract suite trains it: quickly, on planted data. A new one is picked up."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import longtail
from contract.planted import N_LABELS, Planted, planted
from longtail.core import registry
from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from neural.text.tiny import planted_encoder

# What makes a text model quick and certain on 90 short texts.
SMALL: dict[str, Any] = {"length": 32, "epochs": 20, "batch_size": 16, "dropout": 0.0}
FAST = {"n_jobs": 1, "learning_rate": 5e-3, "head_learning_rate": 0.02}
# Constructor arguments that make an estimator quick on 90 points; what is not listed runs with its defaults.
ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "parabel": lambda: {"max_leaf": 2},
    "bonsai": lambda: {"n_children": 3, "max_leaf": 2},
    "pfastrexml": lambda: {"tail": "linear"},  # that with a loss to weigh; tests of the room look at both
    "propensityrerank": lambda: {"base": longtail.DiSMEC(), "folds": 2},
    "ranknet": lambda: {"base": longtail.DiSMEC(), "folds": 2, "epochs": 2, "units": 4},
    "glas": lambda: {"width": 16, "epochs": 15, "batch_size": 16, "learning_rate": 0.05, "n_jobs": 1},
    "attentionxml": lambda: (
        SMALL
        | {
            "hidden": 16,
            "widths": (16,),
            "word_width": 16,
            "learning_rate": 0.02,
            "epochs": 30,
            "word_dropout": 0.0,
            "average_from": None,
        }
    ),
    "aplcxlnet": lambda: SMALL | FAST | {"encoder": planted_encoder(), "width": 16, "hidden_learning_rate": 0.02},
    "xgrank": lambda: SMALL | FAST | {"encoder": planted_encoder()},
    "taug": lambda: {"base": longtail.DiSMEC(), "tau": 0.3},
    "ensemble": lambda: {"models": [longtail.DiSMEC(), longtail.Parabel(max_leaf=2, n_trees=1)], "weights": "fitted"},
    "auto": lambda: {"models": ["dismec"]},  # tests of the room choose among several
    "textpipeline": lambda: {"model": longtail.DiSMEC(), "features": longtail.TextFeatures(min_df=1)},
}
# Parameters to search in the GridSearchCV test; what is not listed is searched with its defaults alone.
GRIDS: dict[str, dict[str, list[Any]]] = {
    "dismec": {"C": [0.1, 1.0]},
    "textpipeline": {"features__min_df": [1, 2]},
    "propensityrerank": {"exponent": [0.0, 1.0]},
    "ensemble": {"combine": ["scores", "ranks"]},
    "taug": {"base__C": [0.1, 1.0]},
}
# Estimators that look at no features: they cannot find the planted labels, and must give the popular ones.
BLIND = {"popularity"}
# Estimators that make rows short themselves.
SCALING = {"unitrows"}

# Estimators whose scores are the same to the last bit, alone or in a batch; those of others may differ by rounding
# (docs/reliability.md).
EXACT_ALONE = {
    "popularity", "dismec", "parabel", "bonsai", "fastxml", "pfastxml", "pfastrexml", "unitrows", "textpipeline",
    "taug", "propensityrerank",
}  # fmt: skip

NAMES = registry.estimator_names()
FEATURE_MODELS = [name for name in NAMES if registry.estimator_class(name).input_kind == "features"]
TEXT_MODELS = [name for name in NAMES if registry.estimator_class(name).input_kind == "text"]
every = pytest.mark.parametrize("name", NAMES)
every_feature_model = pytest.mark.parametrize("name", FEATURE_MODELS)
every_text_model = pytest.mark.parametrize("name", TEXT_MODELS)

TRAIN, TEST = planted(90), planted(30, seed=1)


def make(name: str, **changes: Any) -> Estimator:
    arguments = ARGUMENTS.get(name, dict)()
    return registry.estimator_class(name)(**arguments).set_params(**changes)


def fitted(name: str, data: Planted = TRAIN, run: Run | None = None, **changes: Any) -> Estimator:
    model = make(name, **changes)
    return model.fit(data.inputs(model.input_kind), data.Y, run=run)


# Estimators that engines other than threads can train.
IN_PARTS = [name for name in NAMES if make(name).trains_in_parts]


@functools.cache
def shared(name: str) -> Estimator:
    """A fitted model that several tests look at; none may change it."""
    return fitted(name)


def answers(model: Estimator, data: Planted = TEST, k: int = 3) -> Predictions:
    return model.predict(data.inputs(model.input_kind), k=k)


def assert_same(one: Predictions, other: Predictions) -> None:
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.scores, other.scores)


def assert_well_formed(predictions: Predictions, n_points: int, k: int, n_labels: int = N_LABELS) -> None:
    assert predictions.labels.shape == predictions.scores.shape == (n_points, k)
    for labels, scores in zip(predictions.labels, predictions.scores, strict=True):
        kept = labels[labels >= 0]
        assert (labels[: kept.size] == kept).all(), "padding comes last"
        assert np.unique(kept).size == kept.size, "no label twice"
        assert (kept < n_labels).all()
        pairs = list(zip((-scores[: kept.size]).tolist(), kept.tolist(), strict=True))
        assert pairs == sorted(pairs), "best first, ties by the lower id"
