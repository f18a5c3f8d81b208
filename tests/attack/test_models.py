"""Models that somebody changed and signed again are refused with an error of longtail, or predict; nothing else."""

from __future__ import annotations

import os

import numpy as np
import pytest

import longtail
from attack.jury import Jury
from attack.resign import Model, try_one
from attack.victims import LIGHT, saved
from contract.models import TEST
from longtail.errors import ModelError
from longtail.workflow.card import model_card

TRIALS = 6  # per model; `python -m scripts.attack --only models` tries more


@pytest.fixture(scope="module")
def jury():
    process = Jury()
    yield process
    process.close()


@pytest.mark.parametrize("victim", LIGHT)
def test_a_changed_model_is_refused_or_predicts(victim, jury, tmp_path):
    for trial in range(TRIALS):
        (tmp_path / str(trial)).mkdir()
        try_one(victim, np.random.default_rng([1, trial]), tmp_path / str(trial), jury)


def entry(name, number):
    """Set the last entry of an array."""

    def change(model):
        model.arrays[name].reshape(-1)[-1] = number

    return change


def concept(model, **fields):
    """Describe a label by a vocabulary."""
    model.manifest["vocabulary"] = {"language": None, "concepts": {"label 0": fields}}


def of_features(model):
    """Return the parameters of the features of a text pipeline, as it was trained."""
    return model.manifest["state"]["learned"]["of_features"]["params"]


# What crashed, hung or raised something else before arrays were checked.
ONCE = {
    "weights": ("dismec", entry("learned/classifiers", 2**15)),
    "a classifier": ("dismec", entry("learned/of_label", 2**30)),
    "a negative classifier": ("dismec", entry("learned/of_label", -2)),
    "row starts": ("dismec", entry("learned/ptr", 2**31 - 1)),
    "features of a node": ("bonsai", entry("learned/tree0/features", 2**30)),
    "a child": ("bonsai", entry("learned/tree0/child", 2**30)),
    "a child that is its parent": ("bonsai", entry("learned/tree0/child", -1)),
    "a node without children": ("bonsai", lambda model: model.arrays["learned/tree0/child_start"].put(-2, 8)),
    "values of a node": ("bonsai", entry("learned/tree0/first_word", 2**40)),
    "a root": ("fastxml", entry("learned/forest/roots", 2**30)),
    "children": ("fastxml", lambda model: model.arrays["learned/forest/children"].fill(0)),
    "a leaf without weight": ("fastxml", lambda model: model.arrays["learned/forest/leaves.data"].fill(0)),
    "labels of a leaf": ("fastxml", entry("learned/forest/leaves.indices", 2**30)),
    "a truth value that is 2": ("bonsai", lambda model: model.arrays["learned/tree0/is_dense"].view(np.uint8).fill(2)),
    "means": ("pfastrexml, means", entry("learned/means/means.indices", 2**30)),
    "head": ("taug", entry("learned/head", 2**30)),
    "hashes of terms": ("textpipeline, hashed", entry("learned/features/buckets", 0)),
    "a weight of characters": ("textpipeline, hashed", entry("learned/features/characters/idf", np.inf)),
    "a weight of words": ("textpipeline, words and characters", entry("learned/features/idf", 1e38)),
    "lengths of n-grams": (
        "textpipeline, words and characters",
        lambda model: of_features(model).update(char_ngrams={"$tuple": [1.0, 3]}),
    ),
    "long n-grams": (
        "textpipeline, words and characters",
        lambda model: of_features(model).update(char_ngrams={"$tuple": [1, 10**12]}),
    ),
    "stop words": (
        "textpipeline, hashed",
        lambda model: model.manifest["state"]["learned"]["features"].update(stop_words=[1]),
    ),
    "too few names": ("dismec", lambda model: model.manifest["label_names"].pop()),
    "a name twice": ("dismec", lambda model: model.manifest.update(label_names=["a"] * 6)),
    "a lone surrogate": ("dismec", lambda model: model.manifest["params"].update(loss="\ud800")),
    "shards": ("dismec, in shards", lambda model: model.manifest["state"]["learned"].update(shards=10**30)),
    "no trees": ("bonsai", lambda model: model.manifest["state"]["learned"].update(n_trees=0)),
    "the folder itself": ("dismec", lambda model: model.manifest["arrays"].update(file="..")),
    "an option of the reader": ("dismec", lambda model: model.manifest.update(reading={"path": "/etc/passwd"})),
    "options that are a number": ("dismec", lambda model: model.manifest.update(reading=5)),
    "a field that is a list": ("dismec", lambda model: model.manifest.update(reading={"text": ["a"]})),
    "a name of a concept": ("dismec", lambda model: concept(model, names={"en": 5})),
    "parents of a concept": ("dismec", lambda model: concept(model, names={}, parents=[1])),
    "a notation": ("dismec", lambda model: concept(model, names={}, notation=["1"])),
    "a NUL": ("dismec", lambda model: model.manifest["arrays"].update(file="a\0b")),
}


@pytest.mark.parametrize("what", ONCE)
@pytest.mark.parametrize("verify", [True, False])
def test_what_once_crashed_is_refused(what, verify, tmp_path):
    victim, change = ONCE[what]
    model = Model.of(saved(victim))
    change(model)
    model.write(tmp_path / "model")
    with pytest.raises(ModelError, match=r"^\S*model"):  # the message begins with the path
        longtail.load_model(tmp_path / "model", verify=verify).predict(TEST.X, k=3)


def test_a_card_is_shown_without_versions(tmp_path):
    model = Model.of(saved("popularity"))
    del model.manifest["versions"]
    model.write(tmp_path / "model")
    assert model_card(tmp_path / "model")[0]["versions"] == {}


def test_numbers_are_checked_when_the_model_is_loaded_or_first_used(tmp_path):
    victim, change = ONCE["weights"]
    model = Model.of(saved(victim))
    change(model)
    model.write(tmp_path / "model")
    with pytest.raises(ModelError, match=r"classifiers contains 32768, but its numbers must be from 0 to 5"):
        longtail.load_model(tmp_path / "model")
    loaded = longtail.load_model(tmp_path / "model", verify=False)
    for use in (lambda: loaded.predict(TEST.X), lambda: loaded.save(tmp_path / "copy")):
        with pytest.raises(ModelError, match=r"classifiers"):
            use()


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_deep_manifest_is_refused(depth, tmp_path):
    saved_model = Model.of(saved("popularity"))
    saved_model.write(tmp_path / "model")
    text = '{"kind": "model", "format": 2, "state": ' + "[" * depth + "]" * depth + "}"
    (tmp_path / "model" / "manifest.json").write_text(text)
    with pytest.raises(ModelError, match=r"manifest\.json"):
        longtail.load_model(tmp_path / "model")


def test_only_regular_files_inside_the_directory_are_opened(tmp_path):
    path = tmp_path / "model"
    Model.of(saved("popularity")).write(path)
    arrays = next(path.glob("arrays-*"))
    outside = arrays.rename(tmp_path / "outside.safetensors")
    arrays.symlink_to(outside)
    with pytest.raises(ModelError, match="a link that leads out of the directory"):
        longtail.load_model(path)
    arrays.unlink()
    os.mkfifo(arrays)
    with pytest.raises(ModelError, match="not a regular file"):
        longtail.load_model(path)
    arrays.unlink()
    (path / "data").mkdir()
    outside.rename(path / "data" / "arrays")
    arrays.symlink_to("data/arrays")
    assert longtail.load_model(path).predict(TEST.X).k == 5


def test_a_model_in_memory_outlives_its_file(tmp_path):
    path = tmp_path / "model"
    Model.of(saved("dismec")).write(path)
    expected = longtail.load_model(path).predict(TEST.X)
    loaded = longtail.load_model(path, mmap=False)
    arrays = next(path.glob("arrays-*"))
    os.truncate(arrays, 10)
    found = loaded.predict(TEST.X)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert not loaded._shards.parts[0].intercepts.flags.writeable


def test_levels_that_nobody_saved_are_not_counted(tmp_path):
    model = Model.of(saved("attentionxml, tree"))
    learned = model.manifest["state"]["learned"]
    place = next(part for part in (learned, *learned.values()) if isinstance(part, dict) and "levels" in part)
    place["levels"] = 10**12
    model.write(tmp_path / "model")
    with pytest.raises(ModelError, match=r"levels is 1000000000000, but there are \d+ arrays"):
        longtail.load_model(tmp_path / "model")
