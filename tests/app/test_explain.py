"""longtail explain as a user types it."""

from __future__ import annotations

import json

import pytest

import longtail
from contract.planted import planted
from longtail.core.vocabulary import Concept, Vocabulary


def test_explain_takes_an_id_where_no_name_fits(cli, tmp_path):
    data = planted(30, 0)
    names = ["4", "one", "two", "three", "four", "five"]
    model = longtail.AttentionXML(length=16, epochs=1, hidden=4, widths=(4,), word_width=4)
    model.fit(data.texts, data.Y, label_names=names).save(tmp_path / "m")
    for label, shown in (("3", "three"), ("4", "4"), ("five", "five")):
        code, out, _ = cli("explain", tmp_path / "m", data.texts[0], "--label", label, "--json")
        assert (code, json.loads(out)["label"]) == (0, shown)
    code, _, err = cli("explain", tmp_path / "m", data.texts[0], "--label", "6")
    assert code == 2
    assert "has 6 labels" in err


def test_explain_takes_the_name_that_people_are_shown(cli, tmp_path):
    data = planted(30, 0)
    ids = [f"y:{i}" for i in range(6)]
    model = longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0))
    model.fit(data.texts, data.Y, label_names=ids)
    shown = ["sugar", "y:3", "twice", "salt", "twice", "3"]
    model.vocabulary_ = Vocabulary({id_: Concept({"": name}) for id_, name in zip(ids, shown, strict=True)})
    model.save(tmp_path / "m")
    for label, expected in (("sugar", "y:0"), ("y:3", "y:3"), ("salt", "y:3"), ("3", "y:5"), ("2", "y:2")):
        code, out, err = cli("explain", tmp_path / "m", data.texts[0], "--label", label, "--json")
        assert code == 0, err
        assert json.loads(out)["label"] == expected
    code, _, err = cli("explain", tmp_path / "m", data.texts[0], "--label", "twice")
    assert (code, "2 labels are called 'twice'; give --label one of y:2, y:4" in err) == (2, True)


def test_explain_shows_what_the_base_of_a_module_looked_at(cli, tmp_path):
    data = planted(30, 0)
    base = longtail.AttentionXML(length=16, epochs=1, hidden=4, widths=(4,), word_width=4)
    model = longtail.PropensityRerank(base=base, held_out=0.3).fit(data.texts, data.Y)
    model.save(tmp_path / "m")
    code, out, _ = cli("explain", tmp_path / "m", data.texts[0], "--label", "2", "--json")
    expected = model.base_.explain(data.texts[0], 2)
    assert code == 0
    assert json.loads(out)["score"] == pytest.approx(expected.score)
    assert [token["token"] for token in json.loads(out)["tokens"]] == [token.token for token in expected.tokens]


def test_explain_adds_up_and_shows_evidence_for_a_linear_model(cli, tmp_path):
    data = planted(60, 0)
    names = [f"label {i}" for i in range(data.Y.shape[1])]
    features = longtail.TextFeatures(min_df=1, max_df=1.0)
    model = longtail.TextPipeline(features=features).fit(data.texts, data.Y, label_names=names)
    model.save(tmp_path / "m")
    longtail.write_dataset(longtail.Dataset(data.Y, texts=data.texts, label_names=names), tmp_path / "train.jsonl")
    label = data.lists[7][0]
    code, out, err = cli(
        "explain", tmp_path / "m", data.texts[7], "--label", names[label], "--evidence", tmp_path / "train.jsonl",
        "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["bias"] + sum(own["contribution"] for own in found["features"]) == pytest.approx(found["score"])
    assert found["evidence"][0]["similarity"] == pytest.approx(1)
    assert found["evidence"][0]["text"] == data.texts[7]
    assert {own["similarity"] <= 1 for own in found["evidence"]} == {True}
    code, out, _ = cli("explain", tmp_path / "m", data.texts[7], "--evidence", tmp_path / "train.jsonl")
    assert (code, "(bias)" in out, "most alike" in out) == (0, True, True)


def test_evidence_needs_texts_and_the_labels_of_the_model(cli, tmp_path):
    data = planted(30, 0)
    longtail.TextPipeline(features=longtail.TextFeatures(min_df=1)).fit(data.texts, data.Y).save(tmp_path / "m")
    (tmp_path / "points.txt").write_text("1 5 6\n0 1:0.5\n")
    code, _, err = cli("explain", tmp_path / "m", data.texts[0], "--evidence", tmp_path / "points.txt")
    assert (code, "has no texts" in err) == (2, True)


def test_models_that_cannot_explain_say_so(cli, tmp_path):
    data = planted(30, 0)
    features = longtail.TextFeatures(min_df=1, max_df=1.0)
    ranks = longtail.Ensemble(models=[longtail.Popularity(), longtail.DiSMEC()], combine="ranks")
    longtail.TextPipeline(model=ranks, features=features).fit(data.texts, data.Y).save(tmp_path / "m")
    code, _, err = cli("explain", tmp_path / "m", data.texts[0])
    assert (code, "cannot explain means of ranks" in err) == (2, True)
