"""Many texts as one UTF-8 buffer: a sequence of strings that may lie in a mapped file instead of in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail.errors import DataError


class Texts(Sequence[str]):
    """An immutable sequence of strings over `buffer` (UTF-8 bytes) and `offsets` (n + 1 positions in it).

    A slice shares the buffer. Items are decoded when they are asked for, so iterating holds one string at a time.
    """

    __slots__ = ("buffer", "offsets")

    buffer: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __init__(self, buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        if buffer.dtype != np.uint8 or offsets.dtype != np.int64 or buffer.ndim != 1 or offsets.ndim != 1:
            raise DataError("texts need a flat uint8 buffer and flat int64 offsets")
        if offsets.size == 0 or offsets[0] < 0 or offsets[-1] > buffer.size or (np.diff(offsets) < 0).any():
            raise DataError(f"the offsets of the texts must rise from 0 to at most {buffer.size}, the buffer's size")
        self.buffer, self.offsets = buffer, offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> Self:
        """Texts from any iterable of strings, which is read once and not kept."""
        if isinstance(strings, cls):
            return strings
        builder = TextsBuilder()
        for row, text in enumerate(strings):
            if not isinstance(text, str):
                raise DataError(f"text {row} is {type(text).__name__}, but must be a string")
            try:
                builder.append(text)
            except UnicodeEncodeError as error:
                raise DataError(f"text {row} cannot be written as UTF-8 ({error.reason})") from error
        return cls(*builder.arrays())

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Texts: ...

    def __getitem__(self, index: int | slice) -> str | Texts:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return Texts(self.buffer, self.offsets[start : max(start, stop) + 1])
            return self.subset(np.arange(start, stop, step))
        row = range(len(self))[index]
        return self._decode(self.offsets[row], self.offsets[row + 1])

    def __iter__(self) -> Iterator[str]:
        for row in range(len(self)):
            yield self._decode(self.offsets[row], self.offsets[row + 1])

    def _decode(self, start: np.int64, end: np.int64) -> str:
        return self.buffer[start:end].tobytes().decode("utf-8")

    def subset(self, rows: ArrayLike) -> Texts:
        """The texts of these rows (ids or a mask), in that order."""
        chosen = np.arange(len(self))[np.asarray(rows)]
        builder = TextsBuilder()
        for row in chosen:
            builder.append_bytes(self.buffer[self.offsets[row] : self.offsets[row + 1]].data)
        return Texts(*builder.arrays())

    def packed(self) -> Texts:
        """The same texts over a buffer without anything before, behind or between them that is not theirs."""
        start, end = self.offsets[0], self.offsets[-1]
        return Texts(self.buffer[start:end], self.offsets - start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Texts):
            return NotImplemented
        mine, theirs = self.packed(), other.packed()
        return np.array_equal(mine.offsets, theirs.offsets) and np.array_equal(mine.buffer, theirs.buffer)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Texts({len(self)} texts, {int(self.offsets[-1] - self.offsets[0])} bytes)"


class TextsBuilder:
    """Collects texts one by one into a growing byte buffer."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._offsets = array("q", [0])

    def append(self, text: str) -> None:
        self.append_bytes(text.encode("utf-8"))

    def append_bytes(self, encoded: bytes | memoryview[Any]) -> None:
        self._bytes += encoded
        self._offsets.append(len(self._bytes))

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The buffer and the offsets, without a copy; the builder must not be used afterwards."""
        return np.frombuffer(self._bytes, dtype=np.uint8), np.frombuffer(self._offsets, dtype=np.int64)
