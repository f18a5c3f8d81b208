"""Label weightings: how much an observed label counts in a loss when labels are rare and some are missing.

Every weighting gives two factors per label, so that solvers know only one form: the loss of an observed label (y = 1)
is `own * l+ + opposite * l-`, that of any other label (y = 0) is `l-`. Equation numbers are those of Qaraei et al.
(WWW 2021). Meta-labels (tree nodes) use the same formulas with the number of training points below the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail.core.registry import unknown
from longtail.errors import ParameterError
from longtail.objectives.propensity import PropensityModel, check_counts

Floats = NDArray[np.float64]

ORDERS = ("correct-then-rebalance", "rebalance-then-correct")
MEANS = ("labels", "pairs")


@runtime_checkable
class Weighting(Protocol):
    """Interface of a weighting, as models use it."""

    @property
    def bounded(self) -> bool:
        """True if a convex loss with this weighting still has a minimum."""

    @property
    def why_unbounded(self) -> str:
        """Explanation for the user if `bounded` is False."""

    def coefficients(self, counts: ArrayLike, n_points: int) -> tuple[Floats, Floats]:
        """Return the factors of l+ and l- for observed labels.

        Parameters
        ----------
        counts : (L,) array_like
            Number of training points per label.
        n_points : int
            Number of training points.

        Returns
        -------
        own : (L,) array
            Factor of l+: the loss of an observed label is own l+ + opposite l-.
        opposite : (L,) array
            Factor of l-.
        """


@dataclass(frozen=True)
class Unweighted:
    """The plain loss: every observed label counts once."""

    bounded: ClassVar[bool] = True
    why_unbounded: ClassVar[str] = ""

    def coefficients(self, counts: ArrayLike, n_points: int) -> tuple[Floats, Floats]:
        """Return the factors (own, opposite) per label; see `Weighting.coefficients`."""
        n = check_counts(counts, n_points)
        return np.ones(n.size), np.zeros(n.size)


@dataclass(frozen=True)
class PW:
    """Propensity weighting: the positive part times W_l = 2/p_l - 1.

    Parameters
    ----------
    propensity : PropensityModel, default PropensityModel(A=0.55, B=1.5)
        Propensity per label, from its number of training points.
    normalise : {"labels", "pairs"}, default "labels"
        Whether labels or observed (point, label) pairs have mean weight 1 in deep models; see
        `normalised_coefficients`.
    strength : float, default 1.0
        A dial from 0, no weighting, to 1, the paper's: the weight is `W_l^strength`, which moves every label by equal
        steps on a log scale. "pw:0.5" is short for `PW(strength=0.5)`.

    Notes
    -----
    Qaraei et al. 2021, eqs. 15 and 16: a convex surrogate of the unbiased 0-1 loss. Rare labels, which are missing
    most often, gain most.
    """

    propensity: PropensityModel = field(default_factory=PropensityModel)
    normalise: str = MEANS[0]
    strength: float = 1.0
    bounded: ClassVar[bool] = True
    why_unbounded: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _check_propensity(self.propensity)
        _check_normalise(self.normalise)
        _check_strength(self.strength)

    def coefficients(self, counts: ArrayLike, n_points: int) -> tuple[Floats, Floats]:
        """Return the factors (own, opposite) per label; see `Weighting.coefficients`."""
        own = _turned_down(2.0 * self.propensity.inverse(counts, n_points) - 1.0, self.strength)
        return own, np.zeros(own.size)


@dataclass(frozen=True)
class PWcb:
    """Propensity weighting with class balancing.

    Parameters
    ----------
    propensity : PropensityModel, default PropensityModel(A=0.55, B=1.5)
        Propensity per label, from its number of training points.
    beta : float, default 0.9
        Strength of the balancing, from 0 (none) to below 1 (towards inverse frequency).
    order : {"correct-then-rebalance", "rebalance-then-correct"}, default "correct-then-rebalance"
        Correct for missing labels first, own = C(n) (2/p - 1) (eqs. 19, 21; the paper's PW-cb), or balance by the
        true number of points n/p first, own = C(n/p)/p + 1/p - 1 (eq. 20).
    normalise : {"labels", "pairs"}, default "labels"
        As in `PW`.
    strength : float, default 1.0
        As in `PW`: a dial from 0, no weighting, to 1, the paper's. "pw-cb:0.5" is short for `PWcb(strength=0.5)`.

    Notes
    -----
    Qaraei et al. 2021, with C(n) = (1 - beta) / (1 - beta^n) (Cui et al. 2019). C(0) is infinite; a label without
    points gets C(1) = 1, the largest value of a label with points.
    """

    propensity: PropensityModel = field(default_factory=PropensityModel)
    beta: float = 0.9
    order: str = ORDERS[0]
    normalise: str = MEANS[0]
    strength: float = 1.0
    bounded: ClassVar[bool] = True
    why_unbounded: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _check_propensity(self.propensity)
        number = isinstance(self.beta, (int, float, np.number)) and not isinstance(self.beta, bool)
        if not number or not 0 <= self.beta < 1:
            raise ParameterError(f"beta is {self.beta!r}, but must be a number from 0 to below 1")
        if self.order not in ORDERS:
            raise ParameterError(unknown("order", str(self.order), ORDERS))
        _check_normalise(self.normalise)
        _check_strength(self.strength)

    def coefficients(self, counts: ArrayLike, n_points: int) -> tuple[Floats, Floats]:
        """Return the factors (own, opposite) per label; see `Weighting.coefficients`."""
        n = check_counts(counts, n_points)
        inverse = self.propensity.inverse(n, n_points)
        if self.order == ORDERS[0]:
            own = self.balance(n) * (2.0 * inverse - 1.0)
        else:
            own = self.balance(n * inverse) * inverse + inverse - 1.0
        return _turned_down(own, self.strength), np.zeros(own.size)

    def balance(self, n: Floats) -> Floats:
        """Return C(n), based on the effective number of samples."""
        return np.asarray((1.0 - self.beta) / (1.0 - self.beta ** np.maximum(n, 1.0)))


@dataclass(frozen=True)
class Unbiased:
    """Unbiased estimate of the loss on complete labels.

    Parameters
    ----------
    propensity : PropensityModel, default PropensityModel(A=0.55, B=1.5)
        Propensity per label, from its number of training points.

    Notes
    -----
    Qaraei et al. 2021, eq. 4: l+ is replaced by (l+ + (p - 1) l-) / p. The estimate is right in expectation for every
    loss, but the negative factor of l- makes it neither convex nor bounded below: training may diverge, and where it
    does not, the variance is high. Linear models refuse it.
    """

    propensity: PropensityModel = field(default_factory=PropensityModel)
    bounded: ClassVar[bool] = False
    why_unbounded: ClassVar[str] = (
        "the unbiased loss subtracts (1/p - 1) times the negative part for every observed label, so it is not convex "
        "and not bounded below, and a solver has no minimum to find; use weighting='pw', its convex surrogate"
    )

    def __post_init__(self) -> None:
        _check_propensity(self.propensity)

    def coefficients(self, counts: ArrayLike, n_points: int) -> tuple[Floats, Floats]:
        """Return the factors (own, opposite) per label; see `Weighting.coefficients`."""
        inverse = self.propensity.inverse(counts, n_points)
        return inverse, 1.0 - inverse


def normalised(eta: ArrayLike, counts: ArrayLike | None = None) -> Floats:
    """Scale weights to mean 1, as deep models need them; linear models do not normalise.

    Parameters
    ----------
    eta : (L,) array_like
        Weight per label.
    counts : (L,) array_like, optional
        How often each label counts in the mean; once if not given.

    Returns
    -------
    (L,) array
        eta_l L / sum(eta) without `counts` (Qaraei et al. 2021, eq. 24).
    """
    eta = np.asarray(eta, dtype=np.float64)
    share = np.ones(eta.size) if counts is None else np.asarray(counts, dtype=np.float64)
    total = float(eta @ share)
    if not 0 < total < np.inf:
        raise ParameterError(f"weights with sum {total:g} cannot be normalised; the sum must be above 0 and finite")
    return np.asarray(eta * (share.sum() / total))


def normalised_coefficients(weighting: Weighting, counts: ArrayLike, n_points: int) -> tuple[Floats, Floats]:
    """Return the coefficients as deep models use them: `own` normalised if the weighting is a plain factor.

    Parameters
    ----------
    weighting : Weighting
        Weighting; its attribute `normalise`, "labels" if it has none, chooses the mean.
    counts : (L,) array_like
        Number of training points per label.
    n_points : int
        Number of training points.

    Returns
    -------
    own : (L,) array
        As from `Weighting.coefficients`.
    opposite : (L,) array
        As from `Weighting.coefficients`.

    Notes
    -----
    With "labels", the labels have mean weight 1 (Qaraei et al. 2021, eq. 24). Most observed pairs belong to frequent
    labels, whose weights are then far below 1, while negatives keep theirs. With "pairs", the observed (point, label)
    pairs have mean weight 1, and pull as much as without a weighting. The ratios between labels are the same.

    The unbiased weighting is not scaled: it would no longer be an unbiased estimate.
    """
    own, opposite = weighting.coefficients(counts, n_points)
    if opposite.any():
        return own, opposite
    over_pairs = getattr(weighting, "normalise", MEANS[0]) == "pairs"
    return normalised(own, np.maximum(counts, 1) if over_pairs else None), opposite


_NAMED: dict[str, type[PW] | type[PWcb] | type[Unbiased]] = {"pw": PW, "pw-cb": PWcb, "unbiased": Unbiased}


def resolve_weighting(weighting: Any) -> Weighting:
    """Return the weighting that the parameter `weighting` of a model stands for.

    Parameters
    ----------
    weighting : None, {"pw", "pw-cb", "unbiased"} or Weighting
        None is the plain loss; a name stands for the weighting with default parameters, and a number behind it for its
        strength: "pw-cb:0.5".

    Returns
    -------
    Weighting

    Raises
    ------
    ParameterError
        If it is none of these.
    """
    if weighting is None:
        return Unweighted()
    if isinstance(weighting, str):
        return _of_name(weighting)
    if isinstance(weighting, Weighting) and not isinstance(weighting, type):
        return weighting
    raise ParameterError(
        f"weighting is {weighting!r}, but must be None, one of {', '.join(_NAMED)}, or an "
        "object with bounded, why_unbounded and coefficients (see Weighting)"
    )


def _of_name(text: str) -> Weighting:
    """Return the weighting for "pw-cb" or, with a strength, "pw-cb:0.5"."""
    name, colon, strength = text.partition(":")
    if name not in _NAMED:
        raise ParameterError(unknown("weighting", name, _NAMED))
    kind = _NAMED[name]
    if not colon:
        return kind()
    if kind not in (PW, PWcb):
        raise ParameterError(f"the weighting {text!r} has a strength, but unbiased takes none; write pw or pw-cb")
    try:
        number = float(strength)
    except ValueError:
        raise ParameterError(f"the weighting {text!r} cannot be read; write name:strength, e.g. {name}:0.5") from None
    return PWcb(strength=number) if kind is PWcb else PW(strength=number)


def _turned_down(own: Floats, strength: float) -> Floats:
    """Return weights between 1 (strength 0) and what they are (strength 1), by equal steps of their logarithms."""
    return own if strength == 1 else np.asarray(own**strength)


def _check_strength(strength: Any) -> None:
    number = isinstance(strength, (int, float, np.number)) and not isinstance(strength, bool)
    if not number or not 0 <= strength <= 1:
        raise ParameterError(f"strength is {strength!r}, but must be a number from 0 (no weighting) to 1 (the paper's)")


def _check_normalise(normalise: Any) -> None:
    if normalise not in MEANS:
        raise ParameterError(unknown("normalise", str(normalise), MEANS))


def _check_propensity(propensity: Any) -> None:
    if not isinstance(propensity, PropensityModel):
        raise ParameterError(f"propensity is {propensity!r}, but must be a PropensityModel, e.g. PropensityModel(A, B)")
