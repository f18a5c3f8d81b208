"""Modules that re-rank the best labels of a base: what PropensityRerank and RankNet share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose.candidates import Candidates, best_of, log_quotient
from longtail.compose.price import Frontier, check_price_metric
from longtail.core.calibrated import calibration_in_training
from longtail.core.calibration import CalibrationOfGroups, Floats
from longtail.core.check_arrays import check_above_zero
from longtail.core.estimator import Prepared
from longtail.core.explanation import Explanation
from longtail.core.parameters import check_at_least_zero, check_choice, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.unseen import Splits, Unseen, n_score_groups, predict_given, predict_unseen, score_groups
from longtail.core.wrapper import Wrapper, check_fitted_part
from longtail.errors import ModelError, ParameterError
from longtail.metrics import Matches
from longtail.objectives.propensity import Propensities, PropensityModel, propensities_from


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
    exponent: float | None = None
    price_metric: str = "P@1"
    candidates: int = 15
    propensity: Propensities = PropensityModel()  # noqa: RUF009 (frozen)
    prefit: bool = False

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("candidates", self.candidates, 1)
        check_choice("prefit", self.prefit, (True, False))
        check_price_metric(self.price_metric, self.candidates)
        if self.exponent is not None:
            check_exponent(self.exponent)
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
        judging = self._learn(Candidates(found.labels, log_odds, hits, truth), run)
        likeliest = best_of(judging.labels, judging.log_odds, found.k)  # probabilities do not depend on the exponent
        worth = self._worth(likeliest.labels, likeliest.scores.astype(np.float64))
        self.probabilities_ = calibration_in_training(
            self, replace(likeliest, scores=worth.astype(np.float32)), judging.truth
        )

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
        unseen, base = run.together(
            lambda: predict_unseen(self._new_part, X, Y, self, k=k, run=run, label_names=names),
            lambda: self._new_part().fit(X, Y, label_names=names, run=run.part("base")),
        )
        return [base], unseen

    def _predict(self, X: Any, k: int) -> Predictions:
        labels, log_odds = self._propose(X, k)
        return best_of(labels, self._worth(labels, log_odds), k)

    def _worth(self, labels: NDArray[np.int32], log_odds: Floats) -> Floats:
        """Return what labels are ranked by."""
        return log_quotient(labels, log_odds, self._log_inverse, self._own_exponent())

    def _explain(self, X: Any, label: int) -> Explanation:
        found = super()._explain(X, label)
        if found.bias is None:  # a text network: its tokens have weights, whatever becomes of the score
            return found
        labels = np.full((1, 2), label, np.int32)
        scores = np.array([[found.bias, found.score]])
        log_odds = self.calibration_(scores, score_groups(self.base_, labels)) + self._shift(X, label)
        bias, score = self._worth(labels, log_odds)[0].tolist()
        return found.carried(bias, score)

    def _shift(self, X: Any, label: int) -> float:
        """Return what the module adds to the log-odds of a label for the one point in X."""
        return 0.0

    def choice(self) -> str | None:
        """Return in words what was chosen at the price; None where nothing was."""
        loss = getattr(self, "max_precision_loss", None)
        return None if loss is None else f"exponent {self.exponent_:.3g} at price {loss:g} of {self.price_metric}"

    def _own_exponent(self) -> float:
        """Return the exponent that prediction uses: the parameter, or else the one that was chosen."""
        return self.exponent_ if self.exponent is None else self.exponent

    @abstractmethod
    def _learn(self, unseen: Candidates, run: Run) -> Candidates:
        """Fit the module to what the base proposes for points that it has not seen, and set `exponent_`.

        Return the points that may calibrate the module, with the log-odds that it gives their candidates.
        """

    def _chosen_exponent(self, unseen: Candidates, max_loss: float) -> float:
        """Return the exponent that gains most for at most this many percentage points of the metric of the price."""
        frontier = Frontier.below_base(unseen, self.inverse_propensities_, max_loss / 100, self.price_metric)
        return frontier.exponent(unseen.log_odds, max_loss / 100)

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
        state.values["exponent"] = float(self.exponent_)
        state.arrays["inverse_propensities"] = self.inverse_propensities_
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self.calibration_ = CalibrationOfGroups.from_state(state.part("calibration"))
        check_groups(self.calibration_, self.base_)
        inverse = state.array("inverse_propensities", (np.float64, np.float32), (self.n_labels_,))
        check_above_zero("inverse_propensities", inverse)
        self._set_inverse(inverse)
        # Models of earlier versions whose exponent was given have no other.
        self.exponent_ = check_exponent(state.values.get("exponent", self.exponent))


def check_groups(calibration: CalibrationOfGroups, model: Any) -> None:
    """Raise ModelError unless a loaded calibration has one part per model that a score may come from."""
    if len(calibration.parts) != n_score_groups(model):
        raise ModelError(f"there are {len(calibration.parts)} calibrations for {n_score_groups(model)} kinds of scores")


def check_exponent(exponent: Any) -> float:
    """Return the exponent, or raise ParameterError if it is not a number from 0 to 1."""
    check_at_least_zero(exponent=exponent)
    if exponent > 1:
        raise ParameterError(f"exponent is {exponent!r}, but must be a number from 0 to 1")
    return float(exponent)
