"""Give a model probabilities: after its training, or later on points that it has not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scipy import sparse

from longtail.core.calibrated import CANDIDATES, fit_calibration, unseen_answers
from longtail.core.estimator import Estimator
from longtail.core.run import Run
from longtail.core.unseen import rows_of
from longtail.metrics import calibration_error

HOW = ("auto", "yes", "no")


def calibrate(model: Estimator, X: Any, Y: sparse.csr_matrix, *, candidates: int = CANDIDATES) -> float:
    """Calibrate a model on points that it has not seen, and return its ECE@5 on the half that taught nothing.

    Parameters
    ----------
    model : Estimator
        Fitted model; gets its calibration.
    X : csr_matrix or sequence of str
        Points.
    Y : csr_matrix
        Observed labels; those beyond the labels of the model are unknown to it.
    candidates : int, default 50
        Labels per point to look at.

    Returns
    -------
    float
        A fraction.
    """
    unseen = unseen_answers(model, X, Y, candidates=candidates)
    model.probabilities_ = fit_calibration(model, unseen)
    judging = unseen.halves()[1]
    found = replace(judging.found, scores=model.probabilities_(model, judging.found))
    return calibration_error(found, judging.observed, k=min(5, found.k))


def calibrate_after_training(
    model: Estimator, X: Any, Y: sparse.csr_matrix, how: str, run: Run, **more: Any
) -> str | None:
    """Calibrate a model that was just trained on these points.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    X : csr_matrix or sequence of str
        Its training points.
    Y : csr_matrix
        Their observed labels.
    how : {"auto", "yes", "no"}
        "auto" does what costs next to nothing: a model that held points out of its own training is calibrated on them,
        one that has probabilities already is left as it is, any other is not calibrated. "yes" also trains a copy
        without a tenth of the points, which takes about as long as the training.
    run : Run
        Where to show progress and keep finished parts.
    **more
        Arguments of `fit` with one value per point, such as `sample_weight`.

    Returns
    -------
    str or None
        What was done, for people; None if nothing was.
    """
    if how == "no":
        return None
    held = model._held_out_rows(X.shape[0] if sparse.issparse(X) else len(X))
    if held is not None and Y[held].nnz and held.size > 1:
        model.calibrate(rows_of(X, held), Y[held])
        return f"calibrated on {held.size:,} held-out points"
    if how == "auto":
        return None
    if model.own_calibration() is not None:
        return "calibrated on points that its training left out"
    model.calibrate_by_training(X, Y, run=run, **more)
    assert model.probabilities_ is not None
    return f"calibrated on {model.probabilities_.n_points:,} points that a second training left out"
