"""Rounds of coordinate descent over one wave of labels, on any backend.

The rounds are those of `linear.kernels.solve_block`: passes over the unsettled points of each chain, then a look at all
points, at a standstill, which measures each label's duality gap and finds points that are no longer settled. A label
whose gap is small enough leaves. Here all labels of a wave go through a round together.

The gap is a certificate only as long as W = sum a y x. Rounding, and 16 points in flight, let W drift from it. So the
drift d = |W - sum a y x| / |W| is measured in the end: |sum a y x| <= (1 + d) |W|, so the dual value is at least
sum f(a) - (1 + d)^2 |W|^2 / 2. The gap reported is an upper bound by this: the measured one plus
(d + d^2 / 2) |W|^2 / primal. A label that has drifted too far gets W from its dual variables, and goes on.

Points in flight do not see each other's steps. Where many rows are alike and weights are large, as with PW, they
overshoot together, more with every pass, until float32 cannot hold W. No step of plain coordinate descent lowers the
dual value, so a label whose dual value has fallen between two looks starts again from zero, with one point in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.linear.gpu.backend import GROUP, Backend, Start
from longtail.linear.gpu.points import Points, Wave
from longtail.linear.options import SolverOptions

_FULL_ROUNDS = 2  # as in linear/kernels.py, like the three below
_INNER_PASSES = 8
_INNER_SHARE = 4 / 3
_EARLY_GAP = 0.15
_FIRST_PASSES, _SECOND_GAP = 3, 0.1  # from a start: passes over its support and the positives; gap before the 2nd look
_WARPS = (16, 16, 16, 2, 2)  # points of a chain in flight in each round; then 1: labels that still move back and forth
_SETTLED = 1e-3  # a slack up to this leaves a negative settled
_SHARE = 0.99  # of the goal at which a label leaves: drift has to fit in as well
_BEYOND, _FINE = (
    3,
    0.005,
)  # points in flight: labels go on to tol / 3, or to this gap; it costs little, and ranks better
_FALLEN = 0.01  # of the primal value: a dual value that falls by more than rounding
_MOST_DRIFT = 1 / 400  # of tol; a label that drifted further is computed again from its dual variables
_RENEWED = 8  # rounds after which labels that are still live get rid of drift, which can keep a gap open
_START_POINTS, _START_GAP = 4096, 0.005


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the rounds came to, per label of the wave."""

    gaps: NDArray[np.float64]  # upper bounds of the relative duality gaps
    drift: NDArray[np.float64]  # |W - sum a y x| / |W|
    passes: NDArray[np.int64]  # over all points, over unsettled points (rounds of them)


class Rounds:
    """The training of one wave.

    Parameters
    ----------
    backend : Backend
        Device.
    points : Points
        Training points.
    wave : Wave
        Labels.
    options : SolverOptions
        Loss and when to stop.
    seed : int
        Seed of the order in which points are visited.
    ordered : bool
        One point of a chain at a time, so that the same bits come out every time.
    scratch : int, default 2**28
        Bytes for weights that are computed again.
    note : callable, optional
        Called with a few words after every round.
    """

    def __init__(
        self,
        backend: Backend,
        points: Points,
        wave: Wave,
        options: SolverOptions,
        *,
        seed: int,
        ordered: bool,
        scratch: int = 2**28,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.backend, self.points, self.wave, self.options = backend, points, wave, options
        self.seed, self.ordered, self.scratch, self.note = seed, ordered, scratch, note or (lambda text: None)
        n_columns = wave.n_groups * GROUP
        self._live = np.zeros(n_columns, np.bool_)
        self._live[: wave.n_labels] = True
        self._gaps, self._primal = np.full(n_columns, np.inf), np.ones(n_columns)
        self._drift, self._squares = np.zeros(n_columns), np.zeros(n_columns)
        self._dual = np.zeros(n_columns)  # dual value at the last look
        self._calm = np.zeros(n_columns // backend.width, np.bool_)  # chains with one point in flight from now on
        self._full = self._inner = self._launches = 0
        self._always_full = options.loss == "logistic"  # no point is ever settled

    def run(self, start: Start | None = None) -> Outcome:
        """Train from zero or from `start`, until every label has left or `max_passes` are over."""
        self.backend.fill(self.points, self.wave, start)
        self._put_live()
        if start is None or self._always_full:
            self._full_rounds()
        else:
            self._set_squares(self._groups())
            self.backend.seed_lists(self.points, self.wave, start)
            self._steps(_FIRST_PASSES, _EARLY_GAP, round_=0)
        for round_ in range(self.options.max_passes):
            self._look()
            if not self._live.any():
                self._certify()
            if not self._live.any() or self._full >= self.options.max_passes:
                break
            if round_ % _RENEWED == _RENEWED - 1:
                self._renew(self._groups())
            goal = _INNER_SHARE * self.options.tol
            if start is not None and round_ == 0:
                goal = max(goal, _SECOND_GAP)
            self._steps(_INNER_PASSES, goal, round_, full=self._always_full)
        if self._live.any():
            self._measure_drift(self._groups(everyone=True))
        n, bound = self.wave.n_labels, (self._drift + 0.5 * self._drift**2) * self._squares / self._primal
        return Outcome((self._gaps + bound)[:n], self._drift[:n], np.array([self._full, self._inner], np.int64))

    def solve_without_positives(self) -> Start:
        """Return the solution of a label without positives; the wave has this one label."""
        backend, points, wave = self.backend, self.points, self.wave
        xp, n = backend.xp, min(_START_POINTS, points.n_points)
        backend.fill(points, wave, None)
        self._put_live()
        for round_ in range(3):  # points are in random order: the first are a sample
            wave.lists[0, 0, :n] = xp.arange(n, dtype=np.uint32)
            wave.list_sizes[0], wave.list_sides[0] = n, 0
            self._steps(_FIRST_PASSES, 2 * _START_GAP, round_)
        for round_ in range(self.options.max_passes):
            self._look(target=min(_START_GAP, self.options.tol / 4))
            if not self._live.any():
                break
            self._steps(_INNER_PASSES // 2, _START_GAP, round_)
        duals = xp.abs(wave.duals[0, :, 0])
        support = xp.flatnonzero(duals > 0).astype(np.uint32)
        return Start(xp.ascontiguousarray(wave.W[0, :, 0]), duals, float(wave.bias_weights[0]), support)

    def _full_rounds(self) -> None:
        tol, n_rounds = self.options.tol, 1 if self._always_full else _FULL_ROUNDS
        for round_ in range(min(n_rounds, max(1, self.options.max_passes - 1))):
            goal = _INNER_SHARE * tol
            if round_ + 1 < n_rounds:
                goal = max(goal, _EARLY_GAP)
            self._steps(_INNER_PASSES, goal, 0, full=True)

    def _steps(self, passes: int, goal: float, round_: int, *, full: bool = False) -> None:
        chains = np.flatnonzero(self._live.reshape(-1, self.backend.width).any(axis=1)).astype(np.uint32)
        if not full:  # the longest first
            sizes = self.backend.to_host(self.wave.list_sizes)[chains]
            chains = chains[np.argsort(-sizes.astype(np.int64), kind="stable")]
        most = 1 if self.ordered or round_ >= len(_WARPS) else min(_WARPS[round_], self.backend.warps)
        warps = np.where(self._calm[chains], 1, most).astype(np.uint32)
        self._launches += 1
        asarray = self.backend.xp.asarray
        self.backend.steps(
            self.points, self.wave, asarray(chains), full=full, max_passes=passes, goal=goal,
            seed=(self.seed + 7919 * self._launches) % 2**32, warps=asarray(warps),
        )  # fmt: skip
        self._full += full
        self._inner += 1

    def _look(self, target: float | None = None) -> None:
        """Measure the gaps of live labels; those that are small enough leave."""
        groups = self._groups()
        if self._always_full:  # so many small steps that their rounding errors add up
            self._set_weights_of_duals(groups)
        eps = _SETTLED if self.options.loss != "logistic" else 0.0
        loss, dual = self.backend.look(self.points, self.wave, self.backend.xp.asarray(groups), eps)
        squares = self._set_squares(groups)
        columns = _columns(groups)
        live = self._live[columns]
        changed, loss, dual, squares = columns[live], loss[live], dual[live], squares[live]
        primal, value = np.maximum(0.5 * squares + loss, 1e-12), dual - 0.5 * squares
        self._primal[changed], self._squares[changed] = primal, squares
        with np.errstate(invalid="ignore"):  # of weights that overflowed
            self._gaps[changed] = (primal - value) / primal
            rose = np.isfinite(primal) & (value >= self._dual[changed] - _FALLEN * primal)
        self._dual[changed] = value
        overshot = changed[~rose & ~self._calm[changed // self.backend.width]]
        self._live &= self._gaps > (self._target() if target is None else target)
        self._live[overshot] = True  # any other NaN leaves, and the caller checks for it
        self._start_again(overshot)
        self._put_live()
        self._full += 1
        self.note(f"{int(self._live.sum()):,} labels of the wave left")

    def _target(self) -> float:
        """Return the gap at which a label leaves."""
        tol = self.options.tol
        return _SHARE * (tol if self.ordered else max(tol / _BEYOND, min(tol, _FINE)))

    def _start_again(self, columns: NDArray[np.intp]) -> None:
        """Set labels back to zero; their chains go on with all points on their lists, and one of them in flight."""
        wave, xp = self.wave, self.backend.xp
        if not columns.size:
            return
        for column in columns.tolist():
            group, lane = divmod(column, GROUP)
            wave.W[group, :, lane] = 0
            wave.duals[group, :, lane] = xp.copysign(np.float32(0), wave.duals[group, :, lane])
        self._dual[columns] = 0
        chains = np.unique(columns // self.backend.width)
        self._calm[chains] = True
        on_device, chains = xp.asarray(columns), xp.asarray(chains)
        wave.bias_weights[on_device] = wave.squares[on_device] = 0
        wave.lists[chains, 0] = xp.arange(self.points.n_points, dtype=np.uint32)
        wave.list_sizes[chains], wave.list_sides[chains] = self.points.n_points, 0

    def _certify(self) -> None:
        """Measure the drift of all labels; those that drifted too far become live again, with their weights renewed."""
        far = self._renew(self._groups(everyone=True))
        if far.any():
            self._live = far
            self._put_live()
            self._look()

    def _renew(self, groups: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Measure the drift of groups; return which labels drifted too far, which have weights of their duals now."""
        self._measure_drift(groups)
        far = np.zeros_like(self._live)
        columns = _columns(groups)
        far[columns] = self._drift[columns] > _MOST_DRIFT * self.options.tol
        if far.any():
            renewed = np.unique(np.flatnonzero(far) // GROUP).astype(np.uint32)
            self._set_weights_of_duals(renewed)
            self._set_squares(renewed)
            self._measure_drift(renewed)
        return far

    def _measure_drift(self, groups: NDArray[np.uint32]) -> None:
        host = self.backend.to_host
        for some in self._scratched(groups):
            on_device = self.backend.xp.asarray(some)
            weights, bias = self._weights_of_duals(on_device)
            columns = _columns(some)
            own = host(self.wave.bias_weights)[columns].astype(np.float64)
            off = self.backend.squares(self.wave, on_device, weights) + (own - host(bias)) ** 2
            squares = self.backend.squares(self.wave, on_device) + own**2
            self._drift[columns] = np.sqrt(off / np.maximum(squares, 1e-30))

    def _set_weights_of_duals(self, groups: NDArray[np.uint32]) -> None:
        for some in self._scratched(groups):
            on_device = self.backend.xp.asarray(some)
            weights, bias = self._weights_of_duals(on_device)
            self.wave.W[on_device] = weights
            self.wave.bias_weights.reshape(-1, GROUP)[on_device] = bias.reshape(-1, GROUP)

    def _weights_of_duals(self, groups: Any) -> tuple[Any, Any]:
        return self.backend.weights_of_duals(self.points, self.wave, groups, ordered=self.ordered)

    def _scratched(self, groups: NDArray[np.uint32]) -> list[NDArray[np.uint32]]:
        """Split groups so that the weights of each part fit into the scratch memory."""
        at_a_time = max(1, self.scratch // (4 * GROUP * self.points.n_features))
        return [groups[first : first + at_a_time] for first in range(0, groups.size, at_a_time)]

    def _set_squares(self, groups: NDArray[np.uint32]) -> NDArray[np.float64]:
        columns = _columns(groups)
        own = self.backend.to_host(self.wave.bias_weights)[columns].astype(np.float64)
        squares = self.backend.squares(self.wave, self.backend.xp.asarray(groups)) + own**2
        self.wave.squares.reshape(-1, GROUP)[self.backend.xp.asarray(groups)] = self.backend.xp.asarray(
            squares.astype(np.float32).reshape(-1, GROUP)
        )
        return squares

    def _put_live(self) -> None:
        self.wave.live[:] = self.backend.xp.asarray(self._live.astype(np.float32))

    def _groups(self, *, everyone: bool = False) -> NDArray[np.uint32]:
        if everyone:
            return np.arange(self.wave.n_groups, dtype=np.uint32)
        return np.flatnonzero(self._live.reshape(-1, GROUP).any(axis=1)).astype(np.uint32)


def _columns(groups: NDArray[np.uint32]) -> NDArray[np.intp]:
    return (groups[:, None].astype(np.intp) * GROUP + np.arange(GROUP)).ravel()
