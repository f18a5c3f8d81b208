"""The data of a search: points to train on and points held out, with features that are prepared once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.bench.recipe import text_features
from longtail.bench.split import Rows, folds, hold_out
from longtail.data import Dataset
from longtail.errors import DataError
from longtail.features.scaling import unit_rows
from longtail.metrics.labelwise import BAND_NAMES, frequency_bands
from longtail.objectives import PropensityModel
from longtail.tune.objectives import is_about_rare_labels

Split = tuple[Rows, Rows]


@dataclass(frozen=True, eq=False)
class Part:
    """Points to train on and points to score, as features or texts.

    Parameters
    ----------
    train : Any
        Training inputs: CSR features or texts.
    Y : csr_matrix
        Their labels.
    dev : Any
        Inputs held out.
    Y_dev : csr_matrix
        Their labels.
    label_names : list of str, optional
        Names of labels.
    propensity : PropensityModel
        Propensity model of the metrics.
    """

    train: Any
    Y: sparse.csr_matrix
    dev: Any
    Y_dev: sparse.csr_matrix
    label_names: list[str] | None
    propensity: PropensityModel
    _scaled: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of training points per label."""
        return np.bincount(self.Y.indices, minlength=self.Y.shape[1]).astype(np.int64)

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """1 / propensity per label, by the training points."""
        return np.asarray(self.propensity.inverse(self.counts, self.Y.shape[0]))

    def inputs(self, *, scaled: bool) -> tuple[Any, Any]:
        """Return the inputs of training and of the points held out, with rows of length 1 if asked."""
        if not scaled:
            return self.train, self.dev
        for name in ("train", "dev"):
            if name not in self._scaled:
                self._scaled[name] = unit_rows(getattr(self, name))
        return self._scaled["train"], self._scaled["dev"]

    def screen(self, share: float, seed: int) -> Part:
        """Return a part that trains on a share of these training points and is scored on the same points."""
        rows, _ = hold_out(self.Y.shape[0], 1 - share, seed)
        train = self.train[rows] if sparse.issparse(self.train) else self.train.subset(rows)
        return replace(self, train=train, Y=self.Y[rows], _scaled={})


def prepared_parts(
    data: Dataset,
    splits: Iterable[Split],
    *,
    reads_texts: bool,
    features: Mapping[str, Any],
    propensity: PropensityModel,
) -> Iterator[Part]:
    """Yield one part, or one per fold, with TF-IDF features learned from its training points.

    Parameters
    ----------
    data : Dataset
        All points.
    splits : iterable of pairs of arrays
        Rows to train on and rows held out: one pair, or one per fold.
    reads_texts : bool
        The models read texts themselves: no features are made.
    features : mapping
        Parameters of `TextFeatures`.
    propensity : PropensityModel
        Propensity model of the metrics.

    Yields
    ------
    Part
    """
    for rows, dev_rows in splits:
        train, dev = data.subset(rows), data.subset(dev_rows)
        if reads_texts:
            inputs = train.texts, dev.texts
        elif data.X is not None:
            inputs = train.X, dev.X
        else:
            made = text_features(features)
            inputs = made.fit_transform(train.texts), made.transform(dev.texts)
        yield Part(inputs[0], train.Y, inputs[1], dev.Y, data.label_names, propensity)


def check_points(data: Dataset, path: Any) -> None:
    """Raise DataError if there is nothing to rank or to split."""
    if data.n_points < 2:
        raise DataError("has one point; a search needs points to train on and points to score", path=path)
    carried = np.flatnonzero(data.label_counts)
    if carried.size < 2:
        found = "no label" if carried.size == 0 else "only one label"
        raise DataError(f"has {found}; a search needs labels to rank", path=path)


def splits_of(n_points: int, held_out: float, n_folds: int | None, seed: int) -> list[Split]:
    """Return the rows to train on and the rows held out: one pair, or one per fold."""
    return [hold_out(n_points, held_out, seed)] if n_folds is None else list(folds(n_points, n_folds, seed))


def check_tail(data: Dataset, splits: Sequence[Split], objectives: Sequence[str], path: Any) -> None:
    """Raise DataError if held-out points have no label that can be found, or none of the tail where one is needed.

    A label without training points is never predicted, so it says nothing, whatever its band.
    """
    needing = [name for name in objectives if is_about_rare_labels(name)]
    for rows, dev_rows in splits:
        held_out, counts = data.Y[dev_rows], data.subset(rows).label_counts
        if held_out.nnz == 0:
            raise DataError("no held-out point has a label; hold out more (--dev)", path=path)
        if not counts[held_out.indices].any():
            raise DataError(
                "no label of a held-out point is also that of a training point, so every model would score 0; labels "
                "must be on several points each",
                path=path,
            )
        tail = (counts > 0) & (frequency_bands(counts) == BAND_NAMES.index("tail"))
        if needing and tail.any() and not tail[held_out.indices].any():
            raise DataError(
                f"the held-out points have no label of the tail, so {needing[0]} says nothing about rare labels; hold "
                "out more points (--dev), use --folds, or tune P@1 alone",
                path=path,
            )
