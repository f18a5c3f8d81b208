"""Terms of one kind (words, characters): their columns and weights, learned chunk by chunk, as plain arrays.

A term has its column by its name, in alphabetical order, or by its hash: then only the hashes are kept, not the names.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import check_finite
from longtail.core.fields import split_field
from longtail.core.state import State, as_bytes, from_bytes
from longtail.core.threads import in_threads
from longtail.errors import DataError, ModelError
from longtail.features.counting import TermCounter
from longtail.features.hashing import buckets_of

_MOST_TERMS = 1 << 24  # of a vocabulary while it is learned: about two gigabytes


@dataclass(frozen=True)
class Weighting:
    """How counts become weights; `TextFeatures` describes the parameters.

    `fields` has the weight of each prefix of a field, with its joint.
    """

    sublinear_tf: bool
    min_df: int | float
    max_df: int | float
    norm: str | None
    max_features: int | None
    hashing: int | None
    idf: bool
    fields: dict[str, float] = field(default_factory=dict)

    @property
    def learns_nothing(self) -> bool:
        """Whether hashes alone say the columns, so that texts can be transformed without a fit."""
        return self.hashing is not None and not self.idf


class TermTable:
    """Columns and weights of terms.

    Parameters
    ----------
    counter : TermCounter
        Counts terms.
    weighting : Weighting
        How counts become weights.

    Attributes
    ----------
    vocabulary : dict of str to int
        Column per term; empty if terms are hashed.
    buckets : array of int32 or None
        Hash of each column, in order, if terms are hashed and weights were learned.
    idf : array of float32 or None
        Inverse document frequency per column, if it is used.
    """

    def __init__(self, counter: TermCounter, weighting: Weighting) -> None:
        self.counter, self.weighting = counter, weighting
        self.vocabulary: dict[str, int] = {}
        self.buckets: NDArray[np.int32] | None = None
        self.idf: NDArray[np.float32] | None = None
        self._weights: NDArray[np.float32] | None = None
        self._begin()

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        if self.weighting.hashing is None:
            return len(self.vocabulary)
        return self.weighting.hashing if self.buckets is None else self.buckets.size

    def names(self) -> list[str]:
        """Return the term of each column, or its hash."""
        if self.weighting.hashing is None:
            return list(self.vocabulary)
        return [f"#{bucket}" for bucket in (range(self.n_columns) if self.buckets is None else self.buckets.tolist())]

    # --- learning -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._ids: defaultdict[str, int] = defaultdict()
        self._ids.default_factory = self._ids.__len__
        self._in_texts, self._in_all = np.zeros(0, np.int64), np.zeros(0)
        self._n_texts = 0
        self._kept: deque[sparse.csr_matrix] = deque()

    def learn(self, texts: list[str], *, keep: bool) -> None:
        """Count a chunk of training texts, and with `keep` remember its counts for `training_rows`."""
        hashing = self.weighting.hashing

        def numbers(terms: Sequence[str]) -> NDArray[np.int32]:
            if hashing is not None:
                return buckets_of(terms, hashing)
            return np.fromiter((self._ids[term] for term in terms), np.int32, len(terms))

        counts = self.counter.count(texts, numbers)
        if keep:
            self._kept.append(counts)
        if self.weighting.learns_nothing:
            return
        width = len(self._ids) if hashing is None else hashing
        self._n_texts += counts.shape[0]
        self._in_texts = np.pad(self._in_texts, (0, width - self._in_texts.size))
        self._in_all = np.pad(self._in_all, (0, width - self._in_all.size))
        self._in_texts += np.bincount(counts.indices, minlength=width)
        self._in_all += np.bincount(counts.indices, weights=counts.data, minlength=width)
        if not keep and len(self._ids) > _MOST_TERMS:
            self._drop_single()

    def _drop_single(self) -> None:
        """Forget the terms that one text had so far, most of which are too rare in the end.

        One that occurs again counts from one: it appears to be in one text less per call, at most (lossy counting,
        Manku and Motwani 2002). With `min_df=1` nothing may be forgotten.
        """
        if not isinstance(self.weighting.min_df, int) or self.weighting.min_df < 2:
            return
        several = np.flatnonzero(self._in_texts > 1)
        terms = list(self._ids)
        self._ids.clear()
        self._ids.update((terms[number], place) for place, number in enumerate(several.tolist()))
        self._in_texts, self._in_all = self._in_texts[several], self._in_all[several]

    def choose(self) -> None:
        """Choose the columns and set their weights; `training_rows` may follow."""
        if self.weighting.learns_nothing:
            return
        terms = list(self._ids)
        order = terms.__getitem__ if self.weighting.hashing is None else int
        chosen = sorted(self._frequent().tolist(), key=order)
        if self.weighting.max_features is not None:
            # Most frequent first, ties in order; then in order again.
            most = sorted(chosen, key=lambda c: -self._in_all[c])[: self.weighting.max_features]
            chosen = sorted(most, key=order)
        self._columns = np.asarray(chosen, dtype=np.intp)
        if self.weighting.hashing is None:
            self.vocabulary = {terms[column]: i for i, column in enumerate(chosen)}
        else:
            self.buckets = self._columns.astype(np.int32)
        if self.weighting.idf:
            df = self._in_texts[self._columns].astype(np.float32)
            self.idf = np.log(np.float32(self._n_texts + 1) / (df + 1)) + np.float32(1)  # scikit-learn's smooth idf
        self._set_weights()

    def _frequent(self) -> NDArray[np.intp]:
        """Return the ids of terms that are neither too rare nor too frequent."""
        n, weighting = self._n_texts, self.weighting
        least, most = _as_count(weighting.min_df, n), _as_count(weighting.max_df, n)
        found = np.flatnonzero((self._in_texts >= max(least, 1)) & (self._in_texts <= most))
        if found.size == 0:
            distinct = np.count_nonzero(self._in_texts)
            keep = self.counter.keep
            removed = ", stop words not counted," if keep is not None and keep.stop_words else ""
            raise DataError(
                f"no features left: none of the {distinct} distinct terms in {n} texts{removed} occurs in at least "
                f"{least:g} and at most {most:g} texts (min_df={weighting.min_df!r}, max_df={weighting.max_df!r})"
            )
        return found

    def training_rows(self, n_jobs: int | None) -> Iterator[sparse.csr_matrix]:
        """Yield the rows of the texts that were learned, chunk by chunk; their counts are not kept."""
        counted, numbers = self._kept, self._numbers()
        self._begin()

        def weigh(_: int) -> sparse.csr_matrix:
            counts = counted.popleft()
            if numbers is None:
                counts.resize(counts.shape[0], self.n_columns)
            else:
                counts = _renumbered(counts, numbers, self.n_columns)
            return self._weighted(counts)

        with in_threads(weigh, range(len(counted)), n_jobs=n_jobs) as blocks:
            yield from blocks

    def _numbers(self) -> NDArray[np.int32] | None:
        """Return the column of each number that a term had while learning, -1 for none; None if it is the same."""
        if self.weighting.learns_nothing:
            return None
        numbers = np.full(self._columns.max() + 1, -1, np.int32)
        numbers[self._columns] = np.arange(self._columns.size, dtype=np.int32)
        return numbers

    def forget_training(self) -> None:
        """Drop what only `training_rows` needs."""
        self._begin()

    # --- weights ------------------------------------------------------------------------------------------------------

    def transform(self, texts: list[str]) -> sparse.csr_matrix:
        """Return the rows of a chunk of texts."""
        counts = self.counter.count(texts, self._known)
        counts.resize(counts.shape[0], self.n_columns)
        return self._weighted(counts)

    def _known(self, terms: Sequence[str]) -> NDArray[np.int32]:
        """Return the column of each term, -1 for none."""
        if self.weighting.hashing is None:
            return np.fromiter((self.vocabulary.get(term, -1) for term in terms), np.int32, len(terms))
        found = buckets_of(terms, self.weighting.hashing)
        if self.buckets is None:
            return found
        place = np.minimum(np.searchsorted(self.buckets, found), self.buckets.size - 1).astype(np.int32)
        return np.where(self.buckets[place] == found, place, np.int32(-1))

    def _set_weights(self) -> None:
        """Set the factor of each column: its idf, times the weight of its field."""
        self._weights = self.idf
        if self.weighting.fields:
            found = (self.weighting.fields.get(split_field(term)[0], 1.0) for term in self.vocabulary)
            factors = np.fromiter(found, np.float32, len(self.vocabulary))
            self._weights = factors if self.idf is None else self.idf * factors

    def _weighted(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return the final rows from the counts of vocabulary terms, with the bits of scikit-learn."""
        values, norm = counts.data, self.weighting.norm
        if self.weighting.sublinear_tf:
            np.log(values, out=values)
            values += np.float32(1)
        if self._weights is not None:
            values *= self._weights[counts.indices]
        if norm is not None:
            # One sum per row in float64, in the order of its entries; other orders may differ in the last bit.
            row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
            sums = np.bincount(row, values * values if norm == "l2" else np.abs(values), counts.shape[0])
            lengths = np.sqrt(sums) if norm == "l2" else sums
            lengths[lengths == 0] = 1
            values = (values / lengths[row]).astype(np.float32)
        X = sparse.csr_matrix((values, counts.indices, counts.indptr), shape=counts.shape)
        X.sort_indices()
        return X

    # --- saving and loading -------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the columns and weights."""
        state = State()
        if self.weighting.hashing is None:
            state.arrays["terms"], state.arrays["term_offsets"] = as_bytes(list(self.vocabulary))
        elif self.buckets is not None:
            state.arrays["buckets"] = self.buckets
        if self.idf is not None:
            state.arrays["idf"] = self.idf
        return state

    def restore(self, state: State) -> None:
        """Undo `state`, with checks: the arrays may come from anybody."""
        if self.weighting.hashing is None:
            terms = from_bytes(state.array("terms", np.uint8, (None,)), state.array("term_offsets", np.int64, (None,)))
            self.vocabulary = {term: i for i, term in enumerate(terms)}
            if len(self.vocabulary) != len(terms):
                raise ModelError("a term of the vocabulary occurs twice")
        elif not self.weighting.learns_nothing:
            self.buckets = state.array("buckets", np.int32, (None,))
            if self.buckets.size == 0 or self.buckets[0] < 0 or (np.diff(self.buckets) <= 0).any():
                raise ModelError("the array buckets must hold whole numbers from 0 up, each once and in order")
        if self.weighting.idf:
            self.idf = state.array("idf", np.float32, (self.n_columns,))
            check_finite("idf", self.idf)
        self._set_weights()


def _renumbered(counts: sparse.csr_matrix, number: NDArray[np.int32], width: int) -> sparse.csr_matrix:
    """Return the columns that have a new number, -1 standing for none; entries keep their order within a row."""
    indices = number[np.minimum(counts.indices, number.size - 1)]
    kept = (indices >= 0) & (counts.indices < number.size)
    indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int32)], dtype=np.int32)[counts.indptr]
    return sparse.csr_matrix((counts.data[kept], indices[kept], indptr), shape=(counts.shape[0], width))


def _as_count(limit: int | float, n_texts: int) -> float:
    return limit * n_texts if isinstance(limit, (float, np.floating)) else limit
