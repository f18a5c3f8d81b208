"""Working copies: the same arrays in memory and in files without names; a full or missing folder is an error."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from longtail.core import workspace
from longtail.core.urls import path_or_url
from longtail.core.workspace import Workspace
from longtail.errors import OutputError
from longtail.linear.by_feature import by_feature, moments


@pytest.fixture(autouse=True)
def everything_gets_a_file(monkeypatch):
    monkeypatch.setattr(workspace, "_LEAST", 1)


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_arrays_are_mapped_from_files_without_names(tmp_path):
    place = Workspace(tmp_path)
    zeros = place.zeros((3, 5), np.int32)
    zeros[1, 2] = 7
    kept = place.keep(np.arange(10.0))
    joined, sizes = place.joined(
        ((np.full(n, n, np.float32), np.array([n])) for n in (2, 0, 3)), (np.float32, np.int64)
    )
    assert zeros.sum() == 7
    assert kept.tolist() == list(range(10))
    assert (joined.tolist(), sizes.tolist()) == ([2, 2, 3, 3, 3], [2, 0, 3])
    assert all(map(is_mapped, (zeros, kept, joined, sizes)))
    assert not kept.flags.writeable
    assert list(tmp_path.iterdir()) == []


def test_in_memory_everything_is_the_same():
    place = Workspace()
    assert not is_mapped(place.zeros((3,)))
    array = np.arange(3)
    assert np.shares_memory(place.keep(array), array)
    assert place.joined(iter([]), (np.float32, np.int64))[1].dtype == np.int64
    assert Workspace().joined([(np.ones(2, np.int32),)], (np.int32,))[0].tolist() == [1, 1]


@pytest.mark.parametrize("in_file", [False, True])
def test_a_growing_array_is_what_was_added(tmp_path, monkeypatch, in_file):
    monkeypatch.setattr(workspace, "_HELD", 32)
    place = Workspace(tmp_path if in_file else None)
    growing = place.growing(np.int64)
    assert place.growing(np.uint8).array().tolist() == []
    for number in range(50):
        growing.append(number)
        growing.extend([number, number])
        growing.extend_bytes(np.full(number, 7, np.int64).data)
    wanted = np.concatenate([np.repeat([number, 7], [3, number]) for number in range(50)])
    assert len(growing) == wanted.size
    found = growing.array()
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)
    assert isinstance(found, np.memmap) == in_file
    assert list(tmp_path.iterdir()) == []


def test_nothing_at_all_can_be_joined_in_a_folder(tmp_path):
    assert [array.size for array in Workspace(tmp_path).joined(iter([]), (np.float32, np.int32))] == [0, 0]


def test_a_wrong_folder_is_named(tmp_path):
    with pytest.raises(OutputError, match="none is not a folder for working copies"):
        Workspace(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file is not a folder"):
        Workspace(tmp_path / "file")
    with pytest.raises(OutputError, match="s3://bucket/w is an address; working copies need a folder on a local disk"):
        Workspace(path_or_url("s3://bucket/w"))


def test_a_full_disk_is_said_before_anything_is_written(tmp_path):
    """A real failure: the process may not make files of more than 100 kB."""
    script = (
        "import resource, signal, sys\n"
        "from longtail.core.workspace import Workspace\n"
        "from longtail.errors import OutputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: Workspace(sys.argv[1]).zeros((10**6,))\n"
        "except OutputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert "no room for a working copy of 4,000,000 bytes" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fills_up_is_said_once(tmp_path):
    """What did not fit is still in a buffer, which is written again when the file is closed."""
    script = (
        "import resource, signal, sys\n"
        "import numpy as np\n"
        "from longtail.core.workspace import Workspace\n"
        "from longtail.errors import OutputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: Workspace(sys.argv[1]).joined(((np.arange(300),) for _ in range(1000)), (np.int64,))\n"
        "except OutputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.strip() == f"{tmp_path}: no room for a working copy (File too large)"
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mapped", [False, True])
def test_points_by_feature_and_their_moments(tmp_path, monkeypatch, mapped):
    monkeypatch.setattr("longtail.linear.by_feature._ENTRIES_AT_A_TIME", 7)
    X = sparse.random(40, 30, 0.15, format="csr", random_state=3, dtype=np.float32)
    dense = X.toarray()
    dense[:, [0, 9, 10, 29]] = 0  # features that no point has, the first and the last among them
    dense[:, 5] = 2.5  # one with more entries than a piece
    X = sparse.csr_matrix(dense)
    weights = np.linspace(0.5, 2, 40).astype(np.float32)
    entries = by_feature(X, Workspace(tmp_path if mapped else None))
    wanted = X.tocsc()
    np.testing.assert_array_equal(entries.ptr_of_features(), wanted.indptr)
    np.testing.assert_array_equal(entries.points, wanted.indices)
    np.testing.assert_array_equal(entries.values, wanted.data)
    np.testing.assert_array_equal(entries.bounds, dense.max(axis=0))
    weight, square = moments(entries, weights)
    dense = dense.astype(np.float64)
    np.testing.assert_allclose(weight, weights @ (dense != 0), rtol=1e-6)
    np.testing.assert_allclose(square, weights @ dense**2, rtol=1e-6)


def test_common_features_have_lists_by_falling_value():
    X = sparse.random(400, 12, 0.5, format="csr", random_state=4, dtype=np.float32)
    X.data[::7] *= -1
    X.data[::5] = 1
    counts = np.bincount(X.indices, minlength=12)
    entries = by_feature(X, Workspace(), common=float(np.median(counts)))
    assert set(np.diff(entries.lists)) == {1, 8}
    wanted = X.tocsc()
    for f in range(12):
        assert (np.diff(entries.lists)[f] > 1) == (counts[f] >= np.median(counts))
        own = slice(*entries.ptr_of_features()[[f, f + 1]])
        order = np.argsort(entries.points[own])
        np.testing.assert_array_equal(entries.points[own][order], wanted[:, [f]].indices)
        np.testing.assert_array_equal(entries.values[own][order], wanted[:, [f]].data)
        for number in range(*entries.lists[[f, f + 1]]):
            part = slice(*entries.ptr[[number, number + 1]])
            assert (np.diff(entries.points[part].astype(np.int64)) > 0).all()
            assert (entries.values[part] <= entries.bounds[number]).all()
            if number + 1 < entries.lists[f + 1]:
                assert (entries.values[part] > entries.bounds[number + 1]).all()
    weights = np.linspace(0.5, 2, 400).astype(np.float32)
    np.testing.assert_allclose(moments(entries, weights)[0], weights @ (X.toarray() != 0), rtol=1e-6)
