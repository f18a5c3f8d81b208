"""The losses as torch computes them, for a batch of points: their definitions are in `longtail.objectives`.

Every loss takes `scores` (n points, C labels at hand: all of them, a sample, or candidates of each point) and the noted
pairs as `Positives`; columns that are not noted are negatives. It gives the mean over the n points, in float32 whatever
the scores are. `own` and `opposite` are the factors of a weighting, one for each noted pair (`LabelWeights.of`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike

from longtail.errors import ParameterError
from longtail.objectives import normalised_coefficients, resolve_weighting

logger = logging.getLogger(__name__)

Tensor = torch.Tensor
Part = Callable[[Tensor], Tensor]


class Positives(NamedTuple):
    """The noted (point, label) pairs of a batch: `rows` (P,), rising, and `columns` (P,) of the scores."""

    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, targets: Tensor) -> Positives:
        """From an (n, C) matrix that is not zero where a label is noted."""
        rows, columns = targets.nonzero(as_tuple=True)
        return cls(rows, columns)


class LabelWeights:
    """The factors of a weighting as tensors: `of(labels)` gives (own, opposite) of each noted pair's label.

    Normalised as deep models need it (Qaraei et al. 2021, eq. 24). The unbiased weighting is taken with its terms
    bounded at 0 (`warn_where_unbounded`); only losses that decompose over labels have one.
    """

    def __init__(self, weighting: Any, counts: ArrayLike, n_points: int, device: torch.device | str = "cpu") -> None:
        own, opposite = normalised_coefficients(resolve_weighting(weighting), counts, n_points)
        self.trivial = bool((own == 1).all() and not opposite.any())
        self.own = torch.from_numpy(own.astype(np.float32)).to(device)
        self.opposite = torch.from_numpy(opposite.astype(np.float32)).to(device) if opposite.any() else None

    def of(self, labels: Tensor) -> tuple[Tensor | None, Tensor | None]:
        if self.trivial:
            return None, None
        return self.own[labels], None if self.opposite is None else self.opposite[labels]


def warn_where_unbounded(weighting: Any) -> None:
    """To be said once a training, however many networks and levels it has."""
    resolved = resolve_weighting(weighting)
    if not resolved.bounded:
        logger.warning("weighting=%r: %s. Terms below 0 count as 0 here", weighting, resolved.why_unbounded)


# --- losses that decompose over labels ------------------------------------------------------------------------------


def binary_cross_entropy(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None
) -> Tensor:
    """Logistic loss of every label, summed over labels (`objectives.losses.LOGISTIC`)."""
    return _decomposable(lambda s: F.softplus(-s), F.softplus, scores, positives, own, opposite)


def squared_hinge(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None
) -> Tensor:
    """[1 - s]+^2 of noted labels, [1 + s]+^2 of the others, summed (`objectives.losses.SQUARED_HINGE`)."""
    return _decomposable(
        lambda s: F.relu(1 - s).square(), lambda s: F.relu(1 + s).square(), scores, positives, own, opposite
    )


def _decomposable(
    plus: Part, minus: Part, scores: Tensor, positives: Positives, own: Tensor | None, opposite: Tensor | None
) -> Tensor:
    """sum over all of l-, and for noted pairs `own l+ + opposite l-` in its place."""
    scores = scores.float()
    noted = scores[positives]
    negative = minus(noted)
    term = plus(noted) if own is None else own * plus(noted)
    if opposite is not None:  # the unbiased loss, bounded: see objectives.losses.weighted_loss
        term = F.relu(term + opposite * negative)
    return (minus(scores).sum() + (term - negative).sum()) / scores.shape[0]


# --- losses that rank the labels of a point --------------------------------------------------------------------------


def margin(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *, c: float = 1.0
) -> Tensor:
    """Noted labels above all others at hand by a margin c (`objectives.margin_loss`; Guo et al. 2019, eq. 1)."""
    scores = scores.float()
    violations = F.relu(_without(scores, positives)[positives.rows] - scores[positives][:, None] + c)  # (P, C)
    return _weighted_mean(violations.sum(1), scores.shape[0], own, opposite)


def negative_mining(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    hardest: int = 10, c: float = 1.0,
) -> Tensor:  # fmt: skip
    """The margin loss against the hardest negatives only (`objectives.negative_mining_loss`; Reddi et al. 2019)."""
    scores = scores.float()
    hard = _without(scores, positives).topk(min(hardest, scores.shape[1]), dim=1).values  # (n, k)
    violations = F.relu(hard[positives.rows] - scores[positives][:, None] + c)
    return _weighted_mean(violations.sum(1), scores.shape[0], own, opposite)


def softmax_cross_entropy(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None
) -> Tensor:
    """Each noted label against all that are not noted (`objectives.softmax_cross_entropy`)."""
    scores = scores.float()
    noted = scores[positives]
    others = _without(scores, positives).logsumexp(1)
    # log(exp s + exp others) - s; the difference alone, so that large scores lose no digits.
    return _weighted_mean(F.softplus(others[positives.rows] - noted), scores.shape[0], own, opposite)


def grank(scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None) -> Tensor:
    """The group of noted labels above the group of others (`objectives.grank_loss`; X-GRank, eq. 4)."""
    _refuse_opposite(opposite)
    scores = scores.float()
    signed = -scores[positives] if own is None else own.log() - scores[positives]
    noted = torch.full_like(scores, -torch.inf).index_put(positives, signed)
    return F.softplus(_without(scores, positives).logsumexp(1) + noted.logsumexp(1)).sum() / scores.shape[0]


def _without(scores: Tensor, positives: Positives) -> Tensor:
    """The scores with those of noted labels at -inf: they are nobody's negatives."""
    return scores.index_put(positives, scores.new_tensor(-torch.inf))


def _weighted_mean(terms: Tensor, n_points: int, own: Tensor | None, opposite: Tensor | None) -> Tensor:
    _refuse_opposite(opposite)
    return (terms if own is None else own * terms).sum() / n_points


def _refuse_opposite(opposite: Tensor | None) -> None:
    if opposite is not None:
        raise ParameterError(
            "the unbiased weighting is defined for losses that decompose over labels; use loss='bce' or "
            "'squared-hinge' with it, or weighting='pw'"
        )


LOSSES: dict[str, Callable[..., Tensor]] = {
    "bce": binary_cross_entropy,
    "squared-hinge": squared_hinge,
    "margin": margin,
    "softmax": softmax_cross_entropy,
    "negative-mining": negative_mining,
    "grank": grank,
}
