"""One-vs-rest on a GPU without a GPU: the rounds on the Numba backend, and kernels.cu itself, emulated."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy import sparse

from linear.gpu.emulated import COMPILER, Emulated
from linear.twins import Problem
from longtail import DiSMEC, load_model, make_longtail
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import MissingExtraError, ParameterError, TrainingError
from longtail.linear.gpu import devices, predict, rounds, train
from longtail.linear.gpu.numba_backend import NumbaBackend
from longtail.linear.gpu.points import Wave
from longtail.linear.scorer import LinearScorer
from longtail.linear.weights import Weights

DATA = make_longtail(n_points=120, n_features=80, n_labels=80)
X, Y = DATA.train.X, DATA.train.Y
LOSSES = ["squared-hinge", "hinge", "logistic"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def gpus(monkeypatch):
    """GPUs of this machine: backends that a test puts into the list, made for the loss that is asked for."""
    makers: list = []
    monkeypatch.setattr(devices, "open_gpus", lambda loss, width: [maker(loss, width) for maker in makers])
    return makers


def gaps_in_float64(model, weights=None):
    """Relative distance of each label's objective from that of a much more exact model of the CPU."""
    problem = Problem.of(model, X, Y, weights)
    exact = DiSMEC(
        **model.get_params() | {"device": "cpu", "tol": 1e-4, "prune": 0, "solver": "full", "max_passes": 1000}
    )
    exact.fit(X, Y, sample_weight=weights)

    def objective(of):
        intercepts = np.where(np.isfinite(of.intercept_), of.intercept_, 0)
        return problem.primal(np.vstack([of.weights_.toarray(), intercepts / of.bias]))[model.label_counts_ > 0]

    return (objective(model) - objective(exact)) / objective(exact)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighting", [None, "pw"])
def test_every_label_is_within_its_gap_of_the_optimum(gpus, loss, weighting):
    gpus.append(NumbaBackend)
    weights = np.linspace(0.5, 2, X.shape[0])
    model = DiSMEC(device="cuda", loss=loss, weighting=weighting, prune=0).fit(X, Y, sample_weight=weights)
    assert model.gaps_.max() <= model.tol
    assert (gaps_in_float64(model, weights) <= model.gaps_[model.label_counts_ > 0] + 1e-3).all()


def test_a_start_without_positives_ends_in_the_same_optimum(gpus, monkeypatch):
    gpus.append(NumbaBackend)
    monkeypatch.setattr(train, "_FROM_START", 0)
    model = DiSMEC(device="cuda", prune=0).fit(X, Y)
    assert (gaps_in_float64(model) <= model.tol).all()


def test_a_saved_model_is_one_of_the_cpu(gpus, tmp_path):
    gpus.append(NumbaBackend)
    model = DiSMEC(device="cuda").fit(X, Y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.device == "cpu"
    np.testing.assert_array_equal(loaded.predict(X, k=5).labels, model.predict(X, k=5).labels)


def test_waves_and_devices_change_nothing(gpus):
    whole = DiSMEC(device="cuda", reproducible=True)
    gpus.append(NumbaBackend)
    whole.fit(X, Y)
    each = Wave.bytes_per_group(*X.shape, 32)
    gpus[:] = [lambda loss, width: NumbaBackend(loss, width, memory=int(1.7 * each))] * 2
    waves = DiSMEC(device="cuda", reproducible=True).fit(X, Y)
    assert (whole.weights_ != waves.weights_).nnz == 0
    np.testing.assert_array_equal(whole.gaps_, waves.gaps_)


# --- bad days ---------------------------------------------------------------------------------------------------------


class Lost(NumbaBackend):
    """A GPU that fails after `left` waves."""

    device_errors = (ConnectionError,)
    left = 0

    def steps(self, *arguments, **more):
        if self.left == 0:
            raise ConnectionError("unspecified launch failure\nsecond line")
        super().steps(*arguments, **more)

    def prune(self, *arguments):
        self.left -= 1
        return super().prune(*arguments)


def small_waves(kind, **attributes):
    """Return a maker of backends that train 32 labels at a time."""

    def make(loss, width):
        backend = kind(loss, width, memory=int(1.7 * Wave.bytes_per_group(*X.shape, width)))
        for name, value in attributes.items():
            setattr(backend, name, value)
        return backend

    return make


def test_finished_waves_survive_a_lost_gpu(gpus, tmp_path):
    gpus.append(small_waves(NumbaBackend))
    whole = DiSMEC(device="cuda").fit(X, Y)
    gpus[:] = [small_waves(Lost, left=1)]
    with pytest.raises(
        TrainingError, match=r"CPU failed \(unspecified launch failure\); 32 of \d+ labels were finished; f"
    ):
        DiSMEC(device="cuda").fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "parts", resume=True)))
    gpus[:] = [NumbaBackend]  # with room for larger waves
    resumed = DiSMEC(device="cuda").fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "parts", resume=True)))
    assert (whole.weights_ != resumed.weights_).nnz == 0


def test_auto_goes_on_with_the_cpu_and_says_so(gpus, caplog):
    gpus.append(Lost)
    with caplog.at_level(logging.WARNING):
        model = DiSMEC(device="auto").fit(X, Y)
    assert "device='auto': training on the CPU, because CPU failed (unspecified launch failure)" in caplog.text
    assert (model.weights_ != DiSMEC().fit(X, Y).weights_).nnz == 0


def test_too_little_memory_for_one_wave(gpus):
    gpus.append(lambda loss, width: NumbaBackend(loss, width, memory=1000))
    with pytest.raises(TrainingError, match=r"32 labels need 0\.0 GB of GPU memory for 120 points and 80 features"):
        DiSMEC(device="cuda").fit(X, Y)


class Short(NumbaBackend):
    """A GPU whose memory holds fewer labels than its free memory says."""

    most = 1

    def fill(self, points, wave, start):
        if wave.n_groups > self.most:
            raise MemoryError("out of memory")
        super().fill(points, wave, start)


def test_waves_shrink_when_memory_is_short(gpus):
    gpus.append(Short)
    model = DiSMEC(device="cuda").fit(X, Y)
    assert model.gaps_.max() <= model.tol
    gpus[:] = [small_waves(Short, most=0)]
    with pytest.raises(
        TrainingError, match=r"CPU ran out of memory \(out of memory\); 0 of \d+ labels were finished; free"
    ):
        DiSMEC(device="cuda").fit(X, Y)


def test_without_cupy_the_remedy_is_named(monkeypatch, caplog):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=r"device='cuda' needs CuPy: pip install 'longtail\[gpu\]'"):
        DiSMEC(device="cuda").fit(X, Y)
    with caplog.at_level(logging.WARNING):
        DiSMEC(device="auto").fit(X, Y)
    assert "training on the CPU, because device='cuda' needs CuPy" in caplog.text


def test_what_a_gpu_cannot_do_is_refused():
    with pytest.raises(ParameterError, match="warm_start keeps dual variables on the CPU"):
        DiSMEC(device="cuda", warm_start=True).fit(X, Y)
    with pytest.raises(ParameterError, match="device"):
        DiSMEC(device="gpu").fit(X, Y)


def test_drift_is_found_and_mended(gpus):
    class Drifting(NumbaBackend):
        spoilt = False

        def steps(self, points, wave, *arguments, **more):
            super().steps(points, wave, *arguments, **more)
            if not self.spoilt:  # as if an update had been lost
                wave.W[0, :, 0] *= np.float32(1.05)
                self.spoilt = True

    gpus.append(Drifting)
    model = DiSMEC(device="cuda", prune=0).fit(X, Y)
    assert (gaps_in_float64(model) <= model.tol).all()
    assert model.gaps_.max() <= model.tol


# --- kernels.cu -------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(("loss", "width"), [("squared-hinge", 8), ("hinge", 32), ("logistic", 8)])
def test_kernels_in_order_agree_with_plain_loops(built, gpus, loss, width):
    gpus.append(lambda loss, _: Emulated(built, loss, width))
    weights = np.linspace(0.5, 2, X.shape[0])
    settings = {"device": "cuda", "loss": loss, "reproducible": True, "prune": 0, "weight_dtype": "float32"}
    kernels = DiSMEC(**settings).fit(X, Y, sample_weight=weights)
    gpus[:] = [lambda loss, _: NumbaBackend(loss, width)]
    plain = DiSMEC(**settings).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(kernels.weights_.toarray(), plain.weights_.toarray(), atol=1e-3)
    np.testing.assert_allclose(kernels.gaps_, plain.gaps_, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("start", [False, True])
def test_no_update_is_lost_with_many_points_in_flight(built, gpus, monkeypatch, start):
    if start:
        monkeypatch.setattr(train, "_FROM_START", 0)
    gpus.append(lambda loss, _: Emulated(built, loss, 8))
    found = []
    monkeypatch.setattr(rounds.Rounds, "_set_weights_of_duals", lambda *_: found.append("mended"))
    model = DiSMEC(device="cuda", prune=0).fit(X, Y)
    assert found == []  # the drift stayed below its bound all the time
    assert (gaps_in_float64(model) <= model.tol).all()


@needs_compiler
def test_a_label_whose_points_overshoot_together_starts_again(built, gpus, monkeypatch):
    """Many rows alike, and large weights: with 16 of them in flight, steps that are right for each go far too far."""
    gpus.append(lambda loss, _: Emulated(built, loss, 8))
    started = []
    start_again = rounds.Rounds._start_again

    def counted(self, columns):
        started.extend(columns.tolist())
        start_again(self, columns)

    monkeypatch.setattr(rounds.Rounds, "_start_again", counted)
    rng = np.random.default_rng(0)
    alike = sparse.csr_matrix(np.repeat(rng.random((6, 8), np.float32), 40, axis=0))
    labels = sparse.csr_matrix(np.repeat(np.eye(6, 8, dtype=np.float32), 40, axis=0))
    settings = {"C": 30.0, "prune": 0, "weight_dtype": "float32"}
    model = DiSMEC(device="cuda", **settings).fit(alike, labels)
    assert started
    assert model.gaps_.max() <= model.tol
    exact = DiSMEC(solver="full", **settings | {"tol": 1e-4, "max_passes": 10_000}).fit(alike, labels)
    weights, optimum = Problem.of(model, alike, labels), Problem.of(exact, alike, labels)
    found = weights.primal(np.vstack([model.weights_.toarray(), model.intercept_ / model.bias]))
    best = optimum.primal(np.vstack([exact.weights_.toarray(), exact.intercept_ / exact.bias]))
    assert (found <= best * 1.011).all()


@needs_compiler
@pytest.mark.parametrize("k", [1, 5, 40])
def test_prediction_of_many_points_is_that_of_the_cpu(built, gpus, monkeypatch, k):
    monkeypatch.setattr(predict, "MANY_POINTS", 1)
    monkeypatch.setattr("longtail.linear.gpu.predict.MANY_POINTS", 1)
    model = DiSMEC().fit(X, Y)
    expected = model.predict(X, k=k)
    every = model.predict(X, k=Y.shape[1])
    scores = np.full(Y.shape, -np.inf, np.float32)
    points, ranks = np.nonzero(every.labels >= 0)
    scores[points, every.labels[points, ranks]] = every.scores[points, ranks]
    # Sums in another order may exchange labels whose scores differ by a rounding, and no others.
    apart = np.abs(np.diff(np.maximum(every.scores, -1e6), append=-2e6)) > 1e-6  # -inf: no training points
    alone = (apart & np.hstack([np.ones((X.shape[0], 1), bool), apart[:, :-1]]))[:, :k]
    assert alone.mean() > 0.9
    for maker in (lambda loss, width: Emulated(built, loss, width), NumbaBackend):
        gpus[:] = [maker]
        monkeypatch.setattr(predict, "_MOST_LABELS", 32)  # more than one tile
        found = model.predict(X, k=k, device="cuda")
        np.testing.assert_array_equal(found.labels[alone], expected.labels[alone])
        own = np.where(found.labels >= 0, np.take_along_axis(scores, found.labels, axis=1), -np.inf)
        np.testing.assert_allclose(own, expected.scores, atol=1e-6)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-6)


@needs_compiler
def test_ties_go_to_the_lower_label(built):
    w = np.array([1, 1, 0.5, 1], np.float32)
    weights = Weights.of_labels(np.array([0, 4]), np.arange(4), w, np.array([0, 0, 0.5, -np.inf], np.float32))
    scorer = predict.GpuScorer(Emulated(built, "squared-hinge", 8), LinearScorer(weights))
    best = scorer.top(sparse.csr_matrix(np.array([[1], [-1]], np.float32)), 4)
    np.testing.assert_array_equal(best.labels, [[0, 1, 2, -1], [2, 0, 1, -1]])
