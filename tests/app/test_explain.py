"""longtail explain as a user types it."""

from __future__ import annotations

import json

import pytest

import longtail
from contract.planted import planted


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
    longtail.TextPipeline(features=longtail.TextFeatures(min_df=1, max_df=1.0)).fit(data.texts, data.Y).save(
        tmp_path / "linear"
    )
    code, _, err = cli("explain", tmp_path / "linear", data.texts[0])
    assert (code, "DiSMEC cannot explain its scores" in err) == (2, True)
