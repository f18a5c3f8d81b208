"""Taug: head and tail labels learned apart, the tail with altered copies of its points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose.augment import Alteration
from longtail.compose.calibration import Calibration, log_probability
from longtail.compose.decoupled import Decoupled
from longtail.compose.reranker import best_of
from longtail.compose.unseen import Splits, predict_unseen
from longtail.compose.wrapper import Wrapper
from longtail.core.parameters import check_at_least_zero, check_choice, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import DataError, ParameterError
from longtail.metrics import Matches

_CANDIDATES = 20  # labels of each model that calibration looks at


class Taug(Wrapper):
    """Decoupled learning and tail label augmentation ("Improving tail label prediction for extreme multi-label
    learning", section 3.3).

    The `tau` share of the labels with most points is the head, the rest the tail. One base learns the head, another the
    tail with `n_aug` altered copies of every point that carries a tail label: features are dropped, and values of
    features exchanged. Predictions of the two are merged.

    base: any estimator, default DiSMEC. tau: between 0 and 1; 0.1, or 0.01 above 10,000 labels, is the paper's.
    n_aug: copies; 0 for decoupling alone. keep: the chance of a feature (a word of a text) to stay in a copy. swaps:
        exchanged pairs, as a share of a point's features (words).
    points: "all": both learn from all points. "own": each only from points that carry one of its labels, as the paper
        has it; then neither knows what points without its labels look like.
    merge: "raw": scores of the two are compared as they are; they come from the same kind of base, and what the copies
        lifted stays lifted. "calibrated": each model's scores are made probabilities on points that it has not seen,
        which takes a second training of both; scores of this model are their logarithms.
    held_out, folds, sample: how points are kept unseen, see `PropensityRerank`.
    """

    def __init__(
        self,
        *,
        base: Any = None,
        tau: float = 0.1,
        n_aug: int = 4,
        keep: float = 0.8,
        swaps: float = 0.1,
        points: str = "all",
        merge: str = "raw",
        held_out: float | None = 0.2,
        folds: int = 3,
        sample: int = 100_000,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.tau = tau
        self.n_aug = n_aug
        self.keep = keep
        self.swaps = swaps
        self.points = points
        self.merge = merge
        self.held_out = held_out
        self.folds = folds
        self.sample = sample
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, most in (("tau", "below 1"), ("keep", "up to 1")):
            value = getattr(self, name)
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not number or not 0 < value <= 1 or (name == "tau" and value == 1):
                raise ParameterError(f"{name} is {value!r}, but must be a number above 0 and {most}")
        check_whole("n_aug", self.n_aug, 0)
        check_at_least_zero(swaps=self.swaps)
        check_choice("points", self.points, ("all", "own"))
        check_choice("merge", self.merge, ("calibrated", "raw"))
        check_whole("random_state", self.random_state, 0)
        self._splits().check()

    def _splits(self) -> Splits:
        return Splits(self.folds, self.held_out, self.sample, self.random_state)

    def _fit(self, X: Any, Y: sparse.csr_matrix, run: Run) -> None:
        if Y.shape[1] < 2:
            raise DataError("one label cannot be parted into head and tail; Taug needs at least 2")
        self._open_checkpoint(run)
        self.head_, self.tail_ = head_and_tail(self.label_counts_, self.tau)
        self.calibrations_ = self._calibrated(X, Y, run) if self.merge == "calibrated" else []
        self.models_ = self._new_models().fit(X, Y, label_names=self.label_names_, run=run)
        self.score_groups_ = self._score_groups()

    def _score_groups(self) -> NDArray[np.int8] | None:
        """Which model's scores a label has (0 head, 1 tail), for modules that calibrate; None if the scales are one."""
        if self.calibrations_:
            return None
        groups = np.zeros(self.n_labels_, np.int8)
        groups[self.tail_] = 1
        return groups

    def _new_models(self) -> Decoupled:
        alteration = Alteration(self.keep, self.swaps, self.random_state)
        return Decoupled(self._new_base, self.head_, self.tail_, self.n_aug, alteration, self.points == "all")

    def _calibrated(self, X: Any, Y: sparse.csr_matrix, run: Run) -> list[Calibration]:
        k = min(_CANDIDATES, Y.shape[1])
        names = self.label_names_
        unseen = predict_unseen(self._new_models, X, Y, self._splits(), k=k, run=run, label_names=names)
        found = unseen.predictions
        hits = Matches.of(found, Y[unseen.rows]).hits
        proposed = found.labels >= 0
        halves = (np.s_[:, :k], np.s_[:, k:])
        return [Calibration.fit(found.scores[h][proposed[h]], hits[h][proposed[h]]) for h in halves]

    def _predict(self, X: Any, k: int) -> Predictions:
        found = self.models_.predict(X, k=k)
        if not self.calibrations_:
            return best_of(found.labels, found.scores, k)
        halves = np.split(found.scores.astype(np.float64), 2, axis=1)
        log_odds = [calibration(half) for calibration, half in zip(self.calibrations_, halves, strict=True)]
        return best_of(found.labels, log_probability(np.hstack(log_odds)), k)

    def _get_state(self) -> State:
        state = State({"n_calibrations": len(self.calibrations_)})
        state.nest("models", self.models_.to_state(self.label_names_))
        for i, calibration in enumerate(self.calibrations_):
            state.nest(f"calibration{i}", calibration.to_state())
        return state

    def _set_state(self, state: State) -> None:
        models = state.part("models")
        self.head_, self.tail_ = models.arrays["head"], models.arrays["tail"]
        self.models_ = self._new_models()
        self.models_.restore_from(models, self.label_names_)
        count = int(state.values["n_calibrations"])
        self.calibrations_ = [Calibration.from_state(state.part(f"calibration{i}")) for i in range(count)]
        self.score_groups_ = self._score_groups()


def head_and_tail(counts: NDArray[np.int64], tau: float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The floor(tau L) labels with most points and the others, both in rising order; at least one label each."""
    size = min(max(int(tau * counts.size), 1), counts.size - 1)
    by_count = np.argsort(-counts, kind="stable").astype(np.int32)
    return np.sort(by_count[:size]), np.sort(by_count[size:])
