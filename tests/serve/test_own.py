"""What is under /longtail/v1, and the dial from head to tail on both APIs."""

from __future__ import annotations

import json
import urllib.parse

import numpy as np
import pytest

from contract.planted import planted
from longtail import DiSMEC, PropensityRerank, TextPipeline, load_model
from longtail.data import read_dataset
from longtail.features import TextFeatures
from longtail.serve.models import load_served
from longtail.serve.settings import ModelSettings
from longtail.serve.suggesting import Wish, _chosen
from serve.conftest import PREFIX, words_of
from serve.running import call

MODEL = "/longtail/v1/models/texts"


def test_models(service):
    status, found, _ = call(service.address, "/longtail/v1/models")
    assert status == 200
    texts, rows = found["models"]
    assert texts == call(service.address, MODEL)[1]
    assert (texts["model"], texts["reads"], rows["reads"]) == ("DiSMEC", "texts", "features")
    assert (texts["points"], texts["labels"]) == (120, 6)
    assert sum(band["labels"] for band in texts["bands"].values()) == 6
    assert sum(band["share"] for band in texts["bands"].values()) == pytest.approx(1)
    assert 0 < texts["propensities"]["lowest"] <= texts["propensities"]["highest"] <= 1
    assert texts["probabilities"].startswith("calibrated on data")
    assert rows["probabilities"].startswith("not calibrated")
    (named,) = texts["evaluations"]
    assert (named["data"], named["points"], named["metrics"]) == (
        "planted/dev.jsonl",
        200,
        {"P@1": 90.0, "PSP@1": 71.5},
    )
    assert [row["exponent"] for row in named["frontier"]] == [0.0, 0.5, 1.0]
    assert texts["feedback"] is True


def test_search_among_labels(service):
    def found(query, **more):
        return call(service.address, f"{MODEL}/labels?{urllib.parse.urlencode({'q': query, **more})}")[1]

    every = found("")
    assert every["total"] == 6
    counts = [label["count"] for label in every["labels"]]
    assert counts == sorted(counts, reverse=True)
    assert [label["uri"] for label in found("Concept 3")["labels"]] == [f"{PREFIX}c3"]
    assert [label["label"] for label in found("3.1", language="fi")["labels"]] == ["käsite 3"]
    (three,) = found("c3")["labels"]
    assert three["parents"] == [{"uri": f"{PREFIX}c0", "label": "concept 0", "known": True}]
    assert three["notation"] == "3.1"
    assert found("käsite")["total"] == 0  # another language
    assert len(found("concept", limit=2, offset=5)["labels"]) == 1
    assert found("concept nothing") == {"total": 0, "labels": []}


def test_suggest_says_all_about_a_label(service):
    status, found, _ = call(service.address, f"{MODEL}/suggest", {"texts": [words_of(3), words_of(0)], "limit": 1})
    assert status == 200
    (three,), (zero,) = found["results"]
    assert (three["uri"], zero["uri"]) == (f"{PREFIX}c3", f"{PREFIX}c0")
    assert three["parents"][0]["uri"] == f"{PREFIX}c0"
    assert three["score"] == three["probability"] > 0.5
    assert three["band"] in ("head", "torso", "tail")


def test_exponent_ranks_by_probability_over_a_power_of_the_propensity(service):
    text = f"{words_of(0)} {words_of(5)} {words_of(2)}"

    def ranked(exponent):
        body = {"texts": [text], "exponent": exponent}
        return call(service.address, f"{MODEL}/suggest", body)[1]["results"][0]

    plain, tail = ranked(0.0), ranked(1.0)
    assert [one["probability"] for one in plain] == sorted((one["probability"] for one in plain), reverse=True)
    quotients = {one["uri"]: one["probability"] / one["propensity"] for one in plain}
    assert [one["uri"] for one in tail] == sorted(quotients, key=quotients.get, reverse=True)
    assert [one["uri"] for one in tail] != [one["uri"] for one in plain]
    scores = [one["score"] for one in tail]
    assert scores == sorted(scores, reverse=True)
    assert max(scores) <= 1
    assert min(scores) > 0
    # The same on Annif's API, where the score has the order of the results.
    form = urllib.parse.urlencode({"text": text, "exponent": 1}).encode()
    annif = call(service.address, "/v1/projects/texts/suggest", form)[1]["results"]
    assert [one["uri"] for one in annif] == [one["uri"] for one in tail]
    assert [one["score"] for one in annif] == scores


def test_excluded_labels_are_never_suggested_and_others_take_their_place(service):
    body = {"texts": [words_of(3)], "limit": 2}
    first, second = call(service.address, f"{MODEL}/suggest", body)[1]["results"][0]
    without = call(service.address, f"{MODEL}/suggest", {**body, "exclude": [first["uri"], "unheard of"]})[1][
        "results"
    ][0]
    assert without[0] == second
    assert len(without) == 2
    form = urllib.parse.urlencode([("text", words_of(3)), ("limit", 2), ("exclude", "c3"), ("exclude", "c0")]).encode()
    annif = call(service.address, "/v1/projects/texts/suggest", form)[1]["results"]
    assert len(annif) == 2
    assert not {one["uri"] for one in annif} & {f"{PREFIX}c3", f"{PREFIX}c0"}


def test_explain_names_the_words_that_spoke_for_a_label(service):
    assert call(service.address, MODEL)[1]["explains"] is True
    text = f"{words_of(0)}, {words_of(3)}!"
    status, found, _ = call(service.address, f"{MODEL}/explain", {"text": text, "label": f"{PREFIX}c3"})
    assert status == 200
    assert (found["uri"], found["label"]) == (f"{PREFIX}c3", "concept 3")
    assert all(text[one["start"] : one["end"]].lower() == one["token"] for one in found["tokens"])
    weights = {one["token"]: one["weight"] for one in found["tokens"]}
    assert min(weights[word] for word in words_of(3).split()) > max(weights[word] for word in words_of(0).split())


def test_predict_takes_features(service, folder):
    data = planted(5, 3)
    points = [
        {"indices": row.indices.tolist(), "values": row.data.astype(float).tolist()}
        for row in (data.X[i] for i in range(5))
    ]
    status, found, _ = call(service.address, "/longtail/v1/models/rows/predict", {"points": points, "limit": 3})
    assert status == 200
    expected = load_model(folder / "rows").predict(data.X, k=3)
    assert [[int(one["uri"]) for one in row] for row in found["results"]] == expected.labels.tolist()
    shown = np.array([[one["probability"] for one in row] for row in found["results"]])
    np.testing.assert_allclose(shown, 1 / (1 + np.exp(-4.0 * expected.scores)), atol=2e-6)


def test_feedback_is_readable_by_train(service, folder):
    text = "a text with feedback"
    body = {"text": text, "accepted": ["c1"], "rejected": [f"{PREFIX}c2"], "added": ["c5"], "document_id": "7"}
    assert call(service.address, f"{MODEL}/feedback", body)[:2] == (200, {"stored": 1})
    file = folder / "feedback" / "texts.jsonl"
    (line,) = [one for one in map(json.loads, file.read_text().splitlines()) if one["text"] == text]
    assert (line["accepted"], line["rejected"], line["added"], line["id"]) == (["c1"], ["c2"], ["c5"], "7")
    data = read_dataset(file)
    place = list(data.texts).index(text)
    assert {data.label_names[i] for i in data.Y[place].indices} == {"c1", "c5"}


def test_health_metrics_and_pages(service):
    assert call(service.address, "/health/live")[:2] == (200, {"status": "live"})
    assert call(service.address, "/health/ready")[0] == 200
    call(service.address, "/v1/projects/texts/suggest", b"text=w01")
    status, numbers, _ = call(service.address, "/metrics")
    assert status == 200
    assert 'longtail_requests_total{route="/v1/projects/{project_id}/suggest",status="200"}' in numbers
    assert "longtail_request_seconds_bucket" in numbers
    assert "longtail_batch_size_bucket" in numbers
    status, listed, _ = call(service.address, "/docs")
    assert status == 200
    assert "POST /v1/projects/{project_id}/suggest" in listed
    assert "labels never to suggest" in listed
    status, _, head = call(service.address, "/")
    assert status == 200
    assert "html" in head["content-type"]


def test_the_log_has_no_texts_or_queries(service):
    call(service.address, f"{MODEL}/labels?q=secretword")
    call(service.address, "/v1/projects/texts/suggest", b"text=secretword")
    call(service.address, "/health/live")  # a line is written after the answer was sent, so the last may be missing
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
    assert "secretword" not in service.log.read_text()
    last = [line for line in lines if line["path"] == "/v1/projects/texts/suggest"][-1]
    assert (last["method"], last["status"], last["bytes_in"]) == ("POST", 200, 15)
    assert last["ms"] > 0


def test_a_re_ranker_is_served_with_the_exponent_that_it_chose(tmp_path):
    data = planted(120)
    model = TextPipeline(model=PropensityRerank(base=DiSMEC()), features=TextFeatures(min_df=1, max_df=1.0))
    model.fit(list(data.texts), data.Y, label_names=[f"c{i}" for i in range(data.Y.shape[1])])
    model.parts_[0].exponent_ = 0.7  # as if so much could be had for its price
    model.save(tmp_path / "m")
    served = load_served("m", ModelSettings(path=tmp_path / "m"))
    assert served.exponent == 0.7
    found = served.predict(list(data.texts[:40]), served.model.n_labels_)
    ranked = [[one.label for one in _chosen(served, each, Wish(limit=3))] for each in found]
    np.testing.assert_array_equal(ranked, load_model(tmp_path / "m").predict(data.texts[:40], k=3).labels)
