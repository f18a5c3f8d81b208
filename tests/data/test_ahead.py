"""Compressed files are read ahead in a thread: the same bytes, the same errors, and no thread that stays."""

from __future__ import annotations

import io
import lzma
import threading
import time

import pytest

from longtail.data import ahead, files
from longtail.errors import DataError


@pytest.fixture
def large(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGE", 1)
    monkeypatch.setattr(ahead, "_PIECE", 1000)
    file = tmp_path / "a.txt.xz"
    file.write_bytes(lzma.compress(b"".join(b"line %d\n" % i for i in range(20_000))))
    return file


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "longtail-read-ahead"]


def test_reads_the_same_bytes(large):
    with files.reading(large) as stream:
        assert stream.readline() == b"line 0\n"
        assert ours()
        assert stream.read() + stream.read() == b"".join(b"line %d\n" % i for i in range(1, 20_000))
    assert not ours()


def test_stops_where_the_reader_stops(large):
    with files.reading(large) as stream:
        assert stream.readline() == b"line 0\n"
    assert not ours()


def test_damage_is_found_where_it_is_read(large):
    large.write_bytes(large.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged or truncated"):
        _read_all(large)
    assert not ours()


def _read_all(file):
    with files.reading(file) as stream:
        assert stream.readline() == b"line 0\n"
        stream.read()


def test_a_slow_reader_holds_the_thread_back(monkeypatch):
    monkeypatch.setattr(ahead, "_PIECE", 10)
    source = io.BytesIO(bytes(1000))
    with ahead.read_ahead(source) as stream:
        time.sleep(0.3)
        assert source.tell() <= 10 * (ahead._PIECES_AHEAD + 1)
        assert stream.read() == bytes(1000)
