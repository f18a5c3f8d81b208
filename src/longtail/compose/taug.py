"""Taug: head and tail labels are learned separately, the tail with altered copies of its points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose.augment import Alteration
from longtail.compose.candidates import best_of
from longtail.compose.decoupled import Decoupled, Decoupling, names_of
from longtail.core.calibration import Calibration, log_probability
from longtail.core.estimator import Prepared
from longtail.core.explanation import Explanation
from longtail.core.parameters import check_at_least_zero, check_choice, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.unseen import Splits, predict_unseen
from longtail.core.wrapper import Wrapper
from longtail.errors import DataError, ModelError, ParameterError
from longtail.metrics import Matches

_CANDIDATES = 20  # labels per model that calibration uses


@dataclass(kw_only=True, eq=False, repr=False)
class Taug(Splits, Wrapper):
    """Decoupled learning of head and tail labels, with augmented data for the tail.

    "Improving tail label prediction for extreme multi-label learning", section 3.3. The share `tau` of the labels with
    the most points is the head, the rest is the tail. One base learns the head, another the tail with `n_aug` altered
    copies of every point that has a tail label: features are dropped, and values of features swapped. The predictions
    of the two are merged.

    Parameters
    ----------
    base : Estimator or None, default None
        Any estimator; None stands for `DiSMEC`.
    tau : float, default 0.1
        Share of the labels that form the head, between 0 and 1. The paper uses 0.1, or 0.01 above 10,000 labels.
    n_aug : int, default 4
        Altered copies per point; 0 for decoupling alone.
    keep : float, default 0.8
        Probability that a feature (a word of a text) stays in a copy.
    swaps : float, default 0.1
        Swapped pairs, as a share of the features (words) of a point.
    points : {"all", "own"}, default "all"
        "all": both bases learn from all points. "own": each learns only from points that have one of its labels, as in
        the paper; then neither knows what points without its labels look like.
    merge : {"raw", "calibrated"}, default "raw"
        "raw": compare the scores of the two as they are; they come from the same kind of base, and tail labels keep
        what the copies gained them. "calibrated": calibrate the scores of each to probabilities on points that it has
        not seen, which trains both a second time; the scores of this model are their logarithms.
    held_out : float or None, default 0.2
        For "calibrated": share of the points to hold out from the second training. None uses `folds` instead.
    folds : int, default 3
        Without `held_out`: both are trained this many times, each time without one fold, which they then predict.
    sample : int, default 100,000
        Largest number of unseen points to use.
    random_state : int, default 0
        Seed of the copies and of the split.

    Attributes
    ----------
    parts_ : list of Estimator
        Fitted base of the head, fitted base of the tail.
    head_ : ndarray of int32
        Ids of the head labels.
    tail_ : ndarray of int32
        Ids of the tail labels.
    score_groups_ : ndarray of int8 or None
        0 for head labels, 1 for tail labels; None if the scores are calibrated.
    """

    base: Any = None
    tau: float = 0.1
    n_aug: int = 4
    keep: float = 0.8
    swaps: float = 0.1
    points: str = "all"
    merge: str = "raw"
    held_out: float | None = 0.2

    def check_parameters(self) -> None:
        super().check_parameters()
        for name, most in (("tau", "below 1"), ("keep", "up to 1")):
            value = getattr(self, name)
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not number or not 0 < value <= 1 or (name == "tau" and value == 1):
                raise ParameterError(f"{name} is {value!r}, but must be a number above 0 and {most}")
        check_whole("n_aug", self.n_aug, 0)
        check_at_least_zero(swaps=self.swaps)
        check_choice("points", self.points, ("all", "own"))
        check_choice("merge", self.merge, ("calibrated", "raw"))
        self.check_splits()

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The scale of scores: logarithms of probabilities if calibrated, else what the base gives."""
        calibrated = bool(self.calibrations_) if hasattr(self, "calibrations_") else self.merge == "calibrated"
        return "log probability" if calibrated else None

    def _prepare(self, X: Any, Y: sparse.csr_matrix, **more: Any) -> Prepared:
        if Y.shape[1] < 2:
            raise DataError("one label cannot be split into head and tail; Taug needs at least 2")
        return super()._prepare(X, Y, **more)

    def _fit(self, prepared: Prepared, run: Run) -> None:
        X, Y = prepared.X, prepared.Y
        self.head_, self.tail_ = head_and_tail(self.label_counts_, self.tau)
        self.calibrations_, decoupled = run.together(
            lambda: self._calibrated(X, Y, run) if self.merge == "calibrated" else [],
            lambda: self._decoupling().fit(X, Y, label_names=self.label_names_, run=run),
        )
        self.parts_ = decoupled.models
        self.score_groups_ = self._score_groups()

    def _explain(self, X: Any, label: int) -> Explanation:
        """Return the explanation of the model that knows the label."""
        part = int(np.isin(label, self.tail_))
        labels = (self.head_, self.tail_)[part]
        own: Explanation = self.parts_[part]._explain(X, int(np.searchsorted(labels, label)))
        found = replace(own, label=label)
        if not self.calibrations_ or found.bias is None:
            return found
        bias, score = log_probability(self.calibrations_[part](np.array([found.bias, found.score]))).tolist()
        return found.carried(bias, score)

    def _score_groups(self) -> NDArray[np.int8] | None:
        """Return the model of each label (0 head, 1 tail), or None if both have the same scale."""
        if self.calibrations_:
            return None
        groups = np.zeros(self.n_labels_, np.int8)
        groups[self.tail_] = 1
        return groups

    def _decoupling(self) -> Decoupling:
        alteration = Alteration(self.keep, self.swaps, self.random_state)
        return Decoupling(self._new_part, self.head_, self.tail_, self.n_aug, alteration, self.points == "all")

    def _calibrated(self, X: Any, Y: sparse.csr_matrix, run: Run) -> list[Calibration]:
        k = min(_CANDIDATES, Y.shape[1])
        names = self.label_names_
        unseen = predict_unseen(self._decoupling, X, Y, self, k=k, run=run, label_names=names)
        found = unseen.predictions
        hits = Matches.of(found, Y[unseen.rows]).hits
        proposed = found.labels >= 0
        halves = (np.s_[:, :k], np.s_[:, k:])
        return [Calibration.fit(found.scores[h][proposed[h]], hits[h][proposed[h]]) for h in halves]

    def _predict(self, X: Any, k: int) -> Predictions:
        found = Decoupled(self.parts_, self.head_, self.tail_).predict(X, k=k)
        if not self.calibrations_:
            return best_of(found.labels, found.scores, k)
        halves = np.split(found.scores.astype(np.float64), 2, axis=1)
        log_odds = [calibration(half) for calibration, half in zip(self.calibrations_, halves, strict=True)]
        return best_of(found.labels, log_probability(np.hstack(log_odds)), k)

    def _part_names(self, number: int, n_labels: int) -> list[str] | None:
        return names_of((self.head_, self.tail_)[number], self.label_names_, n_labels)

    def _check_parts(self) -> None:
        if len(self.parts_) != 2:
            raise ModelError(f"there are {len(self.parts_)} models inside, but must be 2")
        for labels, part in zip((self.head_, self.tail_), self.parts_, strict=True):
            self._check_part(part, labels.size, labels.size + 1)  # one more: "none of these"

    def _get_state(self) -> State:
        state = super()._get_state()
        state.arrays |= {"head": self.head_, "tail": self.tail_}
        state.values["n_calibrations"] = len(self.calibrations_)
        for i, calibration in enumerate(self.calibrations_):
            state.nest(f"calibration{i}", calibration.to_state())
        return state

    def _set_state(self, state: State) -> None:
        self.head_, self.tail_ = (state.array(name, np.int32, (None,)) for name in ("head", "tail"))
        for labels in (self.head_, self.tail_):
            if not labels.size or (np.diff(labels) <= 0).any():
                raise ModelError("head and tail must be sorted label ids, at least one each")
        if not np.array_equal(np.sort(np.concatenate([self.head_, self.tail_])), np.arange(self.n_labels_)):
            raise ModelError("every label must be in the head or in the tail")
        super()._set_state(state)
        count = state.whole("n_calibrations")
        if count not in (0, 2):
            raise ModelError(f"n_calibrations is {count}, but must be 0 or 2")
        self.calibrations_ = [Calibration.from_state(state.part(f"calibration{i}")) for i in range(count)]
        self.score_groups_ = self._score_groups()


def head_and_tail(counts: NDArray[np.int64], tau: float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the floor(tau L) labels with the most points and the others, both sorted; at least one label each."""
    size = min(max(int(tau * counts.size), 1), counts.size - 1)
    by_count = np.argsort(-counts, kind="stable").astype(np.int32)
    return np.sort(by_count[:size]), np.sort(by_count[size:])
