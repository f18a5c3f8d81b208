"""Maximum inner product search: the labels whose vectors have the largest inner product with a point's vector.

Label vectors all have one length, so the largest inner product is the smallest angle, and labels of similar direction
can be searched together: they are put into lists around centroids (FAISS's inverted file), and a query looks into the
lists whose centroids are nearest. How many lists is measured, on real queries, against exact search.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.core.predictions import PAD_LABEL, PAD_SCORE, Predictions
from longtail.core.run import thread_count
from longtail.core.state import State
from longtail.errors import MissingExtraError
from longtail.neural.placement import torch_threads

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

KINDS = ("auto", "exact", "lists")
EXACT_UP_TO = 50_000  # labels; below, one product of matrices is fast enough
_RECALL_AT = 5
_SCORES_AT_ONCE = 1 << 24  # bounds the memory of exact search: 64 MB
_LARGEST_K_OF_LISTS = 100  # more labels a point than this need more lists than were measured for


@dataclass(frozen=True, eq=False)
class Lists:
    """Labels by centroid: `centroids` (lists, d), `list_of` each label (L,), how many lists a query looks into, and
    which share of the true 5 best labels it then found."""

    centroids: Floats
    list_of: NDArray[np.int64]
    probes: int
    recall: float


class LabelSearch:
    """Search among unit vectors of labels, (L, d); with `lists` approximately, without exactly."""

    def __init__(self, vectors: Floats, lists: Lists | None = None) -> None:
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        self.lists = lists
        self._index = None if lists is None else _filled_index(self.vectors, lists)
        self._on_device: tuple[torch.device, torch.Tensor] | None = None

    @classmethod
    def build(
        cls, vectors: Floats, queries: Floats, *, kind: str = "auto", recall: float = 0.995, seed: int = 0,
        n_jobs: int = -1,
    ) -> LabelSearch:  # fmt: skip
        """queries: vectors of points, a few hundred or more, on which the number of lists to look into is chosen, the
        fewest that reach this share of the true 5 best labels. kind: "exact", "lists", or "auto" by the labels."""
        if kind == "exact" or (kind == "auto" and len(vectors) <= EXACT_UP_TO):
            return cls(vectors)
        if kind == "auto" and importlib.util.find_spec("faiss") is None:
            logger.warning("faiss is not installed, so all %d labels are compared with every point", len(vectors))
            return cls(vectors)
        exact = cls(vectors).top(queries, min(_RECALL_AT, len(vectors)), n_jobs=n_jobs)
        centroids, list_of = _clustered(np.ascontiguousarray(vectors, np.float32), seed, n_jobs)
        search = cls(vectors, Lists(centroids, list_of, 1, 0.0))
        search._look_into_enough_lists(queries, exact, recall, n_jobs)
        return search

    def _look_into_enough_lists(self, queries: Floats, exact: Predictions, recall: float, n_jobs: int) -> None:
        assert self.lists is not None
        assert self._index is not None
        while True:
            found = recall_of(self.top(queries, exact.k, n_jobs=n_jobs), exact)
            self.lists = replace(self.lists, recall=found)
            if found >= recall or self.lists.probes >= len(self.lists.centroids):
                return
            self.lists = replace(self.lists, probes=2 * self.lists.probes)
            self._index.nprobe = self.lists.probes

    def top(self, queries: Floats, k: int, *, device: torch.device | str = "cpu", n_jobs: int = -1) -> Predictions:
        """The k best labels of each query with their inner products. On a GPU the search is always exact."""
        device = torch.device(device)
        if device.type != "cpu":
            return self._exact_on(device, queries, k)
        if self._index is None or self.lists is None or k > _LARGEST_K_OF_LISTS:
            with torch_threads(n_jobs):
                return self._exact(queries, k)
        import faiss

        faiss.omp_set_num_threads(thread_count(n_jobs))
        scores, labels = self._index.search(np.ascontiguousarray(queries, np.float32), k)
        scores[labels < 0] = PAD_SCORE
        return best_first(labels, scores)

    def _exact(self, queries: Floats, k: int) -> Predictions:
        points, labels = torch.from_numpy(np.asarray(queries, np.float32)), _tensor(self.vectors).T
        step = max(_SCORES_AT_ONCE // max(labels.shape[1], 1), 1)
        parts = [Predictions.from_dense((part @ labels).numpy(), k) for part in torch.split(points, step)]
        return Predictions.concatenate(parts)

    def _exact_on(self, device: torch.device, queries: Floats, k: int) -> Predictions:
        if self._on_device is None or self._on_device[0] != device:
            self._on_device = device, _tensor(self.vectors).to(device)
        labels = self._on_device[1].T
        step = max(_SCORES_AT_ONCE // max(labels.shape[1], 1), 1)
        best = [(part.to(device) @ labels).topk(k) for part in torch.split(torch.from_numpy(queries), step)]
        found = torch.cat([b.indices for b in best]), torch.cat([b.values for b in best])
        return best_first(found[0].cpu().numpy(), found[1].cpu().numpy())

    def state(self) -> State:
        state = State(arrays={"vectors": self.vectors})
        if self.lists is not None:
            state.arrays |= {"centroids": self.lists.centroids, "list_of": self.lists.list_of}
            state.values |= {"probes": self.lists.probes, "recall": self.lists.recall}
        return state

    @classmethod
    def from_state(cls, state: State) -> LabelSearch:
        lists = None
        if "probes" in state.values:
            lists = Lists(
                state.arrays["centroids"], state.arrays["list_of"], state.values["probes"], state.values["recall"]
            )
        return cls(state.arrays["vectors"], lists)


def recall_of(found: Predictions, exact: Predictions) -> float:
    """The mean share of the exact labels of a query that were found."""
    hits = (found.labels[:, :, None] == exact.labels[:, None, :]) & (exact.labels[:, None, :] != PAD_LABEL)
    return float(hits.any(axis=1).mean())


def _clustered(vectors: Floats, seed: int, n_jobs: int) -> tuple[Floats, NDArray[np.int64]]:
    """Spherical k-means of the labels into about 4 sqrt(L) lists; the centroids, and the list of each label."""
    faiss = _faiss()
    faiss.omp_set_num_threads(thread_count(n_jobs))
    n_lists = max(min(int(4 * math.sqrt(len(vectors))), len(vectors) // 40), 1)
    means = faiss.Kmeans(vectors.shape[1], n_lists, niter=10, spherical=True, seed=seed, max_points_per_centroid=64)
    means.train(vectors)
    _, nearest = means.index.search(vectors, 1)
    return means.centroids.copy(), nearest[:, 0]


def _filled_index(vectors: Floats, lists: Lists) -> Any:
    """FAISS's inverted file with every label in its list; nothing is clustered anew."""
    faiss = _faiss()
    centroids = np.ascontiguousarray(lists.centroids, np.float32)
    coarse = faiss.IndexFlatIP(vectors.shape[1])
    coarse.add(centroids)
    index = faiss.IndexIVFFlat(coarse, vectors.shape[1], len(centroids), faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    list_of = np.ascontiguousarray(lists.list_of, np.int64)
    index.add_core(len(vectors), faiss.swig_ptr(vectors), None, faiss.swig_ptr(list_of))
    index.nprobe = lists.probes
    return index


def best_first(labels: NDArray[Any], scores: Floats) -> Predictions:
    """Best first, ties by the lower label."""
    order = np.lexsort((labels, -scores), axis=1)
    return Predictions(np.take_along_axis(labels, order, 1), np.take_along_axis(scores, order, 1))


def _tensor(vectors: Floats) -> torch.Tensor:
    return torch.from_numpy(vectors if vectors.flags.writeable else vectors.copy())


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss-cpu", "deep", "approximate search among labels") from error
    return faiss
