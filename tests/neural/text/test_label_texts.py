"""Texts of labels: from names, from a file, and files that cannot be used."""

from __future__ import annotations

import json

import numpy as np
import pytest

import longtail
from contract.planted import N_LABELS, word
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import DataError, OutputError, ParameterError
from neural.text.text_models import TEST, TRAIN, xgrank


def test_texts_of_labels_may_come_from_a_file(tmp_path):
    ids, words = [f"C-{i}" for i in range(N_LABELS)], [word(3 * i) for i in range(N_LABELS)]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps(dict(zip(ids, words, strict=True))))
    by_file = xgrank(label_text=str(file), epochs=2).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    by_name = xgrank(epochs=2).fit(TRAIN.texts, TRAIN.Y, label_names=words)
    assert by_file.label_names_ == ids
    np.testing.assert_array_equal(by_file.network_.head.text_vectors, by_name.network_.head.text_vectors)
    by_file.save(tmp_path / "m")
    expected = by_name.predict(TEST.texts, k=3)
    file.unlink()  # a fitted model does not need it any more
    for model in (by_file, longtail.load_model(tmp_path / "m")):
        np.testing.assert_array_equal(model.predict(TEST.texts, k=3).scores, expected.scores)


def test_labels_without_a_text_in_the_file_give_a_warning(tmp_path, caplog):
    ids = [f"C-{i}" for i in range(N_LABELS)]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({ids[0]: word(0)}))
    xgrank(label_text=str(file), epochs=1).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    assert [
        f"{file}: no text for {N_LABELS - 1} of the {N_LABELS} labels, e.g. 'C-1'" in r.getMessage()
        for r in caplog.records
    ] == [True]


def test_a_training_does_not_resume_with_other_label_texts(tmp_path):
    file = tmp_path / "labels.json"
    ids = [f"C-{i}" for i in range(N_LABELS)]
    for text in ("one", "two"):
        file.write_text(json.dumps(dict.fromkeys(ids, text)))
        run = Run(checkpoint=Checkpoint(tmp_path / "partial", resume=True))
        if text == "one":
            xgrank(label_text=str(file), epochs=1).fit(TRAIN.texts, TRAIN.Y, label_names=ids, run=run)
            continue
        with pytest.raises(OutputError, match="unfinished work with other data"):
            xgrank(label_text=str(file), epochs=1).fit(TRAIN.texts, TRAIN.Y, label_names=ids, run=run)


def test_a_file_of_label_texts_that_cannot_be_used_is_refused_before_any_work(tmp_path):
    file = tmp_path / "labels.json"
    ids = [f"C-{i}" for i in range(N_LABELS)]
    with pytest.raises(DataError, match=r"labels\.json.*cannot be read \(No such file"):
        xgrank(label_text=str(file)).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    file.write_text('{"apple": "fruit"}')
    with pytest.raises(DataError, match=r"labels\.json: no text for any of the \d+ labels of the data, e\.g\. 'C-0'"):
        xgrank(label_text=str(file)).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    with pytest.raises(ParameterError, match=r"there are no label names to look up in it; pass label_names to fit"):
        xgrank(label_text=str(file)).fit(TRAIN.texts, TRAIN.Y)
    for wrong in ("", 3, None):
        with pytest.raises(ParameterError, match=r"label_text is .* must be true, false or a file"):
            xgrank(label_text=wrong).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
