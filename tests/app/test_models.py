"""longtail models, --quiet and --verbose."""

from __future__ import annotations

import json

import longtail
from longtail.app.models import GOOD_FOR
from longtail.core import registry


def test_every_model_has_a_line_that_says_what_it_is(cli):
    code, out, _ = cli("models", "--json")
    assert code == 0
    rows = json.loads(out)["models"]
    assert [row["model"] for row in rows] == registry.estimator_names()
    assert all(len(row["about"]) > 10 and row["reads"] and row["good for"] for row in rows)
    assert GOOD_FOR.keys() == set(registry.estimator_names())
    assert {row["model"]: row["reads"] for row in rows}["xgrank"] == "texts"
    assert "dismec" in cli("models")[1]


def test_every_parameter_of_every_model_has_its_default_and_a_meaning(cli):
    for name in registry.estimator_names():
        shown = json.loads(cli("models", name, "--json")[1])["parameters"]
        assert sorted(row["name"] for row in shown) == registry.estimator_class(name)._get_param_names(), name
        assert [row["name"] for row in shown if not row["about"]] == [], name
    rows = {row["name"]: row for row in json.loads(cli("models", "dismec", "--json")[1])["parameters"]}
    assert rows["C"]["default"] == repr(longtail.DiSMEC().C)
    assert rows["warm_start"]["about"].endswith("from them (e.g. along a path of C).")
    code, _, err = cli("models", "dismek")
    assert (code, "dismec" in err) == (2, True)


def test_quiet_leaves_messages_out_but_no_warnings(cli, texts):
    command = ("train", texts / "train.jsonl", "-m", "popularity", "-o", texts / "m", "--set", "features.min_df=1")
    assert cli("--quiet", *command) == (0, "", "")
    assert "trained Popularity" in cli(*command, "--overwrite")[2]
    (texts / "new.jsonl").write_text(json.dumps({"text": "w00", "labels": ["new"]}))
    code, out, err = cli("--quiet", "evaluate", texts / "m", texts / "new.jsonl", "--json")
    assert (code, "P@1" in out) == (0, True)
    assert err.startswith("warning:")


def test_verbose_says_what_was_read_and_made(cli, texts):
    command = ("train", texts / "train.jsonl", "-m", "dismec", "-o", texts / "m", "--set", "features.min_df=1")
    code, _, err = cli("--verbose", *command)
    assert code == 0
    assert f"read {texts / 'train.jsonl'} in" in err
    assert "features of" in err
    assert "labels to a relative duality gap of at most" in err
    assert "duality gap" not in cli(*command, "--overwrite")[2]
