"""Features of many texts: in parts, in files of a workspace, and with a vocabulary counted in bounded memory."""

from __future__ import annotations

import mmap
import subprocess
import sys

import numpy as np
import pytest

from contract.planted import planted
from engine.elsewhere import Elsewhere, Store
from longtail import DiSMEC, TextFeatures, TextPipeline
from longtail.core.run import Run
from longtail.core.workspace import Workspace
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.data.texts import Texts
from longtail.engine.shards import Shards
from longtail.errors import DataError
from longtail.features import parts, tally

DATA = planted(150, 0)
SETTINGS = [
    {},
    {"hashing": 64},
    {"hashing": 64, "idf": False},
    {"char_ngrams": (2, 3), "bias": 1.0},
    {"ngram_range": (1, 2), "min_df": 1},
    {"max_features": 20, "max_df": 0.9, "stop_words": "english"},
    {"min_df": 0.02, "analyzer": "char", "ngram_range": (1, 3)},
]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "_TEXTS", 40)


def root_of(array):
    """Return what an array is a view of."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def assert_same(found, wanted):
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.shape == wanted.shape


@pytest.mark.parametrize("settings", SETTINGS)
def test_features_in_a_workspace_are_those_in_memory_bit_for_bit(tmp_path, settings, small_parts):
    wanted = TextFeatures(**settings).fit_transform(DATA.texts)
    found = TextFeatures(**settings).fit_transform_in_parts(DATA.texts, Run(workspace=Workspace(tmp_path)))
    assert isinstance(root_of(found.data), mmap.mmap)
    assert_same(found, wanted)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("settings", [*SETTINGS, {"stem": "english", "field_weights": {"text": 2.0}}])
def test_features_from_other_machines_are_those_in_memory_bit_for_bit(settings, small_parts):
    wanted = TextFeatures(**settings)
    rows = wanted.fit_transform(DATA.texts)
    features = TextFeatures(**settings)
    assert_same(features.fit_transform_in_parts(DATA.texts, Run(engine=Elsewhere(Store()))), rows)
    assert features.vocabulary_ == wanted.vocabulary_
    assert_same(features.transform(DATA.texts[:5]), rows[:5])


def test_a_shard_makes_all_features_itself(small_parts):
    wanted = TextFeatures().fit_transform(DATA.texts)
    assert_same(TextFeatures().fit_transform_in_parts(DATA.texts, Run(engine=Shards(2, 3))), wanted)


def test_a_model_of_mapped_texts_in_a_workspace_is_that_in_memory(tmp_path):
    write_dataset(Dataset(DATA.Y, texts=DATA.texts), tmp_path / "data")
    mapped = read_dataset(tmp_path / "data")
    (tmp_path / "work").mkdir()
    found = TextPipeline(model=DiSMEC()).fit(mapped.texts, mapped.Y, run=Run(workspace=Workspace(tmp_path / "work")))
    wanted = TextPipeline(model=DiSMEC()).fit(DATA.texts, DATA.Y)
    assert found.predict(DATA.texts).scores.tobytes() == wanted.predict(DATA.texts).scores.tobytes()


def test_parts_have_few_texts_and_few_bytes(monkeypatch):
    monkeypatch.setattr(parts, "_TEXTS", 3)
    monkeypatch.setattr(parts, "_BYTES", 10)
    texts = ["12345", "12345", "1", "x" * 50, "x" * 50, *["1"] * 7, ""]
    wanted = [(0, 2), (2, 3), (3, 4), (4, 5), (5, 8), (8, 11), (11, 13)]
    assert list(parts.ranges(texts)) == wanted
    assert list(parts.ranges(Texts.of(texts))) == wanted
    assert list(parts.ranges(Texts.of(["before", *texts])[1:])) == wanted
    assert list(parts.ranges([])) == []


def test_a_text_that_is_no_string_is_named_by_its_number(small_parts):
    texts = [*DATA.texts[:70], 7, *DATA.texts[70:]]
    with pytest.raises(DataError, match="text 70 is int"):
        TextFeatures().fit_transform_in_parts(texts, Run())


@pytest.mark.parametrize(
    "settings",
    [{}, {"min_df": 1}, {"max_features": 700}, {"min_df": 0.0004}, {"char_ngrams": (2, 3)}, {"ngram_range": (1, 2)}],
)
@pytest.mark.parametrize("in_files", [False, True])
def test_a_vocabulary_beyond_its_bound_is_still_exact(monkeypatch, tmp_path, settings, in_files):
    texts = [f"common pair{i // 2} ähnlich{i % 900} once{i}" for i in range(5000)]
    exact = TextFeatures(max_df=1.0, **settings)
    rows = exact.fit_transform(texts)
    merges = []
    monkeypatch.setattr(tally, "MOST_TERMS", 3000)
    monkeypatch.setattr(
        tally, "_merged", lambda runs, *limits, merged=tally._merged: merges.append(len(runs)) or merged(runs, *limits)
    )
    bounded = TextFeatures(max_df=1.0, **settings)
    run = Run(workspace=Workspace(tmp_path if in_files else None))
    assert_same(bounded.fit_transform_in_parts(texts, run), rows)
    assert list(bounded.vocabulary_.items()) == list(exact.vocabulary_.items())
    assert max(merges) > 1
    again = TextFeatures(max_df=1.0, **settings).fit(texts)
    assert list(again.vocabulary_.items()) == list(exact.vocabulary_.items())
    np.testing.assert_array_equal(again.idf_, exact.idf_)


BOUNDED = """
import resource, sys
from pathlib import Path
from longtail import TextFeatures
from longtail.core.run import Run
from longtail.core.workspace import Workspace
from longtail.data import read_dataset, write_dataset
from longtail.features import tally

folder, kind, allowed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
tally.MOST_TERMS = 140_000  # the texts have 200,000 distinct words

def prepare(source, target):
    features = TextFeatures(n_jobs=1, min_df=1)
    if kind == "memory":
        return features.fit_transform(read_dataset(source).texts), features
    write_dataset(read_dataset(source, workspace=folder), target)
    run = Run(workspace=Workspace(folder))
    return features.fit_transform_in_parts(read_dataset(target).texts, run), features

kept = prepare(folder / "small.jsonl", folder / "small")  # loads and allocates what every file needs
status = Path("/proc/self/status").read_text()
private = int(status.partition("VmData:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (private + allowed, private + allowed))
del kept
X, _ = prepare(folder / "large.jsonl", folder / "large")
print(X.shape[0], X.nnz)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of private memory are Linux's")
def test_texts_several_times_larger_than_the_memory_left_are_converted_and_become_features(tmp_path):
    """Private memory is limited to what a small file needs, and 24 MB; the large file has 100 MB."""
    allowed = 24_000_000
    numbers = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(200_000)])
    with open(tmp_path / "large.jsonl", "w") as large, open(tmp_path / "small.jsonl", "w") as small:
        for row in range(6_000):
            text = " ".join(words[(200_000 * numbers.random(2_000) ** 6).astype(int)])
            line = f'{{"text": "{text}", "labels": ["{row % 50}"]}}\n'
            large.write(line)
            small.write(line if row < 2_000 else "")
    assert (tmp_path / "large.jsonl").stat().st_size > 4 * allowed
    command = [sys.executable, "-c", BOUNDED, str(tmp_path)]
    done = subprocess.run([*command, "files", str(allowed)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) == 6_000
    assert int(done.stdout.split()[1]) > 8_000_000  # 64 MB of features
    refused = subprocess.run([*command, "memory", str(allowed)], capture_output=True, text=True, timeout=300)
    assert "MemoryError" in refused.stderr or "Unable to allocate" in refused.stderr
