"""Trained text models: saved, moved to other machines, with parameters that were changed since."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import longtail
from contract.planted import N_LABELS, word
from longtail.errors import ModelError, ParameterError
from neural.text.text_models import CLUSTERED, TEST, TRAIN, aplc, attention, xgrank
from neural.text.tiny import planted_encoder


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (lambda: xgrank(**CLUSTERED | {"epochs": 1}), {"label_width": 9}),
        (lambda: aplc(epochs=1), {"width": 12}),
        (lambda: aplc(epochs=1), {"cuts": (0.3, 0.6)}),
        (lambda: attention(epochs=1), {"hidden": 9}),
        (lambda: attention(epochs=1), {"widths": (16, 8)}),
        (lambda: attention(epochs=1, clusters_above=4, cluster_size=2, beam=2), {"widths": ()}),
    ],
)
def test_parameters_of_the_network_that_were_changed_after_fit_are_not_saved(model, changes, tmp_path):
    fitted = model().fit(TRAIN.texts, TRAIN.Y)
    kept = {name: getattr(fitted, name) for name in changes}
    fitted.set_params(**changes)
    with pytest.raises(ParameterError, match=f"{next(iter(changes))}.* was changed after fit"):
        fitted.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    fitted.set_params(**kept).save(tmp_path / "m")
    before = fitted.predict(TEST.texts, k=3)
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict(TEST.texts, k=3).labels, before.labels)


def test_a_loaded_model_does_not_write_to_the_cache_of_its_training(tmp_path):
    model = xgrank(epochs=1, token_cache=str(tmp_path / "cache")).fit(TRAIN.texts, TRAIN.Y)
    model.save(tmp_path / "m")
    assert longtail.load_model(tmp_path / "m").token_cache is None


@pytest.mark.parametrize("make", [xgrank, attention])
def test_a_text_may_be_cut_shorter_or_longer_after_training(make, tmp_path):
    model = make(epochs=1, length=8).fit(TRAIN.texts, TRAIN.Y)
    text = " ".join(TEST.texts)
    scores = {}
    for length in (4, 8, 30):
        model.set_params(length=length)
        scores[length] = model.predict([text], k=3).scores
        words = 2 if make is xgrank else 0  # the encoder's special tokens
        np.testing.assert_array_equal(
            model.predict([" ".join(text.split()[: length - words])], k=3).scores, scores[length]
        )
        assert len(model.explain(text, 0).tokens) == length - words
    assert not np.array_equal(scores[4], scores[8])
    assert not np.array_equal(scores[8], scores[30])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict([text], k=3).scores, scores[30])
    if make is xgrank:
        with pytest.raises(ParameterError, match="set length=64"):
            model.set_params(length=65).predict([text])


@pytest.mark.parametrize("make", [xgrank, attention])
def test_a_model_trained_on_a_gpu_predicts_and_explains_without_one(make, tmp_path):
    model = make(epochs=1).fit(TRAIN.texts, TRAIN.Y)
    expected = model.predict(TEST.texts, k=3)
    model.set_params(device="cuda").save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(TEST.texts, k=3).labels, expected.labels)
    assert loaded.explain(TEST.texts[0], 0).tokens


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_parameters_may_be_numpy_integers(make, tmp_path):
    model = make(length=np.int64(16), epochs=np.int32(1)).fit(TRAIN.texts, TRAIN.Y)
    model.set_params(length=np.int64(8)).save(tmp_path / "m")
    expected = model.predict(TEST.texts, k=3).labels
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict(TEST.texts, k=3).labels, expected)


def test_a_path_is_a_folder_and_not_a_name_on_the_hub():
    with pytest.raises(ModelError, match="the encoder folder some/where does not exist"):
        xgrank(encoder=Path("some/where")).fit(TRAIN.texts, TRAIN.Y)


def test_files_and_folders_may_be_given_as_paths(tmp_path):
    table, vectors = tmp_path / "labels.json", tmp_path / "vectors.txt"
    names = [f"C-{i}" for i in range(N_LABELS)]
    table.write_text(json.dumps(dict.fromkeys(names, word(0))))
    vectors.write_text(f"{word(0)} {' '.join(['0.5'] * 16)}\n")
    models = [
        xgrank(encoder=Path(planted_encoder()), label_text=table, token_cache=tmp_path / "tokens", epochs=1),
        attention(vectors=vectors, epochs=1),
    ]
    for i, model in enumerate(models):
        model.fit(TRAIN.texts, TRAIN.Y, label_names=names).save(tmp_path / f"m{i}")
        loaded = longtail.load_model(tmp_path / f"m{i}")
        expected = model.predict(TEST.texts, k=3)
        np.testing.assert_array_equal(loaded.predict(TEST.texts, k=3).labels, expected.labels)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: xgrank(**CLUSTERED | {"epochs": 1}), "n_retrieved"),
        (lambda: attention(epochs=1, clusters_above=4, cluster_size=2, beam=2), "beam"),
    ],
)
def test_the_number_of_retrieved_clusters_may_be_changed_after_fit(make, parameter):
    model = make().fit(TRAIN.texts, TRAIN.Y)
    answers = {
        width: (model.set_params(**{parameter: width}).predict(TRAIN.texts, k=6).labels >= 0) for width in (1, 9)
    }
    assert answers[1].sum() < answers[9].sum() == answers[9].size  # one cluster has fewer labels than k


def test_an_encoder_in_the_home_folder_is_found(monkeypatch):
    folder = Path(xgrank().encoder)
    monkeypatch.setenv("HOME", str(folder.parent))
    model = xgrank(encoder=f"~/{folder.name}", epochs=1).fit(TRAIN.texts, TRAIN.Y)
    assert model.predict(TEST.texts[:1], k=1).labels.shape == (1, 1)
