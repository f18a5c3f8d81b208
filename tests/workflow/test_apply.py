"""Inputs brought to the shape of a model, and predictions in chunks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

from longtail.core.popularity import Popularity
from longtail.data import Dataset
from longtail.data.texts import Texts
from longtail.errors import DataError
from longtail.workflow import apply
from longtail.workflow.apply import Chunks, conform, predict_in_chunks


def fitted_popularity():
    return Popularity().fit(np.eye(4), [[0], [0, 1], [2], [0]])


def test_features_are_brought_to_the_width_of_the_model(caplog):
    model = fitted_popularity()
    narrow = conform(Dataset(Y=[[0]], X=np.ones((1, 3))), model)
    assert narrow.shape == (1, 4)
    assert caplog.records == []
    wide = conform(Dataset(Y=[[0]], X=np.ones((1, 6))), model)
    assert wide.shape == (1, 4)
    assert "the 2 others are dropped (2 of 6 values)" in caplog.text
    with pytest.raises(DataError, match="this dataset has only texts"):
        conform(Dataset(Y=[[0]], texts=["a"]), model)


def test_chunks_give_what_one_call_gives(monkeypatch):
    monkeypatch.setattr(apply, "_CHUNK", 3)
    model = fitted_popularity()
    for n in (0, 1, 3, 7):
        X = sparse.csr_matrix(np.ones((n, 4), np.float32))
        np.testing.assert_array_equal(predict_in_chunks(model, X, 2).labels, model.predict(X, k=2).labels)


def test_a_chunk_of_texts_is_sent_without_the_others(monkeypatch):
    monkeypatch.setattr(apply, "_CHUNK", 3)
    texts = Texts.of([*(f"{row} " + "x" * 10_000 for row in range(8))])
    chunks = Chunks(texts, len(texts))
    assert [text for number in range(len(chunks)) for text in chunks[number]] == list(texts)
    sent = pickle.dumps(chunks[2])
    assert len(sent) < 21_000
    assert list(pickle.loads(sent)) == list(texts[6:])
