"""How many texts have each term, counted chunk by chunk and part by part, in bounded memory, and always exactly.

Terms are in a dictionary until there are `MOST_TERMS`; then they leave it as a run: sorted, as plain arrays, in a file
if the workspace has a folder. In the end runs are merged term by term, and only those that are neither too rare nor
too frequent become Python strings again. So memory holds `MOST_TERMS` terms and those that remain.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.engine import Arrays
from longtail.core.state import as_bytes, from_bytes
from longtail.core.workspace import Workspace
from longtail.features.hashing import buckets_of

MOST_TERMS = 1 << 22  # in the dictionary: about half a gigabyte
_AT_ONCE = 1 << 11  # terms of a run that are read together


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Terms in order, with the number of texts that have them and of their occurrences.

    Attributes
    ----------
    terms : list of str
        Terms; empty if they are hashed.
    numbers : array of int64 or None
        Number of each term while counting, or its hash; None if terms left the dictionary meanwhile.
    in_texts : array of int64
        Texts that have the term.
    in_all : array of float64
        Occurrences of the term.
    n_distinct : int
        Number of terms before any were left out.
    """

    terms: list[str]
    numbers: NDArray[np.intp] | None
    in_texts: NDArray[np.int64]
    in_all: NDArray[np.float64]
    n_distinct: int

    def most_frequent(self, count: int) -> TermCounts:
        """Return the terms that occur most often, ties in order."""
        kept = np.sort(np.argsort(-self.in_all, kind="stable")[:count])
        terms = [self.terms[place] for place in kept.tolist()] if self.terms else []
        numbers = None if self.numbers is None else self.numbers[kept]
        return TermCounts(terms, numbers, self.in_texts[kept], self.in_all[kept], self.n_distinct)


class Tally:
    """Counts of terms.

    Parameters
    ----------
    hashing : int or None
        Number of hashes, where a term has its number by its hash.
    workspace : Workspace, optional
        Where runs are; in memory by default.
    """

    def __init__(self, hashing: int | None, workspace: Workspace | None = None) -> None:
        self._hashing, self._workspace = hashing, workspace or Workspace()
        self._runs: list[_Run] = []
        self.n_texts = 0
        self._clear()

    def _clear(self) -> None:
        self._ids: dict[str, int] = {}
        self._in_texts, self._in_all = np.zeros(0, np.int64), np.zeros(0)

    def numbers(self, terms: Sequence[str]) -> NDArray[np.int32]:
        """Return the number of each term; new ones get the next."""
        if self._hashing is not None:
            return buckets_of(terms, self._hashing)
        ids = self._ids
        return np.fromiter((ids.setdefault(term, len(ids)) for term in terms), np.int32, len(terms))

    def add(self, counts: sparse.csr_matrix) -> None:
        """Add counts of texts, whose columns are numbers of terms."""
        self.n_texts += counts.shape[0]
        width = self._widen()
        self._in_texts += np.bincount(counts.indices, minlength=width)
        self._in_all += np.bincount(counts.indices, weights=counts.data, minlength=width)

    def _widen(self) -> int:
        width = len(self._ids) if self._hashing is None else self._hashing
        self._in_texts = np.pad(self._in_texts, (0, width - self._in_texts.size))
        self._in_all = np.pad(self._in_all, (0, width - self._in_all.size))
        return width

    def arrays(self) -> Arrays:
        """Return what was counted, for the tally of other parts."""
        found: Arrays = {"n_texts": np.asarray(self.n_texts)}
        if self._hashing is None:
            found["terms"], found["offsets"] = as_bytes(list(self._ids))
            return found | {"in_texts": self._in_texts, "in_all": self._in_all}
        used = np.flatnonzero(self._in_texts)
        return found | {"hashes": used, "in_texts": self._in_texts[used], "in_all": self._in_all[used]}

    def absorb(self, arrays: Arrays) -> None:
        """Add what the tally of a part counted."""
        self.n_texts += int(arrays["n_texts"])
        if self._hashing is None:
            numbers = self.numbers(from_bytes(arrays["terms"], arrays["offsets"])).astype(np.intp)
        else:
            numbers = arrays["hashes"]
        self._widen()
        self._in_texts[numbers] += arrays["in_texts"]
        self._in_all[numbers] += arrays["in_all"]

    def bound(self) -> None:
        """Move the terms out of the dictionary if there are many; their numbers begin at 0 again."""
        if len(self._ids) > MOST_TERMS:
            self._runs.append(self._run())
            self._clear()

    def _run(self) -> _Run:
        terms = sorted(self._ids)
        order = np.fromiter((self._ids[term] for term in terms), np.intp, len(terms))
        buffer, offsets = self._workspace.growing(np.uint8), self._workspace.growing(np.int64)
        offsets.append(0)
        for term in terms:
            buffer.extend_bytes(term.encode())
            offsets.append(len(buffer))
        keep = self._workspace.keep
        return _Run(keep(buffer.array()), keep(offsets.array()), keep(self._in_texts[order]), keep(self._in_all[order]))

    def between(self, least: float, most: float) -> TermCounts:
        """Return the terms that so many texts have, in alphabetical order, or in that of their hashes."""
        if self._runs:
            self._runs.append(self._run())
            self._clear()
            return _merged(self._runs, least, most)
        found = np.flatnonzero((self._in_texts >= max(least, 1)) & (self._in_texts <= most))
        terms: list[str] = []
        if self._hashing is None:
            names = list(self._ids)
            found = np.asarray(sorted(found.tolist(), key=names.__getitem__), dtype=np.intp)
            terms = [names[number] for number in found.tolist()]
        distinct = int(np.count_nonzero(self._in_texts))
        return TermCounts(terms, found, self._in_texts[found], self._in_all[found], distinct)


@dataclass(frozen=True, eq=False)
class _Run:
    """Terms as UTF-8, whose order is that of the strings, and their counts."""

    buffer: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    in_texts: NDArray[np.int64]
    in_all: NDArray[np.float64]

    def __iter__(self) -> Iterator[tuple[bytes, int, float]]:
        for first in range(0, self.in_texts.size, _AT_ONCE):
            own = slice(first, first + _AT_ONCE)
            starts = self.offsets[first : first + _AT_ONCE + 1]
            content = self.buffer[starts[0] : starts[-1]].tobytes()
            bounds = (starts - starts[0]).tolist()
            terms = (content[start:end] for start, end in pairwise(bounds))
            yield from zip(terms, self.in_texts[own].tolist(), self.in_all[own].tolist(), strict=True)


def _merged(runs: list[_Run], least: float, most: float) -> TermCounts:
    """Return the terms of all runs that so many texts have; only these are in memory."""
    terms: list[str] = []
    kept_texts, kept_all = array("q"), array("d")
    n_distinct = 0
    for term, in_texts, in_all in _summed(heapq.merge(*runs)):
        n_distinct += 1
        if max(least, 1) <= in_texts <= most:
            terms.append(term.decode())
            kept_texts.append(in_texts)
            kept_all.append(in_all)
    return TermCounts(terms, None, np.array(kept_texts, np.int64), np.array(kept_all, np.float64), n_distinct)


def _summed(entries: Iterator[tuple[bytes, int, float]]) -> Iterator[tuple[bytes, int, float]]:
    """Add up entries of the same term, which follow each other."""
    last = next(entries, None)
    if last is None:
        return
    for entry in entries:
        if entry[0] == last[0]:
            last = (last[0], last[1] + entry[1], last[2] + entry[2])
        else:
            yield last
            last = entry
    yield last
