"""Synthetic data with a long tail, a label hierarchy and missing labels, whose complete labels are known.

Each point draws a few end labels; these and all their ancestors are its complete labels. Its words are drawn partly
from the signatures of those labels (a few words that each label prefers) and partly from a common background; words
follow a power law. Each complete label is then observed with the label's propensity, else it is missing: it shaped the
words, but is not among the observed labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse
from sklearn.feature_extraction.text import TfidfTransformer

from longtail.core.parameters import check_whole
from longtail.data.dataset import Dataset
from longtail.errors import ParameterError
from longtail.objectives.propensity import Propensities, PropensityModel, propensities_from

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BRANCHING = 5  # children per label; the propensity fit needs more than 4 descendants
_SIGNATURE = 4  # words that a label prefers, the first one most
_SIGNAL = 0.4  # share of a point's words that come from its labels
_EMPHASIS = 0.2  # a point is more about its rarer labels: their weight is (chance of the label)^-_EMPHASIS
_MEDIAN_LENGTH = 50  # words per point
_POINTS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class SyntheticLongtail:
    """Synthetic training and test data with observed labels, complete labels and propensities.

    Each complete label was observed with its propensity, independently of all others.

    Attributes
    ----------
    train : Dataset
        Training points with their observed labels.
    test : Dataset
        Test points with their observed labels.
    train_complete_Y : csr_matrix
        Complete labels of the training points.
    test_complete_Y : csr_matrix
        Complete labels of the test points.
    propensities : (L,) array
        Probability per label that a complete label was observed.
    """

    train: Dataset
    test: Dataset
    train_complete_Y: sparse.csr_matrix
    test_complete_Y: sparse.csr_matrix
    propensities: Floats


def make_longtail(
    n_points: int = 6_000,
    n_features: int = 5_000,
    n_labels: int = 1_000,
    *,
    n_test_points: int | None = None,
    exponent: float = 1.0,
    labels_per_point: float = 5.0,
    propensity: Propensities = PropensityModel(),  # noqa: B008 (frozen)
    kind: str = "sparse",
    random_state: int = 0,
) -> SyntheticLongtail:
    """Generate a training and a test set with a long tail, a label hierarchy and missing labels.

    Parameters
    ----------
    n_points : int, default 6000
        Number of training points.
    n_features : int, default 5000
        Number of words.
    n_labels : int, default 1000
        Number of labels.
    n_test_points : int, optional
        Number of test points; a third of `n_points` if not given.
    exponent : float, default 1.0
        The number of points of the r-th most frequent label falls as (r + shift)^-exponent, with a small shift.
    labels_per_point : float, default 5.0
        Mean number of complete labels per point.
    propensity : PropensityModel, (A, B), str, array_like or None
        A model, its parameters or the name of a preset, which holds for the observed training counts; or one
        propensity per label; or None, so that no label is missing.
    kind : {"sparse", "text"}, default "sparse"
        Points as unit-norm TF-IDF rows, or the same words as texts, with label texts.
    random_state : int, default 0
        Seed; the same arguments and seed give the same data.

    Returns
    -------
    SyntheticLongtail
        `train` and `test` datasets, complete labels and propensities.

    Raises
    ------
    ParameterError
        If a size is not a whole number from 1 up, or `labels_per_point` cannot be reached.
    """
    n_test_points = max(1, n_points // 3) if n_test_points is None else n_test_points
    sizes = {"n_points": n_points, "n_features": n_features, "n_labels": n_labels, "n_test_points": n_test_points}
    for name, size in sizes.items():
        check_whole(name, size, 1)
    check_whole("random_state", random_state, 0)
    if kind not in ("sparse", "text"):
        raise ParameterError(f"kind is {kind!r}, but must be 'sparse' or 'text'")
    seeds = np.random.SeedSequence(random_state)
    rng = np.random.default_rng(seeds.spawn(1)[0])
    n = n_points + n_test_points
    tree = _make_tree(rng, n_labels, exponent)
    complete = _draw_labels(rng, n, tree, labels_per_point)
    p = _propensities_met(propensity, _counts(complete[:n_points]), n_points)
    observed = _dropped(rng, complete, p)
    words = _make_words(rng, n_features, tree.reach)
    blocks = _draw_words(seeds, complete, words)
    names = [f"subject-{label:0{len(str(n_labels - 1))}d}" for label in range(n_labels)]
    about = {"label_names": names, "label_parents": _named(tree.parent, names)}
    train, test = slice(0, n_points), slice(n_points, n)
    if kind == "text":
        texts, label_texts = _as_texts(blocks, words)
        sets = [
            Dataset(observed[part], texts=texts[part], label_texts=label_texts, **about)  # type: ignore[arg-type]
            for part in (train, test)
        ]
    else:
        X = sparse.vstack([_count_matrix(*block, n_features) for block in blocks], format="csr")
        weighting = TfidfTransformer(sublinear_tf=True).fit(X[train])
        sets = [Dataset(observed[part], X=weighting.transform(X[part]), **about) for part in (train, test)]  # type: ignore[arg-type]
    return SyntheticLongtail(sets[0], sets[1], complete[train], complete[test], p)


class _Tree(NamedTuple):
    """Label tree: parent per label (-1: root), and the probability that a draw ends there, or there or below."""

    parent: Ints
    end: Floats
    reach: Floats


def _make_tree(rng: np.random.Generator, n_labels: int, exponent: float) -> _Tree:
    """Build a tree whose r-th label is reached with probability proportional to about (r + shift)^-exponent.

    The shift keeps the first label from covering half of the points (Zipf-Mandelbrot). For exponents below 1 the head
    is heavier than that: the many rare labels together have more points than their common ancestor would have.
    Labels are added in order of frequency: the first 2 sqrt(L) are roots, and the children of label j are the next
    `_BRANCHING` labels without a parent, so a parent is always more frequent than its children.
    """
    if not isinstance(exponent, (int, float)) or not 0 <= exponent < math.inf:
        raise ParameterError(f"exponent is {exponent!r}, but must be a number from 0 up")
    rank = np.arange(n_labels)
    n_roots = min(n_labels, math.ceil(2 * math.sqrt(n_labels)))
    parent = np.where(rank < n_roots, -1, (rank - n_roots) // _BRANCHING)
    wanted = (rank + 1.0 + n_roots / 10) ** -exponent
    below = np.bincount(parent[n_roots:], weights=wanted[n_roots:], minlength=n_labels)
    # The rest is left for the label itself; where the children need more than the parent has, it still gets a little.
    end = np.maximum(wanted - below, 0.1 * wanted)
    reach = end.copy()
    stop = n_labels
    while stop > n_roots:  # level by level from the bottom: the parents of the last level are the level before it
        start = max(n_roots, int(parent[stop - 1]) + 1)
        np.add.at(reach, parent[start:stop], reach[start:stop])
        stop = start
    total = end.sum()
    label = rng.permutation(n_labels)  # ids do not reveal frequency
    by_label = np.empty(n_labels, dtype=np.int64)
    by_label[label] = np.where(parent >= 0, label[parent], -1)
    tree = _Tree(by_label, np.empty(n_labels), np.empty(n_labels))
    tree.end[label], tree.reach[label] = end / total, reach / total
    return tree


def _draw_labels(rng: np.random.Generator, n: int, tree: _Tree, labels_per_point: float) -> sparse.csr_matrix:
    """Draw complete labels: 1 + Poisson draws per point; each adds the label where it ends and all its ancestors."""
    n_draws = 1 + rng.poisson(_extra_draws(tree, labels_per_point), n)
    point = np.repeat(np.arange(n), n_draws)
    label = _choose(rng, tree.end, point.size)
    points, labels = [], []
    while point.size:
        points.append(point)
        labels.append(label)
        above = tree.parent[label]
        point, label = point[above >= 0], above[above >= 0]
    rows, columns = np.concatenate(points), np.concatenate(labels)
    Y = sparse.csr_matrix((np.ones(rows.size, np.float32), (rows, columns)), shape=(n, tree.parent.size))
    Y.sum_duplicates()
    Y.data[:] = 1
    return Y


def _extra_draws(tree: _Tree, labels_per_point: float) -> float:
    """Return the Poisson mean that gives `labels_per_point` labels per point on average."""

    def mean_labels(extra: float) -> float:
        # P(no draw reaches l) = (1 - reach) E[(1 - reach)^Poisson]
        return float((1.0 - (1.0 - tree.reach) * np.exp(-extra * tree.reach)).sum())

    least, most = mean_labels(0.0), tree.parent.size
    number = isinstance(labels_per_point, (int, float)) and not isinstance(labels_per_point, bool)
    if not number or not (math.isclose(labels_per_point, least) or least <= labels_per_point < most):
        raise ParameterError(
            f"labels_per_point is {labels_per_point!r}, but with {most} labels it must be at least {least:.2f} "
            f"(each label adds its ancestors) and less than {most}"
        )
    high = 1.0
    while mean_labels(high) < labels_per_point:
        high *= 2
    if labels_per_point <= least:
        return 0.0
    return float(optimize.brentq(lambda extra: mean_labels(extra) - labels_per_point, 0.0, high))


def _propensities_met(propensity: Propensities, complete_counts: Ints, n_points: int) -> Floats:
    """Solve p = model(p n*): the model takes observed counts, which depend on p.

    The iteration contracts: d log p / d log n is at most A in the model, and A < 1 in every published one.
    """
    p = np.ones(complete_counts.size)
    for _ in range(100):
        p = propensities_from(propensity, p * complete_counts, n_points)
    return p


def _dropped(rng: np.random.Generator, complete: sparse.csr_matrix, p: Floats) -> sparse.csr_matrix:
    observed = complete.copy()
    observed.data = (rng.random(observed.nnz) < p[observed.indices]).astype(np.float32)
    observed.eliminate_zeros()
    return observed


class _Words(NamedTuple):
    """Word distributions.

    `background`: weight per word. `signature`: (L, _SIGNATURE) words per label; `preference`: their weights.
    `emphasis`: weight of a label among those of a point.
    """

    background: Floats
    signature: Ints
    preference: Floats
    emphasis: Floats


def _make_words(rng: np.random.Generator, n_features: int, reach: Floats) -> _Words:
    order = rng.permutation(n_features)
    rank = np.arange(n_features)
    background, liked = np.empty(n_features), np.empty(n_features)
    background[order] = 1.0 / (rank + 10.0)  # Zipf's law with a flattened top
    liked[order] = 1.0 / np.sqrt(rank + 50.0)  # signatures prefer frequent words too, but less
    signature = _choose(rng, liked, reach.size * _SIGNATURE).reshape(reach.size, _SIGNATURE)
    return _Words(background, signature, 1.0 / np.arange(1, _SIGNATURE + 1), reach**-_EMPHASIS)


def _draw_words(
    seeds: np.random.SeedSequence, complete: sparse.csr_matrix, words: _Words
) -> Iterator[tuple[Ints, Ints]]:
    """Yield (lengths, words) per block of points, so that the words of all points are never in memory at once."""
    for start in range(0, complete.shape[0], _POINTS_AT_ONCE):
        rng = np.random.default_rng(seeds.spawn(1)[0])
        Y = complete[start : start + _POINTS_AT_ONCE]
        lengths = np.clip(rng.lognormal(math.log(_MEDIAN_LENGTH), 0.5, Y.shape[0]), 10, 1000).astype(np.int64)
        point = np.repeat(np.arange(Y.shape[0]), lengths)
        drawn = _choose(rng, words.background, point.size)
        signal = np.flatnonzero(rng.random(point.size) < _SIGNAL)
        label = _choose_in_rows(rng, Y, words.emphasis, point[signal])
        drawn[signal] = words.signature[label, _choose(rng, words.preference, signal.size)]
        yield lengths, drawn


def _choose(rng: np.random.Generator, weights: Floats, size: int) -> Ints:
    """Draw positions with these weights; faster than `Generator.choice`, which also checks that they sum to 1."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative[:-1], rng.random(size) * cumulative[-1], side="right").astype(np.int64)


def _choose_in_rows(rng: np.random.Generator, Y: sparse.csr_matrix, weights: Floats, rows: Ints) -> Ints:
    """Draw one label per given row, with the labels' weights."""
    cumulative = np.concatenate([[0.0], np.cumsum(weights[Y.indices])])
    start, stop = Y.indptr[rows], Y.indptr[rows + 1]
    aim = cumulative[start] + rng.random(rows.size) * (cumulative[stop] - cumulative[start])
    # Rounding may push an aim past the end of its row.
    chosen = np.clip(np.searchsorted(cumulative, aim, side="right") - 1, start, stop - 1)
    return Y.indices[chosen].astype(np.int64)


def _count_matrix(lengths: Ints, drawn: Ints, n_features: int) -> sparse.csr_matrix:
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    ones = np.ones(drawn.size, np.float32)
    X = sparse.csr_matrix((ones, drawn.astype(np.int32), indptr), shape=(lengths.size, n_features))
    X.sum_duplicates()
    return X


def _as_texts(blocks: Iterator[tuple[Ints, Ints]], words: _Words) -> tuple[list[str], list[str]]:
    """Return the points' words as texts, and the signature of each label as its text."""
    spelling = np.array([_spelled(i) for i in range(words.background.size)], dtype=object)
    texts: list[str] = []
    for lengths, drawn in blocks:
        written = spelling[drawn].tolist()
        ends = np.cumsum(lengths)
        texts.extend(" ".join(written[a:b]) for a, b in zip((ends - lengths).tolist(), ends.tolist(), strict=True))
    return texts, [" ".join(dict.fromkeys(row)) for row in spelling[words.signature].tolist()]


def _spelled(number: int) -> str:
    """Return a pronounceable word per number: its base-75 digits as syllables."""
    word = ""
    while number or len(word) < 4:
        number, digit = divmod(number, 75)
        word += "bdfghklmnprstvz"[digit // 5] + "aeiou"[digit % 5]
    return word


def _named(parent: Ints, names: list[str]) -> dict[str, list[str]]:
    return {names[child]: [names[above]] for child, above in enumerate(parent.tolist()) if above >= 0}


def _counts(Y: sparse.csr_matrix) -> Ints:
    return np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
