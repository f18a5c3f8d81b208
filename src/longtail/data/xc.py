"""XC-repository files: an optional `N D L` header, then one line `l1,l2 f:v f:v` per point.

Labels and features count from 0. The line of a point without labels begins with a space or directly with `f:v`; an
empty line is a point without labels and features. Labels and features may be unsorted; they are sorted when read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import PathLike
from longtail.core.threads import in_threads, thread_count
from longtail.core.workspace import Workspace
from longtail.data import files, xc_kernels
from longtail.data.dataset import Dataset
from longtail.data.limits import COLUMNS, LINE_BYTES
from longtail.errors import DataError

BLOCK_BYTES = 1 << 20
# Each thread keeps blocks in memory, and with more threads the disk or the decompression is the bottleneck.
_MAX_THREADS = 8
_MAX_WIDTH = 2**31 - 1  # indices are int32
_HEADER = re.compile(rb"(\d+) +(\d+) +(\d+) *\r?\n?")
_ROWS_HEADER = re.compile(rb"(\d+) +(\d+) *\r?\n?")
_ROUNDS_TO_INFINITY = 2.0**128 - 2.0**103  # half a unit above the largest float32


def read_xc(
    path: PathLike, *, n_features: int | None = None, n_labels: int | None = None, workspace: Workspace | None = None
) -> Dataset:
    """Read an XC file; `n_features` and `n_labels` are the widths of X and Y, at least those of the file.

    X and Y are in memory, or in files of a workspace.
    """
    with files.reading(path) as stream:
        first = stream.readline(LINE_BYTES.value() + 1)
        files.check_line(first, path, 1)
        if not first:
            raise DataError("the file is empty", path=path)
        header = _read_header(first, path, n_features, n_labels)
        rest = b"" if header.given else first
        limits = header.n_labels, header.n_features
        parsed = _Lines(path, header, workspace)
        with in_threads(
            lambda block: _parse_block(block, *limits),
            _blocks_of_lines(stream, rest, path),
            n_jobs=min(thread_count(None), _MAX_THREADS),
        ) as blocks:
            for block in blocks:
                parsed.append(block)
    Y, X = parsed.matrices(n_labels, n_features)
    return Dataset(Y=Y, X=X)


def read_sparse_rows(
    path: PathLike, *, width: int | None, what: str, workspace: Workspace | None = None
) -> sparse.csr_matrix:
    """Return the matrix of a file with a header `rows columns` and lines `index:value ...`; `what` its columns are."""
    with files.reading(path) as stream:
        match = _ROWS_HEADER.fullmatch(stream.readline(100))
        if match is None:
            raise DataError(f"must begin with a line 'points {what}', like '1000 500'", path=path, line=1)
        n_points, n_columns = (int(group) if len(group) < 19 else 10**18 for group in match.groups())
        if n_columns > _MAX_WIDTH or (width is not None and n_columns > width):
            expected = _MAX_WIDTH if width is None else width
            raise DataError(f"the header says {n_columns} {what}, but {expected} are expected", path=path, line=1)
        # The lines are those of an XC file without labels; only the header differs.
        parsed = _Lines(path, _Header(True, n_points, n_columns, 0), workspace)
        for block in _blocks_of_lines(stream, b"", path):
            parsed.append(_parse_block(block, 0, n_columns))
    return parsed.matrices(0, width)[1]


@dataclass(frozen=True)
class _Header:
    """Counts in the header of a file; without a header, limits from the caller or the index type."""

    given: bool
    n_points: int
    n_features: int
    n_labels: int


def _read_header(first: bytes, path: PathLike, n_features: int | None, n_labels: int | None) -> _Header:
    match = _HEADER.fullmatch(first)
    if match is None:
        return _Header(False, -1, *(_MAX_WIDTH if wanted is None else wanted for wanted in (n_features, n_labels)))
    counts = [int(group) if len(group) < 19 else 10**18 for group in match.groups()]
    for count, wanted, what in ((counts[1], n_features, "features"), (counts[2], n_labels, "labels")):
        if count > _MAX_WIDTH:
            raise DataError(f"the header says {count} {what}; at most {_MAX_WIDTH} can be read", path=path, line=1)
        if wanted is not None and count > wanted:
            raise DataError(f"the header says {count} {what}, but {wanted} are expected", path=path, line=1)
    return _Header(True, *counts)


def _blocks_of_lines(stream: BinaryIO, rest: bytes, path: PathLike) -> Iterator[bytes]:
    """Yield the stream in blocks of whole lines; adds the newline of the last line if it is missing."""
    pieces = [rest]
    most = LINE_BYTES.value() // BLOCK_BYTES + 2
    while piece := stream.read(BLOCK_BYTES):
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            pieces.append(piece)
            if len(pieces) > most:
                LINE_BYTES.check(sum(map(len, pieces)), "bytes in one line, or more,", path=path)
            continue
        pieces.append(piece[:cut])
        yield b"".join(pieces)
        pieces = [piece[cut:]]
    last = b"".join(pieces)
    if last:
        yield last if last.endswith(b"\n") else last + b"\n"


@dataclass
class _Block:
    """Parsed lines of one block; `error` is (message, line within the block) if a line is malformed."""

    labels: NDArray[np.int32]
    label_ends: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    feature_ends: NDArray[np.int64]
    error: tuple[str, int] | None = None

    @property
    def trailing_empty_lines(self) -> int:
        """Number of lines at the end without labels and features."""
        filled = [
            int(np.searchsorted(ends, indices.size)) + 1
            for ends, indices in ((self.label_ends, self.labels), (self.feature_ends, self.features))
            if indices.size
        ]
        return int(self.label_ends.size) - max(filled, default=0)


def _parse_block(block: bytes, label_limit: int, feature_limit: int) -> _Block:
    data = np.frombuffer(block, dtype=np.uint8)
    newlines, commas, colons = xc_kernels.count_marks(data)
    labels, label_ends = np.empty(newlines + commas, np.int32), np.empty(newlines, np.int64)
    features, values = np.empty(colons, np.int32), np.empty(colons, np.float32)
    feature_ends, inexact = np.empty(newlines, np.int64), np.empty(2 * colons, np.int64)
    code, where, n_lines, n_features, n_inexact, labels_rise, features_rise = xc_kernels.parse_lines(
        data, label_limit, feature_limit, labels, label_ends, features, values, feature_ends, inexact
    )
    n_labels = int(label_ends[n_lines - 1]) if n_lines else 0
    parsed = _Block(
        labels[:n_labels], label_ends[:n_lines], features[:n_features], values[:n_features], feature_ends[:n_lines],
    )  # fmt: skip
    not_finite = _convert_inexact(block, inexact[: 2 * n_inexact].reshape(-1, 2), parsed)
    if not_finite is not None:
        parsed.error = not_finite
    elif code != xc_kernels.NO_ERROR:
        parsed.error = _message(code, block, where, label_limit, feature_limit), n_lines
    elif not (labels_rise and features_rise):
        parsed.error = _sort(parsed)
    return parsed


def _convert_inexact(block: bytes, inexact: NDArray[np.int64], parsed: _Block) -> tuple[str, int] | None:
    """Convert the few values that the kernel cannot round with certainty in Python; refuse those beyond float32."""
    for start, feature in inexact.tolist():
        token = _token(block, start)
        value = float(token)
        if abs(value) >= _ROUNDS_TO_INFINITY:
            line = int(np.searchsorted(parsed.feature_ends, feature, side="right"))
            return f"the value {_shown(token)} is too large for a 32-bit float", line
        parsed.values[feature] = value
    return None


def _sort(parsed: _Block) -> tuple[str, int] | None:
    """Sort labels and features within their lines, in place; an index that a line has twice is an error."""
    for what, ends, indices, values in (
        ("label", parsed.label_ends, parsed.labels, None),
        ("feature", parsed.feature_ends, parsed.features, parsed.values),
    ):
        lines = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
        order = np.lexsort((indices, lines))
        indices[:] = indices[order]
        if values is not None:
            values[:] = values[order]
        twice = np.flatnonzero((indices[1:] == indices[:-1]) & (lines[1:] == lines[:-1]))
        if twice.size:
            return f"{what} {indices[twice[0]]} occurs twice in this line", int(lines[twice[0]])
    return None


def _message(code: int, block: bytes, where: int, label_limit: int, feature_limit: int) -> str:
    token = _shown(_token(block, where) or block[where : where + 1])
    return {
        xc_kernels.NOT_A_NUMBER: f"expected a label or feature index at {token}",
        xc_kernels.NEGATIVE: f"the index at {token} is negative; labels and features count from 0",
        xc_kernels.LABEL_RANGE: f"the label at {token} is out of range: there are {label_limit} labels, from 0",
        xc_kernels.FEATURE_RANGE: f"the feature at {token} is out of range: there are {feature_limit} features, from 0",
        xc_kernels.NO_COLON: f"expected 'feature:value' at {token}",
        xc_kernels.BAD_VALUE: f"expected a feature with a finite decimal value, like 7:0.25, at {token}",
        xc_kernels.STRAY: f"expected labels like 3,17 at {token}",
    }[code]


def _token(block: bytes, where: int) -> bytes:
    end = where
    while block[end] not in b" \t\r\n":
        end += 1
    return block[where:end]


def _shown(token: bytes) -> str:
    text = repr(token[:40].decode("ascii", "backslashreplace")) + ("..." if len(token) > 40 else "")
    return text if token.isascii() and b"\0" not in token else f"{text} (the file is not plain ASCII text)"


class _Lines:
    """Parsed blocks of a file, joined into matrices."""

    def __init__(self, path: PathLike, header: _Header, workspace: Workspace | None = None) -> None:
        self._path, self._header, self._workspace = path, header, workspace or Workspace()
        growing = self._workspace.growing
        self._labels, self._features, self._values = growing(np.int32), growing(np.int32), growing(np.float32)
        self._label_ends, self._feature_ends = growing(np.int64), growing(np.int64)
        self._label_ends.append(0)
        self._feature_ends.append(0)
        self._n_lines = 0
        self._trailing_empty_lines = 0

    def append(self, block: _Block) -> None:
        if block.error is not None:
            message, line = block.error
            self._check_count(self._n_lines + line + 1, 0)
            raise DataError(message, path=self._path, line=self._n_lines + line + 1 + self._header.given)
        n_lines = block.label_ends.size
        self._n_lines += n_lines
        n_empty = block.trailing_empty_lines
        self._trailing_empty_lines = n_empty + (self._trailing_empty_lines if n_empty == n_lines else 0)
        self._check_count(self._n_lines, self._trailing_empty_lines)
        self._label_ends.extend_bytes((block.label_ends + len(self._labels)).data)
        self._feature_ends.extend_bytes((block.feature_ends + len(self._features)).data)
        self._labels.extend_bytes(block.labels.data)
        self._features.extend_bytes(block.features.data)
        self._values.extend_bytes(block.values.data)

    def _check_count(self, n_lines: int, n_empty: int) -> None:
        if self._header.given and n_lines - n_empty > self._header.n_points:
            said = f"the header says {self._header.n_points} points"
            raise DataError(f"{said}, but there are more lines", path=self._path, line=self._header.n_points + 2)

    def matrices(self, n_labels: int | None, n_features: int | None) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """Return Y and X."""
        header, n_points = self._header, self._n_lines
        if header.given:
            if n_points < header.n_points:
                said = f"the header says {header.n_points} points, but the file ends after {n_points}"
                raise DataError(said, path=self._path, line=n_points + 1)
            n_points = header.n_points  # the rest are empty lines at the end
        indices = self._labels.array()
        width = _width(indices, header.n_labels if header.given else None, n_labels)
        self._check_width(width, n_labels, "labels")
        ones = self._workspace.zeros(indices.shape, np.float32)
        ones.fill(1)
        Y = _canonical_csr(ones, indices, self._label_ends.array()[: n_points + 1], width)
        indices = self._features.array()
        width = _width(indices, header.n_features if header.given else None, n_features)
        self._check_width(width, n_features, "features")
        return Y, _canonical_csr(self._values.array(), indices, self._feature_ends.array()[: n_points + 1], width)

    def _check_width(self, width: int, wanted: int | None, what: str) -> None:
        if wanted is None:  # the file alone decides
            COLUMNS.check(width, what, path=self._path)


def _width(indices: NDArray[np.int32], header: int | None, wanted: int | None) -> int:
    found = int(indices.max()) + 1 if indices.size else 0
    return max(found, header or 0, wanted or 0)


def _canonical_csr(
    data: NDArray[np.float32], indices: NDArray[np.int32], indptr: NDArray[np.int64], width: int
) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix((data, indices, indptr), shape=(indptr.size - 1, width), copy=False)
    matrix.has_canonical_format = True  # every line is sorted by now; saves SciPy a pass
    return matrix


def write_xc(dataset: Dataset, path: PathLike, *, overwrite: bool = False) -> None:
    """Write X and Y with a header; values are the shortest decimals that read back as the same float32.

    The format cannot store texts, label names, label texts and parents.
    """
    if dataset.X is None:
        raise DataError("XC files store features, but this dataset has only texts; convert them to features first")
    with files.writing(path, overwrite=overwrite) as stream:
        stream.write(f"{dataset.n_points} {dataset.n_features} {dataset.n_labels}\n".encode())
        for start in range(0, dataset.n_points, 4096):
            rows = slice(start, start + 4096)
            stream.write(_formatted(dataset.Y[rows], dataset.X[rows]))


def _formatted(Y: sparse.csr_matrix, X: sparse.csr_matrix) -> bytes:
    labels = _joined_rows(Y.indptr, pa.array(Y.indices).cast(pa.large_string()), ",")
    pairs = (pa.array(X.indices).cast(pa.large_string()), pa.array(X.data).cast(pa.large_string()))
    features = _joined_rows(X.indptr, pc.binary_join_element_wise(*pairs, pa.scalar(":", pa.large_string())), " ")
    # The line of a point without labels begins with the separating space, so no line is empty.
    lines = pc.binary_join_element_wise(labels, features, pa.scalar(" ", pa.large_string()))
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _joined_rows(indptr: NDArray[np.integer[Any]], strings: pa.Array, separator: str) -> pa.Array:
    lists = pa.LargeListArray.from_arrays(pa.array(indptr, pa.int64()), strings)
    return pc.binary_join(lists, pa.scalar(separator, pa.large_string()))
