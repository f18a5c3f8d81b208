"""A catalogue through the command line: ids, URIs, two text fields, weights, relevances and a vocabulary."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.app.cli import main
from longtail.data import read_dataset

TOPICS = {"y:1": ("cats", "purr whisker"), "y:2": ("dogs", "bark leash"), "y:3": ("boats", "sail harbour")}


@pytest.fixture
def cli(monkeypatch, capsys):
    def run(*words, stdin: bytes = b""):
        monkeypatch.setattr(sys, "argv", ["longtail", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.fixture
def catalogue(tmp_path):
    rows = ["no;title;abstract;subjects;w"]
    records = []
    for i in range(36):
        uri = list(TOPICS)[i % 3]
        name, words = TOPICS[uri]
        rows.append(f"r{i};Book {i} on {name};{words};{uri};{1 + i % 2}")
        subject = {"uri": uri, "label": name, "weight": 0.5}
        records.append({"no": i, "title": f"Book {i} on {name}", "abstract": words, "subjects": [subject]})
    (tmp_path / "books.csv").write_text("\n".join(rows), encoding="utf-8-sig")
    (tmp_path / "books.json").write_text(json.dumps(records))
    table = "id,label,parents\ny:1,Cats!,y:0\ny:2,Dogs!,y:0\ny:3,Boats!,\ny:0,Animals!,\n"
    (tmp_path / "subjects.csv").write_text(table)
    return tmp_path


READING = ("--text-field", "title,abstract", "--labels-field", "subjects", "--id-field", "no")
MODEL = ("-m", "dismec", "--set", "features.min_df=1", "--set", "features.max_df=1.0")


def test_a_model_remembers_the_fields_and_shows_names(cli, catalogue):
    out = catalogue / "m"
    words = ("train", catalogue / "books.csv", *READING, *MODEL, "-o", out, "--vocabulary", catalogue / "subjects.csv")
    assert cli(*words, "--weight-field", "w")[0] == 0
    code, _, err = cli("predict", out, catalogue / "books.csv", "-o", catalogue / "p.jsonl", "-k", "1")
    assert (code, "36 x 1" in err) == (0, True)
    first = json.loads((catalogue / "p.jsonl").read_text().splitlines()[0])
    assert first["labels"] == ["y:1"]
    assert json.loads(cli("evaluate", out, catalogue / "books.csv", "--json")[1])["P@1"] == 100
    code, shown, _ = cli("predict", out, "--text", "purr", "-k", "1")
    assert "Cats!" in shown
    assert "y:1" in shown
    found = json.loads(cli("predict", out, "--text", "purr", "-k", "1", "--json")[1])
    assert (found["labels"], found["names"]) == (["y:1"], ["Cats!"])
    assert "│ 4 concepts " in cli("info", out)[1]
    model = longtail.load_model(out)
    assert model.reading_ == {"text": "title,abstract", "labels": "subjects", "ids": "no"}
    assert model.vocabulary_.parents()["y:1"] == ["y:0"]


def test_fields_that_only_the_training_data_had_are_explained(cli, catalogue):
    out = catalogue / "m"
    assert cli("train", catalogue / "books.csv", *READING, *MODEL, "-o", out)[0] == 0
    (catalogue / "new.jsonl").write_text('{"text": "purr", "labels": ["y:1"]}')
    code, _, err = cli("predict", out, catalogue / "new.jsonl", "-o", "-", "--text-field", "text")
    assert (code, "field 'no': is missing; fields here: 'text', 'labels' (use --id-field" in err) == (2, True)
    assert "the model was trained with --id-field no; --id-field '' reads no ids" in err
    words = ("--text-field", "text", "--id-field", "", "-k", "1")
    assert json.loads(cli("predict", out, catalogue / "new.jsonl", "-o", "-", *words)[1])["labels"] == ["y:1"]


def test_weights_reach_the_model(cli, catalogue):
    weighted, plain = catalogue / "w", catalogue / "p"
    cli("train", catalogue / "books.csv", *READING, *MODEL, "-o", weighted, "--weight-field", "w")
    cli("train", catalogue / "books.csv", *READING, *MODEL, "-o", plain)
    data = read_dataset(catalogue / "books.csv", text="title,abstract", labels="subjects", weights="w")
    by_hand = longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0))
    by_hand.fit(data.texts, data.Y, label_names=data.label_names, sample_weight=data.weights)
    scores = [longtail.load_model(path).predict(data.texts, k=3).scores for path in (weighted, plain)]
    np.testing.assert_array_equal(scores[0], by_hand.predict(data.texts, k=3).scores)
    assert not np.array_equal(scores[0], scores[1])


def test_relevances_reach_the_model(cli, catalogue):
    words = ("--text-field", "title,abstract", "--labels-field", "subjects[].uri", *MODEL)
    graded, plain = catalogue / "g", catalogue / "p"
    assert cli("train", catalogue / "books.json", *words, "-o", graded)[0] == 0
    assert cli("train", catalogue / "books.json", *words, "--relevance-field", "", "-o", plain)[0] == 0
    data = read_dataset(catalogue / "books.json", text="title,abstract", labels="subjects[].uri")
    by_hand = longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0))
    by_hand.fit(data.texts, data.Y, label_names=data.label_names)
    scores = [longtail.load_model(path).predict(data.texts, k=3).scores for path in (graded, plain)]
    np.testing.assert_array_equal(scores[0], by_hand.predict(data.texts, k=3).scores)
    assert (scores[0][:, 0] < scores[1][:, 0]).all(), "labels that count half are less certain"
    assert json.loads(cli("evaluate", graded, catalogue / "books.json", "--json")[1])["P@1"] == 100


def test_names_from_the_data_are_a_vocabulary(cli, catalogue):
    words = ("train", catalogue / "books.json", "--text-field", "title,abstract", "--labels-field", "subjects[].uri")
    more = ("--label-texts-field", "subjects[].label", "--relevance-field", "")
    assert cli(*words, *more, *MODEL, "-o", catalogue / "m")[0] == 0
    assert "cats" in cli("predict", catalogue / "m", "--text", "purr", "-k", "1")[1]


def test_a_hierarchy_and_standard_input(cli, catalogue):
    content = (catalogue / "books.csv").read_bytes()
    words = ("train", "-", *READING, "-m", "parabel", "--set", "n_trees=1", "--set", "hierarchy=vocabulary")
    more = ("--set", "features.min_df=1", "--vocabulary", catalogue / "subjects.csv", "-o", catalogue / "m")
    assert cli(*words, *more, stdin=content)[0] == 0
    assert longtail.load_model(catalogue / "m").model_.hierarchy == {"y:1": None, "y:2": None, "y:3": None}


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        ("books.csv", ("-m", "bonsai", "--weight-field", "w"), "bonsai takes no weights of points"),
        ("books.csv", ("-m", "dismec", "--fields", "apart"), "fields is 'apart', but must be one of"),
        ("books.csv", ("-m", "dismec", "--language", "fi"), "--language is the language of a vocabulary"),
        ("books.csv", ("-m", "dismec", "--vocabulary", "other.csv"), "none of the 3 labels of the data, e.g. 'y:1'"),
        ("books.csv", ("-m", "parabel", "--set", "hierarchy=vocabulary"), "there is no vocabulary (use --vocabulary"),
        ("books.csv", ("-m", "dismec", "--set", "C=vocabulary", "--vocabulary", "subjects.csv"), "only hierarchy and"),
        ("books.csv", ("-m", "dismec", "--delimiter", "::"), "delimiter is '::', but must be one character"),
        ("books.csv", ("-m", "dismec", "--encoding", "x"), "encoding is 'x', which is unknown"),
        (
            "books.json",
            ("-m", "bonsai", "--labels-field", "subjects[].uri"),
            "relevances of labels, which bonsai cannot",
        ),
        ("books.csv", ("-m", "dismec", "--id-field", "key"), "no column 'key'; columns are no, title"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(cli, catalogue, monkeypatch, data, more, message):
    monkeypatch.chdir(catalogue)
    (catalogue / "other.csv").write_text("id,label\nz:1,zebra\n")
    code, _, err = cli("train", data, *READING, "-o", "m", *more)
    assert code == 2
    assert message in err
    assert not (catalogue / "m").exists()
    assert not (catalogue / "m.partial").exists()


def test_separate_fields_need_fields_in_prediction(cli, catalogue):
    out = catalogue / "m"
    assert cli("train", catalogue / "books.csv", *READING, "--fields", "separate", *MODEL, "-o", out)[0] == 0
    assert json.loads(cli("evaluate", out, catalogue / "books.csv", "--json")[1])["P@1"] == 100
    assert "title_cats" in longtail.load_model(out).features_.vocabulary_
    code, _, err = cli("predict", out, "--text", "purr", "-k", "1")
    assert (code, "was trained on separate fields" in err) == (2, True)


def test_separate_fields_have_weights_stop_words_and_stems(cli, catalogue):
    out = catalogue / "m"
    more = ("--set", "features.field_weights={title=2.0}", "--set", "features.stem=english")
    more = (*more, "--set", "features.stop_words=english", "--set", "features.char_ngrams=[2,3]")
    assert cli("train", catalogue / "books.csv", *READING, "--fields", "separate", *MODEL, *more, "-o", out)[0] == 0
    features = longtail.load_model(out).features_
    assert features.field_weights == {"title": 2.0, "abstract": 1.0}
    assert {"title_cat", "abstract_whisker", "title_book"} <= set(features.vocabulary_)
    assert "title_on" not in features.vocabulary_
    assert json.loads(cli("evaluate", out, catalogue / "books.csv", "--json")[1])["P@1"] == 100


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--set", "features.field_weights={title=2.0}"), "is for several text fields with --fields separate"),
        (
            ("--fields", "separate", "--set", "features.field_weights={titel=2.0}"),
            'features.field_weights: unknown field "titel"; did you mean "title"? known: abstract, title',
        ),
        (("--set", "features.stem=klingon"), 'stem: unknown language "klingon"'),
        (("--set", "features.embeddings=./nowhere"), "the encoder folder ./nowhere does not exist"),
    ],
)
def test_features_that_cannot_be_made_are_refused_before_anything_is_written(cli, catalogue, more, message):
    code, _, err = cli("train", catalogue / "books.csv", *READING, *MODEL, *more, "-o", catalogue / "m")
    assert (code, message in err) == (2, True), err
    assert not (catalogue / "m").exists()


def test_the_guide_runs_on_a_small_catalogue(cli, catalogue, monkeypatch):
    monkeypatch.chdir(catalogue)
    page = (Path(__file__).parents[2] / "docs" / "from-your-catalogue.md").read_text(encoding="utf-8")
    (catalogue / "new.csv").write_text("no;title;abstract\nn1;Cats;purr\nn2;???;\n")
    blocks = re.findall(r"```(bash|python)\n(.*?)```", page, flags=re.DOTALL)
    for kind, block in blocks[:-1]:
        if kind == "python":
            exec(compile(block, "the guide", "exec"), {})
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("longtail "):
                code, _, err = cli(*shlex.split(line)[1:])
                assert code == 0, (line, err)
            else:
                subprocess.run(["bash", "-euc", line], check=True)
    assert blocks[-1][1] == "pip install 'longtail[serve]'\nlongtail serve model\n"
    rows = list(csv.DictReader((catalogue / "suggestions.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "title", "labels", "names", "scores"]
    assert (rows[0]["id"], rows[0]["title"], rows[0]["names"].split("|")[0]) == ("n1", "Cats", "Cats!")
    assert 0 < float(rows[0]["scores"].split("|")[0]) < 1
    assert rows[1]["labels"] == ""
    lines = (catalogue / "one-per-row.csv").read_text().splitlines()
    assert lines[0] == "point,rank,label,score,name"
    assert lines[1].startswith("n1,1,y:1,")
    assert lines[1].endswith(",Cats!")
    assert len(lines) == 4, "three labels for n1, none for n2"
