"""Made-up data of the size of Amazon-670K and WikiLSHTC-325K, for a benchmark of speed.

Topics have some dozens of labels each; the words of a point come from its topic, its labels and a Zipf background.
Frequencies of labels and features have long tails as in the real sets; how hard points are to tell apart is made up.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

_POINTS_AT_A_TIME = 35_000
_MOST_LABELS, _MOST_TOKENS = 32, 256  # of a point


class Size(NamedTuple):
    """Size of a made-up set, by what is known of the real one."""

    n_points: int
    n_features: int
    n_labels: int
    n_topics: int
    labels_per_point: float
    mean_tokens: int  # drawn per point, repetitions included


SIZES = {
    "amazon-670k-like": Size(490_000, 136_000, 670_000, 20_000, 6.9, 96),
    "wikilshtc-325k-like": Size(1_780_000, 1_617_000, 325_000, 10_000, 3.2, 56),
    "small-like": Size(2_000, 3_000, 600, 30, 3.0, 40),
}


def made_up(size: Size, n_test: int, *, seed: int = 0, xp: Any = np) -> tuple[sparse.csr_matrix, ...]:
    """Return X, Y, X_test and Y_test on the host; `xp` is NumPy, or CuPy to be quick."""
    n, (_, D, L, topics, per_point, mean_tokens) = size.n_points + n_test, size
    rng = xp.random.default_rng(seed)
    zipf = (xp.arange(D) + 30.0) ** -1.05
    common, middle, rare = (_sampler(xp, rng, zipf**power) for power in (1, 0.75, 0.6))
    topic_words, label_words = middle((topics, 60)), rare((L, 12))
    first = (xp.arange(topics + 1) * (L / topics)).astype(np.int64)
    width = L // topics
    topic = _sampler(xp, rng, (xp.arange(topics) + 50.0) ** -0.8)((n,)).astype(np.int64)
    n_own = xp.minimum(1 + rng.poisson(per_point - 1, n), _MOST_LABELS).astype(np.int64)
    popular = _sampler(xp, rng, (xp.arange(width) + 1.0) ** -0.8)((n, _MOST_LABELS)).astype(np.int64)
    labels = first[topic][:, None] + (popular + topic[:, None] * 7) % width
    own = xp.arange(_MOST_LABELS)[None] < n_own[:, None]
    keys = xp.unique((xp.arange(n, dtype=np.int64)[:, None] * L + labels)[own])
    Y = sparse.csr_matrix((np.ones(keys.size, np.float32), (_host(keys // L), _host(keys % L))), shape=(n, L))
    mean = math.log(mean_tokens) - 0.125
    n_tokens = xp.clip(xp.exp(rng.standard_normal(n) * 0.5 + mean), 12, _MOST_TOKENS).astype(np.int64)
    parts = []
    for begin in range(0, n, _POINTS_AT_A_TIME):
        rows = slice(begin, min(begin + _POINTS_AT_A_TIME, n))
        shape = (rows.stop - begin, _MOST_TOKENS)
        which = rng.random(shape, dtype=np.float32)
        near_top = xp.minimum((60 * rng.random(shape, dtype=np.float32) ** 2).astype(np.int64), 59)
        of_topic = topic_words[topic[rows][:, None], near_top]
        chosen = (rng.random(shape, dtype=np.float32) * n_own[rows][:, None]).astype(np.int64)
        chosen = xp.minimum(chosen, n_own[rows][:, None] - 1)
        of_label = label_words[xp.take_along_axis(labels[rows], chosen, 1), rng.integers(0, 12, shape)]
        tokens = xp.where(which < 0.35, of_topic, xp.where(which < 0.6, of_label, common(shape)))
        tokens = xp.where(xp.arange(_MOST_TOKENS)[None] < n_tokens[rows][:, None], tokens, D)
        parts.append(_counts(xp, tokens, D))
    X = _tf_idf(sparse.csr_matrix(sparse.vstack(parts)))
    return X[: size.n_points], Y[: size.n_points], X[size.n_points :], Y[size.n_points :]


def _sampler(xp: Any, rng: Any, weights: Any) -> Any:
    cumulated = xp.cumsum(weights / weights.sum()).astype(np.float32)
    last = weights.size - 1
    return lambda shape: xp.minimum(xp.searchsorted(cumulated, rng.random(shape, dtype=np.float32)), last)


def _host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


def _counts(xp: Any, tokens: Any, n_features: int) -> sparse.csr_matrix:
    """Return how often each word occurs per row; `n_features` stands for no word."""
    n, m = tokens.shape
    tokens = xp.sort(tokens, axis=1)
    new = xp.ones((n, m), np.bool_)
    new[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    starts = xp.flatnonzero(new)
    counts = xp.diff(xp.concatenate([starts, xp.full(1, n * m, starts.dtype)]))
    words = tokens.ravel()[starts]
    keep = words < n_features
    entries = (_host(starts[keep] // m), _host(words[keep]))
    return sparse.csr_matrix((_host(counts[keep]).astype(np.float32), entries), shape=(n, n_features))


def _tf_idf(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log(counts.shape[0] / np.maximum(df, 1)).astype(np.float32)
    counts.data = (1 + np.log(counts.data)) * idf[counts.indices]
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, counts.data.astype(np.float64) ** 2, minlength=counts.shape[0]))
    counts.data = (counts.data / np.maximum(lengths, 1e-6)[rows]).astype(np.float32)
    return counts
