"""Label-wise metrics: coverage, macro averages, frequency bands, the per-label table.

All of them count the hits, predictions and true occurrences of each label over the top k of all points. 0/0 is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail.errors import ParameterError
from longtail.metrics.matches import Floats, Ints, Matches
from longtail.metrics.pointwise import Terms, divide

BAND_NAMES = ("head", "torso", "tail")

LABEL_TABLE = np.dtype(
    [
        ("label", np.int64),
        ("training_count", np.int64),
        ("test_count", np.int64),
        ("predicted_count", np.int64),
        ("hits", np.int64),
        ("precision", np.float64),
        ("recall", np.float64),
        ("f1", np.float64),
    ]
)


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Counts per label: how often it is predicted among the top k, how often it is true, and how often both."""

    hits: Floats
    predicted: Floats
    true: Floats

    @classmethod
    def of(cls, matches: Matches, k: int, *, n_labels: int | None = None) -> LabelCounts:
        """Count over the top k of all points; `n_labels` may be larger than the number of labels in `matches`."""
        columns = slice(0, matches.column(k) + 1)
        labels, hits = matches.labels[:, columns], matches.hits[:, columns]
        width = matches.n_labels if n_labels is None else n_labels
        return cls(
            _count(labels[hits], width), _count(labels[labels >= 0], width), _count(matches.truth.indices, width)
        )

    @property
    def precision(self) -> Floats:
        """hits / predicted, per label."""
        return divide(self.hits, self.predicted)

    @property
    def recall(self) -> Floats:
        """hits / true, per label."""
        return divide(self.hits, self.true)

    @property
    def f1(self) -> Floats:
        """2 hits / (predicted + true), per label: the harmonic mean of precision and recall."""
        return divide(2.0 * self.hits, self.predicted + self.true)

    @property
    def coverage(self) -> float:
        """Share of the true labels that are hit at least once."""
        present = int(np.count_nonzero(self.true))
        return float(np.count_nonzero(self.hits) / present) if present else 0.0


def coverage(matches: Matches, k: int) -> float:
    """Return coverage@k: distinct labels correctly predicted in the top k of any point, over the distinct labels of Y.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.

    Returns
    -------
    float

    Notes
    -----
    Divisor: labels that occur in the test set. Points without labels have no effect.
    """
    return LabelCounts.of(matches, k).coverage


def label_terms(matches: Matches, k: int, *, n_labels: int | None = None) -> dict[str, Terms]:
    """Return macro-F1@k and coverage@k as terms per label, for `bootstrap` and `paired_bootstrap`.

    These metrics are means over labels, so labels are what is resampled: the interval says what other labels of this
    kind would give. Resampled points would lose labels that have one test point.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    n_labels : int, optional
        Number of labels, where it is more than in `matches`: two models to be compared need the same.

    Returns
    -------
    dict of str to Terms
    """
    counts = LabelCounts.of(matches, k, n_labels=n_labels)
    hit, present = ((values > 0).astype(np.float64) for values in (counts.hits, counts.true))
    return {f"macro-F1@{k}": Terms(counts.f1), f"coverage@{k}": Terms(hit, present)}


def macro_precision(matches: Matches, k: int) -> float:
    """Return macro-P@k: the mean over all L labels of hits / predictions among the top k.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.

    Returns
    -------
    float

    Notes
    -----
    Divisor: L, the number of columns of Y; a label that is never predicted counts as 0.
    """
    return float(LabelCounts.of(matches, k).precision.mean())


def macro_recall(matches: Matches, k: int) -> float:
    """Return macro-R@k: the mean over all L labels of hits among the top k / true occurrences.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.

    Returns
    -------
    float

    Notes
    -----
    Divisor: L, the number of columns of Y; a label that does not occur in the test set counts as 0.
    """
    return float(LabelCounts.of(matches, k).recall.mean())


def macro_f1(matches: Matches, k: int) -> float:
    """Return macro-F1@k: the mean over all L labels of 2 hits / (predictions + true occurrences).

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.

    Returns
    -------
    float

    Notes
    -----
    Divisor: L, the number of columns of Y; a label neither predicted nor true counts as 0. It is the mean of the
    labels' F1, not the F1 of macro-P and macro-R.
    """
    return float(LabelCounts.of(matches, k).f1.mean())


def frequency_bands(training_counts: ArrayLike, *, head: float = 0.5, torso: float = 0.4) -> NDArray[np.int8]:
    """Return the frequency band of each label: head, torso or tail.

    Parameters
    ----------
    training_counts : (L,) array_like of int
        Number of training points per label.
    head : float, default 0.5
        Share of all training label occurrences that the head covers.
    torso : float, default 0.4
        Share that the torso covers.

    Returns
    -------
    (L,) array of int8
        Index into `BAND_NAMES` per label.

    Notes
    -----
    Labels are sorted by decreasing training count. Those that begin within the first `head` of all occurrences are
    head, those that begin within the next `torso` are torso, the rest and all labels without training points are tail.
    Labels with the same count are always in the same band.
    """
    counts = _check_counts(training_counts)
    if not (head >= 0 and torso >= 0 and head + torso <= 1):
        raise ParameterError(f"head is {head} and torso is {torso}, but both must be >= 0 and their sum at most 1")
    sizes, size_of = np.unique(counts, return_inverse=True)
    mass = sizes * np.bincount(size_of, minlength=sizes.size)  # occurrences of all labels with the same count
    before = (mass.sum() - np.cumsum(mass))[size_of]  # occurrences of strictly more frequent labels
    total = counts.sum()
    # All occurrences come before a label without training points, so it is tail for any bounds.
    return np.where(before < head * total, 0, np.where(before < (head + torso) * total, 1, 2)).astype(np.int8)


def by_band(
    matches: Matches, k: int, training_counts: ArrayLike, *, head: float = 0.5, torso: float = 0.4
) -> dict[str, dict[str, float]]:
    """Compute metrics per frequency band among the top k.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    training_counts : array_like of int
        Number of training points per label. Labels beyond its length have none: tail.
    head : float, default 0.5
        As in `frequency_bands`.
    torso : float, default 0.4
        As in `frequency_bands`.

    Returns
    -------
    dict of str to dict of str to float
        Per band name: `labels` (their number) and as fractions `share of test labels`, `share of predictions`,
        `recall` (hits over true occurrences in the band), `precision` (hits over predictions of labels in the band)
        and `coverage` (distinct labels hit over distinct labels in the test set).
    """
    training = padded_counts(training_counts, matches.n_labels)
    bands = frequency_bands(training, head=head, torso=torso)
    counts = LabelCounts.of(matches, k, n_labels=training.size)
    report = {}
    for index, name in enumerate(BAND_NAMES):
        inside = bands == index
        band = LabelCounts(counts.hits[inside], counts.predicted[inside], counts.true[inside])
        hits, predicted, true = (float(part.sum()) for part in (band.hits, band.predicted, band.true))
        report[name] = {
            "labels": float(inside.sum()),
            "share of test labels": _quotient(true, float(counts.true.sum())),
            "share of predictions": _quotient(predicted, float(counts.predicted.sum())),
            "recall": _quotient(hits, true),
            "precision": _quotient(hits, predicted),
            "coverage": band.coverage,
        }
    return report


def label_table(matches: Matches, k: int, training_counts: ArrayLike) -> NDArray[np.void]:
    """Return one row of counts and metrics per label.

    Parameters
    ----------
    matches : Matches
        Predictions matched with true labels.
    k : int
        Cut-off.
    training_counts : array_like of int
        Number of training points per label. Labels beyond its length have none.

    Returns
    -------
    structured array of dtype LABEL_TABLE
        Per label its counts in training, test and the top k, its hits, and precision, recall and F1 as fractions.
    """
    training = padded_counts(training_counts, matches.n_labels)
    counts = LabelCounts.of(matches, k, n_labels=training.size)
    table = np.zeros(training.size, dtype=LABEL_TABLE)
    columns = (
        np.arange(training.size), training, counts.true, counts.predicted, counts.hits,
        counts.precision, counts.recall, counts.f1,
    )  # fmt: skip
    for name, column in zip(LABEL_TABLE.names or (), columns, strict=True):
        table[name] = column
    return table


def _count(labels: NDArray[np.int32], n_labels: int) -> Floats:
    return np.bincount(labels, minlength=n_labels).astype(np.float64)


def _check_counts(training_counts: ArrayLike) -> Ints:
    counts = np.asarray(training_counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts.size and counts.min() < 0):
        raise ParameterError("training_counts must contain one whole number >= 0 per label")
    return counts.astype(np.int64)


def padded_counts(training_counts: ArrayLike, n_labels: int) -> Ints:
    """Return the counts of at least `n_labels` labels; those beyond the given ones have no training points."""
    counts = _check_counts(training_counts)
    return np.concatenate([counts, np.zeros(max(0, n_labels - counts.size), dtype=np.int64)])


def _quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0
