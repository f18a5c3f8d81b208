"""Probabilities for every model: its scores, calibrated on points that it was not trained on, kept with the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.base import clone
from longtail.core.calibration import Calibration, CalibrationOfGroups
from longtail.core.fingerprint import data_fingerprint
from longtail.core.inputs import n_rows
from longtail.core.label_lists import labels_as_known
from longtail.core.parameters import check_whole
from longtail.core.predictions import PAD_SCORE, Predictions
from longtail.core.run import Run
from longtail.core.sets import SetCurve, thresholds_for
from longtail.core.state import State
from longtail.core.unseen import Splits, n_score_groups, predict_rows, rows_of, score_groups
from longtail.errors import DataError, ModelError

CANDIDATES = 50  # labels per point that a calibration looks at
_LEAST_PROBABILITY = 1e-30  # probabilities are above 0 even where float32 would round them
_SHARES = (0.1, 0.4, 0.7)  # of predicted labels: where groups of label frequency begin
_TOP = 5  # the labels that these shares are about
# Weight of labels beyond these: of two labels with the same score, one that is among the first of its point is the
# likelier, and the first are what people see. Chosen on held-out training points of EURLEX57K, Debian and YSO-Finna.
_BEYOND = 0.1
_SMOOTH = 1.0  # a tenth of what re-rankers use: they compare candidates, here a probability is read as it is
_LEAST_POINTS = 200  # without which a training that left points out anyway does not calibrate on them
_KEPT = 200  # scores between which probabilities that stay as they are follow a straight line
_SURE = -1e-6  # largest logarithm of a probability that has log-odds
_SEED = 0
_NO_CURVE = SetCurve(np.zeros(1), np.zeros(1), np.zeros(1), 0)


@dataclass(frozen=True, eq=False)
class ModelCalibration:
    """How the scores of one model become probabilities: one function, or one per group of label frequency.

    Parameters
    ----------
    functions : CalibrationOfGroups
        One per group; groups of label frequency inside groups of scores (`Estimator.score_groups_`).
    edges : ndarray of int64
        Training points per label at which the second and further groups of label frequency begin; increasing.
    candidates : int
        Labels per point that the functions were fitted to.
    n_points : int
        Number of unseen points.
    curve : SetCurve
        Labels per point and recall by threshold, on the half of the points that taught nothing.
    """

    functions: CalibrationOfGroups
    edges: NDArray[np.int64]
    candidates: int
    n_points: int
    curve: SetCurve

    @property
    def keeps_order(self) -> bool:
        """Whether probabilities have the order of the scores: those of several groups may not."""
        return len(self.functions.parts) == 1

    def __call__(self, model: Any, found: Predictions) -> NDArray[np.float32]:
        """Return the probabilities of predicted labels; padding stays padding."""
        scores = model._scores_to_calibrate(found)
        log_odds = self.functions(scores, _groups(model, found.labels, self.edges))
        return as_probabilities(found, -np.logaddexp(0, -log_odds))

    def moved(self, copy: Any, model: Any) -> ModelCalibration:
        """Return the calibration of a copy for the model, whose labels have more training points."""
        edges = np.rint(self.edges * (model.n_points_ / copy.n_points_)).astype(np.int64)
        return replace(self, edges=np.unique(edges))

    def to_state(self) -> State:
        state = State({"candidates": self.candidates, "n_points": self.n_points}, {"edges": self.edges})
        state.nest("functions", self.functions.to_state())
        state.nest("curve", self.curve.to_state())
        return state

    @classmethod
    def from_state(cls, state: State, model: Any) -> ModelCalibration:
        """Undo `to_state`, or raise ModelError if this does not fit the model."""
        functions = CalibrationOfGroups.from_state(state.part("functions"))
        edges = state.array("edges", np.int64, (None,))
        if edges.size > len(_SHARES) or (np.diff(edges) <= 0).any():
            raise ModelError(f"the edges of a calibration must increase, and be at most {len(_SHARES)}")
        wanted = n_score_groups(model) * (edges.size + 1)
        if len(functions.parts) != wanted:
            raise ModelError(f"there are {len(functions.parts)} calibrations for {wanted} groups of labels")
        curve = SetCurve.from_state(state.part("curve"))
        return cls(functions, edges, state.whole("candidates", 1), state.whole("n_points", 1), curve)


def as_probabilities(found: Predictions, log_probabilities: NDArray[Any]) -> NDArray[np.float32]:
    """Return the probabilities of predicted labels, above 0 and at most 1; padding stays padding."""
    likely = np.clip(np.exp(np.minimum(log_probabilities, 0)), _LEAST_PROBABILITY, 1)
    return np.where(found.labels >= 0, likely, PAD_SCORE).astype(np.float32)


def own_probabilities(model: Any, found: Predictions) -> NDArray[np.float32]:
    """Return the probabilities that the scores of a model already are, or are the logarithms of."""
    scores = model._scores_to_calibrate(found)
    if model.score_scale == "probability":
        return np.where(found.labels >= 0, np.clip(scores, _LEAST_PROBABILITY, 1), PAD_SCORE).astype(np.float32)
    return as_probabilities(found, scores)


def with_probabilities(model: Any, found: Predictions) -> Predictions:
    """Return predictions of a model with probabilities as scores, the labels in the same order."""
    return replace(found, scores=model._probabilities(found))


@dataclass(frozen=True, eq=False)
class UnseenAnswers:
    """Predictions of a model for points that it was not trained on, and which of them are correct.

    Parameters
    ----------
    found : Predictions
        Predictions, with the scores of the model.
    hits : ndarray of shape (n, k)
        Which predicted labels are observed.
    observed : csr_matrix
        All observed labels; columns beyond those of the model are labels that it does not know.
    """

    found: Predictions
    hits: NDArray[np.bool_]
    observed: sparse.csr_matrix

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, rows: NDArray[np.intp]) -> UnseenAnswers:
        return UnseenAnswers(self.found[rows], self.hits[rows], self.observed[rows])

    def halves(self) -> tuple[UnseenAnswers, UnseenAnswers]:
        """Return the points in two random halves: one to learn from, one to judge by."""
        learning, judging = self.rows_of_halves()
        return self[learning], self[judging]

    def rows_of_halves(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows of the points in each half."""
        order = np.random.default_rng(_SEED).permutation(len(self))
        return np.sort(order[::2]), np.sort(order[1::2])


def unseen_answers(model: Any, X: Any, Y: Any, *, candidates: int = CANDIDATES) -> UnseenAnswers:
    """Predict points that a model was not trained on, and compare with their observed labels.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    X : sparse matrix, array or sequence of str
        Points that it was not trained on.
    Y : sparse matrix, array, DataFrame, or list of lists
        Their observed labels; names are matched with those of the model, which need not know all.
    candidates : int, default 50
        Labels per point.

    Returns
    -------
    UnseenAnswers

    Raises
    ------
    DataError
        If these are the training data, there are fewer than 2 points, no point has a label, or the model predicts none.
    """
    check_whole("candidates", candidates, 1)
    model.check_fitted()
    X = model._check_X(X, fitted=True)
    observed = labels_as_known(Y, model.label_names_, model.n_labels_, n_points=n_rows(X))
    if n_rows(X) < 2:
        raise DataError(f"calibration needs at least 2 points, better 1,000; there are {n_rows(X)}")
    if observed.nnz == 0:
        raise DataError("no point has a label, so there is nothing to calibrate by")
    if data_fingerprint(X, observed) == model.fingerprint_:
        raise DataError("these are the points that the model was trained on; calibrate it on others")
    unseen = answers_of(model, X, observed, candidates)
    if not (unseen.found.labels >= 0).any():
        raise DataError("the model predicts no label for any of these points, so there is nothing to calibrate")
    return unseen


def answers_of(model: Any, X: Any, observed: sparse.csr_matrix, candidates: int = CANDIDATES) -> UnseenAnswers:
    """Return what `unseen_answers` does, of inputs that are checked."""
    return answers_from(predict_rows(model, X, np.arange(n_rows(X)), min(candidates, model.n_labels_)), observed)


def answers_from(found: Predictions, observed: sparse.csr_matrix) -> UnseenAnswers:
    """Return predictions for unseen points with their observed labels."""
    rows, places = np.nonzero(found.labels >= 0)
    hits = np.zeros(found.labels.shape, dtype=np.bool_)
    if rows.size:  # of no rows, SciPy returns a sparse matrix
        hits[rows, places] = np.asarray(observed[rows, found.labels[rows, places]]).ravel() > 0
    return UnseenAnswers(found, hits, observed)


def fit_calibration(model: Any, unseen: UnseenAnswers, *, own: bool = False) -> ModelCalibration:
    """Return the calibration of a model, learned from one half of unseen points.

    There is one function per group of label frequency where that makes points likelier that taught it nothing, else one
    for all. The other half says how many labels per point and which recall a threshold gives.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    unseen : UnseenAnswers
        What `unseen_answers` returned.
    own : bool, default False
        The scores to calibrate are logarithms of probabilities already, which stay as they are where no function makes
        the points likelier.

    Returns
    -------
    ModelCalibration
    """
    learning, judging = unseen.halves()
    chosen = _learned(model, learning, unseen, own=own)
    thresholds = thresholds_for(chosen(model, learning.found), learning.hits)
    return replace(chosen, curve=SetCurve.of(thresholds, chosen(model, judging.found), judging.hits, judging.observed))


def unseen_probabilities(model: Any, unseen: UnseenAnswers) -> NDArray[np.float32]:
    """Return the probabilities of labels predicted for unseen points, each half of the points taught by the other one.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    unseen : UnseenAnswers
        What `answers_from` or `unseen_answers` returned.

    Returns
    -------
    ndarray of shape (n, k)
        Padding stays padding.
    """
    found = np.empty(unseen.found.scores.shape, np.float32)
    halves = unseen.rows_of_halves()
    for own, other in (halves, halves[::-1]):
        found[own] = _learned(model, unseen[other], unseen)(model, unseen.found[own])
    return found


def _learned(model: Any, learning: UnseenAnswers, unseen: UnseenAnswers, *, own: bool = False) -> ModelCalibration:
    """Return the calibration that some of the unseen points teach, without its curve."""
    together, by_frequency = (
        ModelCalibration(_functions(model, learning, edges), edges, unseen.found.k, len(unseen), _NO_CURVE)
        for edges in (np.zeros(0, np.int64), _edges(model, learning.found))
    )
    # Decided by these points alone, too: the curve must not depend on those that it is measured on.
    teaching, deciding = learning.halves()
    fitted = [replace(one, functions=_functions(model, teaching, one.edges)) for one in (together, by_frequency)]
    surprises = [_surprise(one, model, deciding) for one in fitted]
    chosen = by_frequency if by_frequency.edges.size and surprises[1] < surprises[0] else together
    if own:
        parts = [_kept(model, learning)] * n_score_groups(model)
        plain = replace(together, functions=CalibrationOfGroups(parts))
        chosen = plain if _surprise(plain, model, deciding) <= min(surprises) else chosen
    return chosen


def calibration_in_training(model: Any, found: Predictions, observed: sparse.csr_matrix) -> ModelCalibration | None:
    """Return the calibration on points that the training of a model left out anyway; None where they are too few.

    Parameters
    ----------
    model : Estimator
        Model whose training ends here, able to turn its scores into those that are calibrated.
    found : Predictions
        Its predictions for points that the models inside were not trained on.
    observed : csr_matrix
        Their observed labels.

    Returns
    -------
    ModelCalibration or None
    """
    if len(found) < _LEAST_POINTS:
        return None
    try:
        return fit_calibration(model, answers_from(found, observed), own=True)
    except DataError:  # a half of the points may have equal scores only
        return None


def calibration_of_copy(
    model: Any, X: Any, Y: Any, *, held_out: float, run: Run | None = None, **more: Any
) -> ModelCalibration:
    """Train a copy of a model without a share of its training points, and return the calibration on that share.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    X : sparse matrix, array, DataFrame, or sequence of str
        The points that it was trained on.
    Y : sparse matrix, array, DataFrame, or list of lists
        Their observed labels.
    held_out : float
        Share of the points to hold out.
    run : Run, optional
        Where to show progress and keep finished parts.
    **more
        Arguments of `fit` with one value per point; None is passed over.

    Returns
    -------
    ModelCalibration
    """
    splits = Splits(held_out=held_out)
    splits.check_splits()
    model.check_fitted()
    X = model._check_X(X, fitted=True)
    observed = labels_as_known(Y, model.label_names_, model.n_labels_, n_points=n_rows(X))
    learning, judging = next(splits.split(n_rows(X)))
    weights = {name: np.asarray(values)[learning] for name, values in more.items() if values is not None}
    copy = clone(model).fit(
        rows_of(X, learning), observed[learning], label_names=model.label_names_,
        run=(run or Run()).part("calibration"), **weights,
    )  # fmt: skip
    return fit_calibration(copy, unseen_answers(copy, rows_of(X, judging), observed[judging])).moved(copy, model)


def _functions(model: Any, learning: UnseenAnswers, edges: NDArray[np.int64]) -> CalibrationOfGroups:
    found = replace(learning.found, scores=model._scores_to_calibrate(learning.found))
    groups = _groups(model, found.labels, edges)
    n_groups = n_score_groups(model) * (edges.size + 1)
    weights = np.broadcast_to(np.where(np.arange(found.k) < _TOP, 1.0, _BEYOND), found.labels.shape)
    return CalibrationOfGroups.fit(found, learning.hits, groups, n_groups, smooth=_SMOOTH, weights=weights)


def _kept(model: Any, learning: UnseenAnswers) -> Calibration:
    """Return the function from logarithms of probabilities to their log-odds, straight between many of the scores."""
    scores = model._scores_to_calibrate(learning.found)[learning.found.labels >= 0].astype(np.float64)
    knots = np.unique(np.quantile(np.minimum(scores, _SURE), np.linspace(0, 1, _KEPT)))
    knots = knots if knots.size > 1 else np.array([knots[0] - 1, knots[0]])
    return Calibration(knots, knots - np.log(-np.expm1(knots)))


def _edges(model: Any, found: Predictions) -> NDArray[np.int64]:
    """Return the label frequencies that split the best predictions of a model into groups of about the same size."""
    best = found.labels[:, :_TOP]
    counts = model.label_counts_[best[best >= 0]]
    if not counts.size:
        return np.zeros(0, np.int64)
    edges = np.unique(np.quantile(counts, _SHARES, method="nearest").astype(np.int64))
    return edges[edges > counts.min()]


def _groups(model: Any, labels: NDArray[np.int32], edges: NDArray[np.int64]) -> NDArray[np.int8]:
    bands = np.searchsorted(edges, model.label_counts_, side="right")[labels]
    return (score_groups(model, labels) * np.int8(edges.size + 1) + bands).astype(np.int8)


def _surprise(calibration: ModelCalibration, model: Any, judging: UnseenAnswers) -> float:
    """Return the mean negative log-likelihood of hits and misses; 0 where there are none."""
    kept = judging.found.labels >= 0
    if not kept.any():
        return 0.0
    likely = calibration(model, judging.found)[kept].astype(np.float64)
    hits = judging.hits[kept]
    return float(-np.log(np.where(hits, likely, np.maximum(1 - likely, _LEAST_PROBABILITY))).mean())
