"""Terms of one kind (words, characters): their columns and weights, learned chunk by chunk, as plain arrays.

A term has its column by its name, in alphabetical order, or by its hash: then only the hashes are kept, not the names.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.check_arrays import check_finite
from longtail.core.engine import Arrays
from longtail.core.fields import split_field
from longtail.core.state import State, as_bytes, from_bytes
from longtail.core.threads import in_threads
from longtail.core.workspace import Workspace
from longtail.errors import DataError, ModelError
from longtail.features.counting import TermCounter
from longtail.features.hashing import buckets_of
from longtail.features.tally import Tally, TermCounts

_MOST_IDF = 100  # of more texts than there are


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
        self.begin()

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

    def begin(self, workspace: Workspace | None = None) -> None:
        """Forget what was counted, and count in this workspace from now on."""
        self._tally = Tally(self.weighting.hashing, workspace)
        self._kept: deque[sparse.csr_matrix] = deque()

    def learn(self, texts: list[str], *, keep: bool) -> None:
        """Count a chunk of training texts, and with `keep` remember its counts for `training_rows`."""
        counts = self.counter.count(texts, self._tally.numbers)
        if keep:
            self._kept.append(counts)
        if not self.weighting.learns_nothing:
            self._tally.add(counts)

    def counted(self) -> Arrays:
        """Return what was counted in a part of the texts."""
        return self._tally.arrays()

    def absorb(self, counted: Arrays) -> None:
        """Add what was counted in a part of the texts."""
        self._tally.absorb(counted)
        self._tally.bound()

    def bound(self) -> None:
        """Bound the memory of what was counted; not while counts are kept, whose numbers must stay."""
        self._tally.bound()

    def choose(self) -> None:
        """Choose the columns and set their weights; `training_rows` may follow."""
        if self.weighting.learns_nothing:
            return
        chosen = self._frequent()
        if self.weighting.max_features is not None:
            chosen = chosen.most_frequent(self.weighting.max_features)
        self._columns = chosen.numbers
        if self.weighting.hashing is None:
            self.vocabulary = {term: i for i, term in enumerate(chosen.terms)}
        elif chosen.numbers is not None:
            self.buckets = chosen.numbers.astype(np.int32)
        if self.weighting.idf:
            df = chosen.in_texts.astype(np.float32)
            n_texts = np.float32(self._tally.n_texts + 1)
            self.idf = np.log(n_texts / (df + 1)) + np.float32(1)  # scikit-learn's smooth idf
        self._set_weights()

    def _frequent(self) -> TermCounts:
        """Return the terms that are neither too rare nor too frequent."""
        n, weighting = self._tally.n_texts, self.weighting
        least, most = _as_count(weighting.min_df, n), _as_count(weighting.max_df, n)
        found = self._tally.between(least, most)
        if found.in_texts.size == 0:
            keep = self.counter.keep
            removed = ", stop words not counted," if keep is not None and keep.stop_words else ""
            raise DataError(
                f"no features left: none of the {found.n_distinct} distinct terms in {n} texts{removed} occurs in at "
                f"least {least:g} and at most {most:g} texts (min_df={weighting.min_df!r}, max_df={weighting.max_df!r})"
            )
        return found

    def training_rows(self, n_jobs: int | None) -> Iterator[sparse.csr_matrix]:
        """Yield the rows of the texts that were learned, chunk by chunk; their counts are not kept."""
        counted, numbers = self._kept, self._numbers()
        self.begin()

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
        assert self._columns is not None  # counts are kept, so no term has left
        numbers = np.full(self._columns.max() + 1, -1, np.int32)
        numbers[self._columns] = np.arange(self._columns.size, dtype=np.int32)
        return numbers

    def in_one_thread(self) -> TermTable:
        """Return the same table, which counts in one thread."""
        twin = copy.copy(self)
        twin.counter = replace(self.counter, n_jobs=1)
        return twin

    # --- weights ------------------------------------------------------------------------------------------------------

    def transform(self, texts: list[str]) -> sparse.csr_matrix:
        """Return the rows of a chunk of texts."""
        counts = self.counter.count(texts, self.columns_of)
        counts.resize(counts.shape[0], self.n_columns)
        return self._weighted(counts)

    def columns_of(self, terms: Sequence[str]) -> NDArray[np.int32]:
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
            if self.idf.size and not 0 <= self.idf.min() <= self.idf.max() <= _MOST_IDF:
                raise ModelError(f"the array idf contains numbers that are not from 0 to {_MOST_IDF}")
        self._set_weights()


def _renumbered(counts: sparse.csr_matrix, number: NDArray[np.int32], width: int) -> sparse.csr_matrix:
    """Return the columns that have a new number, -1 standing for none; entries keep their order within a row."""
    indices = number[np.minimum(counts.indices, number.size - 1)]
    kept = (indices >= 0) & (counts.indices < number.size)
    indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int32)], dtype=np.int32)[counts.indptr]
    return sparse.csr_matrix((counts.data[kept], indices[kept], indptr), shape=(counts.shape[0], width))


def _as_count(limit: int | float, n_texts: int) -> float:
    return limit * n_texts if isinstance(limit, (float, np.floating)) else limit
