"""Modules that re-rank the best labels of a base: what PropensityRerank and RankNet share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import topk
from longtail.core.calibration import CalibrationOfGroups, Floats, log_probability
from longtail.core.check_arrays import check_above_zero
from longtail.core.compiled import njit
from longtail.core.estimator import Prepared
from longtail.core.explanation import Explanation
from longtail.core.parameters import check_at_least_zero, check_choice, check_whole
from longtail.core.predictions import Predictions, empty_top
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.unseen import Splits, Unseen, n_score_groups, predict_given, predict_unseen, score_groups
from longtail.core.wrapper import Wrapper, check_fitted_part
from longtail.errors import ModelError, ParameterError
from longtail.metrics import Matches
from longtail.objectives.propensity import Propensities, PropensityModel, propensities_from


@dataclass(frozen=True, eq=False)
class Candidates:
    """The m labels that a base proposes for each of n points.

    Parameters
    ----------
    labels : ndarray of shape (n, m)
        Label ids; -1 pads.
    log_odds : ndarray of shape (n, m)
        Their log-odds; -inf for padding.
    hits : ndarray of shape (n, m)
        Which of them are correct.
    truth : csr_matrix of shape (n, n_labels)
        All labels of the points.
    """

    labels: NDArray[np.int32]
    log_odds: Floats
    hits: NDArray[np.bool_]
    truth: sparse.csr_matrix

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __getitem__(self, rows: NDArray[np.intp]) -> Candidates:
        return Candidates(self.labels[rows], self.log_odds[rows], self.hits[rows], self.truth[rows])


@dataclass(frozen=True, eq=False)
class WithPropensities(Prepared):
    """Points, and the inverse propensities by the label counts of the base's training data."""

    label_counts: NDArray[np.int64]
    n_points: int
    inverse: Floats


@dataclass(kw_only=True, eq=False, repr=False)
class Reranker(Splits, Wrapper):
    """Base of the modules that re-rank: the base proposes labels, its scores become log-odds, the module ranks again.

    Padding of the base stays padding. See `PropensityRerank` for the parameters.
    """

    adjustable = free_on_resume = ("exponent",)

    base: Any = None
    candidates: int = 15
    propensity: Propensities = PropensityModel()  # noqa: RUF009 (frozen)
    prefit: bool = False

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("candidates", self.candidates, 1)
        check_choice("prefit", self.prefit, (True, False))
        self.check_splits()

    def _fit(self, prepared: Prepared, run: Run) -> None:
        assert isinstance(prepared, WithPropensities)
        X, Y = prepared.X, prepared.Y
        self.label_counts_, self.n_points_ = prepared.label_counts, prepared.n_points
        self._set_inverse(prepared.inverse)
        self.parts_, unseen = self._base_and_unseen(X, Y, run)
        found, truth = unseen.predictions, Y[unseen.rows]
        hits = Matches.of(found, truth).hits
        self.calibration_ = CalibrationOfGroups.fit(found, hits, unseen.groups, n_score_groups(self.base_))
        log_odds = self.calibration_(found.scores, unseen.groups)
        self._learn(Candidates(found.labels, log_odds, hits, truth), run)

    def _prepare(self, X: Any, Y: sparse.csr_matrix, **more: Any) -> WithPropensities:
        super()._prepare(X, Y, **more)
        # Where the base is fitted, by the label counts of its training data; X is what it has not seen.
        seen = check_fitted_part(self.base, Y.shape[1]) if self.prefit else self
        # Propensities that do not fit the labels must be an error before training, not after hours.
        propensities = propensities_from(self.propensity, seen.label_counts_, seen.n_points_)
        return WithPropensities(X, Y, seen.label_counts_, seen.n_points_, 1 / propensities)

    def _base_and_unseen(self, X: Any, Y: sparse.csr_matrix, run: Run) -> tuple[list[Any], Unseen]:
        k = min(self.candidates, Y.shape[1])
        if self.prefit:
            return [self.base], predict_given(self.base, X, self, k=k)
        names = self.label_names_
        unseen = predict_unseen(self._new_part, X, Y, self, k=k, run=run, label_names=names)
        return [self._new_part().fit(X, Y, label_names=names, run=run.part("base"))], unseen

    def _predict(self, X: Any, k: int) -> Predictions:
        labels, log_odds = self._propose(X, k)
        return best_of(labels, log_quotient(labels, log_odds, self._log_inverse, self._own_exponent()), k)

    def _explain(self, X: Any, label: int) -> Explanation:
        found = super()._explain(X, label)
        if found.bias is None:  # a text network: its tokens have weights, whatever becomes of the score
            return found
        labels = np.full((1, 2), label, np.int32)
        scores = np.array([[found.bias, found.score]])
        log_odds = self.calibration_(scores, score_groups(self.base_, labels)) + self._shift(X, label)
        bias, score = log_quotient(labels, log_odds, self._log_inverse, self._own_exponent())[0].tolist()
        return found.carried(bias, score)

    def _shift(self, X: Any, label: int) -> float:
        """Return what the module adds to the log-odds of a label for the one point in X."""
        return 0.0

    @abstractmethod
    def _own_exponent(self) -> float:
        """Return the exponent that prediction uses."""

    def _learn(self, unseen: Candidates, run: Run) -> None:
        """Fit the module to what the base proposes for points that it has not seen."""

    def _propose(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the best labels of the base, at least k, and their log-odds."""
        found = self.base_.predict(X, k=max(k, min(self.candidates, self.n_labels_)))
        return found.labels, self.calibration_(found.scores, score_groups(self.base_, found.labels))

    def has_probabilities(self) -> bool:
        """Return whether there are probabilities: always once fitted, since the base was calibrated on unseen points.

        They do not depend on the exponent.
        """
        return super().has_probabilities() or hasattr(self, "calibration_")

    def _scores_to_calibrate(self, found: Predictions) -> NDArray[np.float32]:
        return (found.scores - self._own_exponent() * self._log_inverse[found.labels]).astype(np.float32)

    def _set_inverse(self, inverse: Floats) -> None:
        self.inverse_propensities_, self._log_inverse = inverse, np.log(inverse)

    def _get_state(self) -> State:
        state = super()._get_state()
        state.nest("calibration", self.calibration_.to_state())
        state.arrays["inverse_propensities"] = self.inverse_propensities_
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self.calibration_ = CalibrationOfGroups.from_state(state.part("calibration"))
        check_groups(self.calibration_, self.base_)
        inverse = state.array("inverse_propensities", (np.float64, np.float32), (self.n_labels_,))
        check_above_zero("inverse_propensities", inverse)
        self._set_inverse(inverse)


def check_groups(calibration: CalibrationOfGroups, model: Any) -> None:
    """Raise ModelError unless a loaded calibration has one part per model that a score may come from."""
    if len(calibration.parts) != n_score_groups(model):
        raise ModelError(f"there are {len(calibration.parts)} calibrations for {n_score_groups(model)} kinds of scores")


def check_exponent(exponent: float) -> float:
    """Return the exponent, or raise ParameterError if it is not a number from 0 to 1."""
    check_at_least_zero(exponent=exponent)
    if exponent > 1:
        raise ParameterError(f"exponent is {exponent!r}, but must be a number from 0 to 1")
    return exponent


def log_quotient(
    labels: NDArray[np.int32], log_odds: NDArray[Any], log_inverse: Floats, exponent: float
) -> NDArray[Any]:
    """Return log(P / p^exponent) of candidates, given their log-odds and log 1/p of every label."""
    return log_probability(log_odds) + exponent * log_inverse[labels]


def best_of(candidates: NDArray[np.int32], scores: NDArray[Any], k: int) -> Predictions:
    """Return the k best candidates per point (-1 pads), ties by the lower label id."""
    best = empty_top(candidates.shape[0], k)
    with np.errstate(over="ignore"):  # a score too large for float32 is infinite, and ranks first
        narrow = np.ascontiguousarray(scores, dtype=np.float32)
    _best_of(candidates, narrow, *best)
    return Predictions(*best)


@njit(cache=True, nogil=True)
def _best_of(candidates, new_scores, labels, scores):
    for i in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            if candidates[i, j] >= 0:
                topk.offer(candidates[i, j], new_scores[i, j], labels[i], scores[i])
