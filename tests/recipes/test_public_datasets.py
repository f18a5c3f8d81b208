"""The papers' datasets: the commands of docs/datasets.md and every recipe, on tiny files of the same layout."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.bench.prepare import prepared
from longtail.bench.recipe import read_recipe
from longtail.bench.run import run_recipe
from longtail.data import make_longtail, read_dataset, write_dataset

ROOT = Path(__file__).parents[2]
SETS = ("eurlex-4k", "wiki10-31k", "amazoncat-13k", "wikilshtc-325k", "amazon-670k")
RECIPES = [path for name in SETS for path in sorted((ROOT / "recipes" / name).glob("*.toml"))]
N_TRAIN, N_TEST = 120, 30


def text_lines(data):
    """The texts of a dataset, and the labels of each."""
    Y = data.Y
    labels = [Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist() for i in range(data.n_points)]
    return list(data.texts), labels


def write_json_lines(path, entries):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_sparse(path, matrix):
    rows = [" ".join(f"{i}:{v:.6g}" for i, v in zip(row.indices, row.data, strict=True)) for row in matrix]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"{matrix.shape[0]} {matrix.shape[1]}", *rows]) + "\n")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Tiny files with the names and the layout of the real ones."""
    root = tmp_path_factory.mktemp("data")
    features = make_longtail(n_points=N_TRAIN, n_test_points=N_TEST, n_features=80, n_labels=12)
    texts = make_longtail(n_points=N_TRAIN, n_test_points=N_TEST, n_features=80, n_labels=12, kind="text")
    for name in SETS:
        (root / name).mkdir()
        write_dataset(features.train, root / name / "train.txt")
        write_dataset(features.test, root / name / "test.txt")
    for name, file in (("eurlex-4k", "texts"), ("wiki10-31k", "raw_texts")):
        for part, data in (("train", texts.train), ("test", texts.test)):
            lines, labels = text_lines(data)
            (root / name / f"{part}_{file}.txt").write_text("\n".join(lines) + "\n")
            named = [" ".join(f"tag_{label}" for label in some) for some in labels]
            (root / name / f"{part}_labels.txt").write_text("\n".join(named) + "\n")
    for folder, trn, tst in (
        ("AmazonCat-13K.raw", "trn.json.gz", "tst.json.gz"),
        ("Amazon-670K.raw", "trn.raw.json.gz", "tst.raw.json.gz"),
    ):
        for file, data in ((trn, texts.train), (tst, texts.test)):
            entries = [
                {"uid": str(i), "title": text.split()[0], "content": " ".join(text.split()[1:]),
                 "target_ind": some, "target_rel": [1.0] * len(some)}
                for i, (text, some) in enumerate(zip(*text_lines(data), strict=True))
            ]  # fmt: skip
            write_json_lines(root / folder / file, entries)
    for part, data in (("train", texts.train), ("test", texts.test)):
        entries = [
            {"celex_id": str(i), "title": "law", "header": text, "recitals": "", "main_body": ["one", "two"],
             "eurovoc_concepts": [str(label) for label in some]}
            for i, (text, some) in enumerate(zip(*text_lines(data), strict=True))
        ]  # fmt: skip
        write_json_lines(root / "dataset" / f"{part}.jsonl", entries)
    (root / "eurlex57k").mkdir()
    (root / "amazontitles-670k").mkdir()
    write_sparse(root / "AmazonTitles-670K" / "trn_X_Xf.txt", features.train.X)
    write_sparse(root / "AmazonTitles-670K" / "trn_X_Y.txt", features.train.Y)
    for name in ("delicious", "bibtex"):
        (root / name).mkdir()
        for part, data in (("train", features.train), ("test", features.test)):
            write_dataset(data, root / name / f"{part}.txt.xz")
    for command in commands("longtail convert"):
        run(root, command)
    return root


def commands(beginning):
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page.replace("\\\n", " "), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(beginning)]


def run(folder, command):
    words = [sys.executable, "-m", "longtail.app.cli", *command.split()[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_the_commands_of_the_page_convert_everything(root):
    assert len(commands("longtail convert")) == 12
    for place, n_points in (
        ("eurlex-4k/train", N_TRAIN),
        ("amazontitles-670k/train", N_TRAIN),
        ("amazoncat-13k/train-texts", N_TRAIN),
        ("amazoncat-13k/test-texts", N_TEST),
        ("amazon-670k/train-texts", N_TRAIN),
        ("amazon-670k/test-texts", N_TEST),
        ("eurlex57k/train.jsonl.xz", N_TRAIN),
        ("eurlex57k/test.jsonl.xz", N_TEST),
        ("delicious/train", N_TRAIN),
        ("delicious/test", N_TEST),
        ("bibtex/train", N_TRAIN),
        ("bibtex/test", N_TEST),
    ):
        assert read_dataset(root / place).n_points == n_points, place
    assert read_dataset(root / "eurlex57k" / "test.jsonl.xz").texts[0].endswith(" one two")
    single, pair = read_dataset(root / "eurlex-4k" / "train"), read_dataset(root / "amazontitles-670k" / "train")
    assert (single.Y != pair.Y).nnz == 0
    np.testing.assert_allclose(single.X.toarray(), pair.X.toarray(), rtol=1e-5)


@pytest.mark.skipif(not all(map(shutil.which, ("jq", "awk", "xz", "zcat"))), reason="needs jq, awk, xz and zcat")
def test_the_commands_for_yso_finna_end_in_train_and_test_files(tmp_path):
    titles = [f'Title {i % 40}, a "quoted" one' for i in range(50)]
    lines = [f"{title}\t<http://yso/p{i % 3}> <http://yso/p9>" for i, title in enumerate(titles)]
    (tmp_path / "yso-finna-en-02.tsv.gz").write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))
    for command in [command for start in ("mkdir", "zcat", "for part") for command in commands(start)]:
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, check=True)
    recipe = read_recipe(ROOT / "recipes" / "yso-finna-en" / "dismec.toml")
    train, test = (read_dataset(tmp_path / file) for file in (recipe.train, recipe.test))
    assert sorted([*train.texts, *test.texts]) == sorted(titles)
    assert set(test.texts) == {titles[16], titles[33]}  # the 17th and the 34th of the distinct titles
    assert not set(test.texts) & set(train.texts)
    assert set(train.label_names) == {"<http://yso/p9>", *(f"<http://yso/p{i}>" for i in range(3))}


def test_there_is_a_recipe_for_features_and_one_for_texts_of_every_set():
    found = {name: {path.stem for path in RECIPES if path.parent.name == name} for name in SETS}
    for name in SETS:
        assert {"dismec", "dismec-pw", "dismec-pw-cb", "parabel", "bonsai", "pfastrexml", "glas"} <= found[name]
        assert ("xgrank" in found[name]) == (name != "wikilshtc-325k"), "texts of WikiLSHTC-325K do not exist"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recipe_reads_its_files(root, tmp_path_factory, path):
    recipe = read_recipe(path)
    assert recipe.dataset == path.parent.name
    folder = prepared(recipe, root, root / "cache")
    training, testing = read_dataset(folder / "train"), read_dataset(folder / "test")
    assert (training.n_points, testing.n_points) == (N_TRAIN, N_TEST)
    assert (training.texts is not None) == recipe.reads_texts
    assert training.n_labels <= testing.n_labels
    if training.X is not None:
        lengths = np.sqrt(np.asarray(training.X.multiply(training.X).sum(axis=1)).ravel())
        np.testing.assert_allclose(lengths[lengths > 0], 1, rtol=1e-4)


@pytest.mark.parametrize("name", ["eurlex-4k/dismec-pw-cb", "amazoncat-13k/dismec-texts-pw-cb"])
def test_a_recipe_runs_to_its_result(root, name):
    result = run_recipe(read_recipe(ROOT / "recipes" / f"{name}.toml"), root, root / "cache")
    assert (result["n_train"], result["n_test"]) == (N_TRAIN, N_TEST)
    assert result["metrics"]["P@1"] > 30  # by chance it would be about 15
