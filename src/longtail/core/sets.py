"""Label sets instead of rankings: which probability a label must have, given a budget or a recall to reach.

Both follow from the points that taught a calibration nothing: how many labels per point, and which share of the
observed ones, have at least a given probability. The recall that is promised for new points is that of conformal risk
control (Angelopoulos et al. 2024, "Conformal risk control", eq. 4), or with a confidence that of risk-controlling
prediction sets (Bates et al. 2021) by the Hoeffding-Bentkus bound; both need a risk that only falls as sets grow, as
1 - recall does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import check_finite
from longtail.core.parameters import check_positive
from longtail.core.predictions import PAD_SCORE, Predictions
from longtail.core.state import State
from longtail.errors import ModelError, ParameterError

Floats = NDArray[np.float64]

_STEPS = 250  # thresholds that follow the number of labels, and as many that follow the hits


@dataclass(frozen=True, eq=False)
class SetCurve:
    """Labels per point and recall at each threshold, on points that taught the calibration nothing.

    Parameters
    ----------
    thresholds : ndarray
        Probabilities, decreasing; the last is 0: all candidates.
    sizes : ndarray
        Mean number of labels per point with at least this probability.
    recalls : ndarray
        Mean share of the observed labels among them, over the points that have observed labels.
    n_points : int
        Number of these points.
    """

    thresholds: Floats
    sizes: Floats
    recalls: Floats
    n_points: int

    @classmethod
    def of(
        cls, thresholds: Floats, probabilities: NDArray[Any], hits: NDArray[np.bool_], observed: sparse.csr_matrix
    ) -> SetCurve:
        """Measure at given thresholds, which must not depend on these points.

        Parameters
        ----------
        thresholds : ndarray
            Decreasing.
        probabilities : ndarray of shape (n, k)
            Probabilities of candidates; -inf for padding.
        hits : ndarray of shape (n, k)
            Which candidates are observed.
        observed : csr_matrix
            All observed labels.

        Returns
        -------
        SetCurve
        """
        relevant = np.diff(observed.indptr)
        judged = relevant > 0
        # What each candidate adds to the mean recall of the points that have labels.
        share = np.where(hits, 1 / np.maximum(relevant, 1)[:, None], 0.0) / max(int(judged.sum()), 1)
        flat = probabilities.ravel()
        order = np.argsort(-flat, kind="stable")
        above = np.searchsorted(-flat[order], -thresholds, side="right")
        recall = np.concatenate([[0.0], np.cumsum(share.ravel()[order])])[above]
        return cls(thresholds, above / max(len(probabilities), 1), np.minimum(recall, 1.0), int(judged.sum()))

    def for_budget(self, budget: float) -> float:
        """Return the threshold that gives at most this many labels per point on average."""
        check_positive(budget=budget)
        if budget > self.sizes[-1]:
            raise ParameterError(
                f"budget is {budget!r}, but there are only {self.sizes[-1]:.3g} candidates per point; "
                "ask for less, or calibrate with more candidates (longtail calibrate --candidates)"
            )
        return float(self.thresholds[max(int(np.searchsorted(self.sizes, budget, side="right")) - 1, 0)])

    def for_recall(self, recall: float, confidence: float | None = None) -> float:
        """Return the largest threshold that promises this recall; see `Estimator.predict_sets`."""
        _check_between("recall_at_least", recall)
        if confidence is not None:
            _check_between("confidence", confidence)
        kept = self._promised(1 - recall, confidence)
        if not kept.any():
            best = self.recalls[-1]
            raise ParameterError(
                f"recall_at_least is {recall!r}, which no threshold reaches: all {self.sizes[-1]:.3g} candidates per "
                f"point contain {best:.3f} of the observed labels, and {self._most(confidence):.3f} can be promised; "
                "ask for less, or calibrate with more candidates (longtail calibrate --candidates) or more points"
            )
        return float(self.thresholds[np.flatnonzero(kept)[0]])

    def _promised(self, risk: float, confidence: float | None) -> NDArray[np.bool_]:
        """Return at which thresholds the risk, 1 - recall, is at most this one."""
        n, loss = self.n_points, 1 - self.recalls
        if confidence is None:
            return np.asarray((n * loss + 1) / (n + 1) <= risk)
        return np.asarray(_p_values(loss, n, risk) <= 1 - confidence)

    def _most(self, confidence: float | None) -> float:
        """Return the largest recall that can be promised, to a thousandth."""
        for recall in np.arange(0.999, 0, -0.001):
            if self._promised(1 - recall, confidence)[-1]:
                return float(recall)
        return 0.0

    def to_state(self) -> State:
        arrays = {"thresholds": self.thresholds, "sizes": self.sizes, "recalls": self.recalls}
        return State({"n_points": self.n_points}, arrays)

    @classmethod
    def from_state(cls, state: State) -> SetCurve:
        """Undo `to_state`, or raise ModelError if this is no curve."""
        thresholds = state.array("thresholds", np.float64, (None,))
        sizes, recalls = (state.array(name, np.float64, (thresholds.size,)) for name in ("sizes", "recalls"))
        for name, array in (("thresholds", thresholds), ("sizes", sizes), ("recalls", recalls)):
            check_finite(name, array)
        falls = (np.diff(thresholds) >= 0).any() or (np.diff(sizes) < 0).any() or (np.diff(recalls) < 0).any()
        if not thresholds.size or falls or thresholds[-1] != 0 or recalls[-1] > 1 or min(sizes[0], recalls[0]) < 0:
            raise ModelError("the thresholds of a calibration must fall to 0, its sizes and recalls must rise")
        return cls(thresholds, sizes, recalls, state.whole("n_points"))


def thresholds_for(probabilities: NDArray[Any], hits: NDArray[np.bool_]) -> Floats:
    """Return thresholds, decreasing to 0, that are close together where sets or recall change most."""
    kept = np.sort(probabilities[np.isfinite(probabilities)].astype(np.float64))[::-1]
    if not kept.size:
        return np.zeros(1)
    places = np.unique(np.geomspace(1, kept.size, _STEPS).astype(np.int64)) - 1
    found = probabilities[hits].astype(np.float64)
    by_hits = np.quantile(found, np.linspace(0, 1, _STEPS)) if found.size else np.zeros(0)
    return np.unique(np.concatenate([kept[places], by_hits, [0.0]]))[::-1].copy()


def sorted_sets(found: Predictions, threshold: float) -> Predictions:
    """Return the labels with at least this probability, most probable first; the rest of a row is padding."""
    out = found.scores < threshold
    scores = np.where(out, PAD_SCORE, found.scores)
    order = np.argsort(-scores, axis=1, kind="stable")
    labels = np.take_along_axis(np.where(out, -1, found.labels), order, axis=1)
    return replace(found, labels=labels, scores=np.take_along_axis(scores, order, axis=1))


def check_threshold(threshold: float) -> None:
    """Raise ParameterError unless a threshold is a probability above 0."""
    number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if not number or not 0 < threshold <= 1:
        raise ParameterError(f"threshold is {threshold!r}, but must be a probability above 0 and at most 1")


def _check_between(name: str, value: float) -> None:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0 < value < 1:
        raise ParameterError(f"{name} is {value!r}, but must be a number above 0 and below 1")


def _p_values(loss: Floats, n: int, risk: float) -> Floats:
    """Return Hoeffding-Bentkus p-values of "the risk is above `risk`" (Bates et al. 2021, section 3.1)."""
    from scipy.special import bdtr, xlogy

    low = np.minimum(loss, risk)
    divergence = xlogy(low, low / risk) + xlogy(1 - low, (1 - low) / (1 - risk))
    bentkus = np.e * bdtr(np.ceil(n * loss - 1e-9), n, risk) if n else np.ones_like(loss)
    return np.asarray(np.minimum(np.exp(-n * divergence), bentkus))
