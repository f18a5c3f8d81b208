"""Split many texts into words and count them in compiled code: the fast twin of the plain path of `features.counting`.

Python's `re` takes most of the time of TF-IDF and holds the interpreter lock. The two usual patterns of a word need no
regular expression engine, only the class of each character:

default        `\\b[^\\W_][\\w\\-]*\\b`: starts with a letter or digit that no word character precedes, goes on with
               word characters and hyphens, and gives back hyphens at its end
scikit-learn   `\\b\\w\\w+\\b`: word characters, two or more

Kernels release the lock, so chunks of texts are counted in threads. Within a chunk, words and n-grams are numbered in
the order in which the plain path meets them (words of a text, then its pairs, ...), so a vocabulary that is collected
chunk by chunk numbers its terms as the plain path does, and sums of floats have the same order.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longtail.core.compiled import njit
from longtail.features.counting import DEFAULT_PATTERN

_OTHER, _ALPHANUMERIC, _UNDERSCORE = 0, 1, 2
_FIRST_WORDS = 1 << 13  # in a hash table, which doubles when there are more
_FNV_OFFSET, _FNV_PRIME = -0x340D631B7BDDDCDB, 0x100000001B3  # of 64 bits, over code points
_MIX = -0x61C8864680B583EB
_HYPHEN = ord("-")


@dataclass(frozen=True, eq=False)
class SplitTexts:
    """Words of a chunk of texts.

    Parameters
    ----------
    words : list of str
        Distinct words, in the order in which they occur.
    ids : (tokens,) array of int32
        Position in `words` of every word of every text.
    indptr : (texts + 1,) array of int64
        The words of text i are `ids[indptr[i]:indptr[i + 1]]`.
    """

    words: list[str]
    ids: NDArray[np.int32]
    indptr: NDArray[np.int64]


def split_texts(texts: Sequence[str], pattern: str) -> SplitTexts:
    """Return the words of texts, which must be in lower case already where that is wanted.

    Parameters
    ----------
    texts : sequence of str
        Texts.
    pattern : str
        One of `features.counting.COMPILED`.

    Returns
    -------
    SplitTexts
    """
    # Lone surrogates are no word characters; they need not survive, but must not fail either.
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    buffer = b"".join(encoded)
    text, hyphens, least = np.frombuffer(buffer, np.uint8), pattern == DEFAULT_PATTERN, 1 + (pattern != DEFAULT_PATTERN)
    # Pages that are not used cost nothing, so what cannot be known is as large as it could become.
    ids, indptr = np.empty(len(buffer) // 2 + len(texts), np.int32), np.zeros(len(texts) + 1, np.int64)
    first, n_words = 0, 0
    starts, ends, hashes = (np.empty(0, np.int64) for _ in range(3))
    while first < len(texts):
        size = max(_FIRST_WORDS, 2 * starts.size, n_words + int(np.diff(offsets[first : first + 2])[0]))
        starts, ends, hashes = (_longer(array, n_words, size) for array in (starts, ends, hashes))
        slots = _slots_for(size)
        _fill(slots, hashes, n_words)
        first, n_words = _split(
            text, offsets, character_classes(), hyphens, least, first, n_words, slots, starts, ends, hashes, ids, indptr
        )
    spans = zip(starts[:n_words].tolist(), ends[:n_words].tolist(), strict=True)
    return SplitTexts([buffer[start:end].decode() for start, end in spans], ids[: indptr[-1]].copy(), indptr)


def renamed(split: SplitTexts, names: Sequence[str | None]) -> SplitTexts:
    """Return the same texts with other words.

    Parameters
    ----------
    split : SplitTexts
        Words of texts.
    names : sequence of str or None
        New form of each distinct word, None to leave the word out; several may have the same.

    Returns
    -------
    SplitTexts
    """
    ids: dict[str, int] = {}
    found = (-1 if name is None else ids.setdefault(name, len(ids)) for name in names)
    numbers = np.fromiter(found, np.int32, len(names))[split.ids]
    before = np.concatenate([[0], np.cumsum(numbers >= 0)])
    return SplitTexts(list(ids), numbers[numbers >= 0], before[split.indptr])


def _longer(array: NDArray[np.int64], used: int, size: int) -> NDArray[np.int64]:
    longer = np.empty(size, np.int64)
    longer[:used] = array[:used]
    return longer


def _slots_for(entries: int) -> NDArray[np.int32]:
    """Return an empty hash table that stays half empty."""
    return np.zeros(1 << (2 * entries - 1).bit_length(), np.int32)


def count_ngrams(
    split: SplitTexts, shortest: int, longest: int
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Count the n-grams of words in each text.

    Parameters
    ----------
    split : SplitTexts
        Words of texts.
    shortest : int
        Fewest words in an n-gram.
    longest : int
        Most words in an n-gram.

    Returns
    -------
    terms : list of str
        Distinct n-grams, words joined by a space, in the order of first occurrence.
    indptr : array of int64
        Counts as CSR: where each text begins.
    indices : array of int32
        Positions in `terms`, not sorted.
    data : array of float32
        Counts.
    """
    ids, n_words = split.ids, len(split.words)
    most = longest * ids.size
    rows = np.zeros(split.indptr.size, np.int64)
    indices, data = np.empty(most, np.int32), np.empty(most, np.float32)
    if longest == 1:
        _count_words(ids, split.indptr, np.zeros(n_words, np.int64), rows, indices, data)
        return split.words, rows, indices[: rows[-1]].copy(), data[: rows[-1]].copy()
    lefts, rights = np.empty(most, np.int32), np.empty(most, np.int32)
    lengths, seen_at = np.ones(n_words + most, np.int64), np.zeros(n_words + most, np.int64)
    n_pairs = _count_ngrams(
        ids, split.indptr, n_words, longest, _slots_for(max(most, 1)), lefts, rights, lengths, np.empty_like(ids),
        seen_at, rows, indices, data,
    )  # fmt: skip
    names = list(split.words)
    for left, right in zip(lefts[:n_pairs].tolist(), rights[:n_pairs].tolist(), strict=True):
        names.append(f"{names[left]} {names[right]}")  # the left one is shorter, so it has its name already
    return _from_length(names, lengths, shortest, rows, indices[: rows[-1]], data[: rows[-1]])


def _from_length(
    names: list[str],
    lengths: NDArray[np.int64],
    shortest: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float32],
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Number n-grams by first occurrence, and drop those that are too short."""
    found, first = np.unique(indices, return_index=True)
    order = found[np.argsort(first)]
    order = order[lengths[order] >= shortest]
    number = np.full(len(names), -1, np.int32)
    number[order] = np.arange(order.size, dtype=np.int32)
    kept = lengths[indices] >= shortest
    before = np.concatenate([[0], np.cumsum(kept)])
    return [names[i] for i in order.tolist()], before[indptr], number[indices[kept]], data[kept]


@functools.cache
def character_classes() -> NDArray[np.uint8]:
    """Return the class of every code point: letters and digits, the underscore, others (what `\\w` means in `re`)."""
    alphanumeric = map(str.isalnum, map(chr, range(sys.maxunicode + 1)))
    classes = np.fromiter(alphanumeric, np.uint8, sys.maxunicode + 1)
    classes[ord("_")] = _UNDERSCORE
    return classes


# Rules for these kernels, each worth a factor: an array variable is never assigned again in a loop, and helpers are
# inlined (else references to every array are counted at each step); slices are not assigned (`a[:n] = b` makes Numba
# compile its own string formatting for an error message, which takes longer than all of this).


@njit(cache=True, nogil=True)
def _split(text, offsets, classes, hyphens, least, first, n_words, slots, starts, ends, hashes, ids, indptr):
    """Split texts from `first` on; return the text before which the hash table must grow, and the number of words."""
    n_ids = indptr[first]
    for i in range(first, offsets.shape[0] - 1):
        p, stop, after_word = offsets[i], offsets[i + 1], False
        if n_words + (stop - p + 1) // 2 > starts.shape[0]:
            return i, n_words
        while p < stop:
            size, code = _decode(text, p)
            kind = classes[code]
            if kind == _OTHER or (hyphens and (kind == _UNDERSCORE or after_word)):  # no word begins here
                p += size
                after_word = kind != _OTHER
                continue
            # A run of word characters (and hyphens), with its hash on the way; hyphens at its end are given back.
            start, end, length, h, end_hash = p, p, 0, _FNV_OFFSET, _FNV_OFFSET
            while kind != _OTHER or (hyphens and code == _HYPHEN):
                h = (h ^ code) * _FNV_PRIME
                p += size
                length += 1
                if kind != _OTHER:
                    end, end_hash = p, h
                if p == stop:
                    break
                size, code = _decode(text, p)
                kind = classes[code]
            p, after_word = end, True
            if length < least:
                continue
            slot = _slot_of(end_hash, slots)
            word = slots[slot] - 1
            while word >= 0:
                if hashes[word] == end_hash and ends[word] - starts[word] == end - start:
                    q, shift = start, starts[word] - start
                    while q < end and text[q] == text[q + shift]:
                        q += 1
                    if q == end:
                        break
                slot = (slot + 1) & (slots.shape[0] - 1)
                word = slots[slot] - 1
            if word < 0:
                word = n_words
                starts[word], ends[word], hashes[word] = start, end, end_hash
                n_words += 1
                slots[slot] = n_words
            ids[n_ids] = word
            n_ids += 1
        indptr[i + 1] = n_ids
    return offsets.shape[0] - 1, n_words


@njit(cache=True, nogil=True, inline="always")
def _decode(text, p):
    """Return the length in bytes and the code point of the UTF-8 character at p."""
    byte = np.int64(text[p])
    if byte < 0x80:
        return 1, byte
    if byte < 0xE0:
        return 2, (byte & 0x1F) << 6 | np.int64(text[p + 1]) & 0x3F
    if byte < 0xF0:
        return 3, (byte & 0x0F) << 12 | (np.int64(text[p + 1]) & 0x3F) << 6 | np.int64(text[p + 2]) & 0x3F
    high = (byte & 0x07) << 18 | (np.int64(text[p + 1]) & 0x3F) << 12
    return 4, high | (np.int64(text[p + 2]) & 0x3F) << 6 | np.int64(text[p + 3]) & 0x3F


@njit(cache=True, nogil=True, inline="always")
def _slot_of(h, slots):
    return (h ^ (h >> 32)) & (slots.shape[0] - 1)


@njit(cache=True, nogil=True)
def _fill(slots, hashes, n):
    """Enter n words into an empty hash table; a slot has one more than the number of its word, 0 if it is free."""
    for entry in range(n):
        slot = _slot_of(hashes[entry], slots)
        while slots[slot] > 0:
            slot = (slot + 1) & (slots.shape[0] - 1)
        slots[slot] = entry + 1


@njit(cache=True, nogil=True)
def _count_words(ids, indptr, seen_at, rows, indices, data):
    """Count the words of each text as CSR, in the order of first occurrence in the text."""
    n = 0
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            n = _count(ids[p], rows[i], n, seen_at, indices, data)
        rows[i + 1] = n


@njit(cache=True, nogil=True, inline="always")
def _count(term, row, n, seen_at, indices, data):
    """Count one term of the text whose entries start at `row`; return the new number of entries."""
    at = seen_at[term]  # one after its place in `indices`; up to `row`: not yet seen in this text
    if at > row:
        data[at - 1] += np.float32(1)
    else:
        n += 1
        indices[n - 1], data[n - 1], seen_at[term] = term, 1, n
    return n


@njit(cache=True, nogil=True)
def _count_ngrams(ids, indptr, n_words, longest, slots, lefts, rights, lengths, terms, seen_at, rows, indices, data):
    """Count the n-grams of up to `longest` words in each text as CSR; return how many have two words and more.

    Those are pairs of a shorter n-gram and a word; pair j has the number n_words + j.
    """
    n, n_pairs = 0, 0
    for i in range(indptr.shape[0] - 1):
        for length in range(1, longest + 1):
            for p in range(indptr[i], indptr[i + 1] - length + 1):
                if length == 1:
                    terms[p] = ids[p]
                else:  # terms[p] is the n-gram that begins here and is one word shorter
                    left, right = terms[p], ids[p + length - 1]
                    slot = _slot_of(((np.int64(left) << 32) ^ np.int64(right)) * _MIX, slots)
                    pair = slots[slot] - 1
                    while pair >= 0 and not (lefts[pair] == left and rights[pair] == right):
                        slot = (slot + 1) & (slots.shape[0] - 1)
                        pair = slots[slot] - 1
                    if pair < 0:
                        pair = n_pairs
                        lefts[pair], rights[pair], lengths[n_words + pair] = left, right, length
                        n_pairs += 1
                        slots[slot] = n_pairs
                    terms[p] = n_words + pair
                n = _count(terms[p], rows[i], n, seen_at, indices, data)
        rows[i + 1] = n
    return n_pairs
