"""TF-IDF features of texts: scikit-learn's weighting, computed in chunks, with plain arrays as fitted state.

`features.counting` counts terms; here they get columns and weights. Neither fitting nor transforming keeps the texts
in memory.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.base import Parameterised
from longtail.core.check_arrays import check_finite
from longtail.core.parameters import check_choice, check_whole
from longtail.core.state import State, as_bytes, from_bytes
from longtail.core.threads import in_threads, thread_count
from longtail.errors import DataError, ModelError, NotFittedError, ParameterError
from longtail.features.counting import DEFAULT_PATTERN, TermCounter
from longtail.features.patterns import may_explode

CHUNK = 2_000  # texts counted at once
BIAS_NAME = "(bias)"


class TextFeatures(Parameterised):
    r"""Word n-gram TF-IDF: texts to CSR float32 rows, as scikit-learn's `TfidfVectorizer` computes them.

    Parameters
    ----------
    ngram_range : (int, int), default (1, 1)
        Shortest and longest run of words that is a feature.
    sublinear_tf : bool, default True
        Use 1 + log(count) instead of the count.
    min_df : int or float, default 3
        Drop terms that occur in fewer texts: a number of texts (int) or a share of them (float).
    max_df : int or float, default 0.5
        Drop terms that occur in more texts, likewise.
    token_pattern : str, default r"(?u)\b[^\W_][\w\-]*\b"
        Regular expression of a word.
    lowercase : bool, default True
        Convert texts to lower case first.
    norm : {"l2", "l1", None}, default "l2"
        Scale each row to this norm.
    max_features : int or None, default None
        Keep only this many terms, the most frequent ones; None keeps all.
    bias : float, default 0.0
        If above 0, add a constant feature of this value as the last column, after the norm.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The features do not depend on it.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column per term.
    idf_ : array
        Inverse document frequency per term.
    n_texts_ : int
        Number of texts in `fit`.
    """

    def __init__(
        self,
        *,
        ngram_range: tuple[int, int] = (1, 1),
        sublinear_tf: bool = True,
        min_df: int | float = 3,
        max_df: int | float = 0.5,
        token_pattern: str = DEFAULT_PATTERN,
        lowercase: bool = True,
        norm: str | None = "l2",
        max_features: int | None = None,
        bias: float = 0.0,
        n_jobs: int = -1,
    ) -> None:
        self.ngram_range = ngram_range
        self.sublinear_tf = sublinear_tf
        self.min_df = min_df
        self.max_df = max_df
        self.token_pattern = token_pattern
        self.lowercase = lowercase
        self.norm = norm
        self.max_features = max_features
        self.bias = bias
        self.n_jobs = n_jobs

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:
        """Learn the vocabulary and its weights in one pass over the texts.

        Parameters
        ----------
        texts : iterable of str
            Texts; they are not kept.
        y : ignored

        Returns
        -------
        self
        """
        self._learn(texts, keep=False)
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> sparse.csr_matrix:
        """Fit and transform the same texts, which are read only once.

        Parameters
        ----------
        texts : iterable of str
            Texts.
        y : ignored

        Returns
        -------
        (n, n_features_) csr_matrix of float32
        """
        columns, counted = self._learn(texts, keep=True)
        number = np.full(columns.max() + 1, -1, np.int32)
        number[columns] = np.arange(columns.size, dtype=np.int32)

        def weigh(_: int) -> sparse.csr_matrix:
            return self._weighted(_renumbered(counted.popleft(), number, columns.size))

        with in_threads(weigh, range(len(counted)), n_jobs=self.n_jobs) as blocks:
            return _stack(blocks, self.n_features_)

    def transform(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """Return the features of the texts; unknown words are ignored.

        Parameters
        ----------
        texts : iterable of str
            Texts.

        Returns
        -------
        (n, n_features_) csr_matrix of float32
            With sorted int32 indices.
        """
        return _stack(self.transform_chunks(texts), self.n_features_)

    def transform_chunks(self, texts: Iterable[str], chunk: int = CHUNK) -> Iterator[sparse.csr_matrix]:
        """Transform texts in blocks, for features that do not fit into memory.

        Parameters
        ----------
        texts : iterable of str
            Texts, read as they are needed.
        chunk : int, default 2000
            Texts per block.

        Returns
        -------
        iterator of csr_matrix
        """
        check_whole("chunk", chunk, 1)
        self.check_fitted()
        return self._transformed(texts, int(chunk))

    def _transformed(self, texts: Iterable[str], chunk: int) -> Iterator[sparse.csr_matrix]:
        known = self.vocabulary_

        def numbers(terms: Sequence[str]) -> NDArray[np.int32]:
            return np.fromiter((known.get(term, -1) for term in terms), np.int32, len(terms))

        for counts in self._counter().chunks(texts, chunk, numbers):
            counts.resize(counts.shape[0], len(known))
            yield self._weighted(counts)

    @property
    def n_features_(self) -> int:
        """Number of columns: the vocabulary and the bias, if there is one."""
        self.check_fitted()
        return len(self.vocabulary_) + (self.bias > 0)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the term of each column."""
        self.check_fitted()
        return np.array([*self.vocabulary_, *([BIAS_NAME] if self.bias > 0 else [])], dtype=object)

    def _learn(self, texts: Iterable[str], *, keep: bool) -> tuple[NDArray[np.intp], deque[sparse.csr_matrix]]:
        """Count chunk by chunk and set the fitted attributes.

        Returns the columns that make the vocabulary, in its order, and with `keep` the counts of each chunk.
        """
        self.check_parameters()
        ids: defaultdict[str, int] = defaultdict()
        ids.default_factory = ids.__len__
        n_texts, in_texts, in_all = 0, np.zeros(0, np.int64), np.zeros(0)
        kept: deque[sparse.csr_matrix] = deque()

        def numbers(terms: Sequence[str]) -> NDArray[np.int32]:
            return np.fromiter((ids[term] for term in terms), np.int32, len(terms))

        for counts in self._counter().chunks(texts, CHUNK, numbers):
            n_texts += counts.shape[0]
            in_texts = np.pad(in_texts, (0, len(ids) - in_texts.size))
            in_all = np.pad(in_all, (0, len(ids) - in_all.size))
            in_texts += np.bincount(counts.indices, minlength=len(ids))
            in_all += np.bincount(counts.indices, weights=counts.data, minlength=len(ids))
            if keep:
                kept.append(counts)
        return self._choose(list(ids), n_texts, in_texts, in_all), kept

    def _choose(
        self, terms: list[str], n_texts: int, in_texts: NDArray[np.int64], in_all: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Set the vocabulary, in alphabetical order, and its idf; return the ids of its terms."""
        least, most = _as_count(self.min_df, n_texts), _as_count(self.max_df, n_texts)
        frequent = np.flatnonzero((in_texts >= least) & (in_texts <= most))
        if frequent.size == 0:
            raise DataError(
                f"no features left: none of the {len(terms)} distinct terms in {n_texts} texts occurs in at least "
                f"{least:g} and at most {most:g} texts (min_df={self.min_df!r}, max_df={self.max_df!r})"
            )
        chosen = sorted(frequent.tolist(), key=terms.__getitem__)
        if self.max_features is not None:
            # Most frequent first, ties in alphabetical order; then alphabetical again.
            chosen = sorted(sorted(chosen, key=lambda c: -in_all[c])[: self.max_features], key=terms.__getitem__)
        columns = np.asarray(chosen, dtype=np.intp)
        self.vocabulary_ = {terms[column]: i for i, column in enumerate(chosen)}
        df = in_texts[columns].astype(np.float32)
        self.idf_ = np.log(np.float32(n_texts + 1) / (df + 1)) + np.float32(1)  # scikit-learn's smooth idf
        self.n_texts_ = n_texts
        return columns

    def _weighted(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return the final rows from the counts of vocabulary terms, with the bits of scikit-learn."""
        values = counts.data
        if self.sublinear_tf:
            np.log(values, out=values)
            values += np.float32(1)
        values *= self.idf_[counts.indices]
        if self.norm is not None:
            # One sum per row in float64, in the order of its entries; other orders may differ in the last bit.
            row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
            sums = np.bincount(row, values * values if self.norm == "l2" else np.abs(values), counts.shape[0])
            lengths = np.sqrt(sums) if self.norm == "l2" else sums
            lengths[lengths == 0] = 1
            values = (values / lengths[row]).astype(np.float32)
        X = sparse.csr_matrix((values, counts.indices, counts.indptr), shape=counts.shape)
        X.sort_indices()
        if self.bias > 0:
            X = _with_last_column(X, np.float32(self.bias))
        return X

    def _counter(self) -> TermCounter:
        shortest, longest = self.ngram_range
        return TermCounter(self.token_pattern, self.lowercase, (shortest, longest), self.n_jobs)

    def check_fitted(self) -> None:
        """Raise NotFittedError if no vocabulary was learned."""
        if not hasattr(self, "vocabulary_"):
            raise NotFittedError("TextFeatures is not fitted; call fit(texts) first")

    def check_parameters(self) -> None:
        """Raise ParameterError for values that cannot be used."""
        try:
            shortest, longest = self.ngram_range
            in_order = 1 <= shortest <= longest
        except (TypeError, ValueError):
            in_order = False
        if not in_order:
            raise ParameterError(
                f"ngram_range is {self.ngram_range!r}, but must be (shortest, longest) with 1 <= shortest <= longest"
            )
        for name in ("min_df", "max_df"):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1
            share = isinstance(value, (float, np.floating)) and 0 <= value <= 1
            if not whole and not share:
                raise ParameterError(
                    f"{name} is {value!r}, but must be a number of texts (1 or more) or a share (0.0 to 1.0)"
                )
        thread_count(self.n_jobs)
        check_choice("norm", self.norm, ("l2", "l1", None))
        if self.max_features is not None and not (isinstance(self.max_features, int) and self.max_features >= 1):
            raise ParameterError(f"max_features is {self.max_features!r}, but must be None or a whole number from 1 up")
        if not isinstance(self.bias, (int, float)) or not 0 <= self.bias < np.inf:
            raise ParameterError(f"bias is {self.bias!r}, but must be a number from 0 up (0 adds no column)")
        try:
            groups = re.compile(self.token_pattern).groups
        except (re.error, TypeError) as error:
            raise ParameterError(
                f"token_pattern {self.token_pattern!r} is not a regular expression: {error}"
            ) from error
        if groups > 1:
            raise ParameterError(
                f"token_pattern {self.token_pattern!r} has {groups} capturing groups; at most 1 is allowed"
            )
        if may_explode(self.token_pattern):
            raise ParameterError(
                f"token_pattern {self.token_pattern!r} may take exponential time: it repeats repetitions, alternatives "
                "or a reference; put a separator between them, as in \\w+(?:-\\w+)*"
            )

    def _get_state(self) -> State:
        self.check_fitted()
        terms, offsets = as_bytes(list(self.vocabulary_))
        return State({"n_texts": self.n_texts_}, {"terms": terms, "term_offsets": offsets, "idf": self.idf_})

    def _set_state(self, state: State) -> None:
        terms = from_bytes(state.array("terms", np.uint8, (None,)), state.array("term_offsets", np.int64, (None,)))
        self.vocabulary_ = {term: i for i, term in enumerate(terms)}
        if len(self.vocabulary_) != len(terms):
            raise ModelError("a term of the vocabulary occurs twice")
        self.idf_ = state.array("idf", np.float32, (len(terms),))
        check_finite("idf", self.idf_)
        self.n_texts_ = state.whole("n_texts")


def _renumbered(counts: sparse.csr_matrix, number: NDArray[np.int32], width: int) -> sparse.csr_matrix:
    """Return the columns that have a new number, -1 standing for none; entries keep their order within a row."""
    indices = number[np.minimum(counts.indices, number.size - 1)]
    kept = (indices >= 0) & (counts.indices < number.size)
    indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int32)], dtype=np.int32)[counts.indptr]
    return sparse.csr_matrix((counts.data[kept], indices[kept], indptr), shape=(counts.shape[0], width))


def _as_count(limit: int | float, n_texts: int) -> float:
    return limit * n_texts if isinstance(limit, (float, np.floating)) else limit


def _with_last_column(X: sparse.csr_matrix, value: np.float32) -> sparse.csr_matrix:
    n, width = X.shape
    ends = X.indptr[1:]
    indices = np.insert(X.indices, ends, np.int32(width))
    indptr = X.indptr + np.arange(n + 1, dtype=np.int32)
    return sparse.csr_matrix((np.insert(X.data, ends, value), indices, indptr), shape=(n, width + 1))


def _stack(blocks: Iterable[sparse.csr_matrix], n_columns: int) -> sparse.csr_matrix:
    """Stack blocks of rows; indices are always int32, which SciPy's own vstack does not guarantee."""
    parts = list(blocks)
    if not parts:
        return sparse.csr_matrix((0, n_columns), dtype=np.float32)
    sizes = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
    indptr = np.cumsum(sizes, dtype=np.int64)
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    X = sparse.csr_matrix((data, indices, indptr), shape=(indptr.size - 1, n_columns), copy=False)
    X.has_canonical_format = True
    return X
