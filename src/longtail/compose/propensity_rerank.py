"""Re-ranking in closed form: probabilities divided by a power of the propensities."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.compose.candidates import Candidates
from longtail.compose.reranker import Reranker
from longtail.core.parameters import check_at_least_zero
from longtail.core.run import Run

_FIXED = 0.5  # without a price


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
        Percentage points of `price_metric` that the exponent may cost on points that the base has not seen: the largest
        such exponent is chosen (`exponent_`). None: it is 0.5, whatever it costs.
    price_metric : str, default "P@1"
        The metric in which the price is stated, e.g. "P@5" or "nDCG@5".
    exponent : float or None, default None
        A number to use instead of the chosen one: 0 ranks as the base does, 1 aims at the best propensity-scored
        precision. It may be changed after `fit`, or given to `predict`, without training again.
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
        Fitted base.
    exponent_ : float
        The exponent that was chosen.
    inverse_propensities_ : ndarray of shape (n_labels,)
        1 / p_l of each label.
    """

    max_precision_loss: float | None = 1.0

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The scale of scores: logarithms of probabilities with exponent 0."""
        exponent = getattr(self, "exponent_", None) if self.exponent is None else self.exponent
        return "log probability" if exponent == 0 else None

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.max_precision_loss is not None:
            check_at_least_zero(max_precision_loss=self.max_precision_loss)

    def _learn(self, unseen: Candidates, run: Run) -> None:
        loss = self.max_precision_loss
        self.exponent_ = _FIXED if loss is None else self._chosen_exponent(unseen, loss)
