"""One-vs-rest training whose cost follows the evidence: rare labels on working sets of their own.

A block of the full solver looks at every point for 32 labels, so that its cost grows as points x labels. For a label
with a handful of points nearly all of that is spent on points that have nothing to do with it. `rare_kernels` trains
such a label on a problem with a few hundred rows; here is which labels these are, and the data in the form that the
kernels read. What is known about accuracy and time is in docs/dismec.md.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.memory import read_only
from longtail.core.workspace import Workspace
from longtail.linear import limits
from longtail.linear.by_feature import by_feature, moments
from longtail.linear.options import SolverOptions, TrainedBlock
from longtail.linear.rare_kernels import Settings, train_labels
from longtail.linear.rare_problem import Points, Sample, Scratch

# The logistic loss has a share at every point, and with the hinge, whose slacks weigh the same however small, the
# sample stands badly for the others: both are left to the full solver.
LOSS = "squared-hinge"
LEAST_WORK = 1e8  # points x labels: below, the full solver takes seconds
LEAST_SHARE = 0.3  # of the labels that are rare: below, the others take most of the time anyway
GROUP = 64  # labels that are trained, and kept in a checkpoint, together

_LARGE = 100_000  # points from which on more labels are rare: a pass over all points takes long
_MOST_POSITIVES = (15, 30)  # of a rare label, in a small and in a large training set
_FOUND = (10, 30)  # near negatives that a search may add for each positive, likewise
_SAMPLE = 256  # far points that stand for all
_COMMON = 0.002  # share of the points from which on a feature is left to the sample
_ROUNDS = 3  # solves per label
_SHARE, _SHARES = 1.2, (0.1, 0.25)  # `Settings.share`: this over the root of the features per point, within limits
_PASSES_PER_LOOK = 3


def rare_labels(Y: sparse.csr_matrix, loss: str) -> NDArray[np.bool_]:
    """Return which labels are to be trained on working sets."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    rare = (counts > 0) & (counts <= _MOST_POSITIVES[Y.shape[0] >= _LARGE])
    pays = Y.shape[0] * Y.shape[1] >= LEAST_WORK and rare.sum() >= LEAST_SHARE * (counts > 0).sum()
    return rare if pays and loss == LOSS else np.zeros_like(rare)


def identical_labels(Y: sparse.csr_matrix, weights: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return for each label the first one with the same points and the same weight: they have the same classifier."""
    by_label = Y.tocsc()
    by_label.sort_indices()
    first: dict[tuple[bytes, float], int] = {}
    found = np.arange(Y.shape[1])
    for label in range(Y.shape[1]):
        points = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
        found[label] = first.setdefault((points.tobytes(), float(weights[label])), label)
    return found


class WorkingSetSolver:
    """A training set in the form that `rare_kernels` reads; trains groups of rare labels.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    Y : (n, L) csr_matrix
        Label indicator.
    options : SolverOptions
        C and when to stop; the loss is the squared hinge.
    positive_weights : (L,) array
        Weight of each label's positives.
    point_weights : (n,) array, optional
        Weight of each point; all 1 by default.
    seed : int, default 0
        Seed of the far sample and of the order in which rows are visited.
    workspace : Workspace, optional
        Where the copy of X by feature is; in memory by default.
    """

    def __init__(
        self,
        X: sparse.csr_matrix,
        Y: sparse.csr_matrix,
        options: SolverOptions,
        *,
        positive_weights: NDArray[np.floating],
        point_weights: NDArray[np.floating] | None = None,
        seed: int = 0,
        workspace: Workspace | None = None,
    ) -> None:
        self.options, self.seed = options, seed
        self.n_points, self.n_features = X.shape
        by_label = Y.tocsc()
        members = by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32)
        self._members = read_only(members[0]), read_only(members[1])
        self._costs = read_only(np.asarray(options.C * positive_weights, np.float32))
        weights = np.ones(X.shape[0], np.float32) if point_weights is None else np.asarray(point_weights, np.float32)
        self._points = _points(X, weights, workspace or Workspace())
        # The more features a point has, the smaller are the gifts that make it near.
        self._share = np.float32(np.clip(_SHARE / np.sqrt(max(X.nnz / X.shape[0], 1)), *_SHARES))
        self._sample = _sample(X, min(_SAMPLE, X.shape[0]), seed)
        self._scratch = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the arrays of threads, which other processes make for themselves."""
        return {name: value for name, value in vars(self).items() if name != "_scratch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _scratch=threading.local())

    def memory(self) -> int:
        """Return the bytes of a thread's arrays: three over all points, two over all features."""
        return int(4 * (3 * self.n_points + 2 * self.n_features))

    def train(self, labels: NDArray[np.intp], *, duals: sparse.csr_matrix | None = None) -> TrainedBlock:
        """Train some labels, each on its own; `duals` has no meaning here."""
        options = self.options
        max_looks = max(options.max_passes // _PASSES_PER_LOOK, 1)
        settings = Settings(
            np.float32(options.C), np.float32(options.bias), float(options.tol), max_looks, _ROUNDS,
            _FOUND[self.n_points >= _LARGE], self._share,
        )  # fmt: skip
        prune = np.float32(min(options.prune, float(np.finfo(np.float32).max)))
        ptr, features, values, intercepts, gaps = train_labels(
            self._points, self._sample, self._members, read_only(labels), self._costs, settings, prune, self.seed,
            self._own_scratch(),
        )  # fmt: skip
        weights = sparse.csr_matrix((values, features, ptr), shape=(labels.size, self.n_features))
        finite = np.isfinite(intercepts) & np.isfinite(gaps)
        limits.check_finite(np.where(finite, 0, np.nan)[None, :], gaps, labels, "label", options.C)
        return TrainedBlock(weights, intercepts, gaps, np.zeros(2, np.int64))

    def _own_scratch(self) -> Scratch:
        """Return the arrays of this thread."""
        if not hasattr(self._scratch, "arrays"):
            n, d = self.n_points, self.n_features
            self._scratch.arrays = Scratch(
                np.full(d, -1, np.int32), np.zeros(n, np.bool_), np.zeros(n, np.float32), np.empty(d, np.int32),
                np.empty(n, np.int32), np.empty(n, np.float32),
            )  # fmt: skip
        arrays: Scratch = self._scratch.arrays
        return arrays


def compile_kernels() -> None:
    """Compile the kernels of rare labels, or load them from Numba's cache, by training two labels on a few points."""
    X = sparse.csr_matrix(np.eye(8, 4, dtype=np.float32) + np.float32(0.5))
    Y = sparse.csr_matrix(np.eye(8, 2, dtype=np.float32))
    options = SolverOptions(LOSS, C=1.0, bias=0.5, tol=0.03, max_passes=10, prune=0.05)
    WorkingSetSolver(X, Y, options, positive_weights=np.ones(2)).train(np.arange(2))


def _points(X: sparse.csr_matrix, weights: NDArray[np.float32], workspace: Workspace) -> Points:
    common = _COMMON * X.shape[0]
    entries = by_feature(X, workspace, common=common)
    found = Points(
        X.indptr.astype(np.int64), X.indices.view(np.uint32), X.data, weights,
        np.float32(weights.sum(dtype=np.float64)), *entries, *moments(entries, weights),
        np.diff(entries.ptr_of_features()) >= common,
    )  # fmt: skip
    arrays: dict[str, Any] = {
        name: read_only(part) for name, part in found._asdict().items() if isinstance(part, np.ndarray)
    }
    return found._replace(**arrays)


def _sample(X: sparse.csr_matrix, size: int, seed: int) -> Sample:
    points = np.sort(np.random.default_rng(seed).choice(X.shape[0], size, replace=False)).astype(np.int32)
    by_feature = X[points].tocsc()
    by_feature.sort_indices()
    number = np.full(X.shape[0], -1, np.int32)
    number[points] = np.arange(size)
    by_row = by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), by_feature.data
    return Sample(*map(read_only, (points, number, *by_row)))
