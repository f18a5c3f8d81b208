"""Re-ranking in closed form: probabilities divided by a power of the propensities."""

from __future__ import annotations

from typing import Any

from longtail.compose.reranker import Reranker, check_exponent
from longtail.objectives.propensity import Propensities, PropensityModel


class PropensityRerank(Reranker):
    """Ranks the base's best labels by `P(label | score) / p_l^exponent` ("Improving tail label prediction", section
    3.2, the instance F_l = r_l f_l with r_l = 1/p_l, and an exponent).

    Scores of the base are made probabilities first, by a function fitted on points that the base has not seen; dividing
    margins or log scores by propensities would not do. Scores of this model are the logarithms of the quotients.

    exponent: 0 ranks as the base does, 1 aims at the best propensity-scored precision. It may be changed after `fit`,
        or given to `predict`: nothing is trained anew.
    base: any estimator, default DiSMEC. candidates: how many of its labels are ranked anew;
    where more are asked for, so many, which may change the first ones a little.
    propensity: a PropensityModel, (A, B), the name of a preset, or one propensity a label.
    folds: the base is trained this many times without a part of the points, which it then predicts, and once on all.
        held_out: instead, a share of the points that one base is trained without (cheaper). sample: at most this many
        of these points are used.
    prefit: the base is fitted already and stays as it is; `fit` gets points that it has not seen.
    """

    def __init__(
        self,
        *,
        base: Any = None,
        exponent: float = 0.5,
        candidates: int = 15,
        propensity: Propensities = PropensityModel(),  # noqa: B008 (frozen)
        folds: int = 3,
        held_out: float | None = None,
        sample: int = 100_000,
        prefit: bool = False,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.exponent = exponent
        self.candidates = candidates
        self.propensity = propensity
        self.folds = folds
        self.held_out = held_out
        self.sample = sample
        self.prefit = prefit
        self.random_state = random_state

    def _own_exponent(self) -> float:
        return check_exponent(self.exponent)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_exponent(self.exponent)
