"""The losses in torch, for a batch of points; `longtail.objectives` defines them.

Each loss takes `scores` (n points, C labels: all labels, a sample, or candidates per point) and the observed pairs as
`Positives`; all other pairs are negatives. It returns the mean over the n points, always in float32. `own` and
`opposite` are the factors of a weighting, one per observed pair (`LabelWeights.of`). `stands_for` (C,) says how many
labels each column stands for as a negative, where the columns are a sample: sums over negatives are then estimates,
without bias, of the sums over all labels. None is one each.
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
Loss = Callable[..., Tensor]  # (scores, positives, own, opposite, stands_for=...) to the mean loss
Part = Callable[[Tensor], Tensor]

MASKED_SCORE = -1e4  # of a pair that is neither positive nor negative: no effect on the losses, and finite in bf16


class Positives(NamedTuple):
    """The observed (point, label) pairs of a batch.

    Attributes
    ----------
    rows : Tensor of shape (P,)
        Rows of the scores, in rising order.
    columns : Tensor of shape (P,)
        Columns of the scores.
    """

    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, targets: Tensor) -> Positives:
        """Return the pairs of an (n, C) matrix that is nonzero where a label is observed."""
        rows, columns = targets.nonzero(as_tuple=True)
        return cls(rows, columns)


class LabelWeights:
    """The factors of a weighting as tensors, normalised for deep models (Qaraei et al. 2021, eq. 24).

    The terms of the unbiased weighting are bounded at 0 (see `warn_if_unbounded`); it is defined only for losses that
    decompose over labels.

    Parameters
    ----------
    weighting : None, str or object
        None, "pw", "pw-cb", "unbiased" or an object of `longtail.objectives`.
    counts : array-like of int
        Training points per label.
    n_points : int
        Training points.
    device : torch.device or str, default "cpu"
        Device of the tensors.
    """

    def __init__(self, weighting: Any, counts: ArrayLike, n_points: int, device: torch.device | str = "cpu") -> None:
        own, opposite = normalised_coefficients(resolve_weighting(weighting), counts, n_points)
        self.trivial = bool((own == 1).all() and not opposite.any())
        self.own = torch.from_numpy(own.astype(np.float32)).to(device)
        self.opposite = torch.from_numpy(opposite.astype(np.float32)).to(device) if opposite.any() else None

    def of(self, labels: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return (own, opposite) per label; None for a factor that has no effect."""
        if self.trivial:
            return None, None
        return self.own[labels], None if self.opposite is None else self.opposite[labels]


def warn_if_unbounded(weighting: Any) -> None:
    """Log a warning about a weighting that is not bounded below; called once per training, not once per network."""
    resolved = resolve_weighting(weighting)
    if not resolved.bounded:
        logger.warning("weighting=%r: %s. Terms below 0 count as 0", weighting, resolved.why_unbounded)


# --- losses that decompose over labels ------------------------------------------------------------------------------


def binary_cross_entropy(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    stands_for: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the logistic loss, summed over labels (`objectives.losses.LOGISTIC`)."""
    return _decomposable(lambda s: F.softplus(-s), F.softplus, scores, positives, own, opposite, stands_for)


def squared_hinge(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    stands_for: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return [1 - s]+^2 of observed labels plus [1 + s]+^2 of the others (`objectives.losses.SQUARED_HINGE`)."""
    return _decomposable(
        lambda s: F.relu(1 - s).square(), lambda s: F.relu(1 + s).square(), scores, positives, own, opposite, stands_for
    )


def _decomposable(
    plus: Part, minus: Part, scores: Tensor, positives: Positives, own: Tensor | None, opposite: Tensor | None,
    stands_for: Tensor | None,
) -> Tensor:  # fmt: skip
    """Sum l- over all pairs, with `own l+ + opposite l-` in its place for observed pairs."""
    scores = scores.float()
    observed = scores[positives]
    negative = minus(observed)
    term = plus(observed) if own is None else own * plus(observed)
    if opposite is not None:  # the unbiased loss, bounded: see objectives.losses.weighted_loss
        term = F.relu(term + opposite * negative)
    if stands_for is None:
        return (minus(scores).sum() + (term - negative).sum()) / scores.shape[0]
    total = minus(scores).sum(0) @ stands_for
    return (total + (term - negative * stands_for[positives.columns]).sum()) / scores.shape[0]


# --- losses that rank the labels of a point --------------------------------------------------------------------------


def margin(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    c: float = 1.0, stands_for: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Rank observed labels above all others by a margin c (`objectives.margin_loss`; Guo et al. 2019, eq. 1)."""
    scores = scores.float()
    violations = F.relu(_without(scores, positives)[positives.rows] - scores[positives][:, None] + c)  # (P, C)
    total = violations.sum(1) if stands_for is None else violations @ stands_for
    return _weighted_mean(total, scores.shape[0], own, opposite)


def negative_mining(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    hardest: int = 10, c: float = 1.0, stands_for: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the margin loss against the hardest negatives (`objectives.negative_mining_loss`; Reddi et al. 2019).

    Of a sample it takes the hardest ones, as the paper does; `stands_for` has no effect.
    """
    scores = scores.float()
    hard = _without(scores, positives).topk(min(hardest, scores.shape[1]), dim=1).values  # (n, k)
    violations = F.relu(hard[positives.rows] - scores[positives][:, None] + c)
    return _weighted_mean(violations.sum(1), scores.shape[0], own, opposite)


def softmax_cross_entropy(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    stands_for: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Compare each observed label with all labels that are not observed (`objectives.softmax_cross_entropy`)."""
    scores = scores.float()
    observed = scores[positives]
    others = _without(_repeated(scores, stands_for), positives).logsumexp(1)
    # log(exp s + exp others) - s, written with the difference only, so that large scores lose no digits.
    return _weighted_mean(F.softplus(others[positives.rows] - observed), scores.shape[0], own, opposite)


def grank(
    scores: Tensor, positives: Positives, own: Tensor | None = None, opposite: Tensor | None = None, *,
    stands_for: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Rank the group of observed labels above the group of others (`objectives.grank_loss`; X-GRank, eq. 4)."""
    _refuse_opposite(opposite)
    scores = scores.float()
    signed = -scores[positives] if own is None else own.log() - scores[positives]
    observed = torch.full_like(scores, -torch.inf).index_put(positives, signed)
    others = _without(_repeated(scores, stands_for), positives).logsumexp(1)
    return F.softplus(others + observed.logsumexp(1)).sum() / scores.shape[0]


def _without(scores: Tensor, positives: Positives) -> Tensor:
    """Return the scores with those of observed labels at -inf, so that they do not count as negatives."""
    return scores.index_put(positives, scores.new_tensor(-torch.inf))


def _repeated(scores: Tensor, stands_for: Tensor | None) -> Tensor:
    """Return scores whose exponentials are those of each column times the labels that it stands for."""
    return scores if stands_for is None else scores + stands_for.log()


def _weighted_mean(terms: Tensor, n_points: int, own: Tensor | None, opposite: Tensor | None) -> Tensor:
    _refuse_opposite(opposite)
    return (terms if own is None else own * terms).sum() / n_points


def _refuse_opposite(opposite: Tensor | None) -> None:
    if opposite is not None:
        raise ParameterError(
            "an unbiased weighting is defined only for losses that decompose over labels; set loss='bce' or "
            "'squared-hinge', or weighting='pw'"
        )


LOSSES: dict[str, Loss] = {
    "bce": binary_cross_entropy,
    "squared-hinge": squared_hinge,
    "margin": margin,
    "softmax": softmax_cross_entropy,
    "negative-mining": negative_mining,
    "grank": grank,
}
