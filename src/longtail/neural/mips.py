"""Maximum inner product search: the labels whose vectors have the largest inner product with a point's vector.

With thousands of labels, exact products are the slow part of a prediction. Each label then also has a code
(product quantisation, 4 bits for each of up to 128 pieces of its vector). A query is compared with all codes by table
look-ups in registers (FAISS's fast scan; Guo et al. 2016, the paper's reference [11]), and only the best candidates by
code are compared exactly. The number of candidates is chosen by measuring recall against exact search on real queries.
Inverted lists of similar labels were tried and dropped: vectors of trained labels are nearly orthogonal, so the best
labels of a query are spread over many lists.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.core.predictions import PAD_LABEL, PAD_SCORE, Predictions
from longtail.core.state import State
from longtail.core.threads import thread_count
from longtail.errors import MissingExtraError, ModelError
from longtail.neural.placement import torch_threads

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

KINDS = ("auto", "exact", "codes")
# Values of all label vectors together (2,048 labels of width 1024). About here a prediction of one point by exact
# search begins to take much longer than by codes (`python -m benchmarks.neural.glas_labels`).
EXACT_UP_TO = 1 << 21
_RECALL_AT = 5
_PIECES = 128  # per vector, at most: 64 bytes per label
_FIRST_CANDIDATES = 50
_SCORES_AT_ONCE = 1 << 24  # bounds the memory of exact search and of exact comparisons: 64 MB
_LARGEST_K_OF_CODES = 100
_CENTROIDS = 16  # per piece: 4 bits


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes of the label vectors.

    Attributes
    ----------
    centroids : array of shape (pieces, 16, values per piece)
        The values that each code stands for.
    candidates : int
        How many labels with the best codes are compared exactly.
    recall : float
        Measured share of the true 5 best labels that are found.
    """

    centroids: Floats
    candidates: int
    recall: float


class LabelSearch:
    """Search over label vectors, approximate with `codes` and exact without.

    Parameters
    ----------
    vectors : array of shape (L, d)
        Label vectors.
    codes : Codes or None, default None
        Codes of the vectors, for approximate search.
    among : bool array of shape (L,) or None, default None
        Labels that may be found; None for all.
    """

    def __init__(self, vectors: Floats, codes: Codes | None = None, *, among: NDArray[np.bool_] | None = None) -> None:
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        self.codes = codes
        self._ids = None if among is None or among.all() else np.flatnonzero(among).astype(np.int32)
        self._searched = self.vectors if self._ids is None else self.vectors[self._ids]
        self._index = None if codes is None else _coded(self._searched, codes.centroids)
        self._on_device: tuple[torch.device, torch.Tensor] | None = None

    @classmethod
    def build(
        cls,
        vectors: Floats,
        queries: Floats,
        *,
        kind: str = "auto",
        recall: float = 0.995,
        n_jobs: int = -1,
        among: NDArray[np.bool_] | None = None,
    ) -> LabelSearch:
        """Build a search; with codes, choose the number of candidates by measuring recall.

        Parameters
        ----------
        vectors : array of shape (L, d)
            Label vectors.
        queries : array of shape (n, d)
            Vectors of points, a few hundred or more, on which recall is measured.
        kind : {"auto", "exact", "codes"}, default "auto"
            "auto" is exact up to 2,048 labels of width 1024 (as many values in all), or if FAISS is not installed.
        recall : float, default 0.995
            Share of the true 5 best labels that the candidates must contain.
        n_jobs : int, default -1
            CPU threads, -1 for all cores.
        among : bool array of shape (L,) or None, default None
            Labels that may be found; None for all.

        Returns
        -------
        LabelSearch
        """
        if kind == "exact" or (kind == "auto" and vectors.size <= EXACT_UP_TO):
            return cls(vectors, among=among)
        if len(vectors) < _CENTROIDS:  # too few to train centroids, and nothing to gain
            return cls(vectors, among=among)
        if kind == "auto" and importlib.util.find_spec("faiss") is None:
            logger.warning(
                "faiss is not installed, so each point is compared with all %d labels (pip install 'longtail[deep]')",
                len(vectors),
            )
            return cls(vectors, among=among)
        search = cls(vectors, Codes(_trained_centroids(vectors), _FIRST_CANDIDATES, 0.0), among=among)
        search._take_enough_candidates(queries, recall, n_jobs)
        return search

    def _take_enough_candidates(self, queries: Floats, recall: float, n_jobs: int) -> None:
        assert self.codes is not None
        exact = LabelSearch(self._searched).top(queries, min(_RECALL_AT, len(self._searched)), n_jobs=n_jobs)
        while True:
            found = recall_of(self.top(queries, exact.k, n_jobs=n_jobs), exact)
            self.codes = replace(self.codes, recall=found)
            if found >= recall or self.codes.candidates >= len(self._searched):
                return
            self.codes = replace(self.codes, candidates=2 * self.codes.candidates)

    def top(self, queries: Floats, k: int, *, device: torch.device | str = "cpu", n_jobs: int = -1) -> Predictions:
        """Return the k best labels per query with their inner products.

        Parameters
        ----------
        queries : array of shape (n, d)
            Vectors of points.
        k : int
            Labels per query.
        device : torch.device or str, default "cpu"
            On a GPU the search is always exact.
        n_jobs : int, default -1
            CPU threads, -1 for all cores.

        Returns
        -------
        Predictions
        """
        found = self._top(queries, min(k, len(self._searched)), torch.device(device), n_jobs)
        labels = found.labels if self._ids is None else self._ids[found.labels]
        missing = ((0, 0), (0, k - found.k))
        scores = np.pad(found.scores, missing, constant_values=PAD_SCORE)
        return Predictions(np.pad(labels, missing, constant_values=PAD_LABEL), scores)

    def _top(self, queries: Floats, k: int, device: torch.device, n_jobs: int) -> Predictions:
        """Return the k best of the searched vectors, by their positions among these."""
        if device.type != "cpu":
            return self._exact_on(device, queries, k)
        if self._index is None or k > _LARGEST_K_OF_CODES:
            with torch_threads(n_jobs):
                return self._exact(queries, k)
        return self._by_code(np.ascontiguousarray(queries, np.float32), k, n_jobs)

    def _by_code(self, queries: Floats, k: int, n_jobs: int) -> Predictions:
        assert self.codes is not None
        assert self._index is not None
        n_candidates = min(max(self.codes.candidates, 4 * k), len(self._searched))
        step = max(_SCORES_AT_ONCE // (n_candidates * queries.shape[1]), 1)
        parts = []
        for start in range(0, len(queries), step):
            block = queries[start : start + step]
            with _faiss_threads(thread_count(n_jobs)):
                _, labels = self._index.search(block, n_candidates)
            scores = np.matmul(self._searched[labels], block[:, :, None])[:, :, 0]
            parts.append(best_first(labels, scores, k))
        return Predictions.concatenate(parts or [best_first(np.zeros((0, k), int), np.zeros((0, k), np.float32), k)])

    def _exact(self, queries: Floats, k: int) -> Predictions:
        points, labels = torch.from_numpy(np.asarray(queries, np.float32)), _tensor(self._searched).T
        step = max(_SCORES_AT_ONCE // max(labels.shape[1], 1), 1)
        parts = [Predictions.from_dense((part @ labels).numpy(), k) for part in torch.split(points, step)]
        return Predictions.concatenate(parts)

    def _exact_on(self, device: torch.device, queries: Floats, k: int) -> Predictions:
        if self._on_device is None or self._on_device[0] != device:
            self._on_device = device, _tensor(self._searched).to(device)
        labels = self._on_device[1].T
        step = max(_SCORES_AT_ONCE // max(labels.shape[1], 1), 1)
        best = [(part.to(device) @ labels).topk(k) for part in torch.split(torch.from_numpy(queries), step)]
        found = torch.cat([b.indices for b in best]), torch.cat([b.values for b in best])
        return best_first(found[0].cpu().numpy(), found[1].float().cpu().numpy(), k)

    def state(self) -> State:
        state = State(arrays={"vectors": self.vectors})
        if self.codes is not None:  # the codes themselves are quickly computed again from the centroids
            state.arrays["centroids"] = self.codes.centroids
            state.values |= {"candidates": self.codes.candidates, "recall": self.codes.recall}
        return state

    @classmethod
    def from_state(cls, state: State, n_labels: int, *, among: NDArray[np.bool_] | None = None) -> LabelSearch:
        """Undo `state`, or raise ModelError if the arrays do not fit together."""
        vectors = state.array("vectors", np.float32, (n_labels, None))
        codes = None
        if "candidates" in state.values:
            centroids = state.array("centroids", np.float32, (None, _CENTROIDS, None))
            if centroids.shape[0] * centroids.shape[2] != vectors.shape[1] or not centroids.shape[0]:
                raise ModelError(f"the centroids are not those of vectors of {vectors.shape[1]} numbers")
            codes = Codes(centroids, state.whole("candidates", 1), float(state.values["recall"]))
        return cls(vectors, codes, among=among)


def recall_of(found: Predictions, exact: Predictions) -> float:
    """Return the recall of an approximate search.

    Parameters
    ----------
    found : Predictions
        Labels of the approximate search.
    exact : Predictions
        Labels of the exact search.

    Returns
    -------
    float
        Share of the places filled with a label that scores at least as high as the last exact one, so that labels with
        equal vectors count as equal.
    """
    worst = exact.scores[:, -1:]
    return float((found.scores >= worst - 1e-5 * np.abs(worst)).mean())


def _trained_centroids(vectors: Floats) -> Floats:
    """Train 16 centroids per piece, in one thread, so that the model does not depend on the number of threads."""
    faiss = _faiss()
    width = vectors.shape[1]
    values = next(n for n in range(-(-width // _PIECES), width + 1) if width % n == 0)
    quantiser = faiss.ProductQuantizer(width, width // values, 4)
    quantiser.cp.min_points_per_centroid = 1  # otherwise FAISS prints to stderr that it wants more
    with _faiss_threads(1):
        quantiser.train(np.ascontiguousarray(vectors, np.float32))
    return np.asarray(faiss.vector_to_array(quantiser.centroids), np.float32).reshape(-1, _CENTROIDS, values)


def _coded(vectors: Floats, centroids: Floats) -> Any:
    faiss = _faiss()
    index = faiss.IndexPQFastScan(vectors.shape[1], len(centroids), 4, faiss.METRIC_INNER_PRODUCT)
    faiss.copy_array_to_vector(np.ascontiguousarray(centroids, np.float32).ravel(), index.pq.centroids)
    index.is_trained = True
    index.add(vectors)
    return index


def best_first(labels: NDArray[Any], scores: Floats, k: int) -> Predictions:
    """Return the k best labels per row, best first, ties by the lower label."""
    order = np.lexsort((labels, -scores), axis=1)[:, :k]
    return Predictions(np.take_along_axis(labels, order, 1), np.take_along_axis(scores, order, 1))


def _tensor(vectors: Floats) -> torch.Tensor:
    return torch.from_numpy(vectors if vectors.flags.writeable else vectors.copy())


@contextlib.contextmanager
def _faiss_threads(number: int) -> Iterator[None]:
    """Set the number of FAISS threads inside the block and restore the caller's number after it."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss-cpu", "deep", "approximate search among labels") from error
    return faiss
