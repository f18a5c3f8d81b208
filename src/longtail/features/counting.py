"""Texts to counts of terms: which words a text has, which terms they make, and how often each occurs.

Few texts, or a pattern that `features.words` does not know, take the plain path: Python's `re`, one text after the
other. Many texts are split and counted by compiled kernels in threads. Both give the same terms in the same order. In a
process that lives long, kernels are worth loading for few texts, too (`load_kernels`).
Stop words and stems are looked up once per distinct word of a chunk. Characters are counted by `features.characters`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.threads import in_threads, thread_count
from longtail.errors import DataError
from longtail.features.characters import count_characters, encodable
from longtail.features.filtering import WordFilter
from longtail.features.terms import Terms

DEFAULT_PATTERN = r"(?u)\b[^\W_][\w\-]*\b"
SCIKIT_LEARN_PATTERN = r"(?u)\b\w\w+\b"
COMPILED = (DEFAULT_PATTERN, SCIKIT_LEARN_PATTERN)  # patterns that the kernels know
MANY_TEXTS = 100  # from here on kernels are worth loading
_IN_THREADS = 100  # texts; fewer are counted before a thread would have started

Numbers = Callable[[Sequence[str]], NDArray[np.int32]]  # the column of each term, or -1 to drop it


@dataclass(frozen=True)
class TermCounter:
    """Counter of terms.

    Parameters
    ----------
    pattern : str
        Regular expression of a word.
    lowercase : bool
        Convert texts to lower case first.
    ngram_range : (int, int)
        Shortest and longest run of words, or characters, that is a term.
    n_jobs : int or None
        Number of threads.
    analyzer : {"word", "char", "char_wb"}, default "word"
        What terms are made of.
    keep : WordFilter or None, default None
        Stop words and stems.
    """

    pattern: str
    lowercase: bool
    ngram_range: tuple[int, int]
    n_jobs: int | None
    analyzer: str = "word"
    keep: WordFilter | None = None

    def count(self, texts: list[str], numbers: Numbers) -> sparse.csr_matrix:
        """Count the terms of a chunk of texts.

        Parameters
        ----------
        texts : list of str
            Texts, as `strings_in` yields them.
        numbers : callable
            Gives each term its column; a new term may widen the next matrix.

        Returns
        -------
        csr_matrix of float32
            Counts with sorted int32 indices, as wide as the highest column so far needs.
        """
        return _merged([(part, numbers(part.names)) for part in self._counted(texts)], len(texts))

    def _counted(self, texts: list[str]) -> Iterable[Terms]:
        if self.analyzer != "word":
            lower = [text.lower() for text in texts] if self.lowercase else texts
            return [count_characters(lower, *self.ngram_range, within_words=self.analyzer == "char_wb")]
        if len(texts) < MANY_TEXTS or self.pattern not in COMPILED:
            return [self._plain(texts)]
        if len(texts) < _IN_THREADS or thread_count(self.n_jobs) == 1:
            return [self._compiled(texts)]
        size = -(-len(texts) // thread_count(self.n_jobs))
        with in_threads(self._compiled, [texts[i : i + size] for i in range(0, len(texts), size)]) as parts:
            return list(parts)

    def _compiled(self, texts: list[str]) -> Terms:
        from longtail.features import words  # here: it loads Numba, which one text does not need

        split = words.split_texts([text.lower() for text in texts] if self.lowercase else texts, self.pattern)
        if self.keep is not None:
            split = words.renamed(split, self.keep(split.words))
        return Terms(*words.count_ngrams(split, *self.ngram_range))

    def _plain(self, texts: list[str]) -> Terms:
        ids: dict[str, int] = {}
        rows = [[ids.setdefault(term, len(ids)) for term in self.terms_of(text)] for text in texts]
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        indices = np.fromiter(chain.from_iterable(rows), np.int32, int(indptr[-1]))
        return Terms(list(ids), indptr, indices, np.ones(indices.size, np.float32))

    def terms_of(self, text: str) -> list[str]:
        """Return the terms of one text in order, n-grams by their length."""
        text = encodable(text)
        words: list[str] = re.findall(self.pattern, text.lower() if self.lowercase else text)
        if self.keep is not None:
            words = [word for word in self.keep(words) if word is not None]
        shortest, longest = self.ngram_range
        if longest == 1:
            return words
        return [" ".join(words[i : i + n]) for n in range(shortest, longest + 1) for i in range(len(words) - n + 1)]


def load_kernels() -> None:
    """Count few texts, too, by compiled kernels: these take a second to load, and a fifth of the time afterwards."""
    global MANY_TEXTS
    MANY_TEXTS = 1


def strings_in(texts: Iterable[str], chunk: int, first: int = 0) -> Iterator[list[str]]:
    """Yield texts in chunks; refuse items that are not strings, by their number, which begins at `first`."""
    if isinstance(texts, (str, bytes)):
        raise DataError("texts must be a sequence of strings, not one string; put it into a list")

    def checked(numbered: tuple[int, Any]) -> str:
        row, text = numbered
        if not isinstance(text, str):
            raise DataError(f"text {row} is {type(text).__name__} ({str(text)[:40]!r}), but must be a string")
        return text

    strings = map(checked, enumerate(texts, first))
    while taken := list(islice(strings, chunk)):
        yield taken


def _merged(parts: list[tuple[Terms, NDArray[np.int32]]], n_texts: int) -> sparse.csr_matrix:
    """Return the counts of all parts in one matrix, columns as numbered, each once per row and in order."""
    sizes, columns, values = [np.zeros(1, np.int64)], [], []
    for part, numbers in parts:
        found, data, indptr = numbers[part.indices], part.data, part.indptr
        if numbers.size and numbers.min() < 0:
            kept = found >= 0
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            found, data = found[kept], data[kept]
        sizes.append(np.diff(indptr))
        columns.append(found)
        values.append(data)
    width = max((int(numbers.max(initial=-1)) + 1 for _, numbers in parts), default=0)
    indptr = np.cumsum(np.concatenate(sizes)).astype(np.int32)
    joined = (np.concatenate(values), np.concatenate(columns), indptr)
    counts = sparse.csr_matrix(joined, shape=(n_texts, width))
    counts.sum_duplicates()
    return counts
