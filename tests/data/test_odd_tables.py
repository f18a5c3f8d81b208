"""Parquet columns of types that no text and no label has: one message, whatever Arrow raises."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet
import pytest

from longtail.data import read_dataset
from longtail.errors import DataError

NOT_UTF8 = pa.array([b"\xff\xfe"]).view(pa.string())
ODD = {
    "date far away": pa.array([2**30], pa.date32()),
    "unknown time zone": pa.array([1], pa.timestamp("us", tz="Nowhere/Land")),
    "duration": pa.array([1], pa.duration("s")),
    "nanoseconds": pa.array([10**18 + 1], pa.timestamp("ns")),
    "not UTF-8": NOT_UTF8,
    "list of not UTF-8": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), NOT_UTF8),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
    "list of floats": pa.array([[1.5]]),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("column", ["text", "labels"])
def test_odd_types_are_refused(tmp_path, kind, column):
    columns = {"text": pa.array(["a"]), "labels": pa.array(["b"]), column: ODD[kind]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet"):
        read_dataset(tmp_path / "a.parquet")
