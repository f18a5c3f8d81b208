"""Annif's REST API, by its own client."""

from __future__ import annotations

import datetime
import io
import json

import pytest
import requests
from annif_client import AnnifClient

from serve.conftest import PREFIX, words_of
from serve.running import call


@pytest.fixture(scope="module")
def client(service):
    return AnnifClient(f"{service.address}/v1/")


def test_info_projects_and_vocabularies(client, service):
    assert client.api_info["title"] == "Annif REST API"
    texts, rows = client.projects
    assert [texts["project_id"], rows["project_id"]] == ["texts", "rows"]
    assert texts == client.get_project("texts")
    assert texts["name"] == "Planted texts"
    assert texts["language"] == texts["vocab_language"] == "en"
    assert texts["is_trained"] is True
    assert texts["backend"] == {"backend_id": "longtail"}
    assert texts["vocab"] == {"vocab_id": "texts", "languages": ["en", "fi"], "size": 6, "loaded": True}
    written = datetime.datetime.fromisoformat(texts["modification_time"])
    assert datetime.timedelta(0) < datetime.datetime.now(datetime.UTC) - written < datetime.timedelta(hours=1)
    assert call(service.address, "/v1/vocabs")[1]["vocabs"][0] == texts["vocab"]


def test_unknown_project(client):
    with pytest.raises(ValueError, match="Project 'nothing' not found"):
        client.get_project("nothing")
    with pytest.raises(ValueError, match="Project 'nothing' not found"):
        client.suggest("nothing", "text")


def test_suggest(client):
    found = client.suggest("texts", words_of(3), limit=2)
    assert found[0]["uri"] == f"{PREFIX}c3"
    assert found[0]["label"] == "concept 3"
    assert found[0]["notation"] == "3.1"
    assert set(found[0]) == {"uri", "label", "notation", "score"}
    assert len(found) == 2
    assert 1 >= found[0]["score"] > found[1]["score"] > 0
    assert client.suggest("texts", io.StringIO(words_of(3)), limit=2) == found
    assert client.suggest("texts", words_of(3), limit=0) == []
    assert len(client.suggest("texts", words_of(3))) == 6


def test_threshold_is_a_probability(client):
    every = client.suggest("texts", words_of(1))
    middle = (every[0]["score"] + every[1]["score"]) / 2
    assert client.suggest("texts", words_of(1), threshold=middle) == every[:1]
    assert every[0]["score"] > 0.5 > every[1]["score"]  # calibrated: the words of one label are a clear case


def test_suggest_batch_is_suggest(client):
    documents = [{"text": words_of(i), "document_id": f"doc {i}"} for i in range(5)] + [{"text": words_of(5)}]
    found = client.suggest_batch("texts", documents, limit=3, threshold=0.01)
    assert [one["document_id"] for one in found] == [f"doc {i}" for i in range(5)] + [None]
    for i, one in enumerate(found):
        assert one["results"] == client.suggest("texts", words_of(i), limit=3, threshold=0.01)
        assert one["results"][0]["uri"] == f"{PREFIX}c{i}"
    assert client.suggest_batch("texts", []) == []


def test_language_of_labels(service):
    def label(**more):
        answer = requests.post(f"{service.address}/v1/projects/texts/suggest", data={"text": words_of(2), **more})
        return answer.json()["results"][0]["label"] if answer.ok else answer.json()["detail"]

    assert (
        label() == label(language="") == label(language="en") == label(project="x", metadata_title="y") == "concept 2"
    )
    assert label(language="fi") == "käsite 2"
    assert 'language "de" not supported' in label(language="de")
    status, found, _ = call(service.address, "/v1/projects/texts/suggest-batch?language=fi", {"documents": []})
    assert (status, found) == (200, [])


def test_a_multipart_form_is_the_same(client, service):
    sent = {"text": (None, words_of(4)), "limit": (None, "1")}
    answer = requests.post(f"{service.address}/v1/projects/texts/suggest", files=sent)
    assert answer.json()["results"] == client.suggest("texts", words_of(4), limit=1)


def test_learn_is_stored_for_the_next_training(client, folder):
    subjects = [{"uri": f"{PREFIX}c1", "label": "concept 1"}, {"uri": "c4"}]
    answer = client.learn("texts", [{"text": "ein neuer Text", "subjects": subjects}, {"text": "ohne Schlagworte"}])
    assert answer.status_code == 204
    assert answer.content == b""
    lines = [json.loads(line) for line in (folder / "feedback" / "texts.jsonl").read_text().splitlines()]
    (learned,) = [line for line in lines if line["text"] == "ein neuer Text"]
    assert learned["labels"] == ["c1", "c4"]
    assert learned["source"] == "learn"
    assert not [line for line in lines if line["text"] == "ohne Schlagworte"]


def test_detect_language(client):
    found = client.detect_language("Die Katze sitzt auf der Matte und schaut dem Regen zu.", ["en", "de", "fi"])
    assert found["results"][0]["language"] == "de"
    assert sum(one["score"] for one in found["results"]) == pytest.approx(1)
    assert None in [one["language"] for one in found["results"]]


def test_a_model_of_features_says_what_to_use(service):
    status, problem, _ = call(service.address, "/v1/projects/rows/suggest", b"text=w01")
    assert status == 400
    assert "/longtail/v1/models/rows/predict" in problem["detail"]
