"""Calibration: scores of any model (margins, path probabilities, logarithms) become comparable log-odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.check_arrays import check_finite
from longtail.core.predictions import Predictions
from longtail.core.state import State
from longtail.errors import DataError, ModelError

Floats = NDArray[np.float64]

_BINS = 1000  # the fit uses this many groups of neighbouring scores, however many scores there are
_KNOTS = 6  # from the scores of hits, and as many from the scores of misses
SMOOTH = 10.0  # penalty on unequal slopes: with few points the result is a straight line, Platt's calibration
_LEAST_SCORES = 100  # a group of labels with fewer is calibrated together with all others
_LEAST_SHARE = 1e-4  # of the mean slope: the function increases everywhere, so the order of scores is kept


@dataclass(frozen=True, eq=False)
class Calibration:
    """An increasing, piecewise linear function from scores to log-odds, extrapolated with its outer slopes.

    Platt (1999) fits one straight line to all scores. The log-odds of margins of rare labels and of path probabilities
    are not straight, which costs several points of PSP@1 once probabilities are divided by propensities. Isotonic
    regression is flexible, but makes scores equal and loses their order. This is between the two: logistic regression
    on the segments between knots, with slopes above 0.

    Parameters
    ----------
    knots : ndarray
        Scores at the ends of the segments, increasing.
    log_odds : ndarray
        Log-odds at the knots.
    """

    knots: Floats
    log_odds: Floats

    @classmethod
    def fit(
        cls,
        scores: NDArray[Any],
        hits: NDArray[np.bool_],
        *,
        smooth: float = SMOOTH,
        weights: Floats | None = None,
    ) -> Calibration:
        """Fit the function to predictions for points that the model has not seen.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores of predicted labels.
        hits : ndarray of shape (n,)
            Whether each label is correct.
        smooth : float, default 10.0
            Penalty on unequal slopes of neighbouring segments.
        weights : ndarray of shape (n,) or None, default None
            How much each score counts; None for all alike.

        Returns
        -------
        Calibration

        Raises
        ------
        DataError
            If scores are infinite or all equal.
        """
        scores = np.asarray(scores, dtype=np.float64)
        if not np.isfinite(scores).all():
            raise DataError("the base predicts labels with infinite scores, which cannot be turned into probabilities")
        if scores.size == 0 or scores.min() == scores.max():
            raise DataError(
                "the base gives the same score to all labels of all points that it has not seen: there is nothing to "
                "rank by; use another base, or more points"
            )
        levels = np.linspace(0, 1, _KNOTS)
        groups = [scores[chosen] for chosen in (hits, ~hits) if chosen.any()]
        knots = np.unique(np.concatenate([np.quantile(group, levels) for group in groups]))
        steps = _solve(knots, *_grouped(scores, hits, np.ones(scores.size) if weights is None else weights), smooth)
        return cls(knots, steps[0] + np.concatenate([[0.0], np.cumsum(steps[1:])]))

    def __call__(self, scores: NDArray[Any]) -> Floats:
        """Return the log-odds of scores; infinite ones stay as they are, also where the function is flat."""
        z, finite = np.interp(scores, self.knots, self.log_odds), np.isfinite(scores)
        for outside, end, inner in ((scores < self.knots[0], 0, 1), (scores > self.knots[-1], -1, -2)):
            reached = outside & finite
            with np.errstate(over="ignore"):  # beyond what float64 holds, log-odds are infinite
                slope = (self.log_odds[end] - self.log_odds[inner]) / (self.knots[end] - self.knots[inner])
                z[reached] = self.log_odds[end] + slope * (scores[reached] - self.knots[end])
        return np.where(finite, z, scores)

    def to_state(self) -> State:
        return State(arrays={"knots": self.knots, "log_odds": self.log_odds})

    @classmethod
    def from_state(cls, state: State) -> Calibration:
        """Undo `to_state`, or raise ModelError if this is no increasing function."""
        knots = state.array("knots", np.float64, (None,))
        log_odds = state.array("log_odds", np.float64, (knots.size,))
        check_finite("knots", knots)
        check_finite("log_odds", log_odds)
        if knots.size < 2 or (np.diff(knots) <= 0).any() or (np.diff(log_odds) < 0).any():
            raise ModelError("the knots and the log-odds of a calibration must increase")
        return cls(knots, log_odds)


@dataclass(frozen=True, eq=False)
class CalibrationOfGroups:
    """One calibration per model that a score may come from, such as the two of Taug (`unseen.score_groups`)."""

    parts: list[Calibration]

    @classmethod
    def fit(
        cls,
        found: Predictions,
        hits: NDArray[np.bool_],
        groups: NDArray[np.int8],
        n_groups: int,
        *,
        smooth: float = SMOOTH,
        weights: Floats | None = None,
    ) -> CalibrationOfGroups:
        """Fit to predictions and, in the same shape, whether they are correct, the group and the weight of each."""

        def fitted(own: NDArray[np.bool_]) -> Calibration:
            counted = None if weights is None else weights[own]
            return Calibration.fit(found.scores[own], hits[own], smooth=smooth, weights=counted)

        proposed = found.labels >= 0
        together = fitted(proposed)
        parts = []
        for group in range(n_groups):
            own = proposed & (groups == group)
            enough = own.sum() >= _LEAST_SCORES and np.ptp(found.scores[own]) > 0
            parts.append(fitted(own) if n_groups > 1 and enough else together)
        return cls(parts)

    def __call__(self, scores: NDArray[Any], groups: NDArray[np.int8]) -> Floats:
        """Return the log-odds of scores; -inf, the padding, stays -inf."""
        scores = scores.astype(np.float64)
        if len(self.parts) == 1:
            return self.parts[0](scores)
        z = np.empty_like(scores)
        for number, part in enumerate(self.parts):
            z[groups == number] = part(scores[groups == number])
        return z

    def to_state(self) -> State:
        state = State({"n_parts": len(self.parts)})
        for number, part in enumerate(self.parts):
            state.nest(str(number), part.to_state())
        return state

    @classmethod
    def from_state(cls, state: State) -> CalibrationOfGroups:
        return cls([Calibration.from_state(state.part(str(i))) for i in range(state.whole("n_parts", 1))])


def log_probability(log_odds: NDArray[Any]) -> NDArray[Any]:
    """Return log sigmoid(z): finite and exact even where the probability would round to 0 or 1."""
    return np.asarray(-np.logaddexp(0, -log_odds))


def _grouped(scores: Floats, hits: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean score, weight and hits of groups of neighbouring scores; half the cuts follow the few hits."""
    levels = np.linspace(0, 1, _BINS)
    edges = np.quantile(scores, levels)
    if hits.any():
        edges = np.concatenate([edges, np.quantile(scores[hits], levels)])
    edges = np.unique(edges)
    group = np.searchsorted(edges, scores, side="right") - 1
    number, right, total = (
        np.asarray(np.bincount(group, weights=summed, minlength=edges.size), dtype=np.float64)
        for summed in (weights, weights * hits, weights * scores)
    )
    kept = number > 0
    number, right = number[kept], right[kept]
    # One imagined score, half correct, spread over the groups: perfectly separated scores would give infinite slopes.
    return total[kept] / number, number + 1 / number.size, right + 0.5 / number.size


def _solve(knots: Floats, mean: Floats, number: Floats, right: Floats, smooth: float) -> Floats:
    """Return the log-odds at the first knot and the steps to the next ones: penalised maximum likelihood."""
    from scipy import optimize  # here: a model that predicts need not load it
    from scipy.special import expit
    from threadpoolctl import threadpool_limits

    width = np.diff(knots)
    share = width / width.sum()
    basis = np.clip((mean[:, None] - knots[:-1]) / width, 0, 1)  # how much of each segment lies below a score

    def steps_of(unknown: Floats) -> Floats:
        return np.concatenate([unknown[:1], share * np.exp(unknown[1:])])

    # The unknowns are the first log-odds and the logarithms of the slopes: segments may be 100,000 times as wide as
    # others, and by their steps the search ended far from the optimum, somewhere else on every processor.
    def objective(unknown: Floats) -> tuple[float, Floats]:
        steps, bend = steps_of(unknown), np.diff(unknown[1:])
        z = steps[0] + basis @ steps[1:]
        value = (number * np.logaddexp(0, z) - right * z).sum() + smooth * (bend**2).sum()
        residual = number * expit(z) - right
        gradient = np.concatenate([[residual.sum()], steps[1:] * (basis.T @ residual)])
        gradient[2:] += 2 * smooth * bend
        gradient[1:-1] -= 2 * smooth * bend
        return float(value), gradient

    start = np.concatenate([[-3.0], np.full(share.size, np.log(6.0))])
    bounds = [(None, None), *[(np.log(_LEAST_SHARE), None)] * share.size]
    # A dozen unknowns: threads of BLAS would wait for each other a hundred times as long as they calculate.
    with threadpool_limits(1, user_api="blas"):
        found = optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-7},
        )  # fmt: skip
    return steps_of(np.asarray(found.x))
