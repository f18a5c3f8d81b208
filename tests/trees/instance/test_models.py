"""FastXML, PfastXML and PfastreXML beyond the contract: how they relate, what they refuse, how they resume."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy import sparse

import longtail
from longtail import FastXML, PfastreXML, PfastXML, PropensityModel
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import OutputError, ParameterError
from longtail.metrics import Matches, score

MODELS = [FastXML, PfastXML, PfastreXML]


def linear(**parameters):
    return PfastreXML(tail="linear", weighting="pw-cb", **parameters)


@pytest.fixture(scope="module")
def data():
    return longtail.make_longtail(1500, 1000, 150, n_test_points=500, random_state=1)


def fitted(cls, data, **parameters):
    return cls(n_trees=10, C=3.0, **parameters).fit(data.train.X, data.train.Y)


def assert_same(one, other):
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.scores, other.scores)


# --- how they relate -------------------------------------------------------------------------------------------------


def test_pfastxml_without_missing_labels_is_fastxml(data):
    assert_same(
        fitted(PfastXML, data, propensity=None).predict(data.test.X, k=10),
        fitted(FastXML, data).predict(data.test.X, k=10),
    )


def test_pfastrexml_with_alpha_1_ranks_as_pfastxml(data):
    model = fitted(PfastreXML, data, alpha=1.0)
    plain, ranked = fitted(PfastXML, data).predict(data.test.X), model.predict(data.test.X)
    assert (plain.labels == ranked.labels).mean() > 0.995  # logarithms may round two scores to a tie
    np.testing.assert_allclose(np.log(plain.scores), ranked.scores, atol=1e-5)
    model.set_params(alpha=0.5)
    assert (model.predict(data.test.X).labels != ranked.labels).any(), "alpha may be changed after fitting"
    with pytest.raises(ParameterError, match="alpha is 2"):
        model.set_params(alpha=2.0).predict(data.test.X)


def test_linear_tail_classifiers_are_those_of_dismec(data):
    model = fitted(PfastreXML, data, tail="linear", weighting="pw-cb", alpha=0.0, max_leaf=2000, labels_per_leaf=150)
    alone = longtail.DiSMEC(weighting="pw-cb", weight_dtype="float32").fit(data.train.X, data.train.Y)
    alone = alone.predict(data.test.X, k=150)
    ranked = model.predict(data.test.X, k=150)  # one leaf proposes all labels that have points
    for row in range(ranked.labels.shape[0]):
        margins = dict(zip(alone.labels[row].tolist(), alone.scores[row].tolist(), strict=True))
        own = [margins[label] for label in ranked.labels[row].tolist() if label >= 0]
        np.testing.assert_allclose(ranked.scores[row][: len(own)], -(np.maximum(1 - np.array(own), 0) ** 2), atol=1e-4)
    plain = fitted(PfastreXML, data, tail="linear").predict(data.test.X)
    weighted = fitted(PfastreXML, data, tail="linear", weighting="pw-cb").predict(data.test.X)
    assert (plain.scores != weighted.scores).any()


def test_a_linear_tail_finds_labels_whose_points_are_of_two_kinds():
    """Label 0 is observed at two places and its mean is far from both; the means of labels 1 and 2 are nearer."""
    rng = np.random.default_rng(1)
    places = np.repeat(np.eye(4)[[0, 1]], 40, axis=0)  # label 0 at features 0 and 1 ...
    others = np.repeat(np.eye(4)[[0, 1]] + 0.5 * np.eye(4)[[2, 3]], 40, axis=0)  # ... labels 1 and 2 beside each
    X = np.vstack([places, others]) + rng.normal(0, 0.02, (160, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = np.zeros((160, 3))
    Y[:80, 0] = Y[80:120, 1] = Y[120:, 2] = 1
    one_leaf = {"n_trees": 2, "max_leaf": 200, "propensity": None, "alpha": 0.0}
    first = {
        tail: PfastreXML(tail=tail, **one_leaf).fit(X, Y).predict(X[:80], k=1).labels for tail in ("means", "linear")
    }
    assert (first["linear"] == 0).all()
    assert (first["means"] != 0).all()


@pytest.mark.parametrize("tail", ["means", "linear"])
def test_a_tail_keeps_the_contract(tail, data, tmp_path):
    """The contract suite tests only one of the tails."""
    model = fitted(PfastreXML, data, tail=tail)
    expected = model.predict(data.test.X, k=7)
    assert_same(fitted(PfastreXML, data, tail=tail, n_jobs=1).predict(data.test.X, k=7), expected)
    for row in (0, 17):
        assert_same(model.predict(data.test.X[row], k=7), expected[row : row + 1])
    model.save(tmp_path / "m")
    assert_same(longtail.load_model(tmp_path / "m").predict(data.test.X, k=7), expected)


def test_a_model_keeps_the_tail_that_it_was_fitted_with(data, tmp_path):
    model = fitted(PfastreXML, data, tail="linear")
    expected = model.predict(data.test.X)
    model.set_params(tail="means")
    assert_same(model.predict(data.test.X), expected)
    model.save(tmp_path / "m")
    assert_same(longtail.load_model(tmp_path / "m").predict(data.test.X), expected)


def test_propensities_in_any_form_are_the_same(data):
    counts, n = data.train.label_counts, data.train.n_points
    expected = fitted(PfastXML, data).predict(data.test.X)
    for form in ((0.55, 1.5), "default", PropensityModel().propensities(counts, n)):
        assert_same(fitted(PfastXML, data, propensity=form).predict(data.test.X), expected)
    other = fitted(PfastXML, data, propensity=(0.2, 1.5)).predict(data.test.X)
    assert (other.labels != expected.labels).any()


def test_propensities_bring_rare_labels_up(data):
    counts, n = data.train.label_counts, data.train.n_points
    inverse = PropensityModel().inverse(counts, n)
    found = {}
    for cls in MODELS:
        matches = Matches.of(fitted(cls, data).predict(data.test.X), data.test.Y, inverse_propensities=inverse)
        found[cls] = score(matches, "PSP@3"), score(matches, "coverage@5")
    for better in (PfastXML, PfastreXML):
        assert found[better][0] > found[FastXML][0]
        assert found[better][1] > found[FastXML][1]


def test_the_trees_learn(data):
    popular = longtail.Popularity().fit(data.train.X, data.train.Y).predict(data.test.X)
    precision = score(Matches.of(fitted(FastXML, data).predict(data.test.X), data.test.Y), "P@1")
    assert precision > 1.5 * score(Matches.of(popular, data.test.Y), "P@1")


# --- data that cannot be divided -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", MODELS)
def test_identical_points_give_one_leaf(cls):
    X = sparse.csr_matrix(np.tile([0.6, 0.8, 0], (50, 1)))
    Y = np.zeros((50, 4))
    Y[:30, 2] = Y[:20, 1] = 1
    model = cls(n_trees=3, propensity=None).fit(X, Y) if cls is not FastXML else cls(n_trees=3).fit(X, Y)
    assert model.forest_.n_nodes == 3
    predictions = model.predict(X[:2], k=4)
    assert predictions.labels.tolist() == [[2, 1, -1, -1]] * 2
    if cls is not PfastreXML:
        np.testing.assert_allclose(predictions.scores[:, :2], [[0.6, 0.4]] * 2)


def test_tail_classifiers_that_do_not_converge_advise_what_pfastrexml_has(caplog):
    X = sparse.csr_matrix(np.tile([0.6, 0.8, 0], (2000, 1)))
    Y = np.zeros((2000, 4))
    Y[:1000, 2] = Y[:20, 1] = Y[:3, 0] = 1
    hard = longtail.PW(PropensityModel(A=0.1, B=20.0))
    with caplog.at_level(logging.WARNING, "longtail"):
        PfastreXML(n_trees=1, tail="linear", weighting=hard).fit(X, Y)
    assert "did not reach a duality gap" in caplog.text
    assert "tail='means'" in caplog.text
    assert not any(name in caplog.text for name in ("max_passes", "tol"))


@pytest.mark.parametrize("cls", MODELS)
def test_labels_never_seen_are_never_predicted(cls, data):
    Y = data.train.Y.tolil()
    Y[:, 7] = 0
    model = cls(n_trees=3).fit(data.train.X, Y.tocsr())
    assert not (model.predict(data.test.X, k=150).labels == 7).any()


@pytest.mark.parametrize("cls", MODELS)
def test_a_single_point(cls):
    model = cls(n_trees=2).fit(np.eye(1), np.ones((1, 1)))
    assert model.predict(np.eye(1), k=1).labels.tolist() == [[0]]


HARD = {
    "one label": lambda X, Y: (X, Y[:, :1]),
    "one label that all points carry": lambda X, Y: (X, np.ones((200, 1))),
    "no features": lambda X, Y: (X[:, :0], Y),
    "rows of zeros": lambda X, Y: (X * 0, Y),
    "few distinct rows": lambda X, Y: (np.repeat(X[:5], 40, axis=0), Y),
    "labels of one point only": lambda X, Y: (X, Y * (np.arange(200) == 7)[:, None]),
    "negative features": lambda X, Y: (-X, Y),
    "large features": lambda X, Y: (X * 1e9, Y),
    "features that nearly vanish": lambda X, Y: (X * 1e-42, Y),
}


@pytest.mark.parametrize("cls", [FastXML, PfastreXML, linear])
@pytest.mark.parametrize("case", HARD)
def test_hard_data_give_finite_scores(cls, case):
    rng = np.random.default_rng(0)
    X, Y = HARD[case](rng.random((200, 50)) * (rng.random((200, 50)) < 0.1), (rng.random((200, 12)) < 0.15) * 1.0)
    predictions = cls(n_trees=3).fit(X, Y).predict(X, k=1, fallback="popular")  # some points have no features
    assert (predictions.labels >= 0).any()
    assert np.isfinite(predictions.scores[predictions.labels >= 0]).all()


@pytest.mark.parametrize("cls", [*MODELS, linear])
def test_points_unlike_all_training_points_get_finite_scores(cls, data):
    model = cls(n_trees=3).fit(data.train.X, data.train.Y)
    for X in (data.test.X * np.float32(1e8), data.test.X * np.float32(-1e8)):
        assert np.isfinite(model.predict(X, k=1).scores).all()


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, np.nan])
def test_propensities_outside_0_to_1_are_refused(value):
    p = np.full(4, 0.5)
    p[2] = value
    with pytest.raises(ParameterError, match="propensity of label 2"):
        PfastXML(propensity=p).fit(np.eye(4), np.eye(4))


def test_propensities_too_small_for_their_inverses_are_refused():
    with pytest.raises(ParameterError, match="propensity of label 1 is 1e-30, but must be at least 1e-10"):
        PfastXML(propensity=[0.5, 1e-30, 0.5, 0.5]).fit(np.eye(4), np.eye(4))


def test_propensities_of_other_labels_are_refused():
    with pytest.raises(ParameterError, match="4 labels"):
        PfastreXML(propensity=[0.5, 0.5]).fit(np.eye(4), np.eye(4))


@pytest.mark.parametrize(
    "parameters",
    [{"n_trees": 0}, {"max_leaf": 0}, {"labels_per_leaf": 1.5}, {"C": 0}, {"bias": -1}, {"random_state": -1},
     {"tail": "mean"}, {"tail": "points"}, {"C": 1e11}, {"bias": 1e39}, {"gamma": 1e300},
     {"alpha": 1.1}, {"alpha": -0.1}, {"gamma": float("inf")}, {"n_jobs": 0}],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(parameters):
    (name,) = parameters
    with pytest.raises(ParameterError, match=name):
        PfastreXML(**parameters).fit(np.eye(4), np.eye(4))


@pytest.mark.parametrize(("tail", "weighting", "why"), [
    ("means", "pw", "trains no loss; set tail='linear'"),
    ("linear", "unbiased", "not convex"),
    ("linear", "p", "known"),
])  # fmt: skip
def test_weightings_that_cannot_be_used_are_refused(tail, weighting, why):
    with pytest.raises(ParameterError, match=why):
        PfastreXML(tail=tail, weighting=weighting).fit(np.eye(4), np.eye(4))


# --- long runs -------------------------------------------------------------------------------------------------------


class Counting:
    def __init__(self):
        self.events = []

    def start(self, task, total):
        self.events.append((task, total))

    def advance(self, amount=1):
        self.events.append(amount)

    def finish(self):
        self.events.append("done")


def test_progress_counts_trees(data):
    progress = Counting()
    FastXML(n_trees=3).fit(data.train.X[:100], data.train.Y[:100], run=Run(progress=progress))
    assert progress.events == [("growing trees", 3), 1, 1, 1, "done"]


@pytest.mark.parametrize("cls", [*MODELS, linear])
def test_a_training_goes_on_where_it_was(cls, data, tmp_path):
    X, Y = data.train.X[:300], data.train.Y[:300]
    whole = cls(n_trees=4).fit(X, Y).predict(data.test.X)
    folder = tmp_path / "parts"
    cls(n_trees=4).fit(X, Y, run=Run(checkpoint=Checkpoint(folder, resume=False)))
    parts = sorted(folder.glob("tree-*.safetensors"))
    assert len(parts) == 4
    kept = {part: part.stat().st_mtime_ns for part in parts[::2]}
    for part in parts[1::2]:
        part.unlink()
    resumed = cls(n_trees=4, n_jobs=1).fit(X, Y, run=Run(checkpoint=Checkpoint(folder, resume=True)))
    assert_same(resumed.predict(data.test.X), whole)
    assert {part: part.stat().st_mtime_ns for part in kept} == kept, "finished trees are not grown again"
    with pytest.raises(OutputError, match="other data, parameters"):
        cls(n_trees=4, max_leaf=20).fit(X, Y, run=Run(checkpoint=Checkpoint(folder, resume=True)))
