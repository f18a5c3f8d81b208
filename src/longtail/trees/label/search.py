"""Beam search through trained label trees.

All weights of a node are stored together, by feature: one pass over a point's features serves all children of the node
(the chunked layout of Etter et al. 2022, MSCM). A feature is looked up among the node's features by buckets of a few
features each (`FeatureIndex`), or, where many points are at a node, in a table of all features.

The score of a path is the sum of -[1 - w.x]+^p over its edges, p being 2 in Prabhu et al. 2018 (section 4.3). Its
exponential, in (0, 1], takes the place of the label's probability; it is averaged over trees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import topk
from longtail.core.compiled import njit
from longtail.core.memory import read_only
from longtail.core.predictions import Predictions, empty_top
from longtail.core.threads import each_in_threads, thread_count
from longtail.linear.simd import prefetch
from longtail.trees.label.rows import MARGINS, bytes_of_child, child_in, weights_of_row
from longtail.trees.label.weights import TreeModel

_POINTS_AT_A_TIME = 512
_CANDIDATES_AT_A_TIME = 1 << 23  # bounds the memory of a thread, over all its points and trees, 8 bytes each
_LEAST = np.float32(1e-38)  # a label whose probability underflows still ranks, behind all others
_UNDERFLOW = np.float32(-80)  # probabilities near or below the smallest number are compared as they are
_ROUNDING = np.float32(1e-3)  # far more than what exponentials and sums of float32 lose
_TABLE_COST = 0.125  # of filling and clearing an entry of the table, in look-ups by buckets
_LINE = 32  # words in a line of the processor's cache
_ZERO, _ONE = np.float32(0), np.float32(1)


def search(
    X: sparse.csr_matrix, trees: Sequence[TreeModel], k: int, *, n_labels: int, beam: int | None, power: int,
    n_jobs: int | None,
) -> Predictions:  # fmt: skip
    """Return the k best labels per row of X; labels that no beam reaches are not among them.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    trees : sequence of TreeModel
        Trained trees.
    k : int
        Labels per point.
    n_labels : int
        Number of labels.
    beam : int or None
        Nodes kept per level; None for all (exact).
    power : int
        Power of [1 - w.x]+ in the score of a path.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    Predictions
    """
    labels, scores = empty_top(X.shape[0], k)
    rows = tuple(read_only(array) for array in (X.indptr.astype(np.int64), X.indices, X.data))
    arrays = [tree.arrays() for tree in trees]
    widths = [tree.n_nodes if beam is None else min(beam, tree.n_nodes) for tree in trees]
    most = [tree.most_candidates(width) for tree, width in zip(trees, widths, strict=True)]
    at_a_time = int(np.clip(_CANDIDATES_AT_A_TIME // (len(trees) * max(most)), 1, _POINTS_AT_A_TIME))
    at_a_time = min(at_a_time, max(1, -(-X.shape[0] // thread_count(n_jobs))))

    buffers: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []  # one pair per thread, used again

    def work(first: int) -> None:
        end = min(first + at_a_time, X.shape[0])
        shape = (len(trees), at_a_time, max(most))
        found, found_scores = buffers.pop() if buffers else (np.empty(shape, np.int32), np.empty(shape, np.float32))
        n_found = np.zeros((len(trees), end - first), np.int64)
        for t, (tree, width) in enumerate(zip(arrays, widths, strict=True)):
            _search_tree(*rows, first, end, X.shape[1], tree, width, power, found[t], found_scores[t], n_found[t])
        _average(found, found_scores, n_found, n_labels, labels[first:end], scores[first:end])
        buffers.append((found, found_scores))

    starts = range(0, X.shape[0], at_a_time)
    each_in_threads(work, starts, n_jobs=n_jobs)
    return Predictions(labels, scores)


@njit(cache=True, nogil=True)
def _search_tree(
    x_start, x_features, x_values, first, end, n_features, tree, beam, power, found, found_scores, n_found
):
    """Find the labels that points first..end-1 reach, and the logarithms of their probabilities.

    The search goes level by level and handles all points that are at a node together.
    """
    child_start, child, _, _, row_start, features = tree[:6]
    rows = np.empty(np.max(x_start[first + 1 : end + 1] - x_start[first:end]), np.int64)
    n, n_nodes = end - first, child_start.shape[0] - 1
    at, at_score = np.full((n, beam), -1, np.int32), np.full((n, beam), -np.inf, np.float32)
    at[:, 0], at_score[:, 0] = 0, 0
    visits = np.zeros(n_nodes, np.int64)
    table = np.zeros(n_features if n > 1 else 0, np.int32)  # row of each feature in a node, from 1; 0 for none
    margins = np.empty(max(np.max(child_start[1:] - child_start[:-1]), MARGINS), np.float32)
    while True:
        nodes, starts, who = _visits_by_node(at, visits)
        if nodes.shape[0] == 0:
            return
        coming, coming_score = np.full((n, beam), -1, np.int32), np.full((n, beam), -np.inf, np.float32)
        for j in range(nodes.shape[0]):
            v = nodes[j]
            children = child[child_start[v] : child_start[v + 1]]
            n_children, only_labels = children.shape[0], children.min() >= 0
            low, high = row_start[v], row_start[v + 1]
            with_table = n > 1 and _worth_a_table(x_start, who[starts[j] : starts[j + 1]] // beam + first, high - low)
            if with_table:
                for row in range(low, high):
                    table[features[row]] = row - low + 1
            for q in range(starts[j], starts[j + 1]):
                i, slot = who[q] // beam, who[q] % beam
                wanted = x_features[x_start[first + i] : x_start[first + i + 1]]
                if with_table:
                    for p in range(wanted.shape[0]):
                        rows[p] = table[np.uint32(wanted[p])] - 1
                else:
                    _find(wanted, tree, v, rows)
                _margins(x_start, x_values, first + i, tree, v, rows, margins)
                for c in range(n_children):
                    margins[c] = at_score[i, slot] - _raised(max(_ONE - margins[c], _ZERO), power)
                if only_labels:
                    _keep(children, margins, found[i, n_found[i] :], found_scores[i, n_found[i] :])
                    n_found[i] += n_children
                    continue
                for c in range(n_children):
                    if children[c] >= 0:
                        found[i, n_found[i]], found_scores[i, n_found[i]] = children[c], margins[c]
                        n_found[i] += 1
                    else:
                        topk.offer(-1 - children[c], margins[c], coming[i], coming_score[i])
            if with_table:
                for row in range(low, high):
                    table[features[row]] = 0
        at, at_score = coming, coming_score


@njit(cache=True, nogil=True, inline="always")
def _raised(short, power):
    raised = short
    for _ in range(power - 1):
        raised *= short
    return raised


@njit(cache=True, nogil=True, allocates=False)
def _keep(children, scores, found, found_scores):
    for c in range(children.shape[0]):
        found[c] = children[c]
    for c in range(children.shape[0]):
        found_scores[c] = scores[c]


@njit(cache=True, nogil=True)
def _visits_by_node(at, visits):
    """Return the nodes that some point is at, and for each node its (point, slot) pairs, as point * beam + slot."""
    n, beam = at.shape
    nodes = np.empty(n * beam, np.int32)
    n_nodes = total = 0
    for i in range(n):
        for slot in range(beam):
            if at[i, slot] >= 0:
                if visits[at[i, slot]] == 0:
                    nodes[n_nodes] = at[i, slot]
                    n_nodes += 1
                visits[at[i, slot]] += 1
                total += 1
    starts = np.zeros(n_nodes + 1, np.int64)
    for j in range(n_nodes):
        starts[j + 1] = starts[j] + visits[nodes[j]]
        visits[nodes[j]] = starts[j]  # from here on the next free position
    who = np.empty(total, np.int64)
    for i in range(n):
        for slot in range(beam):
            if at[i, slot] >= 0:
                who[visits[at[i, slot]]] = i * beam + slot
                visits[at[i, slot]] += 1
    for j in range(n_nodes):
        visits[nodes[j]] = 0
    return nodes[:n_nodes], starts, who


@njit(cache=True, nogil=True, allocates=False)
def _worth_a_table(x_start, points, n_rows):
    lookups = 0
    for i in points:
        lookups += x_start[i + 1] - x_start[i]
    return lookups > _TABLE_COST * n_rows


@njit(cache=True, nogil=True, allocates=False)
def _margins(x_start, x_values, i, tree, v, rows, margins):
    """Set `margins` to w.x + b for every child of node v; `rows` has the row of each of the point's features."""
    child_start, _, bias, scale, _, _, is_dense, first_word, words, first_offset, offsets, in_bytes = tree[:12]
    n_children, start = child_start[v + 1] - child_start[v], x_start[i]
    length = x_start[i + 1] - start
    for c in range(n_children):
        margins[c] = 0
    base = first_word[v]
    if is_dense[v] and n_children == 2:  # half of all visits in a binary tree: both sums stay in registers
        left, right = _ZERO, _ZERO
        for p in range(length):
            # Without a branch: the processor cannot predict whether the node has the feature.
            x = x_values[start + p] if rows[p] >= 0 else _ZERO
            at = base + 2 * max(rows[p], 0)
            left += x * np.float32(words[np.uint64(at)])
            right += x * np.float32(words[np.uint64(at + 1)])
        margins[0], margins[1] = left, right
    else:
        if not is_dense[v]:
            for p in range(length):
                if rows[p] >= 0:
                    prefetch(offsets, first_offset[v] + rows[p])
        for p in range(length):
            if rows[p] >= 0:
                at, size = _row(tree, v, rows[p], n_children)
                for q in range(at, at + size, _LINE):
                    prefetch(words, q)
        for p in range(length):
            if rows[p] >= 0:
                at, size = _row(tree, v, rows[p], n_children)
                if size == n_children:
                    _add_full_row(words, at, x_values[start + p], n_children, margins)
                else:
                    _add_short_row(words, in_bytes, at, size, x_values[start + p], n_children, margins)
    for c in range(n_children):
        margins[c] = margins[c] * scale[child_start[v] + c] + bias[child_start[v] + c]


@njit(cache=True, nogil=True, allocates=False)
def _row(tree, v, row, n_children):
    """Return where the words of a row begin, and how many they are."""
    is_dense, first_word, _, first_offset, offsets = tree[6:11]
    if is_dense[v]:
        return first_word[v] + row * n_children, n_children
    at = np.uint64(first_offset[v] + row)
    return first_word[v] + np.int64(offsets[at]), np.int64(offsets[at + np.uint64(1)]) - np.int64(offsets[at])


@njit(cache=True, nogil=True, allocates=False)
def _add_full_row(words, at, x, n_children, margins):
    for c in range(n_children):
        margins[c] += x * np.float32(words[np.uint64(at + c)])


@njit(cache=True, nogil=True, allocates=False)
def _add_short_row(words, in_bytes, at, size, x, n_children, margins):
    of_child = bytes_of_child(n_children)
    of_word = words.itemsize
    n, first = weights_of_row(size, of_child, of_word), of_word * at
    last = at + size - n
    if of_child == 1:
        for e in range(n):
            margins[in_bytes[np.uint64(first + e)]] += x * np.float32(words[np.uint64(last + e)])
    else:
        for e in range(n):
            margins[child_in(in_bytes, first, e, of_child)] += x * np.float32(words[np.uint64(last + e)])


@njit(cache=True, nogil=True, allocates=False)
def _find(wanted, tree, v, rows):
    """Set `rows` to the row of node v that has each of the features `wanted`, -1 if none has."""
    row_start, features = tree[4:6]
    first_bucket, shift, bucket_start = tree[12:]
    first, n_buckets = first_bucket[v], first_bucket[v + 1] - first_bucket[v] - 1
    for p in range(wanted.shape[0]):
        rows[p] = -1
        bucket = np.int64(wanted[p]) >> shift[v]
        if bucket < n_buckets:
            at = np.uint64(first + bucket)
            for r in range(bucket_start[at], bucket_start[at + np.uint64(1)]):
                if features[np.uint64(row_start[v] + r)] == wanted[p]:
                    rows[p] = r


@njit(cache=True, nogil=True)
def _average(found, found_scores, n_found, n_labels, labels, scores):
    """Rank labels by their mean probability over trees; it counts as 0 in a tree that did not reach the label.

    A search finds about a thousand labels per point, of which only a few can be among the k best; the others are left
    out before any exponential is taken. The result is the same as with all of them.
    """
    n_trees = found.shape[0]
    total, contends = np.zeros(n_labels, np.float32), np.zeros(n_labels, np.bool_)
    share = _ONE / np.float32(n_trees)
    for i in range(labels.shape[0]):
        least = _least_of_contenders(found_scores[:, i], n_found[:, i], labels.shape[1])
        for t in range(n_trees):
            for c in range(n_found[t, i]):
                if found_scores[t, i, c] >= least:
                    contends[found[t, i, c]] = True
        for t in range(n_trees):
            for c in range(n_found[t, i]):
                if contends[found[t, i, c]]:
                    total[found[t, i, c]] += np.exp(found_scores[t, i, c])
        for t in range(n_trees):
            for c in range(n_found[t, i]):
                label = found[t, i, c]
                if contends[label]:
                    topk.offer(label, max(total[label] * share, _LEAST), labels[i], scores[i])
                    total[label], contends[label] = 0, False


@njit(cache=True, nogil=True)
def _least_of_contenders(scores, n_found, k):
    """Return the score that a label must have in some tree to be among the k best of all trees together.

    One tree alone has k labels whose probability is at least q, so that their means are at least q / n_trees. A label
    that is below q / n_trees in every tree has a lower mean.
    """
    n_trees = scores.shape[0]
    highest = np.float32(-np.inf)
    best = np.empty(k, np.float32)
    for t in range(n_trees):
        best[:] = -np.inf
        for c in range(n_found[t]):
            if scores[t, c] > best[k - 1]:
                place = k - 1
                while place > 0 and best[place - 1] < scores[t, c]:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = scores[t, c]
        highest = max(highest, best[k - 1])
    least = highest - np.float32(np.log(n_trees)) - _ROUNDING
    return least if least > _UNDERFLOW else np.float32(-np.inf)
