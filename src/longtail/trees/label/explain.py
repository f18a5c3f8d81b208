"""What each feature adds to the score of a label along its path through label trees.

The score of a label in a tree is p = exp(g), g = -sum over the edges e of its path of h_e^q, where h_e = [1 - m_e]+, q
is the model's power, and the margin m_e = b_e + sum_f w_ef x_f is linear in the features. Both steps are shared out
exactly:

edge   h_e(0)^q - h_e(x)^q goes to the features in proportion to w_ef x_f: the integrated gradients of -h_e^q from the
       point without features (Sundararajan et al. 2017, eq. 1), in closed form
tree   p(x) - p(0) = L(p(x), p(0)) (g(x) - g(0)) with the logarithmic mean L(a, b) = (a - b) / (log a - log b)

so that contributions and the score of the point without features sum to the score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.explanation import Explanation, change_factor, feature_weights
from longtail.trees.label.weights import TreeModel

_LEAST_EXPONENT = -700.0  # exp of it is still above 0


def explained(X: sparse.csr_matrix, trees: Sequence[TreeModel], label: int, power: int) -> Explanation:
    """Return the explanation of a label over the features of one point.

    Parameters
    ----------
    X : (1, D) csr_matrix of float32
        Features.
    trees : sequence of TreeModel
        Trained trees.
    label : int
        Id of a label that has training points.
    power : int
        Power of [1 - w.x]+ in the score of a path.

    Returns
    -------
    Explanation
        Its score is that of an exact search (`beam=None`): in a tree whose beam does not reach the label, `predict`
        counts 0.
    """
    contributions, bias, score = np.zeros(X.indices.size), 0.0, 0.0
    for tree in trees:
        own, start, end = _along_path(X, tree, label, power)
        low, high = np.exp(np.maximum([start, end], _LEAST_EXPONENT)).tolist()
        contributions += change_factor(end - start, high - low) * own / len(trees)
        bias, score = bias + low / len(trees), score + high / len(trees)
    return Explanation(label, score, [], bias, feature_weights(X.indices, X.data, contributions))


def _along_path(
    X: sparse.csr_matrix, tree: TreeModel, label: int, power: int
) -> tuple[NDArray[np.float64], float, float]:
    """Return the share of each feature in g(x) - g(0), g(0) and g(x); a tree without the label has g = -inf."""
    shares, start = np.zeros(X.indices.size), 0.0
    edges = _path(tree, label)
    if not edges:
        return shares, _LEAST_EXPONENT, _LEAST_EXPONENT
    for node, edge in edges:
        parts = X.data * _edge_weights(tree, node, edge - int(tree.child_start[node]), X.indices) * tree.scale[edge]
        bias, total = float(tree.bias[edge]), float(parts.sum())
        before, after = max(1 - bias, 0.0) ** power, max(1 - bias - total, 0.0) ** power
        shares += parts * change_factor(total, before - after)
        start -= before
    return shares, start, start + float(shares.sum())


def _path(tree: TreeModel, label: int) -> list[tuple[int, int]]:
    """Return the (node, edge) pairs from the root to a label; none if the tree does not have it."""
    edges: list[tuple[int, int]] = []
    wanted = label
    while True:
        found = np.flatnonzero(tree.child == wanted)
        if not found.size:
            return []
        edge = int(found[0])
        node = int(np.searchsorted(tree.child_start, edge, side="right")) - 1
        edges.insert(0, (node, edge))
        if node == 0:
            return edges
        wanted = -1 - node


def _edge_weights(tree: TreeModel, node: int, child: int, wanted: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the weights of one child for these features, in units of its scale."""
    features = tree.features[tree.row_start[node] : tree.row_start[node + 1]]
    found = np.zeros(wanted.size)
    if not features.size:
        return found
    rows = np.minimum(np.searchsorted(features, wanted), features.size - 1)
    known = np.flatnonzero(features[rows] == wanted)
    for i in known.tolist():
        children, weights = tree.row(node, int(rows[i]))
        found[i] = weights[children == child].sum()
    return found
