"""What parts share on its way to workers: large arrays once, and in a form that kernels are compiled for already."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from scipy import sparse

from engine.elsewhere import Elsewhere, Store
from engine.small import assert_same, small
from longtail import Bonsai, DiSMEC, FastXML
from longtail.core.array_file import open_inside, read_arrays
from longtail.core.run import Run
from longtail.engine import transport
from longtail.engine.transport import Sent, pack, unpack
from longtail.linear import kernels, rare_kernels
from longtail.trees.instance import node
from longtail.trees.label import nodes


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(transport, "LARGE", 100)
    return Store()


def test_views_of_one_array_are_sent_once_and_come_back_as_they_were(store):
    sent = Sent(store.put)
    X = sparse.random(50, 40, 0.3, format="csr", dtype=np.float32, random_state=0)
    value = {"X": X, "same": X.indices.view(np.uint32), "small": np.arange(3), "name": "x"}
    content, references = pack(value, sent, pickle.Pickler)
    assert len(references) == len(store.arrays) == 3  # data, indices, indptr
    found = unpack(content, store.get(references))
    assert (found["X"] != X).nnz == 0
    assert (found["same"].dtype, found["name"]) == (np.uint32, "x")
    assert not found["X"].data.flags.writeable
    pack([X.data], sent, pickle.Pickler)
    assert len(store.arrays) == 3


def test_an_array_in_the_memory_of_one_that_is_gone_is_sent_anew(store):
    sent = Sent(store.put)
    for number in range(20):
        array = np.full(1000, number)
        content, references = pack(array, sent, pickle.Pickler)
        assert unpack(content, store.get(references))[0] == number
        del array
    assert not sent._references


def test_a_mapped_array_is_mapped_again_instead_of_sent(store, tmp_path):
    from safetensors.numpy import save_file

    save_file({"x": np.arange(500.0), "y": np.arange(500)}, tmp_path / "a.safetensors")
    with open_inside(tmp_path, "a.safetensors") as file:
        arrays = read_arrays(file, mmap=True)
    content, references = pack({"x": arrays["x"], "some": arrays["y"][100:300]}, Sent(store.put), pickle.Pickler)
    assert references == []
    found = unpack(content, [])
    np.testing.assert_array_equal(found["x"], np.arange(500.0))
    np.testing.assert_array_equal(found["some"], np.arange(100, 300))
    save_file({"x": np.arange(500.0) + 1, "y": np.arange(500)}, tmp_path / "b.safetensors")
    os.replace(tmp_path / "b.safetensors", tmp_path / "a.safetensors")  # other data of the same size
    with pytest.raises(FileNotFoundError, match="another file"):
        unpack(content, [])
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(FileNotFoundError) as error:
        unpack(content, [])
    assert error.value.filename == str(tmp_path / "a.safetensors")


KERNELS = (kernels.solve_block, rare_kernels.train_labels, nodes._points_below, nodes._cut_out, node.split, node.leaf)


@pytest.mark.parametrize("name", ["DiSMEC", "rare", "Bonsai", "FastXML"])
def test_workers_make_the_same_model_with_the_kernels_that_threads_use(name, store, monkeypatch):
    if name == "rare":
        monkeypatch.setattr("longtail.linear.rare.LEAST_WORK", 0)
    new = {"Bonsai": lambda: Bonsai(n_children=3, max_leaf=3, n_trees=2), "FastXML": lambda: FastXML(n_trees=2)}
    X, Y = small()
    model = new.get(name, DiSMEC)().fit(X, Y)
    compiled = [len(kernel.signatures) for kernel in KERNELS]
    assert_same(new.get(name, DiSMEC)().fit(X, Y, run=Run(engine=Elsewhere(store))), model)
    assert store.arrays
    assert [len(kernel.signatures) for kernel in KERNELS] == compiled
