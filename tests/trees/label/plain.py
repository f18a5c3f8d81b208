"""Slow plain twins of the label tree kernels, and data with known groups."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def grouped_labels(n_groups: int = 4, per_group: int = 6, seed: int = 0) -> sparse.csr_matrix:
    """Return unit rows of labels; the labels of a group share their words, and no other group has these words."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((n_groups * per_group, n_groups * 5), np.float32)
    for label in range(rows.shape[0]):
        group = label % n_groups
        rows[label, group * 5 : group * 5 + 5] = rng.uniform(0.5, 1.5, 5)
    return sparse.csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def grouped_points(n_points: int = 300, n_groups: int = 4, per_group: int = 6, seed: int = 0):
    """Return points with one to three labels of one group; with words of the group, of each label, and noise."""
    rng = np.random.default_rng(seed)
    n_labels = n_groups * per_group
    X = np.zeros((n_points, n_labels * 2 + n_groups * 2 + 10), np.float32)
    Y = np.zeros((n_points, n_labels), np.float32)
    for i in range(n_points):
        group = rng.integers(n_groups)
        chances = 1.0 / np.arange(1, per_group + 1)
        chosen = rng.choice(per_group, size=rng.integers(1, 4), replace=False, p=chances / chances.sum())
        for label in chosen * n_groups + group:
            Y[i, label] = 1
            X[i, 2 * label : 2 * label + 2] = rng.uniform(0.5, 1.5, 2)
        X[i, 2 * n_labels + 2 * group : 2 * n_labels + 2 * group + 2] = 1
        X[i, -10 + rng.integers(10)] = 1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return sparse.csr_matrix(X), sparse.csr_matrix(Y)


def balanced_two_means(rows: np.ndarray, first: int, second: int) -> np.ndarray:
    """Cluster by algorithm 2 of Prabhu et al. 2018, in float64."""
    left, right = rows[first], rows[second]
    before = -2.0
    while True:
        order = np.argsort(-(rows @ left - rows @ right), kind="stable")
        clusters = np.ones(len(rows), int)
        clusters[order[: (len(rows) + 1) // 2]] = 0
        sums = [rows[clusters == c].sum(axis=0) for c in (0, 1)]
        quality = sum(np.linalg.norm(s) for s in sums) / len(rows)
        if quality - before < 1e-4:
            return clusters
        before = quality
        left, right = (s / np.linalg.norm(s) for s in sums)


def k_means(rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    centroids = rows[seeds]
    before = -2.0
    while True:
        cosines = rows @ centroids.T
        clusters = cosines.argmax(axis=1)
        quality = cosines.max(axis=1).mean()
        if quality - before < 1e-4:
            return clusters
        before = quality
        sums = np.stack([rows[clusters == c].sum(axis=0) for c in range(len(seeds))])
        centroids = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


def brute_force(trees, X: np.ndarray, n_labels: int, power: int) -> np.ndarray:
    """Return the mean probability of every label from all paths of all trees, in float64 from the stored weights."""
    total = np.zeros((X.shape[0], n_labels))
    for tree in trees:
        margins = X.astype(np.float64) @ dense_weights(tree, X.shape[1]).T + tree.bias
        losses = np.maximum(1 - margins, 0) ** power
        path = np.zeros((X.shape[0], tree.n_nodes))
        for node in range(tree.n_nodes):
            for edge in range(tree.child_start[node], tree.child_start[node + 1]):
                score = path[:, node] - losses[:, edge]
                if tree.child[edge] >= 0:
                    total[:, tree.child[edge]] += np.exp(score)
                else:
                    path[:, -1 - tree.child[edge]] = score
    return total / len(trees)


def mean_probabilities(found, found_scores, n_found, n_labels: int) -> np.ndarray:
    """Return the mean over trees of exp(score) per point and label, 0 where no tree found the label; in float32."""
    total = np.zeros((found.shape[1], n_labels), np.float32)
    for t in range(found.shape[0]):
        for i in range(found.shape[1]):
            for c in range(n_found[t, i]):
                total[i, found[t, i, c]] += np.exp(found_scores[t, i, c])
    return total * (np.float32(1) / np.float32(found.shape[0]))


def dense_weights(tree, n_features: int) -> np.ndarray:
    """Return the weights of a TreeModel as (edges, features), read as its docstring says."""
    weights = np.zeros((tree.child.size, n_features))
    for node in range(tree.n_nodes):
        first, n_children = tree.child_start[node], tree.child_start[node + 1] - tree.child_start[node]
        for r, feature in enumerate(tree.features[tree.row_start[node] : tree.row_start[node + 1]]):
            start, size = int(tree.first_word[node]) + r * n_children, n_children
            if not tree.is_dense[node]:
                low, high = tree.offsets[tree.first_offset[node] + r : tree.first_offset[node] + r + 2].astype(int)
                start, size = int(tree.first_word[node]) + low, high - low
            row = tree.words[start : start + size]
            children, values = np.arange(n_children), row
            if size < n_children:  # 1, 2 or 4 bytes per number of a child, filled up to a whole word
                width = 1 if n_children <= 256 else 2 if n_children <= 65536 else 4
                n = next(n for n in range(size + 1) if n + (n * width + 1) // 2 == size)
                numbers = row[: size - n].tobytes()
                children = [int.from_bytes(numbers[width * e : width * e + width], "little") for e in range(n)]
                values = row[size - n :]
            weights[first + np.asarray(children, int), feature] = values
    return weights * tree.scale[:, None]
