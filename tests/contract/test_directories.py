"""Model directories of every estimator, and the checkpoints of its training."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from contract.models import (
    TRAIN,
    answers,
    assert_same,
    every,
    make,
    shared,
)
from contract.planted import N_LABELS, planted
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import ModelError, OutputError


@every
def test_a_saved_model_answers_as_before(name, tmp_path):
    model = make(name)
    names = [f"label {i}" for i in range(N_LABELS)]
    model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y, label_names=names).save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert type(loaded) is type(model)
    assert_same(answers(loaded), answers(model))
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert loaded.label_names_ == names
    assert loaded.fingerprint_ == model.fingerprint_
    np.testing.assert_array_equal(loaded.label_counts_, model.label_counts_)
    loaded.save(tmp_path / "again")
    assert_same(answers(longtail.load_model(tmp_path / "again")), answers(model))


@every
def test_a_missing_or_altered_model_file_is_noticed(name, tmp_path):
    shared(name).save(tmp_path / "m")
    for file in list((tmp_path / "m").iterdir()):
        content = file.read_bytes()
        for wrong in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b"", None):
            file.unlink() if wrong is None else file.write_bytes(wrong)
            with pytest.raises(ModelError, match=file.name):
                longtail.load_model(tmp_path / "m")
        file.write_bytes(content)
    assert_same(answers(longtail.load_model(tmp_path / "m")), answers(shared(name)))


@every
def test_a_checkpoint_belongs_to_its_job(name, tmp_path):
    """The same job goes on, with other threads too; other data or parameters are refused and lose nothing."""
    model = make(name)
    inputs = TRAIN.inputs(model.input_kind)

    def fit(estimator, Y=TRAIN.Y):
        checkpoint = Checkpoint(tmp_path / "c", resume=True)
        try:
            return estimator.fit(inputs, Y, run=Run(checkpoint=checkpoint))
        finally:
            checkpoint._unlock()

    expected = answers(fit(model))
    files = sorted((tmp_path / "c").rglob("*"))
    threads = [key for key in model.get_params() if key.split("__")[-1] == "n_jobs"]
    assert_same(answers(fit(make(name, **dict.fromkeys(threads, 2)))), expected)
    with pytest.raises(OutputError, match="other data, parameters or versions"):
        fit(make(name), planted(90, seed=3).Y)
    changed = {key: 7 for key in model.get_params() if key.split("__")[-1] in ("random_state", "min_df")}
    if changed:
        with pytest.raises(OutputError, match="other data, parameters or versions"):
            fit(make(name, **changed))
    assert sorted((tmp_path / "c").rglob("*")) == files
