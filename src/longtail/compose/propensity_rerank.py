"""Re-ranking in closed form: probabilities divided by a power of the propensities."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose.candidates import Candidates
from longtail.compose.dial import candidates_of, chosen_on, weightings_on
from longtail.compose.reranker import Reranker
from longtail.core.batch_optimal import POINTWISE, Gains, learn_gains
from longtail.core.calibration import Floats, log_probability
from longtail.core.check_arrays import check_above_zero, check_finite
from longtail.core.parameters import check_at_least_zero
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.unseen import Unseen, predict_unseen
from longtail.errors import ParameterError

logger = logging.getLogger(__name__)

_FIXED = 0.5  # without a price
_LEAST = 1e-30  # probabilities are above 0


@dataclass(kw_only=True, eq=False, repr=False)
class PropensityRerank(Reranker):
    """Labels re-ranked by probability divided by a power of the propensity: `P(label | score) / p_l^exponent`.

    This is the case F_l = r_l f_l with r_l = 1/p_l of "Improving tail label prediction for extreme multi-label
    learning", section 3.2, with an exponent. Scores of the base are first calibrated to probabilities on points that
    the base has not seen, since margins or log scores cannot be divided by propensities. The scores of this model are
    the logarithms of the quotients.

    Parameters
    ----------
    base : Estimator or None, default None
        Any estimator; None stands for `DiSMEC`.
    max_precision_loss : float or None, default 1.0
        Percentage points of `price_metric` that the exponent may cost on points that the base has not seen. The one
        that gains most is chosen (`exponent_`); the last part of its cost must buy a quarter of its size in PSP at the
        same k. None: it is 0.5, whatever it costs.
    price_metric : str, default "P@1"
        The metric in which the price is stated, e.g. "P@5" or "nDCG@5".
    exponent : float or None, default None
        A number to use instead of the chosen one: 0 ranks as the base does, 1 aims at the best propensity-scored
        precision. It may be changed after `fit`, or given to `predict`, without training again.
    objective : str or None, default None
        "macro-f1@5" or "macro-recall@5", with any cut-off: rank by what a label is worth to this metric instead, by
        gains and offsets per label that were learned on the unseen points (`longtail.core.batch_optimal`). The exponent
        then has no effect; more candidates, e.g. 50, help.
    dial : str, list of str or None, default None
        Weightings of the base to choose from, together with the exponent and at the same price below the base as it is:
        "pw-cb" for its strengths 0.25, 0.5, 0.75 and 1, or names such as `["pw-cb:0.5", "pw:0.5"]`. Each is trained as
        often as the base for unseen points, so "pw-cb" takes about four times as long. It gains most where the
        weighting of the base costs no precision.
    candidates : int, default 15
        Number of labels of the base that are re-ranked. A larger k in `predict` raises this number, which may change
        the first labels a little.
    propensity : PropensityModel, (A, B), str or array, default PropensityModel(A=0.55, B=1.5)
        Propensity model, its parameters, the name of a preset, or one propensity per label.
    folds : int, default 3
        The base is trained this many times, each time without one fold of the points, which it then predicts, and once
        on all points.
    held_out : float or None, default None
        Share of the points to hold out from a single extra training, instead of folds (cheaper).
    sample : int, default 100,000
        Largest number of unseen points to use.
    prefit : bool, default False
        The base is already fitted and stays as it is; `fit` gets points that it has not seen.
    random_state : int, default 0
        Seed of the split.

    Attributes
    ----------
    base_ : Estimator
        Fitted base; with a dial, its `weighting` is the one that was chosen.
    exponent_ : float
        The exponent that was chosen.
    inverse_propensities_ : ndarray of shape (n_labels,)
        1 / p_l of each label.
    """

    max_precision_loss: float | None = 1.0
    objective: str | None = None
    dial: Any = None

    gains_ = None  # type: Gains | None  # a comment, since an annotation would make it a parameter

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The scale of scores: logarithms of probabilities with exponent 0."""
        exponent = getattr(self, "exponent_", None) if self.exponent is None else self.exponent
        return "log probability" if exponent == 0 and self.objective is None else None

    def check_parameters(self) -> None:
        super().check_parameters()
        parse_objective(self.objective)
        if self.max_precision_loss is not None:
            check_at_least_zero(max_precision_loss=self.max_precision_loss)
        if self.dial is not None:
            self._check_dial()

    def _check_dial(self) -> None:
        weightings_on(self.dial)
        if not hasattr(self._new_part(), "weighting"):
            raise ParameterError(f"dial is {self.dial!r}, but {type(self.base).__name__} takes no weighting")
        if self.max_precision_loss is None:
            raise ParameterError("dial chooses at a price, so max_precision_loss must be a number")
        for name in ("prefit", "objective"):
            if getattr(self, name):
                raise ParameterError(f"dial and {name} contradict each other; give one of them")

    @property
    def trains_in_parts(self) -> bool:  # type: ignore[override]
        """True if the base trains in independent parts and is not chosen by what it reaches."""
        return self.dial is None and super().trains_in_parts

    def _base_and_unseen(self, X: Any, Y: sparse.csr_matrix, run: Run) -> tuple[list[Any], Unseen]:
        if self.dial is None:
            return super()._base_and_unseen(X, Y, run)
        k, names = min(self.candidates, Y.shape[1]), self.label_names_
        weightings = [None, *weightings_on(self.dial)]

        def unseen_of(weighting: str | None) -> Unseen:
            part = "unseen" if weighting is None else f"unseen-{weighting.replace(':', '-')}"
            new = lambda: self._weighted(weighting)  # noqa: E731
            return predict_unseen(new, X, Y, self, k=k, run=run, label_names=names, name=part)

        tried = [unseen_of(weighting) for weighting in weightings]
        held = [candidates_of(unseen, Y[unseen.rows]) for unseen in tried]
        loss = (self.max_precision_loss or 0.0) / 100
        number, self.exponent_ = chosen_on(held, self.inverse_propensities_, loss, self.price_metric)
        said = "its base as it is" if weightings[number] is None else f"a base with {weightings[number]}"
        logger.info("chose %s, and the exponent %.3g", said, self.exponent_)
        base = self._weighted(weightings[number]).fit(X, Y, label_names=names, run=run.part("base"))
        return [base], tried[number]

    def choice(self) -> str | None:
        """Return in words what was chosen at the price; None where nothing was."""
        said = super().choice() if self.objective is None else None  # with an objective the exponent has no effect
        if self.dial is None:
            return said
        weighting = self.base_.weighting
        return f"{said}, and " + ("its base as it is" if weighting is None else f"a base with {weighting}")

    def _weighted(self, weighting: str | None) -> Any:
        """Return the unfitted base with a weighting; None for the base as it is."""
        part: Any = self._new_part()
        return part if weighting is None else part.set_params(weighting=weighting)

    def _learn(self, unseen: Candidates, run: Run) -> Candidates:
        loss = self.max_precision_loss
        if self.dial is None:  # or else it was chosen with the base
            self.exponent_ = _FIXED if loss is None else self._chosen_exponent(unseen, loss)
        wanted = parse_objective(self.objective)
        self.gains_ = None
        if wanted is not None:
            likely = np.where(unseen.labels >= 0, np.exp(log_probability(unseen.log_odds)), -np.inf)
            found = Predictions(unseen.labels, np.maximum(likely, _LEAST, where=unseen.labels >= 0, out=likely))
            self.gains_ = learn_gains(found, wanted[1], wanted[0], self.label_counts_ / self.n_points_)
        return unseen

    def _worth(self, labels: NDArray[np.int32], log_odds: Floats) -> Floats:
        if self.gains_ is None:
            return super()._worth(labels, log_odds)
        return self.gains_(labels, np.exp(log_probability(log_odds)))

    def _scores_to_calibrate(self, found: Predictions) -> NDArray[np.float32]:
        if self.gains_ is None:
            return super()._scores_to_calibrate(found)
        return np.log(np.clip(self.gains_.undone(found.labels, found.scores), _LEAST, 1)).astype(np.float32)

    def _get_state(self) -> State:
        state = super()._get_state()
        if self.gains_ is not None:
            state.arrays |= {"gain": self.gains_.gain, "offset": self.gains_.offset}
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self.gains_ = None
        if "gain" in state.arrays:
            gain, offset = (state.array(name, np.float64, (self.n_labels_,)) for name in ("gain", "offset"))
            check_above_zero("gain", gain)
            check_finite("offset", offset)
            self.gains_ = Gains(gain, offset)


def parse_objective(objective: Any) -> tuple[str, int] | None:
    """Return metric and cut-off of an objective such as "macro-f1@5", or raise ParameterError."""
    if objective is None:
        return None
    name, at, digits = str(objective).lower().partition("@")
    if name not in POINTWISE or not at or not digits.isascii() or not digits.isdigit() or int(digits) < 1:
        choices = " or ".join(f"{one}@5" for one in POINTWISE)
        raise ParameterError(f"objective is {objective!r}, but must be {choices}, with any cut-off, or None")
    return name, int(digits)
