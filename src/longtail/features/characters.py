"""Count n-grams of characters, as scikit-learn's analyzers "char" and "char_wb" make them.

Within words ("char_wb"), the n-grams of a text are those of its words. So each distinct word of a chunk is cut only
once, and the counts of a text are a product: (texts x words) times (words x n-grams).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from longtail.features.terms import Terms

_SPACES = re.compile(r"\s\s+")


def count_characters(texts: Sequence[str], shortest: int, longest: int, *, within_words: bool) -> Terms:
    """Count n-grams of characters per text.

    Parameters
    ----------
    texts : sequence of str
        Texts.
    shortest : int
        Fewest characters in an n-gram.
    longest : int
        Most characters in an n-gram.
    within_words : bool
        Take n-grams within words, which are padded by a space on each side ("char_wb"); otherwise across the text.

    Returns
    -------
    Terms
    """
    clean = [encodable(text) for text in texts]
    if not within_words:
        cut = ([*_across(_SPACES.sub(" ", text), shortest, longest)] for text in clean)
        names, counts = _table(cut)
    else:
        words, in_texts = _table(text.split() for text in clean)
        names, in_words = _table(_within(word, shortest, longest) for word in words)
        counts = in_texts @ in_words
    return Terms(names, counts.indptr.astype(np.int64), counts.indices.astype(np.int32), counts.data)


def encodable(text: str) -> str:
    """Return the text with a question mark for each lone surrogate, which no file and no stemmer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _across(text: str, shortest: int, longest: int) -> Iterable[str]:
    return (text[i : i + n] for n in range(shortest, longest + 1) for i in range(len(text) - n + 1))


def _within(word: str, shortest: int, longest: int) -> list[str]:
    padded = f" {word} "
    if len(padded) <= shortest:
        return [padded]  # a word that is too short for any n-gram counts once, whole
    return [*_across(padded, shortest, longest)]


def _table(rows: Iterable[list[str]]) -> tuple[list[str], sparse.csr_matrix]:
    """Return the distinct strings of all rows, in the order in which they occur, and how often each row has them."""
    ids: dict[str, int] = {}
    columns, counts, sizes = [], [], [0]
    for row in rows:
        counted = Counter(row)
        columns.append(np.fromiter((ids.setdefault(string, len(ids)) for string in counted), np.int32, len(counted)))
        counts.append(np.fromiter(counted.values(), np.float32, len(counted)))
        sizes.append(len(counted))
    indptr = np.cumsum(sizes, dtype=np.int64)
    joined = [
        np.concatenate(parts) if parts else np.zeros(0, kind)
        for parts, kind in ((counts, np.float32), (columns, np.int32))
    ]
    return list(ids), sparse.csr_matrix((*joined, indptr), shape=(len(sizes) - 1, len(ids)))
