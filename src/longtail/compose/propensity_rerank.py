"""Re-ranking in closed form: probabilities divided by a power of the propensities."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.compose.reranker import Reranker, check_exponent


@dataclass(kw_only=True, eq=False, repr=False)
class PropensityRerank(Reranker):
    """The base's best labels, re-ranked by `P(label | score) / p_l^exponent` ("Improving tail label prediction",
    section 3.2, the instance F_l = r_l f_l with r_l = 1/p_l, and an exponent).

    Scores of the base become probabilities first, by a function fitted on points that the base has not seen; dividing
    margins or log scores by propensities would not do. Scores of this model are the logarithms of the quotients.

    Parameters
    ----------
    base : Estimator, optional
        Any estimator; DiSMEC by default.
    exponent : float, default 0.5
        0 ranks as the base does, 1 aims at the best propensity-scored precision. It may be changed after `fit`, or
        given to `predict`: nothing is trained again.
    candidates : int, default 15
        How many of the base's labels are re-ranked. Where `predict` is asked for more, so many are, which may change
        the first ones a little.
    propensity : PropensityModel, (A, B), str or array, default PropensityModel()
        Propensity model, its parameters, the name of a preset, or one propensity per label.
    folds : int, default 3
        The base is trained this many times without a part of the points, which it then predicts, and once on all.
    held_out : float or None, default None
        Share of the points that one base is trained without, in place of folds (cheaper).
    sample : int, default 100,000
        At most this many unseen points are used.
    prefit : bool, default False
        The base is fitted already and stays as it is; `fit` gets points that it has not seen.
    random_state : int, default 0
        Seed of the split.
    """

    exponent: float = 0.5

    def check_parameters(self) -> None:
        super().check_parameters()
        check_exponent(self.exponent)

    def _own_exponent(self) -> float:
        return self.exponent
