"""A model of texts with a vocabulary, a model of features, and one running service for all tests of a process."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import numpy as np
import pytest

from contract.planted import planted, word
from longtail import DiSMEC, TextPipeline
from longtail.core.vocabulary import Concept, Vocabulary
from longtail.features import TextFeatures
from serve.running import start

PREFIX = "http://example.org/"
# What the service reads of a report; test_figures compares with one that `longtail report` wrote.
REPORT = {
    "about": {"test data": "/home/planted/dev.jsonl", "date": "2026-11-17"},
    "data": {"test points": 200},
    "metrics": {"rows": [{"name": "P@1", "value": 90.0}, {"name": "PSP@1", "value": 71.5}]},
    "frontier": [
        {"exponent": 0.0, "P@1": 90.0, "PSP@1": 71.5}, {"exponent": 0.5, "P@1": 89.0, "PSP@1": 75.0},
        {"exponent": 1.0, "P@1": 85.5, "PSP@1": 76.5},
    ],
}  # fmt: skip


def text_model(seed: int = 0) -> TextPipeline:
    data = planted(120, seed)
    model = TextPipeline(model=DiSMEC(), features=TextFeatures(min_df=1, max_df=1.0))
    model.fit(list(data.texts), data.Y, label_names=[f"c{i}" for i in range(data.Y.shape[1])])
    names = {f"c{i}": {"en": f"concept {i}", "fi": f"käsite {i}"} for i in range(data.Y.shape[1])}
    concepts = {
        key: Concept(value, parents=["c0"] if key == "c3" else [], notation="3.1" if key == "c3" else "")
        for key, value in names.items()
    }
    model.vocabulary_ = Vocabulary(concepts, language="en")
    return model


def words_of(label: int) -> str:
    """A text with the words of one label."""
    return " ".join(word(3 * label + i) for i in range(3))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Models, calibration data and a file of settings."""
    folder = tmp_path_factory.mktemp("served")
    text_model().save(folder / "texts")
    data = planted(120)
    DiSMEC().fit(data.X, data.Y).save(folder / "rows")
    unseen = planted(200, 7)
    with open(folder / "dev.jsonl", "w") as file:
        for text, labels in zip(unseen.texts, unseen.lists, strict=True):
            file.write(json.dumps({"text": text, "labels": [f"c{label}" for label in labels]}) + "\n")
    (folder / "report.json").write_text(json.dumps(REPORT))
    (folder / "service.toml").write_text(
        f"""
feedback = "feedback"
max_text = 20000
max_body = 1000000
idle_limit = 1.5
drain = 0.2
[models.texts]
path = "texts"
name = "Planted texts"
uri_prefix = "{PREFIX}"
calibration = "dev.jsonl"
metrics = "report.json"
[models.rows]
path = "rows"
"""
    )
    return folder


@pytest.fixture(scope="session")
def service(folder):
    running = start("--config", folder / "service.toml")
    yield running
    assert running.stop() == 0
    log = running.log.read_text()
    assert "Traceback" not in log, log
    assert np.all([word(i) not in log for i in range(18)])  # nothing of the texts is logged


def is_fault(message) -> bool:
    """Whether a line of the browser's console is an error; that a text was refused is none."""
    return message.type == "error" and "status of 413" not in message.text


@pytest.fixture
def page(browser, service):
    """The page of a new visitor; it asks nobody else for anything, and its scripts have no errors."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], reduced_motion="reduce")
    page = context.new_page()
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if is_fault(message) else None)
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(20_000)
    page.goto(service.address)
    yield page
    context.close()
    assert errors == []
    assert {urlsplit(url).netloc for url in asked if not url.startswith("blob:")} == {urlsplit(service.address).netloc}
