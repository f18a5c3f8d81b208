"""A model of texts with a vocabulary, a model of features, and one running service for all tests of a process."""

from __future__ import annotations

import json

import numpy as np
import pytest

from contract.planted import planted, word
from longtail import DiSMEC, TextPipeline
from longtail.core.vocabulary import Concept, Vocabulary
from longtail.features import TextFeatures
from serve.running import start

PREFIX = "http://example.org/"


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
    (folder / "metrics.json").write_text(json.dumps({"P@1": 90.0}))
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
metrics = "metrics.json"
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
