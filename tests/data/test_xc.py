from __future__ import annotations

import gzip
import lzma
import math
import threading
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail.data import Dataset, xc, xc_kernels
from longtail.data.xc import read_xc, write_xc
from longtail.errors import DataError, OutputError

SAMPLE = b"4 6 5\n0,3 0:1 2:0.5\n 5:2\n1:-3e-2 4:7\n2\n"
SAMPLE_Y = [[1, 0, 0, 1, 0], [0] * 5, [0] * 5, [0, 0, 1, 0, 0]]
SAMPLE_X = [[1, 0, 0.5, 0, 0, 0], [0, 0, 0, 0, 0, 2], [0, -0.03, 0, 0, 7, 0], [0] * 6]


def read(folder: Path, content: bytes, name: str = "data.txt", **options) -> Dataset:
    path = folder / name
    path.write_bytes(content)
    return read_xc(path, **options)


def slow_rows(content: bytes) -> tuple[list[list[int]], list[list[tuple[int, np.float32]]]]:
    """The plain twin of the kernels, for valid lines without a header."""
    labels, features = [], []
    for line in content.decode().splitlines():
        tokens = line.split()
        first = tokens.pop(0) if tokens and ":" not in tokens[0] else ""
        labels.append(sorted(int(label) for label in first.split(",") if label))
        pairs = (token.split(":") for token in tokens)
        features.append(sorted((int(index), np.float32(float(value))) for index, value in pairs))
    return labels, features


def test_reads_every_kind_of_line(tmp_path):
    data = read(tmp_path, SAMPLE)
    assert data.Y.toarray().tolist() == SAMPLE_Y
    np.testing.assert_array_equal(data.X.toarray(), np.array(SAMPLE_X, np.float32))
    assert (data.X.dtype, data.X.indices.dtype, data.Y.dtype) == (np.float32, np.int32, np.float32)


@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress), ("a.txt.zst", zstandard.compress), ("a.txt", bytes)],
)
def test_compression_and_line_endings_make_no_difference(tmp_path, name, compress):
    windows = SAMPLE.replace(b"\n", b"\r\n")
    without_last_newline = SAMPLE[:-1]
    for content in (SAMPLE, windows, without_last_newline, SAMPLE + b"\n\r\n"):
        data = read(tmp_path, compress(content), name)
        assert data.Y.toarray().tolist() == SAMPLE_Y
        np.testing.assert_array_equal(data.X.toarray(), np.array(SAMPLE_X, np.float32))


def test_several_zstandard_frames_are_one_file(tmp_path):
    content = zstandard.compress(SAMPLE[:20]) + zstandard.compress(SAMPLE[20:])
    assert read(tmp_path, content, "a.txt.zst").Y.toarray().tolist() == SAMPLE_Y


def test_without_header_the_widths_are_found_or_given(tmp_path):
    body = SAMPLE.split(b"\n", 1)[1]
    assert read(tmp_path, body).Y.shape == (4, 4)
    assert read(tmp_path, body).X.shape == (4, 6)
    wide = read(tmp_path, body, n_features=10, n_labels=7)
    assert (wide.X.shape, wide.Y.shape) == ((4, 10), (4, 7))
    assert read(tmp_path, SAMPLE, n_features=10).X.shape == (4, 10)


def test_header_is_three_whole_numbers_and_nothing_else(tmp_path):
    assert read(tmp_path, b"0 3 2\n").X.shape == (0, 3)
    assert read(tmp_path, b"7 1:2 2:3\n").Y.shape == (1, 8)
    assert read(tmp_path, b"7\n").Y.indices.tolist() == [7]
    assert read(tmp_path, b"\n\n").Y.shape == (2, 0)


def test_unsorted_features_and_labels_are_sorted(tmp_path):
    data = read(tmp_path, b"4,1,3 9:9 2:2 5:5\n0 1:1\n3,2 0:1 7:2 4:3\n")
    assert data.Y.indices.tolist() == [1, 3, 4, 0, 2, 3]
    assert data.X.indices.tolist() == [2, 5, 9, 1, 0, 4, 7]
    assert data.X.data.tolist() == [2, 5, 9, 1, 1, 3, 2]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", None, "the file is empty"),
        (b"3 2 2\n0 0:1\n", 2, "header says 3 points, but the file ends after 1"),
        (b"1 2 2\n0 0:1\n1 1:1\n", 3, "header says 1 points, but there are more lines"),
        (b"1 2 2\n0 0:1\n\nx\n", 3, "header says 1 points, but there are more lines"),
        (b"1 99999999999 2\n0 0:1\n", 1, "at most 2147483647"),
        (b"2 2 2\n0 0:1\n2 0:1\n", 3, "label at '2' is out of range: there are 2 labels"),
        (b"1 2 2\n0 0:1 2:1\n", 2, "feature at '2:1' is out of range: there are 2 features"),
        (b"0 99999999999999999999999:1\n", 1, "out of range"),
        (b"0 0:1\n0 -1:1\n", 2, "negative"),
        (b"-1 0:1\n", 1, "negative"),
        (b"0 1:1 1:2\n", 1, "feature 1 occurs twice"),
        (b"0 1:1\n0 3:1 1:2 3:4\n", 2, "feature 3 occurs twice"),
        (b"0 1:1\n2,0,2 3:1\n", 2, "label 2 occurs twice"),
        (b"0 1:nan\n", 1, "finite decimal value, like 7:0.25, at '1:nan'"),
        (b"0 1:1\n\n0 1:-inf\n", 3, "finite"),
        (b"0 1:1\n0 1:1e39\n", 2, "too large for a 32-bit"),
        (b"0 0:1\n0 1:1e999999999999 2:1\n", 2, "too large for a 32-bit"),
        (b"0 1:1 2\n", 1, "expected 'feature:value' at '2'"),
        (b"0 1:\n", 1, "finite"),
        (b"0 1:.\n", 1, "finite"),
        (b"0 1:1e\n", 1, "finite"),
        (b"0 1:1.2.3\n", 1, "finite"),
        (b"0 1:0x10\n", 1, "finite"),
        (b"0 1:1,2:3\n", 1, "finite"),
        (b"0 : 1\n", 1, "expected a label or feature index at ':'"),
        (b"0,,1 1:1\n", 1, "expected a label or feature index"),
        (b"0,1:1\n", 1, "expected labels like 3,17 at '1:1'"),
        (b"0.5 1:1\n", 1, "expected labels like 3,17 at '0.5'"),
        (b"law 1:1\n", 1, "expected a label or feature index at 'law'"),
        (b"0 1:1\rx\n", 1, "finite|index"),
        ("0 1:1\n".encode("utf-16"), 1, "not plain ASCII"),
        ("é 1:1\n".encode(), 1, "not plain ASCII"),
        (b"0 1:1\0\n", 1, "not plain ASCII"),
    ],
)
def test_errors_name_file_and_line(tmp_path, content, line, message):
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content)
    assert caught.value.line == line
    assert str(caught.value).startswith(str(tmp_path / "data.txt"))


def test_no_thread_outlives_an_error_that_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(xc, "thread_count", lambda n_jobs: 2)
    before = threading.active_count()
    with pytest.raises(DataError) as kept:
        read(tmp_path, b"0 1:nan\n")
    assert threading.active_count() == before
    del kept


def test_expected_widths_are_limits(tmp_path):
    with pytest.raises(DataError, match="header says 6 features, but 5 are expected"):
        read(tmp_path, SAMPLE, n_features=5)
    with pytest.raises(DataError, match="there are 4 features"):
        read(tmp_path, b"0 4:1\n", n_features=4)
    with pytest.raises(DataError, match="there are 2 labels"):
        read(tmp_path, b"0 4:1\n0,2 1:1\n", n_labels=2)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_truncated_and_damaged_compression_is_an_error(tmp_path, suffix):
    packed = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}[suffix](SAMPLE * 50)
    for content in (packed[:-9], packed[: len(packed) // 2], b"no such format"):
        with pytest.raises(DataError, match="damaged or truncated"):
            read(tmp_path, content, f"a.txt{suffix}")


def test_lines_longer_than_a_block_and_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(xc, "BLOCK_BYTES", 50)
    rng = np.random.default_rng(0)
    lines = []
    for row in range(200):
        features = rng.permutation(300)[: rng.integers(0, 40)]
        labels = ",".join(map(str, rng.permutation(50)[: rng.integers(0, 4)]))
        lines.append(labels + "".join(f" {f}:{rng.normal():.6g}" for f in features) + ("" if row % 3 else " "))
    content = "\n".join(lines).encode()
    labels, features = slow_rows(content)
    data = read(tmp_path, content)
    assert data.n_points == 200
    for row in range(200):
        assert data.Y[row].indices.tolist() == labels[row]
        assert list(zip(data.X[row].indices, data.X[row].data, strict=True)) == features[row]
    broken = [*lines[:150], "0 1:x", *lines[151:]]
    with pytest.raises(DataError, match="1:x") as caught:
        read(tmp_path, "\n".join(broken).encode())
    assert caught.value.line == 151


def parsed_value(text: str) -> tuple[float, bool]:
    block = np.frombuffer(text.encode() + b"\n", np.uint8)
    value, end, is_number, exact = xc_kernels.parse_value(block, 0)
    assert is_number
    assert end == len(text)
    return value, exact


def assert_rounds_like_python(text: str) -> None:
    """What the kernel calls exact must be float32(float(text)) to the last bit; else Python converts it anyway."""
    value, exact = parsed_value(text)
    if exact:
        assert np.float32(value) == np.float32(float(text))
        assert math.copysign(1, value) == math.copysign(1, float(text))


@settings(deadline=None, max_examples=400)
@given(
    st.one_of(
        st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: str(np.float32(x))),
        st.floats(min_value=-1e38, max_value=1e38).map(repr),
        st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?\Z").filter(
            lambda s: abs(float(s)) < 3e38
        ),
    )
)
def test_values_round_like_python(text: str):
    assert_rounds_like_python(text)


def test_values_at_half_way_points_round_like_python():
    # The worst case for two roundings: decimals next to the middle between two float32 numbers.
    rng = np.random.default_rng(1)
    for single in rng.lognormal(0, 10, 300).astype(np.float32):
        middle = (float(single) + float(np.nextafter(single, np.float32(np.inf)))) / 2
        for double in (np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf)):
            for text in (repr(float(double)), f"{double:.25e}", f"{double:.30f}"):
                assert_rounds_like_python(text)


def test_ordinary_values_stay_in_the_kernel():
    rng = np.random.default_rng(2)
    texts = (
        [repr(x) for x in rng.normal(size=200).tolist()]
        + [str(np.float32(x)) for x in rng.normal(size=200)]
        + ["0", "1"]
    )
    assert all(parsed_value(text)[1] for text in texts)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_is_written_is_read_back_exactly(tmp_path_factory, data):
    n, d, m = (data.draw(st.integers(0, 5)), data.draw(st.integers(1, 8)), data.draw(st.integers(1, 6)))
    cells = st.floats(width=32, allow_nan=False, allow_infinity=False)
    X = np.array([[data.draw(cells) for _ in range(d)] for _ in range(n)], np.float32).reshape(n, d)
    Y = np.array([[data.draw(st.integers(0, 1)) for _ in range(m)] for _ in range(n)], np.float32).reshape(n, m)
    path = tmp_path_factory.mktemp("xc") / "a.txt"
    write_xc(Dataset(Y=Y, X=X), path)
    again = read_xc(path)
    np.testing.assert_array_equal(again.X.toarray(), X)
    np.testing.assert_array_equal(again.Y.toarray(), Y)


def test_subnormal_and_extreme_values_survive(tmp_path):
    values = np.array([1e-45, 1.17549e-38, 3.4028235e38, -3.4028235e38, 1e-7, 16777217, 0.1], np.float32)
    write_xc(Dataset(Y=[[0]], X=sparse.csr_matrix(values[None, :])), tmp_path / "a.txt.zst")
    np.testing.assert_array_equal(read_xc(tmp_path / "a.txt.zst").X.data, values)


def test_writer_leaves_what_is_there(tmp_path):
    data = read(tmp_path, SAMPLE)
    with pytest.raises(OutputError, match="exists"):
        write_xc(data, tmp_path / "data.txt")
    assert (tmp_path / "data.txt").read_bytes() == SAMPLE
    write_xc(data, tmp_path / "data.txt", overwrite=True)
    assert (tmp_path / "data.txt").read_bytes() == b"4 6 5\n0,3 0:1 2:0.5\n 5:2\n 1:-0.03 4:7\n2 \n"
    with pytest.raises(DataError, match="only texts"):
        write_xc(Dataset(Y=[[0]], texts=["a"]), tmp_path / "other.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["data.txt"]


def test_counting_kernel_counts():
    block = np.frombuffer(b"1,2,3 1:2 3:4\n\n:,\n", np.uint8)
    assert xc_kernels.count_marks(block) == (3, 3, 3)
