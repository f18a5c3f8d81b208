"""P@1 and PSP@1 point by point, for models and pairs at every exponent, and how much of a sweep's best is luck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.compose.candidates import best_of
from longtail.compose.frontier import EXPONENTS, Trials, log_means, probabilities
from longtail.core.predictions import Predictions
from longtail.metrics import Matches
from longtail.metrics.named import terms

Names = tuple[str, ...]
_SPLITS = 100


@dataclass(frozen=True, eq=False)
class Values:
    """P@1 and the terms of PSP@1 of some points, by choice and exponent."""

    kept: NDArray[np.float32]
    gained: NDArray[np.float32]
    possible: NDArray[np.float64]

    @classmethod
    def of(cls, trials: Trials, choices: Sequence[Names], exponents: Sequence[float] = tuple(EXPONENTS)) -> Values:
        kept, gained = [], []
        inverse = trials.inverse_propensities
        for names in choices:
            labels, logs, lift = mixed(trials, names)
            firsts = (best_of(labels, logs + exponent * lift, 1) for exponent in exponents)
            matches = [Matches.of(one, trials.truth, inverse_propensities=inverse) for one in firsts]
            kept.append([terms(m, "P@1").numerators.astype(np.float32) for m in matches])
            gained.append([terms(m, "PSP@1").numerators.astype(np.float32) for m in matches])
            possible = terms(matches[0], "PSP@1").denominators
        assert possible is not None
        return cls(np.array(kept), np.array(gained), possible)

    def percent(self, rows: Any = slice(None)) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return P@1 and PSP@1 of some points, by choice and exponent."""
        possible = self.possible[rows].sum()
        return 100 * self.kept[:, :, rows].mean(axis=2), 100 * self.gained[:, :, rows].sum(axis=2) / possible


def mixed(trials: Trials, names: Names) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return the labels that these models propose, logarithms of their mean probabilities, and of 1/p."""
    found = [trials.found[name] for name in names]
    labels, logs = log_means(found, [probabilities(trials.calibrations[n], trials.found[n]) for n in names])
    return labels, logs, np.log(trials.inverse_propensities)[labels]


def ranked(trials: Trials, names: Names, exponent: float, k: int) -> Predictions:
    """Return the k best labels of these models at an exponent."""
    labels, logs, lift = mixed(trials, names)
    return best_of(labels, logs + exponent * lift, k)


def elsewhere(sweep: Values, chosen: Values) -> dict[str, float]:
    """Return what the best of a sweep on one half of the points has more than a choice on the other half.

    Parameters
    ----------
    sweep : Values
        Everything that the sweep takes its best from: the most PSP@1 with the P@1 of the choice or more.
    chosen : Values
        One choice at one exponent, on the same points.

    Returns
    -------
    dict of str to float
        Differences of P@1 and PSP@1, means over random halves. The best of many on the points that it was found on is
        partly luck; this is what remains of it on others.
    """
    n, found = sweep.possible.size, []
    for seed in range(_SPLITS):
        order = np.random.default_rng(seed).permutation(n)
        kept, gained = sweep.percent(order[: n // 2])
        best = np.where(kept >= chosen.percent(order[: n // 2])[0][0, 0] - 1e-6, gained, -np.inf).argmax()
        both = zip(sweep.percent(order[n // 2 :]), chosen.percent(order[n // 2 :]), strict=True)
        found.append([values.flat[best] - own[0, 0] for values, own in both])
    differences = np.mean(found, axis=0)
    return {"P@1": round(float(differences[0]), 2), "PSP@1": round(float(differences[1]), 2)}
