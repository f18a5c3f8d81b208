"""What only the inside of a training shows: the gap and the drift in float64, and the time of each kernel."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from longtail import DiSMEC
from longtail.core.run import Run
from longtail.linear.gpu.devices import chain_width, open_gpus
from longtail.linear.gpu.train import Job, train_waves
from longtail.objectives import resolve_weighting

_WORK = 1e12  # products of values and labels in float64 that a check may take
_BYTES = 4e9  # of float64 arrays at a time


@dataclass
class Checked:
    """Largest gap and drift of the labels that were looked at, in float64, for the squared hinge."""

    gap: float = 0.0
    drift: float = 0.0
    labels: int = 0
    share: float = 1.0  # of the labels
    seconds: float = 0.0
    _blocks: int = field(default=0, repr=False)

    def as_row(self) -> dict[str, Any]:
        """Return the figures by name."""
        return {"check_gap": self.gap, "check_drift": self.drift, "check_labels": self.labels}

    def look_at(self, backend: Any, points: Any, wave: Any, labels: Any) -> None:
        """Check a wave: W from its dual variables against its own, and the gap of the weights that it will give."""
        import cupyx.scipy.sparse as on_gpu

        xp = backend.xp
        started = time.perf_counter()
        starts = xp.append(points.rows[:-1, 0], np.uint32(points.entries.shape[0] - 8)).astype(np.int32)
        features = (points.entries[:-8, 0] // np.uint32(128)).astype(np.int32)
        values = xp.ascontiguousarray(points.entries[:-8, 1]).view(np.float32).astype(np.float64)
        X = on_gpu.csr_matrix((values, features, starts), shape=(points.n_points, points.n_features))
        X_T = X.T.tocsr()
        weights = points.rows[:-1, 3].copy().view(np.float32).astype(np.float64)[:, None]
        block = 32 * int(np.clip(_BYTES / (64 * 32 * (points.n_points + points.n_features)), 1, 8))
        for first in range(0, labels.size, block):
            self._blocks += 1
            if int(self._blocks * self.share) > int((self._blocks - 1) * self.share):
                self._check(xp, X, X_T, points.bias, weights, wave, slice(first, min(first + block, labels.size)))
        self.seconds += time.perf_counter() - started

    def _check(self, xp: Any, X: Any, X_T: Any, bias: float, weights: Any, wave: Any, columns: slice) -> None:
        groups = slice(columns.start // 32, -(-columns.stop // 32))
        n = columns.stop - columns.start
        W = wave.W[groups].transpose(1, 0, 2).reshape(X.shape[1], -1)[:, :n].astype(np.float64)
        raw = wave.duals[groups].transpose(1, 0, 2).reshape(X.shape[0], -1)[:, :n]
        w_bias = wave.bias_weights[columns].astype(np.float64)
        negative, ay = xp.signbit(raw), raw.astype(np.float64)
        costs = xp.where(negative, wave.cost, wave.costs[columns].astype(np.float64)[None]) * weights
        margins = X @ W + bias * w_bias
        slack = xp.maximum(xp.where(negative, 1 + margins, 1 - margins), 0)
        primal = 0.5 * ((W**2).sum(0) + w_bias**2) + (costs * slack**2).sum(0)
        del margins, slack
        V, v_bias = X_T @ ay, bias * ay.sum(0)
        dual = (xp.abs(ay) - ay**2 / (4 * costs)).sum(0) - 0.5 * ((V**2).sum(0) + v_bias**2)
        length = xp.sqrt((W**2).sum(0) + w_bias**2)
        drift = xp.sqrt(((V - W) ** 2).sum(0) + (v_bias - w_bias) ** 2) / length
        self.gap = max(self.gap, float(((primal - dual) / primal).max()))
        self.drift = max(self.drift, float(drift.max()))
        self.labels += n


def checked_and_profiled(X: sparse.csr_matrix, Y: sparse.csr_matrix, model: DiSMEC) -> tuple[Checked, dict[str, Any]]:
    """Train on a GPU; check every label, or evenly chosen blocks of them, and take the time of each kernel."""
    checked = Checked(share=min(1.0, _WORK / (2.0 * X.nnz * job_of(X, Y, model).order.size)))
    found = profile(X, Y, model, checked=checked)
    found["seconds"] = round(found["seconds"] - checked.seconds, 3)
    return checked, found


def profile(
    X: sparse.csr_matrix, Y: sparse.csr_matrix, model: DiSMEC, width: int | None = None, checked: Checked | None = None
) -> dict[str, Any]:
    """Train once more with events around every launch: milliseconds per kernel, waves, visits per second."""
    import cupy

    job, marks, visits = job_of(X, Y, model), defaultdict(list), [0]
    (backend,) = backends(job, width)
    launch = backend._launch  # type: ignore[attr-defined]

    def timed(kernel: str, grid: Sequence[int], threads: int, arguments: tuple, shared: int = 0) -> None:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        launch(kernel, grid, threads, arguments, shared)
        end.record()
        marks[kernel].append((begin, end))

    def count(backend: Any, points: Any, wave: Any, labels: Any) -> None:
        visits[0] += int(wave.visits[0])
        if checked is not None:
            checked.look_at(backend, points, wave, labels)

    backend._launch = timed  # type: ignore[attr-defined]
    job.inspect = count
    started = time.perf_counter()
    found = train_waves([backend], job, Run())
    seconds = time.perf_counter() - started
    cupy.cuda.Device().synchronize()
    milliseconds = {
        kernel: round(sum(cupy.cuda.get_elapsed_time(*pair) for pair in pairs), 2) for kernel, pairs in marks.items()
    }
    launches = {kernel: len(pairs) for kernel, pairs in marks.items()}
    steps = max(milliseconds.get("steps", 0.0), 1e-3)
    return {
        "seconds": round(seconds, 3), "waves": found.n_waves, "width": backend.width, "milliseconds": milliseconds,
        "launches": launches, "visits": visits[0], "visits_per_second": visits[0] / steps * 1e3,
        "drift": float(found.drift.max()),
    }  # fmt: skip


def job_of(X: sparse.csr_matrix, Y: sparse.csr_matrix, model: DiSMEC) -> Job:
    """Return the job that `model.fit(X, Y)` would run."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    own, _ = resolve_weighting(model.weighting).coefficients(counts, X.shape[0])
    how: dict[str, Any] = {"seed": model.random_state, "ordered": model.reproducible, "dtype": model.weight_dtype}
    return Job(X, Y, model.solver_options(), own, None, **how)


def backends(job: Job, width: int | None = None) -> list[Any]:
    """Return the first GPU; `width` is the number of labels per chain, by default that of DiSMEC."""
    return open_gpus(job.options.loss, width or chain_width(job.X.shape[0], job.X.nnz))[:1]
