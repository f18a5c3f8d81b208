"""Features of texts: TF-IDF with scikit-learn's weighting, and vectors of an encoder; fitted state is plain arrays.

`features.counting` counts terms, `features.table` gives them columns and weights, `features.joining` puts kinds of
features side by side. Neither fitting nor transforming keeps the texts in memory.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import registry
from longtail.core.base import Parameterised
from longtail.core.engine import Arrays
from longtail.core.fields import JOINT, field_prefix, without_prefixes
from longtail.core.inputs import PathLike
from longtail.core.parameters import check_whole
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ModelError, NotFittedError
from longtail.features.checks import check_text_features
from longtail.features.counting import DEFAULT_PATTERN, TermCounter, strings_in
from longtail.features.filtering import WordFilter, stop_words_of
from longtail.features.joining import of_dense, side_by_side, stacked, with_last_column
from longtail.features.parts import learn_in_parts, transform_in_parts
from longtail.features.table import TermTable, Weighting

CHUNK = 2_000  # texts counted at once
ENCODED = 64  # texts that an encoder reads at once while fitting, so that progress can be seen
BIAS_NAME = "(bias)"


class Embeddings(Protocol):
    """Texts to dense vectors: `neural.text.embeddings.TextEmbeddings`."""

    width: int

    def vectors(self, texts: list[str]) -> NDArray[np.float32]: ...

    def state(self) -> State: ...


class TextFeatures(Parameterised):
    r"""TF-IDF of words or characters: texts to CSR float32 rows, as scikit-learn's `TfidfVectorizer` computes them.

    Beside them, if asked for: n-grams of characters, and the vectors of a pretrained encoder.

    Parameters
    ----------
    ngram_range : (int, int), default (1, 1)
        Shortest and longest run of words that is a feature; of characters with another analyzer. At most 100.
    sublinear_tf : bool, default True
        Use 1 + log(count) instead of the count.
    min_df : int or float, default 2
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
    analyzer : {"word", "char", "char_wb"}, default "word"
        What terms are made of: words, characters across the text, or characters within words.
    stop_words : str, list of str or None, default None
        Words to leave out: a language ("english", "finnish", ...) or a list. Languages other than English need the
        extra `stemming`.
    stem : str or None, default None
        Language of the Snowball stemmer, e.g. "english"; needs the extra `stemming`.
    idf : bool, default True
        Multiply by the inverse document frequency.
    hashing : int or None, default None
        Number of columns among which terms are distributed by their hash, e.g. 2**20: terms are then not kept. Columns
        that `min_df` and `max_df` leave out are removed, unless `idf` is False: then nothing is learned, all columns
        are there, and texts can be transformed without `fit`.
    field_weights : dict of str to float or None, default None
        Weights of fields, for texts whose words have the prefix of their field (`fields="separate"` in
        `read_dataset`). Fields without a weight have 1; stop words, stems, characters and embeddings, which leave the
        prefix out, need the name of each field here.
    char_ngrams : (int, int) or None, default None
        Add n-grams of characters within words beside the words, e.g. (3, 5); at most 100.
    char_weight : float, default 0.5
        Length of the row of characters where that of the words is 1, before both are scaled to length 1 together.
    embeddings : path-like or None, default None
        Folder of a pretrained encoder, e.g. of sentence-transformers, whose vectors are added as dense columns; needs
        the extra `deep`. The encoder is saved with the model.
    embedding_weight : float, default 1.0
        Length of the vector of the encoder, likewise.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. Features of terms do not depend on it.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column per term; empty with hashing.
    idf_ : array or None
        Inverse document frequency per term; None with `idf=False`.
    n_texts_ : int
        Number of texts in `fit`.
    """

    def __init__(
        self,
        *,
        ngram_range: tuple[int, int] = (1, 1),
        sublinear_tf: bool = True,
        min_df: int | float = 2,
        max_df: int | float = 0.5,
        token_pattern: str = DEFAULT_PATTERN,
        lowercase: bool = True,
        norm: str | None = "l2",
        max_features: int | None = None,
        bias: float = 0.0,
        analyzer: str = "word",
        stop_words: str | list[str] | None = None,
        stem: str | None = None,
        idf: bool = True,
        hashing: int | None = None,
        field_weights: dict[str, float] | None = None,
        char_ngrams: tuple[int, int] | None = None,
        char_weight: float = 0.5,
        embeddings: PathLike | None = None,
        embedding_weight: float = 1.0,
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
        self.analyzer = analyzer
        self.stop_words = stop_words
        self.stem = stem
        self.idf = idf
        self.hashing = hashing
        self.field_weights = field_weights
        self.char_ngrams = char_ngrams
        self.char_weight = char_weight
        self.embeddings = embeddings
        self.embedding_weight = embedding_weight
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
        for table in self.tables_:
            table.begin()
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
        vectors = self._learn(texts, keep=True)
        parts: list[Iterable[Any]] = [table.training_rows(self.n_jobs) for table in self.tables_]
        if self.embedder_ is None:
            blocks = (self._joined([*rows], None) for rows in zip(*parts, strict=True))
        else:
            blocks = (self._joined([*rows], found) for *rows, found in zip(*parts, vectors, strict=True))
        return stacked(blocks, self.n_features_)

    def fit_transform_in_parts(self, texts: Sequence[str], run: Run) -> sparse.csr_matrix:
        """Fit and transform the same texts in parts, wherever the engine of a run computes them.

        Texts are read twice: once for the vocabulary, once for the features. Neither counts nor features are in memory
        as a whole where the run has a workspace with a folder.

        Parameters
        ----------
        texts : sequence of str
            Texts, e.g. those of a dataset directory, which are mapped.
        run : Run
            Where parts are computed, and where the features are.

        Returns
        -------
        (n, n_features_) csr_matrix of float32
            What `fit_transform` returns.
        """
        if self.embeddings is not None:  # the encoder runs here
            self.fit(texts)
            return stacked(self.transform_chunks(texts), self.n_features_, run.workspace)
        self.check_parameters()
        stop_words = stop_words_of(self.stop_words)
        self._set_learned(len(texts), stop_words, self._new_tables(stop_words), None)
        learn_in_parts(self, texts, run)
        self._set_learned(len(texts), stop_words, self.tables_, None)  # with the vocabulary
        return transform_in_parts(self, texts, run)

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
        return stacked(self.transform_chunks(texts), self.n_features_)

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
        for strings in strings_in(texts, chunk):
            plain = self._without_prefixes(strings)
            words, *characters = self.tables_
            rows = [words.transform(strings), *(table.transform(plain) for table in characters)]
            yield self._joined(rows, None if self.embedder_ is None else self.embedder_.vectors(plain))

    @property
    def n_features_(self) -> int:
        """Number of columns: terms, vectors and the bias, as far as there are any."""
        self.check_fitted()
        vectors = 0 if self.embedder_ is None else self.embedder_.width
        return sum(table.n_columns for table in self.tables_) + vectors + (self.bias > 0)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the term of each column; its hash, as in "#123", with hashing."""
        self.check_fitted()
        words, *characters = self.tables_
        names = words.names() + [f"char:{name}" for table in characters for name in table.names()]
        if self.embedder_ is not None:
            names += [f"embedding:{i}" for i in range(self.embedder_.width)]
        return np.array([*names, *([BIAS_NAME] if self.bias > 0 else [])], dtype=object)

    def _learn(self, texts: Iterable[str], *, keep: bool) -> list[NDArray[np.float32]]:
        """Count chunk by chunk and set the fitted attributes; return the encoder's vectors with `keep`."""
        self.check_parameters()
        stop_words = stop_words_of(self.stop_words)
        tables = self._new_tables(stop_words)
        embedder = None
        if self.embeddings is not None:
            embedder = _embeddings_class().load(self.embeddings, n_jobs=self.n_jobs)
        n_texts, vectors = 0, []
        for strings in strings_in(texts, CHUNK if embedder is None else ENCODED):
            n_texts += len(strings)
            plain = self._without_prefixes(strings)
            self._count(tables, strings, plain, keep=keep)
            for table in () if keep else tables:
                table.bound()
            if keep and embedder is not None:
                vectors.append(embedder.vectors(plain))
        for table in tables:
            table.choose()
        self._set_learned(n_texts, stop_words, tables, embedder)
        return vectors

    @staticmethod
    def _count(tables: list[TermTable], strings: list[str], plain: list[str], *, keep: bool) -> None:
        for table in tables:
            table.learn(strings if table is tables[0] else plain, keep=keep)

    def in_one_thread(self) -> TextFeatures:
        """Return the same features, which use one thread: for parts that have a thread each."""
        twin = copy.copy(self)
        twin.n_jobs, twin.tables_ = 1, [table.in_one_thread() for table in self.tables_]
        return twin

    def counted(self, strings: list[str]) -> Arrays:
        """Return the counts of terms in a part of the texts, which `learn_in_parts` adds up."""
        tables = self._new_tables(self.stop_words_)
        self._count(tables, strings, self._without_prefixes(strings), keep=False)
        return {f"{kind}.{name}": array for kind, table in enumerate(tables) for name, array in table.counted().items()}

    def _set_learned(
        self, n_texts: int, stop_words: list[str], tables: list[TermTable], embedder: Embeddings | None
    ) -> None:
        self.n_texts_, self.stop_words_, self.tables_, self.embedder_ = n_texts, stop_words, tables, embedder
        self.vocabulary_, self.idf_ = tables[0].vocabulary, tables[0].idf

    def _new_tables(self, stop_words: list[str]) -> list[TermTable]:
        """Return an empty table of words, or of what the analyzer says, and one of characters if there are any."""
        fields = {
            (name.lower() if self.lowercase else name) + JOINT: weight
            for name, weight in ((field_prefix(field), weight) for field, weight in (self.field_weights or {}).items())
        }
        limits = (self.sublinear_tf, self.min_df, self.max_df, self.norm, self.max_features, self.hashing, self.idf)
        keep = None
        if stop_words or self.stem is not None:
            known = frozenset(word.lower() if self.lowercase else word for word in stop_words)
            keep = WordFilter(known, self.stem, frozenset(fields))

        def counter(analyzer: str, ngrams: tuple[int, int], keep: WordFilter | None) -> TermCounter:
            shortest, longest = ngrams
            return TermCounter(self.token_pattern, self.lowercase, (shortest, longest), self.n_jobs, analyzer, keep)

        tables = [TermTable(counter(self.analyzer, self.ngram_range, keep), Weighting(*limits, fields))]
        if self.char_ngrams is not None:
            tables.append(TermTable(counter("char_wb", self.char_ngrams, None), Weighting(*limits)))
        return tables

    def _without_prefixes(self, texts: list[str]) -> list[str]:
        """Return what characters and the encoder read: texts without the prefixes of fields."""
        beside = self.char_ngrams is not None or self.embeddings is not None
        return without_prefixes(texts, self.field_weights) if self.field_weights and beside else texts

    def _joined(self, rows: list[sparse.csr_matrix], vectors: NDArray[np.float32] | None) -> sparse.csr_matrix:
        """Return the kinds of features side by side, and the bias."""
        weights = [1.0, self.char_weight][: len(rows)]
        if vectors is not None:
            rows, weights = [*rows, of_dense(vectors)], [*weights, self.embedding_weight]
        X = rows[0] if len(rows) == 1 else side_by_side(rows, weights)
        return with_last_column(X, np.float32(self.bias)) if self.bias > 0 else X

    def check_fitted(self) -> None:
        """Raise NotFittedError if nothing was learned, unless there is nothing to learn."""
        if hasattr(self, "tables_"):
            return
        if self.hashing is None or self.idf or self.embeddings is not None:
            raise NotFittedError("TextFeatures is not fitted; call fit(texts) first")
        self._learn([], keep=False)

    def check_parameters(self) -> None:
        """Raise ParameterError for values that cannot be used."""
        check_text_features(self)

    def _get_state(self) -> State:
        self.check_fitted()
        words, *characters = self.tables_
        state = words.state()
        state.values["n_texts"] = self.n_texts_
        if self.stop_words_:
            state.values["stop_words"] = self.stop_words_
        for table in characters:
            state.nest("characters", table.state())
        if self.embedder_ is not None:
            state.nest("embeddings", self.embedder_.state())
        return state

    def _set_state(self, state: State) -> None:
        stop_words = state.values.get("stop_words", [])
        if not isinstance(stop_words, list) or not all(isinstance(word, str) for word in stop_words):
            raise ModelError("stop_words must be a list of words")
        words, *characters = self._new_tables(stop_words)
        words.restore(state)
        for table in characters:
            table.restore(state.part("characters"))
        embedder = None
        if self.embeddings is not None:
            embedder = _embeddings_class().from_state(state.part("embeddings"), n_jobs=self.n_jobs)
        self._set_learned(state.whole("n_texts"), stop_words, [words, *characters], embedder)


def _embeddings_class() -> Any:
    return registry.named_class("textembeddings")  # by its name: it is in another room, and loads torch
