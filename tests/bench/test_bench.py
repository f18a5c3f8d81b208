"""From a recipe to a result."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from contract.planted import planted
from longtail.bench import prepare
from longtail.bench.prepare import MissingData, prepared
from longtail.bench.recipe import read_recipe
from longtail.bench.results import read_results, table_rows, write_result
from longtail.bench.run import RunError, run_recipe
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.errors import DataError


@pytest.fixture
def texts(tmp_path):
    """A data root with a text set whose test split has a label that training does not know."""
    root = tmp_path / "data" / "planted"
    root.mkdir(parents=True)
    for name, seed, extra in (("train", 0, []), ("test", 1, ["surprise"])):
        data = planted(60, seed)
        lines = [
            json.dumps({"text": text, "labels": [f"label{i}" for i in labels] + extra})
            for text, labels in zip(data.texts, data.lists, strict=True)
        ]
        (root / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


def recipe_for(tmp_path, name="popularity", features="min_df = 1", suffix="jsonl"):
    path = tmp_path / "recipes" / "planted" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'[data]\ntrain = "planted/train.{suffix}"\ntest = "planted/test.{suffix}"\n'
        f'[features]\n{features}\n[model]\nname = "{name}"\n'
    )
    return read_recipe(path)


def test_a_model_that_reads_texts_is_trained_on_texts(tmp_path, texts):
    path = tmp_path / "textpipeline.toml"
    content = '[data]\ntrain = "planted/train.jsonl"\ntest = "planted/test.jsonl"\n[model]\nname = "textpipeline"\n'
    path.write_text(content)
    result = run_recipe(read_recipe(path), texts, tmp_path / "cache")
    assert result["metrics"]["P@1"] > 90
    assert result["n_features"] is None
    path.write_text(content + "[features]\nmin_df = 1\n")
    with pytest.raises(DataError, match="takes no features"):
        read_recipe(path)


def test_a_run_measures_and_its_file_and_table_repeat_it(tmp_path, texts):
    recipe = recipe_for(tmp_path)
    result = run_recipe(recipe, texts, tmp_path / "cache")
    training, testing = planted(60, 0), planted(60, 1)
    best = int(np.argmax(np.bincount(training.Y.indices)))
    assert result["metrics"]["P@1"] == pytest.approx(100 * testing.Y[:, best].mean())
    unknown_is_a_miss = 100 * np.mean([1 / (1 + len(row)) if best in row else 0 for row in testing.lists])
    assert result["metrics"]["R@1"] == pytest.approx(unknown_is_a_miss)
    assert 20 < result["peak_rss_mb"] < 2000
    assert result["model_mb"] > 0
    assert {"train_s", "predict_s", "versions", "commit", "date", "machine", "command"} <= result.keys()
    write_result(result, tmp_path / "out")
    assert read_results(tmp_path / "out") == {"planted": {"popularity": result}}
    (row,) = table_rows([result])
    assert row[:2] == ["popularity", f"{result['metrics']['P@1']:.2f}"]


def test_text_features_are_made_once_and_again_when_anything_changes(tmp_path, texts, monkeypatch):
    first = prepared(recipe_for(tmp_path), texts, tmp_path / "cache")
    assert read_dataset(first / "train").n_features == 25  # the last of 26 words never occurs
    test = read_dataset(first / "test")
    assert test.label_names[-1] == "surprise"
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "_featurised", None)  # calling it would fail
        assert prepared(recipe_for(tmp_path, name="dismec"), texts, tmp_path / "cache") == first
    assert prepared(recipe_for(tmp_path, features="min_df = 2"), texts, tmp_path / "cache") != first
    (texts / "planted" / "test.jsonl").write_text('{"text": "w01", "labels": ["label0"]}\n')
    assert prepared(recipe_for(tmp_path), texts, tmp_path / "cache") != first


def test_an_interrupted_preparation_is_not_taken_for_a_finished_one(tmp_path, texts):
    folder = prepared(recipe_for(tmp_path), texts, tmp_path / "cache")
    (folder / "features.json").unlink()
    (folder / "train" / "manifest.json").write_text("half")
    assert prepared(recipe_for(tmp_path), texts, tmp_path / "cache") == folder
    assert read_dataset(folder / "train").n_points == 60


def test_features_are_scaled_to_unit_rows_on_request(tmp_path):
    root = tmp_path / "data" / "planted"
    root.mkdir(parents=True)
    X = sparse.csr_matrix(np.float32([[3, 4, 0], [0, 0, 0], [0, 0, 2]]))
    for name in ("train", "test"):
        write_dataset(Dataset(Y=[[0], [1], [0]], X=X), root / f"{name}.txt")
    recipe = recipe_for(tmp_path, features="unit_rows = true", suffix="txt")
    scaled = read_dataset(prepared(recipe, tmp_path / "data", tmp_path / "cache") / "train").X
    np.testing.assert_allclose(scaled.toarray(), [[0.6, 0.8, 0], [0, 0, 0], [0, 0, 1]], rtol=1e-6)
    with pytest.raises(DataError, match="features already"):
        prepared(recipe_for(tmp_path, suffix="txt"), tmp_path / "data", tmp_path / "cache")


def test_absent_data_are_told_apart_from_failures(tmp_path, texts):
    with pytest.raises(MissingData, match=r"train\.jsonl is neither below the data root"):
        run_recipe(recipe_for(tmp_path), tmp_path / "nowhere", tmp_path / "cache")
    recipe = recipe_for(tmp_path)
    recipe.path.write_text("broken")  # read again by the run's own process
    with pytest.raises(RunError, match="cannot be read as TOML"):
        run_recipe(recipe, texts, tmp_path / "cache")
