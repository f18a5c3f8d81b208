"""Texts in one UTF-8 buffer: a sequence of strings that may live in a memory-mapped file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail.core.workspace import Workspace
from longtail.errors import DataError, first_line


class Texts(Sequence[str]):
    """Immutable sequence of strings over one UTF-8 buffer.

    Items are decoded on access, so iterating keeps one string in memory at a time. A slice shares the buffer.

    Parameters
    ----------
    buffer : (bytes,) array of uint8
        UTF-8 bytes of all texts.
    offsets : (n + 1,) array of int64
        Text i is `buffer[offsets[i]:offsets[i + 1]]`.

    See Also
    --------
    Texts.of : make texts from strings.
    """

    __slots__ = ("buffer", "offsets")

    buffer: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __init__(self, buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        if buffer.dtype != np.uint8 or offsets.dtype != np.int64 or buffer.ndim != 1 or offsets.ndim != 1:
            raise DataError("texts need a one-dimensional uint8 buffer and one-dimensional int64 offsets")
        if offsets.size == 0 or offsets[0] < 0 or offsets[-1] > buffer.size or (np.diff(offsets) < 0).any():
            raise DataError(f"offsets of texts must be sorted and lie between 0 and the buffer's size, {buffer.size}")
        self.buffer, self.offsets = buffer, offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> Self:
        """Make texts from an iterable of strings, which is read once and not kept.

        Parameters
        ----------
        strings : iterable of str
            Strings; a `Texts` is returned as it is.

        Returns
        -------
        Texts

        Raises
        ------
        DataError
            If an item is not a string, or not valid Unicode.
        """
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
        try:
            return self.buffer[start:end].tobytes().decode("utf-8")
        except UnicodeDecodeError as error:  # a dataset directory that was changed and signed again
            raise DataError(f"a text is not UTF-8 ({first_line(error)}); convert the data again") from error

    def subset(self, rows: ArrayLike) -> Texts:
        """Return a copy of the texts of these rows.

        Parameters
        ----------
        rows : array_like
            Row ids, in the order wanted, or a boolean mask.

        Returns
        -------
        Texts
        """
        chosen = np.arange(len(self))[np.asarray(rows)]
        builder = TextsBuilder()
        for row in chosen:
            builder.append_bytes(self.buffer[self.offsets[row] : self.offsets[row + 1]].data)
        return Texts(*builder.arrays())

    def packed(self) -> Texts:
        """Return the same texts over a buffer that contains nothing else."""
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
    """Builder of `Texts`: collects texts in a growing byte buffer.

    Parameters
    ----------
    workspace : Workspace, optional
        Where the buffer is; in memory by default.
    """

    def __init__(self, workspace: Workspace | None = None) -> None:
        workspace = workspace or Workspace()
        self._bytes, self._offsets = workspace.growing(np.uint8), workspace.growing(np.int64)
        self._offsets.append(0)

    def append(self, text: str) -> None:
        """Add a text."""
        self.append_bytes(text.encode("utf-8"))

    def append_bytes(self, encoded: bytes | memoryview[Any]) -> None:
        """Add a text that is already UTF-8."""
        self._bytes.extend_bytes(encoded)
        self._offsets.append(len(self._bytes))

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return buffer and offsets without a copy; the builder must not be used afterwards."""
        return self._bytes.array(), self._offsets.array()
