from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Dataset
from longtail.data.npz import read_npz, write_npz
from longtail.errors import DataError, OutputError

DATA = Dataset(Y=[[0, 2], [], [1]], X=np.array([[0, 1.5], [0, 0], [2, -1]], np.float32))


@pytest.mark.parametrize(("features", "labels"), [("train.X.npz", "train.Y.npz"), ("X.trn.npz", "Y.trn.npz")])
def test_features_and_labels_lie_side_by_side(tmp_path, features, labels):
    write_npz(DATA, tmp_path / features)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([features, labels])
    assert (sparse.load_npz(tmp_path / labels) != DATA.Y).nnz == 0
    again = read_npz(tmp_path / features)
    assert (again.X != DATA.X).nnz == 0
    assert (again.Y != DATA.Y).nnz == 0


@pytest.mark.parametrize("kind", ["csc", "coo", "bsr", "csr"])
def test_other_sparse_formats_and_types_are_taken(tmp_path, kind):
    sparse.save_npz(tmp_path / "X.npz", DATA.X.astype(np.float64).asformat(kind))
    sparse.save_npz(tmp_path / "Y.npz", DATA.Y.astype(bool).asformat(kind))
    again = read_npz(tmp_path / "X.npz")
    assert again.X.dtype == np.float32
    assert (again.X != DATA.X).nnz == 0
    assert (again.Y != DATA.Y).nnz == 0


def test_names_and_missing_labels(tmp_path):
    write_npz(DATA, tmp_path / "a.X.npz")
    (tmp_path / "a.Y.npz").unlink()
    with pytest.raises(DataError, match=r"needs a label matrix in a\.Y\.npz in the same folder, which is missing"):
        read_npz(tmp_path / "a.X.npz")
    with pytest.raises(DataError, match="contain X once"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(OutputError, match="contain X once"):
        write_npz(DATA, tmp_path / "a.npz")
    with pytest.raises(DataError, match="only texts"):
        write_npz(Dataset(Y=[[0]], texts=["a"]), tmp_path / "b.X.npz")


def test_existing_files_are_kept(tmp_path):
    (tmp_path / "a.Y.npz").write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists"):
        write_npz(DATA, tmp_path / "a.X.npz")
    assert (tmp_path / "a.Y.npz").read_bytes() == b"mine"
    assert len(list(tmp_path.iterdir())) == 1
    write_npz(DATA, tmp_path / "a.X.npz", overwrite=True)
    assert read_npz(tmp_path / "a.X.npz").n_points == 3


def test_matrices_that_do_not_match_or_are_damaged(tmp_path):
    write_npz(DATA, tmp_path / "a.X.npz")
    parts = {"data": DATA.X.data, "indptr": DATA.X.indptr, "shape": np.array([3, 2]), "format": np.array(b"csr")}
    for indices, message in (([1, 0, 7], "is not a SciPy"), ([1, 0, -1], "is not a SciPy")):
        np.savez(tmp_path / "a.X.npz", indices=np.array(indices, np.int32), **parts)
        with pytest.raises(DataError, match=message):
            read_npz(tmp_path / "a.X.npz")
    np.savez(tmp_path / "a.X.npz", something=np.zeros(3))
    with pytest.raises(DataError, match="is not a SciPy sparse matrix"):
        read_npz(tmp_path / "a.X.npz")
    sparse.save_npz(tmp_path / "a.X.npz", DATA.X[:2])
    with pytest.raises(DataError, match=r"a\.Y\.npz: has labels of 3 points, but a\.X\.npz has 2"):
        read_npz(tmp_path / "a.X.npz")
    sparse.save_npz(tmp_path / "a.X.npz", DATA.X.astype(complex))
    with pytest.raises(DataError, match="matrix of numbers, not of complex"):
        read_npz(tmp_path / "a.X.npz")


def test_pickled_objects_are_not_loaded(tmp_path):
    write_npz(DATA, tmp_path / "a.X.npz")
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "a.X.npz", data=objects, indices=objects, indptr=objects, shape=[1, 1], format=np.array(b"csr"))
    with pytest.raises(DataError, match="allow_pickle=False"):
        read_npz(tmp_path / "a.X.npz")


KILLED_BETWEEN_TWO_FILES = """
import os, signal, sys
from longtail.data import read_dataset, write_dataset
new, replace = read_dataset(sys.argv[1]), os.replace
def replace_and_die(temporary, path):
    replace(temporary, path)
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = replace_and_die
write_dataset(new, sys.argv[2], overwrite=True)
"""


@pytest.mark.parametrize("by", ["longtail", "scipy"])
def test_a_kill_between_the_two_files_mixes_no_old_features_with_new_labels(tmp_path, by):
    new = Dataset(Y=[[2], [2], [0]], X=DATA.X * 2)
    write_npz(new, tmp_path / "new.X.npz")
    write_npz(DATA, tmp_path / "a.X.npz")
    if by == "scipy":  # files without a mark
        sparse.save_npz(tmp_path / "a.X.npz", DATA.X)
        sparse.save_npz(tmp_path / "a.Y.npz", DATA.Y)
    arguments = [tmp_path / "new.X.npz", tmp_path / "a.X.npz"]
    killed = subprocess.run([sys.executable, "-c", KILLED_BETWEEN_TWO_FILES, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (sparse.load_npz(tmp_path / "a.Y.npz") != new.Y).nnz == 0
    assert (sparse.load_npz(tmp_path / "a.X.npz") != DATA.X).nnz == 0
    with pytest.raises(DataError, match=r"a\.X\.npz: belongs to other labels than those in a\.Y\.npz"):
        read_npz(tmp_path / "a.X.npz")
    write_npz(new, tmp_path / "a.X.npz", overwrite=True)
    assert (read_npz(tmp_path / "a.X.npz").X != new.X).nnz == 0


def test_labels_may_be_replaced_on_purpose(tmp_path):
    write_npz(DATA, tmp_path / "a.X.npz")
    sparse.save_npz(tmp_path / "a.Y.npz", DATA.Y[::-1])
    assert (DATA.Y[::-1] != read_npz(tmp_path / "a.X.npz").Y).nnz == 0


def test_what_a_file_says_stays_on_one_line(tmp_path):
    for name in ("a.X.npz", "a.Y.npz"):
        np.savez(tmp_path / name, format=np.array(b"\n\n"))
    with pytest.raises(DataError) as error:
        read_npz(tmp_path / "a.X.npz")
    assert "\n" not in str(error.value)


def test_row_starts_that_end_at_zero_are_checked(tmp_path):
    sparse.save_npz(tmp_path / "a.Y.npz", sparse.csr_matrix(np.eye(4)))
    np.savez(
        tmp_path / "a.X.npz", format=np.array(b"csr"), shape=np.array([4, 3]), data=np.ones(4, np.float32),
        indices=np.zeros(4, np.int32), indptr=np.array([0, 1, 2, 5, 0], np.int32),
    )  # fmt: skip
    with pytest.raises(DataError, match="row starts decrease"):
        read_npz(tmp_path / "a.X.npz")
