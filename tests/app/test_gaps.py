"""Points that say nothing, labels that training did not have, and more labels asked for than there are."""

from __future__ import annotations

import json

import pytest

from longtail.data import read_predictions


@pytest.fixture
def trained(cli, texts):
    """A model of texts, and gaps.jsonl, whose first two texts say nothing."""
    cli("train", texts / "train.jsonl", "-m", "dismec", "-o", texts / "m", "--set", "features.min_df=1")
    (texts / "gaps.jsonl").write_text('{"text": ""}\n{"text": "zyzzyva"}\n{"text": "w00 w01 w02"}\n')
    return texts


def test_the_number_of_points_without_labels_is_said(cli, trained):
    predict = ("predict", trained / "m", trained / "gaps.jsonl", "-o")
    code, _, err = cli(*predict, trained / "p.jsonl")
    assert code == 0
    assert "2 of 3 points have no word that the model knows, and get no labels (--fallback popular gives" in err
    lines = [json.loads(line) for line in (trained / "p.jsonl").read_text().splitlines()]
    assert [len(line["labels"]) for line in lines] == [0, 0, 5]
    code, _, err = cli(*predict, trained / "q.jsonl", "--fallback", "popular")
    assert "2 of 3 points have no word that the model knows, and get the most frequent labels" in err
    lines = [json.loads(line) for line in (trained / "q.jsonl").read_text().splitlines()]
    assert [len(line["labels"]) for line in lines] == [5, 5, 5]
    assert lines[0] == lines[1]


def test_one_text_without_a_known_word_has_no_labels(cli, trained):
    code, out, err = cli("predict", trained / "m", "--text", "zyzzyva", "--json")
    assert (code, json.loads(out)) == (0, {"labels": [], "scores": []})
    assert "the point has no word that the model knows, and gets no labels" in err


def test_more_labels_than_there_are_give_all_of_them(cli, trained):
    code, _, err = cli("predict", trained / "m", trained / "test.jsonl", "-o", trained / "p.npz", "-k", "50")
    assert code == 0
    assert "wrote 80 x 6 predictions" in err
    assert read_predictions(trained / "p.npz").k == 6


def test_labels_that_training_did_not_have_are_counted_and_shown(cli, trained):
    lines = (trained / "train.jsonl").read_text().splitlines()
    few = [{"text": "w00", "labels": ["new"]}, *map(json.loads, lines)]
    (trained / "few.jsonl").write_text("\n".join(map(json.dumps, few)))
    _, _, err = cli("evaluate", trained / "m", trained / "few.jsonl")
    assert "% of the test labels (1 different) were not seen in training, and count as misses" in err
    assert "warning" not in err
    many = [{"text": "w00", "labels": ["http://example.org/1", "name 0"]}]
    (trained / "many.jsonl").write_text("\n".join(map(json.dumps, many)))
    said = (
        "warning: 50.0 % of the test labels (1 different) were not seen in training, e.g. 'http://example.org/1'; a "
        "label of the training data is 'name 0': do they belong together?"
    )
    assert said in cli("evaluate", trained / "m", trained / "many.jsonl")[2]
    cli("predict", trained / "m", trained / "many.jsonl", "-o", trained / "p.jsonl")
    by_file = ("evaluate", trained / "p.jsonl", trained / "many.jsonl", "--train", trained / "train.jsonl")
    assert said in cli(*by_file)[2]
