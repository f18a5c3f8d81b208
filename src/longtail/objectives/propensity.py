"""Probability that a relevant label is observed: the propensity model of Jain et al. (KDD 2016, section 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail.core.parameters import check_whole
from longtail.core.registry import unknown
from longtail.errors import DataError, ParameterError

Floats = NDArray[np.float64]

_PRESETS = {"default": (0.55, 1.5), "wikipedia": (0.5, 0.4), "amazon": (0.6, 2.6)}


@dataclass(frozen=True)
class PropensityModel:
    """Propensity of a label from its number of training points.

    Parameters
    ----------
    A : float, default 0.55
        Exponent, above 0.
    B : float, default 1.5
        Offset, above -1.

    Notes
    -----
    `p_l = 1 / (1 + C (n_l + B)^-A)` with `C = (log N - 1) (B + 1)^A`, natural logarithm (Jain et al. 2016, eq. 1). n_l
    is the number of training points with label l, N the number of training points.

    For N <= 2 the paper's `log N - 1` is negative and would give propensities above 1. It is replaced by 0, so that
    every propensity is 1: two points are no evidence of missing labels. For B <= 0 (a fit may find it; no published
    one does) the power does not exist at n_l = 0, and a label without points counts as a label with one.
    """

    A: float = 0.55
    B: float = 1.5

    def __post_init__(self) -> None:
        for name, value, least in (("A", self.A, 0), ("B", self.B, -1)):
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not number or not least < value < math.inf:
                raise ParameterError(f"{name} of the propensity model is {value!r}, but must be a number above {least}")

    @classmethod
    def preset(cls, name: str) -> PropensityModel:
        """Return the model with the parameters that Jain et al. fitted.

        Parameters
        ----------
        name : {"wikipedia", "amazon", "default"}
            Dataset family; "default" for all others.

        Returns
        -------
        PropensityModel
        """
        if name not in _PRESETS:
            raise ParameterError(unknown("propensity preset", name, _PRESETS))
        return cls(*_PRESETS[name])

    def propensities(self, counts: ArrayLike, n_points: int) -> Floats:
        """Return p_l per label.

        Parameters
        ----------
        counts : (L,) array_like
            Number of training points per label.
        n_points : int
            Number of training points.

        Returns
        -------
        (L,) array
        """
        return np.asarray(1.0 / self.inverse(counts, n_points))

    def inverse(self, counts: ArrayLike, n_points: int) -> Floats:
        """Return 1 / p_l per label, the weight of a hit in propensity-scored metrics.

        Parameters
        ----------
        counts : (L,) array_like
            Number of training points per label.
        n_points : int
            Number of training points.

        Returns
        -------
        (L,) array
        """
        n = check_counts(counts, n_points)
        if self.B <= 0:
            n = np.maximum(n, 1.0)
        return np.asarray(1.0 + self.scale(n_points) * (n + self.B) ** -self.A)

    def scale(self, n_points: int) -> float:
        """Return C = (log N - 1) (B + 1)^A."""
        return max(math.log(n_points) - 1.0, 0.0) * (self.B + 1.0) ** self.A


def check_counts(counts: ArrayLike, n_points: int, *, what: str = "counts") -> Floats:
    """Return label counts as float64, or raise an error unless all lie in 0..n_points."""
    check_whole("n_points", n_points, 1)
    if hasattr(counts, "tocsr"):
        raise ParameterError(f"{what} must be one number per label; got a matrix (pass its column sums)")
    n = np.asarray(counts, dtype=np.float64)
    if n.ndim != 1:
        raise ParameterError(f"{what} must be one number per label; got an array of shape {n.shape}")
    wrong = ~((n >= 0) & (n <= n_points))
    if wrong.any():
        label = int(np.flatnonzero(wrong)[0])
        raise DataError(f"{what}: label {label} has {n[label]:g} points, but must have 0 to {n_points} (n_points)")
    return n


Propensities = PropensityModel | tuple[float, float] | str | Sequence[float] | NDArray[Any] | None


def propensities_from(value: Propensities, counts: ArrayLike, n_points: int) -> Floats:
    """Return p_l per label from any of the forms that callers may have.

    Parameters
    ----------
    value : PropensityModel, (A, B), str, array_like or None
        A model; its parameters as a tuple; the name of a preset; an array or list of one propensity per label; or
        None if no label is missing (all 1).
    counts : (L,) array_like
        Number of training points per label; used by the first three.
    n_points : int
        Number of training points.

    Returns
    -------
    (L,) array

    Raises
    ------
    ParameterError
        If a propensity does not lie in (0, 1], or their number is not that of the labels.
    """
    n = check_counts(counts, n_points)
    if value is None:
        return np.ones(n.size)
    if isinstance(value, str):
        value = PropensityModel.preset(value)
    elif isinstance(value, tuple):
        if len(value) != 2:
            raise ParameterError(f"a tuple of propensity parameters must be (A, B); got {len(value)} values")
        value = PropensityModel(*value)
    if isinstance(value, PropensityModel):
        return value.propensities(n, n_points)
    return _check_propensities(value, n.size)


def _check_propensities(value: ArrayLike, n_labels: int) -> Floats:
    try:
        p = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "propensities must be a PropensityModel, (A, B), a preset or one number per label"
        ) from error
    if p.shape != (n_labels,):
        raise ParameterError(f"propensities have shape {p.shape}, but there are {n_labels} labels")
    wrong = ~((p > 0) & (p <= 1))
    if wrong.any():
        label = int(np.flatnonzero(wrong)[0])
        raise ParameterError(f"the propensity of label {label} is {p[label]:g}, but must be above 0 and at most 1")
    return p


@dataclass(frozen=True, eq=False)
class PropensityFit:
    """Propensity model fitted to data, with the data and the quality of the fit.

    Attributes
    ----------
    model : PropensityModel
        Fitted model.
    frequency : (bins,) array
        Mean frequency per bin of labels.
    propensity : (bins,) array
        Mean propensity per bin of labels.
    r2 : float
        R² of the model against these means.
    rmse : float
        Root mean squared error of the model against these means.
    n_labels : int
        Number of labels used.
    """

    model: PropensityModel
    frequency: Floats
    propensity: Floats
    r2: float
    rmse: float
    n_labels: int


def fit_propensities(
    counts: ArrayLike, complete_counts: ArrayLike, n_points: int, *, labels_per_bin: int = 20
) -> PropensityFit:
    """Fit A and B of the propensity model by least squares on bins of labels with similar frequency.

    Parameters
    ----------
    counts : (L,) array_like
        n_l, the number of points with label l. Labels without points are left out: they are in no training set.
    complete_counts : (L,) array_like
        n*_l, the number of points that should have label l, e.g. from `hierarchy_counts`.
    n_points : int
        Number of points.
    labels_per_bin : int, default 20
        Labels per bin, in order of frequency; the rest joins the last bin.

    Returns
    -------
    PropensityFit

    Raises
    ------
    DataError
        If n_l exceeds n*_l, or there are fewer than three bins.

    Notes
    -----
    Jain et al. 2016, section 5. C follows from A, B and `n_points`.
    """
    check_whole("labels_per_bin", labels_per_bin, 1)
    n = check_counts(counts, n_points)
    complete = check_counts(complete_counts, n_points, what="complete_counts")
    if n.shape != complete.shape:
        raise ParameterError(f"there are {n.size} counts, but {complete.size} complete counts")
    if (complete < n).any():
        label = int(np.flatnonzero(complete < n)[0])
        raise DataError(
            f"label {label} has {n[label]:g} points, more than the {complete[label]:g} that should have it "
        )
    frequency, propensity = _bin_averages(n, complete, int(labels_per_bin))
    model = _least_squares(frequency, propensity, n_points)
    residuals = model.propensities(frequency, n_points) - propensity
    spread = float(((propensity - propensity.mean()) ** 2).sum())
    squares = float((residuals**2).sum())
    return PropensityFit(
        model=model,
        frequency=frequency,
        propensity=propensity,
        r2=1.0 - squares / spread if spread > 0 else 0.0,
        rmse=math.sqrt(squares / residuals.size),
        n_labels=int((n > 0).sum()),
    )


def _bin_averages(n: Floats, complete: Floats, labels_per_bin: int) -> tuple[Floats, Floats]:
    used = np.flatnonzero(n > 0)
    n_bins = used.size // labels_per_bin
    if n_bins < 3:
        raise DataError(
            f"{used.size} labels with points give {n_bins} bins of {labels_per_bin}; the fit needs at least 3"
        )
    order = used[np.argsort(n[used], kind="stable")]
    starts = np.arange(n_bins) * labels_per_bin
    sizes = np.diff(np.append(starts, order.size))
    estimates = n[order] / complete[order]  # p_l = n_l / n*_l
    return np.add.reduceat(n[order], starts) / sizes, np.add.reduceat(estimates, starts) / sizes


def _least_squares(frequency: Floats, propensity: Floats, n_points: int) -> PropensityModel:
    from scipy import optimize  # here: it takes long to load, and predicting needs none of it

    def model(logs: Floats) -> PropensityModel:
        return PropensityModel(float(np.exp(logs[0])), float(np.expm1(logs[1])))

    def residuals(logs: Floats) -> Floats:
        return model(logs).propensities(frequency, n_points) - propensity

    # In (log A, log(B + 1)) both stay in range; the bounds keep the search where the model is not numerically flat.
    # The sum of squares has several local minima, hence several starts.
    starts = [np.log([A, B + 1]) for A in (0.1, 0.5, 1.0) for B in (-0.8, 0.1, 1.5, 20.0)]
    bounds = (np.log([1e-3, 1e-3]), np.log([10.0, 1e4]))
    found = min((optimize.least_squares(residuals, start, bounds=bounds) for start in starts), key=lambda fit: fit.cost)
    return model(found.x)
