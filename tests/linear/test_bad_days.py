"""Degenerate data and bad parameters: a defined answer or a clear error, never NaN."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from linear.twins import Problem, objective, synthetic, weights_of
from longtail import DiSMEC, load_model
from longtail.errors import DataError, ParameterError, TrainingError

X, Y = synthetic()
EVERY_LOSS = pytest.mark.parametrize("loss", ["squared-hinge", "hinge", "logistic"])


@dataclass(frozen=True)
class OneWeight:
    """A custom weighting: one factor for one label, 1 for the others."""

    label: int
    factor: float
    bounded = True
    why_unbounded = ""

    def coefficients(self, counts, n_points):
        own = np.ones(len(counts))
        own[self.label] = self.factor
        return own, np.zeros(len(counts))


def assert_usable(model, features):
    """Check that all numbers are finite, and that each point with features gets the labels with training points."""
    seen = np.flatnonzero(model.label_counts_)
    assert np.isfinite(model.weights_.data).all()
    assert np.isfinite(model.intercept_[seen]).all()
    assert np.isfinite(model.gaps_).all()
    everything = model.predict(features, k=model.n_labels_)
    empty = np.diff(sparse.csr_matrix(features).indptr) == 0
    best = everything[~empty]
    assert (everything[empty].labels == -1).all()
    assert np.isfinite(best.scores[:, : seen.size]).all()
    for labels in best.labels:
        np.testing.assert_array_equal(np.sort(labels[: seen.size]), seen)
    assert (best.labels[:, seen.size :] == -1).all()


# --- data -------------------------------------------------------------------------------------------------------------


@EVERY_LOSS
def test_labels_without_points_are_never_predicted(loss):
    labels = Y.tolil()
    labels[:, [3, 40]] = 0
    model = DiSMEC(loss=loss).fit(X, labels.tocsr())
    assert (model.label_counts_[[3, 40]] == 0).all()
    assert np.isneginf(model.intercept_[model.label_counts_ == 0]).all()
    for n_points in (1, X.shape[0]):  # both ways to score
        assert_usable(model, X[:n_points])


@EVERY_LOSS
@pytest.mark.parametrize("bias", [1.0, 0.0])
def test_points_without_labels_or_features_and_labels_that_all_points_carry(loss, bias):
    dense, labels = X.toarray(), Y.toarray()
    dense[[0, 7, 8]] = 0
    labels[[1, 2, 7]] = 0
    labels[:, 5] = 1
    model = DiSMEC(loss=loss, bias=bias).fit(dense, labels)
    assert_usable(model, dense)
    assert (model.gaps_ <= model.tol).all()
    scores = model.predict(dense, k=model.n_labels_)
    assert (scores.scores[scores.labels == 5] > (0.5 if loss == "logistic" else 0.0)).mean() > 0.99


@EVERY_LOSS
def test_nothing_but_empty_points(loss):
    empty = sparse.csr_matrix((6, 4), dtype=np.float32)
    labels = sparse.csr_matrix(np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 0]]))
    for bias in (0.0, 1.0):
        model = DiSMEC(loss=loss, bias=bias).fit(empty, labels)
        assert_usable(model, empty)
        assert model.weights_.nnz == 0
    assert model.intercept_[0] > model.intercept_[1], "the bias knows which label is frequent"


def test_duplicate_points_with_opposite_labels_meet_in_the_middle():
    features = sparse.csr_matrix(np.ones((20, 1), np.float32))
    labels = sparse.csr_matrix(np.arange(20)[:, None] % 2)
    model = DiSMEC(tol=1e-4, prune=0).fit(features, labels)
    np.testing.assert_allclose(model.predict(features[:1], k=1).scores, 0, atol=0.01)


def test_duplicate_points_are_points_of_weight_two():
    doubled = DiSMEC(tol=1e-4, prune=0).fit(sparse.vstack([X, X]), sparse.vstack([Y, Y]))
    larger_C = DiSMEC(C=2, tol=1e-4, prune=0).fit(X, Y)
    np.testing.assert_allclose(
        objective(larger_C, X, Y), Problem.of(larger_C, X, Y).primal(weights_of(doubled)), rtol=1e-3
    )


def test_one_point_one_label_one_feature():
    model = DiSMEC().fit([[1.0]], [[0]])
    assert_usable(model, [[1.0]])
    assert model.predict([[1.0]], k=1).scores[0, 0] > 0


def test_nan_and_infinite_features_are_refused():
    for value in (np.nan, np.inf, -np.inf):
        broken = X.toarray()
        broken[11, 4] = value
        with pytest.raises(DataError, match="point 11"):
            DiSMEC().fit(broken, Y)


def test_features_that_float32_cannot_square_are_refused():
    for value in (1e15, 1e25):
        broken = X.toarray()
        broken[11, 4] = value
        with pytest.raises(DataError, match=r"point 11 .* scale rows to unit length"):
            DiSMEC().fit(broken, Y)
    with pytest.raises(DataError, match="bias of about 1"):
        DiSMEC(bias=1e20).fit(X, Y)


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf, 1e39, 1e-45])
def test_sample_weights_that_cannot_be_used_are_refused(weight):
    weights = np.ones(X.shape[0])
    weights[3] = weight
    with pytest.raises(DataError, match="sample_weight must hold numbers greater than 0"):
        DiSMEC().fit(X, Y, sample_weight=weights)


def test_sample_weights_of_the_wrong_kind_are_refused():
    with pytest.raises(DataError, match=r"shape \(3,\), but there are 400 points"):
        DiSMEC().fit(X, Y, sample_weight=[1, 2, 3])
    with pytest.raises(DataError, match="one number per point"):
        DiSMEC().fit(X, Y, sample_weight=["heavy"] * X.shape[0])


# --- weights of the loss ----------------------------------------------------------------------------------------------


@EVERY_LOSS
@pytest.mark.parametrize("C", [1e-50, 1e-30, 1e25, 1e38, 1e39, 1e300])
def test_a_C_beyond_what_float32_can_hold_names_a_label(loss, C):
    with pytest.raises(TrainingError, match=r"label 0 .* training needs 1e-20 to 1e\+20"):
        DiSMEC(loss=loss, C=C).fit(X, Y)


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf, 1e39, 1e-50])
def test_a_label_weight_beyond_what_float32_can_hold_names_its_label(factor):
    label = int(np.argmax(np.bincount(Y.indices)))
    with pytest.raises(TrainingError, match=f"label {label} "):
        DiSMEC(weighting=OneWeight(label, factor)).fit(X, Y)


def test_label_and_point_weights_are_judged_together():
    weights = np.ones(X.shape[0])
    weights[0] = 1e19
    with pytest.raises(TrainingError, match=r"label 2 .* point weights 1 to 1e\+19"):
        DiSMEC(weighting=OneWeight(2, 1e3)).fit(X, Y, sample_weight=weights)


def test_a_weight_of_a_label_without_points_does_not_matter():
    labels = Y.tolil()
    labels[:, 3] = 0
    assert_usable(DiSMEC(weighting=OneWeight(3, np.inf)).fit(X, labels.tocsr()), X)


def test_a_large_C_that_does_not_converge_says_so(caplog):
    with caplog.at_level(logging.WARNING, "longtail"):
        model = DiSMEC(C=1e12, tol=0.01, max_passes=2).fit(X, Y)
    assert_usable(model, X)
    late = int((model.gaps_ > model.tol).sum())
    assert late > 0
    assert f"{late} labels did not reach a duality gap of 0.01 in 2 passes" in caplog.text


def test_training_that_converges_logs_nothing(caplog):
    with caplog.at_level(logging.WARNING, "longtail"):
        DiSMEC().fit(X, Y)
    assert caplog.text == ""


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C is 0, but must be a number greater than 0"),
        ({"C": -1}, "C is -1"),
        ({"C": np.nan}, "C is nan"),
        ({"C": "1"}, "C is '1'"),
        ({"tol": 0}, "tol is 0"),
        ({"max_passes": 0}, "max_passes is 0"),
        ({"max_passes": 2.5}, "max_passes is 2.5, but must be a whole number"),
        ({"bias": -1}, "bias is -1"),
        ({"prune": -0.1}, "prune is -0.1"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": None}, "random_state is None"),
        ({"random_state": 2**32}, r"below 2\*\*32"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"loss": "hing"}, "loss is 'hing', but must be one of 'squared-hinge', 'hinge', 'logistic'"),
        ({"weight_dtype": "float64"}, "'float16', 'float32'"),
        ({"weighting": "pww"}, 'did you mean "pw"'),
        ({"weighting": "unbiased"}, "not bounded below.*weighting='pw'"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        DiSMEC(**parameters).fit(X, Y)


def test_everything_pruned_leaves_the_intercepts():
    model = DiSMEC(prune=1e40).fit(X, Y)
    assert model.weights_.nnz == 0
    assert_usable(model, X)


@pytest.mark.parametrize("prune", [0.0, 0.01, 0.3])
def test_pruning_drops_the_small_weights_and_no_other(prune):
    exact = DiSMEC(weight_dtype="float32")
    whole = clone(exact).set_params(prune=0).fit(X, Y).weights_.toarray()
    pruned = exact.set_params(prune=prune).fit(X, Y).weights_
    np.testing.assert_array_equal(pruned.toarray(), np.where(np.abs(whole) >= np.float32(prune), whole, 0))
    assert (pruned.data != 0).all()


# --- float16 ----------------------------------------------------------------------------------------------------------


def test_float16_weights_take_half_the_space_and_predict_nearly_the_same(tmp_path):
    for kind in ("float32", "float16"):
        DiSMEC(weight_dtype=kind, prune=0).fit(X, Y).save(tmp_path / kind)
    full, half = (load_model(tmp_path / kind) for kind in ("float32", "float16"))
    size = {kind: next((tmp_path / kind).glob("*.safetensors")).stat().st_size for kind in ("float32", "float16")}
    # A weight takes 2 bytes instead of 4; the rest stays.
    assert size["float32"] - size["float16"] == pytest.approx(2 * full.weights_.nnz, abs=100)
    assert half.weights_.dtype == np.float32
    np.testing.assert_array_equal(half.weights_.indices, full.weights_.indices)
    np.testing.assert_allclose(half.weights_.data, full.weights_.data, rtol=1e-3, atol=1e-6)
    one, other = full.predict(X, k=5), half.predict(X, k=5)
    np.testing.assert_allclose(one.scores, other.scores, atol=0.01)
    assert (one.labels == other.labels).mean() > 0.98
    half.save(tmp_path / "again")
    again = load_model(tmp_path / "again").predict(X, k=5)
    np.testing.assert_array_equal(again.scores, other.scores)


def test_weights_beyond_float16_are_kept_as_float32(tmp_path):
    """The float16 maximum is 65504: a model with larger weights keeps all of them in float32."""
    features = sparse.csr_matrix(np.array([[1e-6, 0], [0, 1e-6]] * 3, np.float32))
    model = DiSMEC(C=1e14, bias=0, weight_dtype="float16").fit(features, [[0], [1]] * 3)
    assert np.abs(model.weights_.data).max() > 65504
    assert np.isfinite(model.weights_.data).all()
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").weights_.data, model.weights_.data)
