"""The mean probability of several models, and what contributed to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from longtail.core.calibration import CalibrationOfGroups, Floats
from longtail.core.explanation import Explanation, added
from longtail.core.unseen import score_groups
from longtail.core.wrapper import Wrapper
from longtail.errors import ParameterError


def log_mean(probabilities: Floats, weights: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(probabilities @ weights, np.finfo(np.float64).tiny)))


def explained_mean(
    wrapper: Wrapper,
    X: Any,
    label: int,
    calibrations: Sequence[CalibrationOfGroups],
    weights: Floats,
    candidates: int,
) -> Explanation:
    """Return what contributed to the logarithm of the mean probability of the models inside.

    Parameters
    ----------
    wrapper : Wrapper
        Model whose fitted parts are averaged.
    X : csr_matrix or sequence of str
        One point.
    label : int
        Id of the label.
    calibrations : sequence of CalibrationOfGroups
        One per part.
    weights : ndarray
        Weights of the parts.
    candidates : int
        Labels that each part proposes.

    Returns
    -------
    Explanation
    """
    shares = []
    for model, calibration, weight in zip(wrapper.parts_, calibrations, weights.tolist(), strict=True):
        found = model._explain(X, label)
        if found.bias is None:
            raise ParameterError(
                f"{type(wrapper).__name__} cannot add up the explanations of {type(model).__name__}, whose tokens have "
                "no sum; ask one of the models in its parts_ to explain"
            )
        proposed = model.predict(X, k=min(candidates, wrapper.n_labels_)).labels[0]
        ends = np.array([[found.bias, found.score]])
        groups = score_groups(model, np.full((1, 2), label, np.int32))
        bias, score = (weight * expit(calibration(ends, groups)))[0].tolist()
        shares.append((label in proposed, found.carried(bias, score)))
    # As in predict, a model that does not propose the label adds nothing, unless none does.
    own = [share for proposed, share in shares if proposed] or [share for _, share in shares]
    total = added(label, own)
    bias, score = log_mean(np.array([[total.bias], [total.score]]), np.ones(1)).tolist()
    return total.carried(bias, score)
