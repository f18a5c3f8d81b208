"""Vectors of an encoder beside TF-IDF; the encoder is a tiny random one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="embeddings need the extra deep: pip install 'longtail[deep]'")

import torch

import longtail
from contract.models import TRAIN
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.errors import ModelError, ParameterError
from longtail.features import TextFeatures, TextPipeline
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.tokeniser import EncoderTokeniser
from neural.text.tiny import planted_encoder

TEXTS = list(TRAIN.texts)


def features(**parameters: Any) -> TextFeatures:
    return TextFeatures(min_df=1, max_df=1.0, embeddings=planted_encoder(), **parameters)


def expected_vectors(texts: list[str]) -> np.ndarray:
    encoder = TextEncoder.load(planted_encoder(), pooling="mean", layers=1).eval()
    pieces = [EncoderTokeniser.load(planted_encoder(), 64).pieces(text)[0] for text in texts]
    with torch.no_grad():
        found = [encoder(torch.tensor([ids]), None)[0].numpy() for ids in pieces]
    return np.array([vector / np.linalg.norm(vector) for vector in found])


def test_vectors_stand_beside_tfidf_in_rows_of_length_1() -> None:
    both, words = features(embedding_weight=2.0), TextFeatures(min_df=1, max_df=1.0)
    X, left = both.fit_transform(TEXTS), words.fit_transform(TEXTS)
    width = left.shape[1]
    assert both.n_features_ == width + 16 == len(both.get_feature_names_out())
    assert both.get_feature_names_out()[-1] == "embedding:15"
    np.testing.assert_allclose(X[:, :width].toarray(), left.toarray() / np.sqrt(5), atol=1e-6)
    np.testing.assert_allclose(X[:4, width:].toarray(), expected_vectors(TEXTS[:4]) * 2 / np.sqrt(5), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(X.toarray(), axis=1), 1, atol=1e-5)
    assert X.has_canonical_format
    alone = [both.transform([text]).toarray()[0] for text in TEXTS[:5]]
    np.testing.assert_allclose(alone, X[:5].toarray(), atol=1e-6)


def test_a_text_that_nobody_knows_has_an_empty_row_and_gets_no_labels() -> None:
    model = TextPipeline(model=longtail.DiSMEC(), features=features()).fit(TEXTS, TRAIN.Y)
    assert model.features_.transform(["", "   ", "zzz"]).nnz == 0
    assert (model.predict(["", "zzz"], k=2).labels == -1).all()


def test_the_encoder_is_saved_with_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(planted_encoder(), folder)
    own = TextFeatures(min_df=1, embeddings=folder)
    for base in (longtail.DiSMEC(), longtail.Bonsai(n_trees=1)):
        model = TextPipeline(model=base, features=own).fit(TEXTS, TRAIN.Y)
        model.save(tmp_path / "model", overwrite=True)
        expected = model.predict(TEXTS[:6], k=3)
        folder.rename(tmp_path / "elsewhere")  # a model does not need the folder again
        found = longtail.load_model(tmp_path / "model").predict(TEXTS[:6], k=3)
        (tmp_path / "elsewhere").rename(folder)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


def test_reading_by_the_encoder_is_shown() -> None:
    steps: list[tuple[str, int]] = []

    class Shown(Silent):
        def start(self, task: str, total: int) -> None:
            steps.append((task, total))

        def advance(self, amount: int = 1) -> None:
            steps[-1:] = [(steps[-1][0], steps[-1][1] - amount)]

    model = TextPipeline(model=longtail.Popularity(), features=features())
    model.fit(TEXTS, TRAIN.Y, run=Run(Shown()))
    assert ("features", 0) in steps


def test_a_sentence_transformers_folder_says_pooling_and_length(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(planted_encoder(), folder)
    (folder / "1_Pooling").mkdir()
    pooling, length = folder / "1_Pooling" / "config.json", folder / "sentence_bert_config.json"
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    length.write_text(json.dumps({"max_seq_length": 4}))
    embedder = TextFeatures(min_df=1, embeddings=folder).fit(TEXTS).embedder_
    assert embedder is not None
    assert (embedder.encoder.pooling, embedder.tokeniser.length) == ("cls", 4)
    pooling.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ModelError, match="pools by max_tokens; only mean_tokens or cls_token"):
        TextFeatures(min_df=1, embeddings=folder).fit(TEXTS)
    for broken in ("{", "[" * 100_000):
        pooling.write_text(broken)
        with pytest.raises(ModelError, match="cannot be read as JSON"):
            TextFeatures(min_df=1, embeddings=folder).fit(TEXTS)


def test_says_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json"):
        TextFeatures(min_df=1, embeddings=tmp_path).fit(TEXTS)
    with pytest.raises(ModelError, match="does not exist"):
        TextFeatures(min_df=1, embeddings=tmp_path / "nowhere").fit(TEXTS)
    with pytest.raises(ParameterError, match="embeddings is 3"):
        TextFeatures(min_df=1, embeddings=3).fit(TEXTS)
    with pytest.raises(ParameterError, match="embeddings needs norm='l2'"):
        TextFeatures(min_df=1, embeddings=tmp_path, norm=None).fit(TEXTS)
