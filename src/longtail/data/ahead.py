"""Read a stream ahead in a thread: decompression, which releases the interpreter lock, overlaps with parsing."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import Any, BinaryIO

_PIECE = 1 << 20
_PIECES_AHEAD = 8  # bounds the memory of a reader that is faster than the parser
_LOOK_AROUND = 0.1  # seconds after which a waiting thread checks whether it is still needed


@contextmanager
def read_ahead(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Give a buffered stream of the same bytes, which a thread reads ahead until the block ends.

    Parameters
    ----------
    stream : binary file
        Stream to read; used by the thread only. Its errors are raised where the bytes are read.

    Yields
    ------
    binary file
    """
    source = _Ahead(stream)
    try:
        yield io.BufferedReader(source, _PIECE)
    finally:
        source.stop()


class _Ahead(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._queue: Queue[memoryview | BaseException] = Queue(_PIECES_AHEAD)
        self._ready: memoryview | BaseException = memoryview(b"")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="longtail-read-ahead", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        piece: memoryview | BaseException = memoryview(b"first")
        while piece and not self._stopped.is_set():
            try:
                piece = memoryview(self._stream.read(_PIECE))
            except BaseException as error:  # for the reader of the bytes, whatever it is
                piece = error
            self._put(piece)
            if isinstance(piece, BaseException):
                return

    def _put(self, piece: memoryview | BaseException) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(piece, timeout=_LOOK_AROUND)
            except Full:
                continue
            return

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if isinstance(self._ready, memoryview) and not self._ready:
            self._ready = self._next()
        if isinstance(self._ready, BaseException):
            raise self._ready
        size = min(len(target), len(self._ready))
        target[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _next(self) -> memoryview | BaseException:
        while self._thread.is_alive() or not self._queue.empty():
            try:
                return self._queue.get(timeout=_LOOK_AROUND)  # not for ever: Ctrl-C comes through in between
            except Empty:
                continue
        return memoryview(b"")  # the end was read before

    def stop(self) -> None:
        """End the thread; the stream may be closed afterwards."""
        self._stopped.set()
        self._thread.join()
