"""Train all labels wave by wave: as many at a time as fit into the memory of the device, on one device or several."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.progress import reported
from longtail.core.run import Run
from longtail.errors import LongtailError, first_line
from longtail.linear import limits
from longtail.linear.gpu.backend import GROUP, Backend, GpuError, Pruned, Start
from longtail.linear.gpu.join import joined_by_feature
from longtail.linear.gpu.points import Points, Wave
from longtail.linear.gpu.rounds import Rounds
from longtail.linear.options import SolverOptions
from longtail.linear.rare import identical_labels
from longtail.linear.weights import Weights, id_type, numbered

_FROM_START = 2e10  # points x labels from which labels start at the solution without positives
_MOST_GROUPS = 2**15  # in a wave; a grid of CTAs has at most 65,535 rows
_USABLE = 0.9  # of the free memory; the rest is for what is computed on the way
_SCRATCH = 32  # the 32nd part of the free memory is for weights that are computed again


@dataclass(frozen=True, eq=False)
class TrainedWave:
    """Outcome of one wave, on the host."""

    labels: NDArray[np.intp]  # rising
    weights: Pruned
    intercepts: NDArray[np.float32]
    gaps: NDArray[np.float64]
    drift: NDArray[np.float64]
    passes: NDArray[np.int64]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as plain arrays, for a checkpoint."""
        w = self.weights
        arrays: dict[str, NDArray[Any]] = {"labels": self.labels, "intercepts": self.intercepts, "gaps": self.gaps}
        arrays |= {"drift": self.drift, "passes": self.passes}
        return arrays | {"indptr": w.indptr, "classifiers": w.classifiers, "values": w.values}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> TrainedWave:
        """Undo `to_arrays`."""
        weights = Pruned(arrays["indptr"], arrays["classifiers"], arrays["values"])
        return cls(
            arrays["labels"], weights, arrays["intercepts"], arrays["gaps"], arrays["drift"], arrays["passes"]
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trained:
    """All labels."""

    weights: Weights
    gaps: NDArray[np.float64]
    drift: NDArray[np.float64]
    n_waves: int


@dataclass(eq=False)
class Job:
    """What is to be trained; `train_waves` runs it.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    Y : (n, L) csr_matrix
        Label indicator.
    options : SolverOptions
        Loss, C and when to stop.
    own : (L,) array
        Weight of each label's positives.
    point_weights : (n,) array of float32 or None
        Point weights; all 1 for None.
    seed : int
        Seed of the order in which points are visited.
    ordered : bool
        The same bits every time, whatever the memory and the number of devices.
    dtype : {"float16", "float32"}
        Type in which weights are kept; float32 is taken, too, where a weight exceeds the range of float16.
    inspect : callable, optional
        Called as `inspect(backend, points, wave, labels)` with each trained wave before it is pruned, for checks.
    """

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    options: SolverOptions
    own: NDArray[np.floating]
    point_weights: NDArray[np.float32] | None
    seed: int
    ordered: bool
    dtype: str
    inspect: Callable[[Backend, Points, Wave, NDArray[np.intp]], None] | None = None
    by_label: sparse.csc_matrix = field(init=False)
    same_as: NDArray[np.intp] = field(init=False)  # the first label with the same points, which is trained for it
    number: NDArray[np.int32] = field(init=False)  # of the classifier of each label that is trained
    order: NDArray[np.intp] = field(init=False)  # labels that are trained, the most frequent first

    def __post_init__(self) -> None:
        self.by_label = self.Y.tocsc()
        counts = np.diff(self.by_label.indptr)
        self.same_as = identical_labels(self.Y, self.own)
        trained = np.flatnonzero((counts > 0) & (self.same_as == np.arange(counts.size)))
        self.number = numbered(trained, counts.size)
        self.order = trained[np.argsort(-counts[trained], kind="stable")]
        weights = np.ones(1, np.float32) if self.point_weights is None else self.point_weights
        limits.check_costs(self.options.C, self.options.C * self.own, counts > 0, "label", weights)

    @property
    def n_groups(self) -> int:
        return -(-self.order.size // GROUP)

    @property
    def from_start(self) -> bool:
        return self.X.shape[0] * self.order.size > _FROM_START and self.options.loss != "logistic"


def train_waves(backends: Sequence[Backend], job: Job, run: Run) -> Trained:
    """Train every label that has points.

    Parameters
    ----------
    backends : sequence of Backend
        Devices, each of which takes the next wave when it is free.
    job : Job
        What to train.
    run : Run
        Progress and checkpoint.

    Returns
    -------
    Trained

    Raises
    ------
    GpuError
        If 32 labels do not fit into the memory of a device, or a device is lost. Finished waves are in the checkpoint,
        if there is one.
    TrainingError
        If weights overflow.
    """
    with reported(run.progress, "training labels", job.order.size) as advance:
        plan = _Plan(job, run, advance)
        plan.read_finished()
        share = -(-plan.n_left // len(backends))
        devices = [_Device(backend, plan, share) for backend in backends]
        if plan.n_left == 0:
            pass  # all of it came from the checkpoint
        elif len(devices) == 1:
            devices[0].work()
        else:
            _in_parallel(devices, plan)
    return _joined(job, plan.finished)


class _Plan:
    """Groups of labels that are still to be trained, and waves that are finished; shared by all devices."""

    def __init__(self, job: Job, run: Run, advance: Callable[..., None]) -> None:
        self.job, self.run, self._advance = job, run, advance
        self.finished: list[TrainedWave] = []
        self._todo = np.ones(job.n_groups, np.bool_)
        self._lock = threading.Lock()
        self.stopped = False

    @property
    def n_left(self) -> int:
        return int(self._todo.sum())

    def read_finished(self) -> None:
        """Take finished waves from the checkpoint; they need not have the size of those to come."""
        group_of = np.full(self.job.Y.shape[1], -1)
        group_of[self.job.order] = np.arange(self.job.order.size) // GROUP
        while self.run.checkpoint and (arrays := self.run.checkpoint.get(f"wave-{len(self.finished):06d}")):
            wave = TrainedWave.from_arrays(arrays)
            self._todo[group_of[wave.labels]] = False
            self.finished.append(wave)
            self._advance(wave.labels.size)

    def take(self, most: int) -> NDArray[np.intp]:
        """Return up to `most` neighbouring groups, which nobody else gets; none if there are no more."""
        with self._lock:
            left = np.flatnonzero(self._todo)
            if self.stopped or not left.size:
                return left[:0]
            run_ends = np.flatnonzero(np.diff(left) > 1)
            taken = left[: min(most, int(run_ends[0]) + 1 if run_ends.size else left.size)]
            self._todo[taken] = False
            return taken

    def give_back(self, groups: NDArray[np.intp]) -> None:
        """Undo `take`, for a wave that did not fit."""
        with self._lock:
            self._todo[groups] = True

    def finish(self, wave: TrainedWave) -> None:
        """Keep a finished wave."""
        with self._lock:
            if self.run.checkpoint:
                self.run.checkpoint.put(f"wave-{len(self.finished):06d}", wave.to_arrays())
            self.finished.append(wave)
            self._advance(wave.labels.size)

    def labels_done(self) -> str:
        """Return how many labels are finished, in words."""
        done = sum(wave.labels.size for wave in self.finished)
        kept = "; finished ones are kept, resume to go on" if self.run.checkpoint and done else ""
        return f"{done:,} of {self.job.order.size:,} labels were finished{kept}"


class _Device:
    """One device at work on a plan."""

    def __init__(self, backend: Backend, plan: _Plan, share: int) -> None:
        self.backend, self.plan, self.job, self.share = backend, plan, plan.job, share
        self.scratch = 0

    def work(self) -> None:
        """Train waves until none is left."""
        with self.backend.active(), self._errors():
            job = self.job
            points = Points(self.backend, job.X, job.point_weights, job.options.bias, job.seed)
            norms = self.backend.to_host(points.rows)[:-1, 2].view(np.float32)
            limits.check_norms(norms[points.places], np.arange(points.n_points))
            self.backend.release()
            most = self._groups_that_fit(points)
            start = self._start(points) if job.from_start else None
            while (groups := self.plan.take(most)).size:
                try:
                    wave = self._train(points, groups, start)
                except self.backend.memory_errors:
                    self.plan.give_back(groups)
                    self.backend.release()
                    if groups.size == 1:
                        raise
                    most = max(1, groups.size // 2)
                else:
                    self.plan.finish(wave)
            del points, start
            self.backend.release()

    def _groups_that_fit(self, points: Points) -> int:
        free = self.backend.free_bytes()
        self.scratch = free // _SCRATCH
        each = Wave.bytes_per_group(points.n_points, points.n_features, self.backend.width)
        fit = int((_USABLE * free - max(self.scratch, 4 * GROUP * points.n_features)) // each)
        if fit < 1:
            raise GpuError(
                f"{self.backend.name}: {GROUP} labels need {each / 1e9:.1f} GB of GPU memory for {points.n_points:,} "
                f"points and {points.n_features:,} features, {free / 1e9:.1f} GB are free; free memory on the GPU, use "
                "fewer features, or set device='cpu'"
            )
        return max(1, min(fit, self.share, _MOST_GROUPS))

    def _start(self, points: Points) -> Start:
        empty = (np.zeros(2, np.int64), np.zeros(0, np.uint32))
        wave = Wave(self.backend, points, empty, np.full(1, self.job.options.C), self.job.options.C)
        return self._rounds(points, wave).solve_without_positives()

    def _rounds(self, points: Points, wave: Wave) -> Rounds:
        job = self.job
        return Rounds(
            self.backend, points, wave, job.options, seed=job.seed, ordered=job.ordered, scratch=self.scratch,
            note=self.plan.run.progress.note,
        )  # fmt: skip

    def _train(self, points: Points, groups: NDArray[np.intp], start: Start | None) -> TrainedWave:
        job, xp = self.job, self.backend.xp
        labels = job.order[groups[0] * GROUP : (groups[-1] + 1) * GROUP]
        members = job.by_label[:, labels]
        costs = job.options.C * job.own[labels]
        places = points.places[members.indices]
        wave = Wave(
            self.backend, points, (members.indptr, places), costs, job.options.C, first_group=int(groups[0])
        )  # fmt: skip
        outcome = self._rounds(points, wave).run(start)
        bias_weights = self.backend.to_host(wave.bias_weights)[: labels.size]
        _check_finite(outcome.gaps, bias_weights, labels, job.options.C)
        if job.inspect is not None:
            job.inspect(self.backend, points, wave, labels)
        wave.free_all_but_weights()
        columns = np.argsort(labels, kind="stable")
        threshold = min(job.options.prune, float(np.finfo(np.float32).max))
        ids = xp.asarray(job.number[labels[columns]].astype(id_type(job.order.size)))
        pruned = self.backend.prune(points, wave, xp.asarray(columns.astype(np.uint32)), ids, threshold, job.dtype)
        intercepts = (bias_weights * np.float32(job.options.bias)).astype(np.float32)
        return TrainedWave(
            labels[columns], pruned, intercepts[columns], outcome.gaps[columns], outcome.drift[columns], outcome.passes
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Say what happened to the device, and what is kept."""
        try:
            yield
        except self.backend.memory_errors as error:
            raise GpuError(
                f"{self.backend.name} ran out of memory ({first_line(error)}); {self.plan.labels_done()}; free memory "
                "on the GPU, or set device='cpu'"
            ) from error
        except self.backend.device_errors as error:
            raise GpuError(
                f"{self.backend.name} failed ({first_line(error)}); {self.plan.labels_done()}; look at nvidia-smi and "
                "the system log, or set device='cpu'"
            ) from error


def _in_parallel(devices: list[_Device], plan: _Plan) -> None:
    """Let each device work in its own thread; an error or an interrupt ends all of them after their current waves."""
    errors: list[BaseException] = []

    def work(device: _Device) -> None:
        try:
            device.work()
        except BaseException as error:
            plan.stopped = True
            errors.append(error)

    threads = [threading.Thread(target=work, args=(device,), daemon=True) for device in devices]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        plan.stopped = True
        for thread in threads:
            thread.join()
    if errors:
        raise next((error for error in errors if isinstance(error, LongtailError)), errors[0])


def _check_finite(gaps: NDArray[np.float64], biases: NDArray[np.float32], labels: NDArray[np.intp], C: float) -> None:
    limits.check_finite(biases[None], gaps, labels, "label", C)


def _joined(job: Job, waves: list[TrainedWave]) -> Trained:
    n_labels = job.Y.shape[1]
    intercepts = np.zeros(n_labels, np.float32)
    gaps, drift = np.zeros(n_labels), np.zeros(n_labels)
    for wave in waves:
        intercepts[wave.labels], gaps[wave.labels], drift[wave.labels] = wave.intercepts, wave.gaps, wave.drift
    ptr, classifiers, values = joined_by_feature([wave.weights for wave in waves], job.X.shape[1])
    trained, of_label = np.sort(job.order), job.number[job.same_as]
    weights = Weights(ptr, classifiers, values, intercepts[trained], of_label)
    return Trained(weights, gaps[job.same_as], drift[job.same_as], len(waves))
