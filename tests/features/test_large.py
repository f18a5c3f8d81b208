"""Features of many texts: in files of a workspace, and with a bounded vocabulary."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from contract.planted import planted
from longtail import DiSMEC, TextFeatures, TextPipeline
from longtail.core.run import Run
from longtail.core.workspace import Workspace
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.features import table

DATA = planted(150, 0)


def root_of(array):
    """Return what an array is a view of."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


@pytest.mark.parametrize(
    "settings", [{}, {"hashing": 64}, {"char_ngrams": (2, 3), "bias": 1.0}, {"ngram_range": (1, 2), "min_df": 1}]
)
def test_features_in_a_workspace_are_those_in_memory_bit_for_bit(tmp_path, settings):
    wanted = TextFeatures(**settings).fit_transform(DATA.texts)
    found = TextFeatures(**settings).fit_transform_in(Workspace(tmp_path), DATA.texts)
    assert isinstance(root_of(found.data), mmap.mmap)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.shape == wanted.shape
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_mapped_texts_in_a_workspace_is_that_in_memory(tmp_path):
    write_dataset(Dataset(DATA.Y, texts=DATA.texts), tmp_path / "data")
    mapped = read_dataset(tmp_path / "data")
    (tmp_path / "work").mkdir()
    found = TextPipeline(model=DiSMEC()).fit(mapped.texts, mapped.Y, run=Run(workspace=Workspace(tmp_path / "work")))
    wanted = TextPipeline(model=DiSMEC()).fit(DATA.texts, DATA.Y)
    assert found.predict(DATA.texts).scores.tobytes() == wanted.predict(DATA.texts).scores.tobytes()


def test_a_full_vocabulary_forgets_terms_of_one_text_only(monkeypatch):
    texts = [f"common pair{i // 2} once{i}" for i in range(5000)]
    exact = TextFeatures(max_df=1.0).fit(texts)
    monkeypatch.setattr(table, "_MOST_TERMS", 3000)
    bounded = TextFeatures(max_df=1.0).fit(texts)
    missing = exact.vocabulary_.keys() - bounded.vocabulary_.keys()
    assert bounded.vocabulary_.keys() <= exact.vocabulary_.keys()
    assert "common" in bounded.vocabulary_
    assert len(missing) <= 2  # pairs that a chunk cuts in two
    every = TextFeatures(max_df=1.0, min_df=1).fit(texts)
    assert len(every.vocabulary_) == 1 + 2500 + 5000  # nothing may be forgotten
    assert every.vocabulary_.keys() == TextFeatures(max_df=1.0, min_df=1).fit(texts).vocabulary_.keys()
