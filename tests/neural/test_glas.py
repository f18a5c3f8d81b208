"""GLaS as an estimator: what it learns, early stopping, resuming, saving, and what it refuses."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import longtail
from longtail import GLaS, make_longtail
from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.errors import OutputError, ParameterError, TrainingError
from longtail.metrics import evaluate

SMALL = {"width": 32, "epochs": 6, "batch_size": 64, "learning_rate": 0.02, "n_jobs": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return make_longtail(n_points=800, n_features=400, n_labels=60, n_test_points=200, random_state=0)


def precision(model, data):
    return evaluate(model.predict(data.test.X, k=5), data.test.Y)["P@1"]


def popular(data):
    return precision(longtail.Popularity().fit(data.train.X, data.train.Y), data)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"hidden": (48,)}, {"loss": "bce"}, {"loss": "squared-hinge"}, {"loss": "grank"}, {"loss": "margin"},
        {"loss": "negative-mining"}, {"labels_per_point": "one"}, {"labels_per_point": "sum"}, {"negatives": 20},
        {"regulariser": "none"}, {"regulariser": "spread-out"}, {"regulariser": "gravity", "strength": 10.0},
        {"precision": "bf16"}, {"average_from": 0.5}, {"weighting": "unbiased", "loss": "bce"},
        {"schedule": "cosine", "clip": 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_it_learns_whatever_the_settings(data, changes):
    model = GLaS(**(SMALL | changes)).fit(data.train.X, data.train.Y)
    assert precision(model, data) > popular(data) + 15
    lengths = np.linalg.norm(model._label_vectors(), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)


def test_scores_are_the_scaled_cosines_that_training_saw(data):
    model = GLaS(**SMALL).fit(data.train.X, data.train.Y)
    found = model.predict(data.test.X[:5], k=3)
    network = model.network_
    from longtail.neural.device_csr import DeviceCsr

    with torch.no_grad():
        points = network(DeviceCsr(data.test.X[:5], "cpu").rows(torch.arange(5)))
        scores = network.scores(points, network.label_vectors()).numpy()
    np.testing.assert_allclose(np.take_along_axis(scores, found.labels, 1), found.scores, rtol=1e-4)


def test_glas_brings_labels_that_occur_together_closer_than_no_regulariser(data):
    """Mean squared distance of V'V from the conditional frequencies, which the regulariser minimises."""
    Y = data.train.Y
    A = (Y.T @ Y).toarray()
    totals = np.maximum(np.diag(A), 1)
    U = 0.5 * (A / totals + A / totals[:, None])
    U[np.diag(A) == 0] = 0
    distance = {}
    for regulariser in ("none", "glas"):
        V = GLaS(**(SMALL | {"regulariser": regulariser})).fit(data.train.X, Y)._label_vectors()
        weights = np.outer(np.diag(A), np.diag(A))
        distance[regulariser] = (weights * (V @ V.T - U) ** 2).sum() / weights.sum()
    assert distance["glas"] < 0.5 * distance["none"]


def test_training_stops_early_on_held_out_points_and_keeps_the_best_epoch(data):
    model = GLaS(**(SMALL | {"epochs": 30, "learning_rate": 0.05, "held_out": 0.2, "metric": "PSP@1", "patience": 2}))
    model.fit(data.train.X, data.train.Y)
    values = [epoch["PSP@1"] for epoch in model.history_.epochs]
    assert len(values) < 30
    assert model.history_.best_epoch == int(np.argmax(values)) == len(values) - 3


def test_searching_by_codes_answers_nearly_as_exact_search_does(data):
    exact = GLaS(**SMALL).fit(data.train.X, data.train.Y)
    codes = GLaS(**(SMALL | {"search": "codes"})).fit(data.train.X, data.train.Y)
    assert codes.search_recall_ >= 0.995
    one, other = exact.predict(data.test.X).labels, codes.predict(data.test.X).labels
    assert (one == other).mean() > 0.98


def test_a_model_with_codes_is_saved_and_loaded(data, tmp_path):
    model = GLaS(**(SMALL | {"search": "codes", "hidden": (40,)})).fit(data.train.X, data.train.Y)
    model.save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(data.test.X).labels, model.predict(data.test.X).labels)
    assert loaded.search_recall_ == model.search_recall_
    assert loaded.history_.epochs == model.history_.epochs


def test_a_single_label_can_be_searched_by_codes_too(data):
    model = GLaS(**(SMALL | {"search": "codes", "epochs": 1})).fit(data.train.X, np.ones((800, 1)))
    assert model.predict(data.test.X[:3], k=1).labels.tolist() == [[0], [0], [0]]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0}, {"hidden": 5}, {"hidden": (0,)}, {"loss": "hinge"}, {"margin": 0}, {"negatives": "some"},
        {"labels_per_point": "two"}, {"regulariser": "l2"}, {"strength": -1}, {"keep": 0}, {"keep": 1.5},
        {"held_out": 1.0}, {"metric": "nonsense@1", "held_out": 0.1}, {"search": "tree"}, {"epochs": 0},
        {"device": "abacus"}, {"weighting": "unbiased"}, {"random_state": -1}, {"random_state": 2**70}, {"epsilon": 0},
        {"held_out": 1e-4},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(data, wrong):
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))}[ =]"):
        GLaS(**(SMALL | wrong)).fit(data.train.X, data.train.Y)


def test_a_gpu_that_is_not_there_is_an_error_in_training_but_not_in_prediction(data, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ParameterError, match="no GPU here"):
        GLaS(**(SMALL | {"device": "cuda"})).fit(data.train.X, data.train.Y)
    trained = GLaS(**SMALL).fit(data.train.X, data.train.Y)
    expected = trained.predict(data.test.X).labels
    np.testing.assert_array_equal(trained.set_params(device="cuda").predict(data.test.X).labels, expected)


def test_a_loss_that_is_not_finite_is_an_error_that_names_the_step(data):
    with pytest.raises(TrainingError, match="not finite in step 1 of epoch 1"):
        GLaS(**(SMALL | {"strength": 1e39})).fit(data.train.X, data.train.Y)


def test_unfinished_work_resumes_with_another_learning_rate_but_not_with_another_network(data, tmp_path):
    class Interrupted(Silent):
        def note(self, text):
            raise KeyboardInterrupt  # at the end of the first epoch

    def fit(resume, progress, **changes):
        run = Run(progress, Checkpoint(tmp_path / "m.partial", resume=resume))
        return GLaS(**(SMALL | changes)).fit(data.train.X, data.train.Y, run=run)

    with pytest.raises(KeyboardInterrupt):
        fit(False, Interrupted())
    with pytest.raises(OutputError, match="other data, parameters"):
        fit(True, Silent(), width=16)
    assert precision(fit(True, Silent(), learning_rate=0.01), data) > popular(data) + 15


def test_a_killed_training_resumes_and_ends_as_if_it_had_not_been_killed(data, tmp_path):
    longtail.write_dataset(data.train, tmp_path / "train")
    # A checkpoint after every step, so that a kill comes in the middle of an epoch.
    settings = SMALL | {"epochs": 20, "average_from": 0.5, "checkpoint_seconds": 0}
    arguments = ["train", tmp_path / "train", "--model", "glas", "--out", tmp_path / "m"]
    arguments += [f"--set={key}={value}" for key, value in settings.items()]

    def start(*options):
        command = [sys.executable, "-m", "longtail.app.cli", *map(str, arguments), *options]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    killed = start()
    until = time.monotonic() + 60
    while not (tmp_path / "m.partial" / "training.safetensors").exists():
        assert killed.poll() is None, killed.communicate()
        assert time.monotonic() < until
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "m").exists()
    resumed = start("--resume")
    _, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    one = longtail.load_model(tmp_path / "m").predict(data.test.X)
    other = GLaS(**settings).fit(data.train.X, data.train.Y).predict(data.test.X)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.scores, other.scores)


def test_two_processes_train_one_model_and_the_first_writes_it(data, tmp_path):
    """Each process takes its share of every batch (of 63 points: 31 and 32), and their gradients are averaged."""
    longtail.write_dataset(data.train, tmp_path / "train")
    settings = SMALL | {"epochs": 3, "batch_size": 63, "keep": 1.0, "regulariser": "none"}  # nothing random in a step
    settings |= {"checkpoint_seconds": 0}
    command = [sys.executable, "-m", "longtail.app.cli", "train", str(tmp_path / "train"), "--model", "glas"]
    command += ["--out", str(tmp_path / "m"), *(f"--set={key}={value}" for key, value in settings.items())]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--no-python"]
    done = subprocess.run([*launch, *command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("trained GLaS") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "train"]
    together = longtail.load_model(tmp_path / "m").network_
    alone = GLaS(**settings).fit(data.train.X, data.train.Y).network_
    torch.testing.assert_close(together.features, alone.features, rtol=1e-3, atol=1e-4)


def test_parameters_of_the_network_that_were_changed_after_fit_are_not_saved(data, tmp_path):
    model = GLaS(**SMALL | {"epochs": 1}).fit(data.train.X, data.train.Y)
    before = model.predict(data.test.X, k=3)
    for name, value in (("width", 9), ("hidden", (3,)), ("loss", "bce")):
        kept = getattr(model, name)
        model.set_params(**{name: value})
        with pytest.raises(ParameterError, match="changed after fit"):
            model.save(tmp_path / "model")
        assert not (tmp_path / "model").exists()
        np.testing.assert_array_equal(model.predict(data.test.X, k=3).labels, before.labels)
        model.set_params(**{name: kept})
    model.save(tmp_path / "model")


def test_a_network_that_no_memory_could_hold_is_a_clear_error(data):
    with pytest.raises(TrainingError, match="set a smaller width"):
        GLaS(**SMALL | {"width": 10**12}).fit(data.train.X, data.train.Y)


def test_weights_that_are_not_finite_at_the_end_are_an_error(data):
    with pytest.raises(TrainingError, match="not finite"):
        GLaS(**SMALL | {"epochs": 1, "batch_size": 800, "learning_rate": 1e38}).fit(data.train.X, data.train.Y)
