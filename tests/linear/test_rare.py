"""Rare labels on working sets: the kernels against plain twins and LIBLINEAR, the whole against the full solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC

import longtail
from longtail import DiSMEC, make_longtail
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import ParameterError
from longtail.linear import rare
from longtail.linear.rare_kernels import (
    MARGIN,
    Settings,
    _kth_smallest,
    _widened,
    find_near,
    solve_rows,
    train_label,
)
from longtail.linear.rare_problem import (
    LEAST_COST,
    Rows,
    add_near,
    cut_sample,
    leave_far,
    number_features,
    start_rows,
    weigh_far,
)
from longtail.metrics import evaluate

SHARE = np.float32(0.25)
DATA = make_longtail(n_points=2000, n_features=1500, n_labels=300, random_state=3)
X, Y = DATA.train.X, DATA.train.Y
COUNTS = np.bincount(Y.indices, minlength=Y.shape[1])
RARE = np.flatnonzero((COUNTS > 0) & (COUNTS <= 15))


@pytest.fixture
def always(monkeypatch):
    """Working sets for all rare labels, however small the data."""
    monkeypatch.setattr(rare, "LEAST_WORK", 0)
    monkeypatch.setattr(rare, "LEAST_SHARE", 0)


def solver(weights=None, **parameters):
    options = DiSMEC(**parameters).solver_options()
    return rare.WorkingSetSolver(X, Y, options, positive_weights=np.ones(Y.shape[1]), point_weights=weights)


def positives_of(label):
    return np.flatnonzero(Y[:, [label]].toarray().ravel()).astype(np.int32)


def prepared(sets, label, more=()):
    """The problem of a label, with near negatives added to it in two steps, and what it is made of."""
    points, sample, scratch, own = sets._points, sets._sample, sets._own_scratch(), positives_of(label)
    near = np.concatenate([own, np.setdiff1d(np.asarray(more, np.int32), own).astype(np.int32)])
    n_own = number_features(points, own, 0, own.size, scratch, 0)
    C, bias = np.float32(sets.options.C), np.float32(sets.options.bias)
    cut = cut_sample(points, sample, scratch, n_own)
    rows, far = start_rows(points, sample, cut, own, n_own, C * 3, bias, scratch)
    a = np.random.default_rng(5).random(rows.y.size).astype(np.float32)
    leave_far(points, sample, far, own, 0, 0, rows, a, np.zeros(n_own, np.float32), np.float32(0), bias)
    w, bias_weight = weights_of(rows, a, n_own, bias)
    n_features, half = n_own, (own.size + near.size) // 2
    weigh_far(points, sample, far, scratch, rows, a, w, C, bias)
    for known, end in ((own.size, half), (half, near.size)):
        n_features, n_rows = number_features(points, near, known, end, scratch, n_features), rows.y.size
        rows = add_near(points, near[:end], known, scratch, rows, C, bias)
        a, w = _widened(a, rows.y.size), _widened(w, n_features)
        bias_weight = leave_far(points, sample, far, near[:end], known, n_rows, rows, a, w, bias_weight, bias)
        weigh_far(points, sample, far, scratch, rows, a, w, C, bias)
    expected, expected_bias = weights_of(rows, a, n_features, bias)
    np.testing.assert_allclose(w, expected, atol=1e-4)
    assert bias_weight == pytest.approx(expected_bias, rel=1e-4)
    numbered = scratch.features[:n_features].copy()
    scratch.column[numbered] = -1
    return near, own, numbered, rows, far


def weights_of(rows, a, n_features, bias):
    w = (dense(rows, n_features).T @ (a * rows.y)).astype(np.float32)
    return w, np.float32((a * rows.y).sum() * bias)


def dense(rows: Rows, width: int) -> np.ndarray:
    return sparse.csr_matrix((rows.values, rows.columns, rows.ptr), shape=(rows.y.size, width)).toarray()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_problem_has_the_rows_of_its_definition(weighted):
    u = np.random.default_rng(0).uniform(0.5, 2, X.shape[0]).astype(np.float32) if weighted else None
    sets, weights = solver(weights=u), np.ones(X.shape[0]) if u is None else u.astype(np.float64)
    label = int(RARE[np.argmax(COUNTS[RARE])])
    near, own, numbered, rows, far = prepared(sets, label, more=[*range(40, 60), *sets._sample.points[:9]])
    features = numbered[: far.weight.size]
    found, common = dense(rows, numbered.size), sets._points.common
    assert set(features) == set(X[own].indices)
    negatives = near[own.size :]
    first = rows.y.size - negatives.size
    np.testing.assert_array_equal(found[: own.size], X[own][:, numbered].toarray())
    np.testing.assert_array_equal(found[first:], X[negatives][:, numbered].toarray())
    np.testing.assert_array_equal(rows.y, np.where(np.arange(rows.y.size) < own.size, 1, -1))
    np.testing.assert_allclose(rows.costs[: own.size], weights[own] * 3, rtol=1e-6)
    np.testing.assert_allclose(rows.costs[first:], weights[negatives], rtol=1e-6)
    others = np.setdiff1d(np.arange(X.shape[0]), near)
    sampled = np.isin(sets._sample.points, others)
    shared = common[features]
    has = np.asarray((X[sets._sample.points][:, features[shared]] != 0).sum(axis=1)).ravel() > 0
    np.testing.assert_array_equal(far.row_of_sample >= 0, sampled & has)
    scale = weights[others].sum() / weights[sets._sample.points[sampled]].sum()
    for s in np.flatnonzero(sampled & has):
        point, row = sets._sample.points[s], far.row_of_sample[s]
        np.testing.assert_array_equal(found[row, : features.size], X[point, features].toarray().ravel() * shared)
        assert rows.costs[row] == pytest.approx(scale * weights[point], rel=1e-4)
    without = weights[sets._sample.points[sampled & ~has]].sum()
    np.testing.assert_allclose(rows.costs[far.rest], max(scale * without, 1), rtol=1e-4)
    assert not found[far.rest].any()
    np.testing.assert_array_equal(far.row_of_feature >= 0, ~shared)
    for k in np.flatnonzero(~shared):
        row, column = far.row_of_feature[k], X[others][:, [features[k]]].toarray().ravel().astype(np.float64)
        own_weight = weights[others][column != 0].sum()
        value = np.sqrt((weights[others] * column**2).sum() / own_weight) if own_weight else 0.0
        assert np.flatnonzero(found[row]).tolist() == ([k] if own_weight else [])
        assert found[row].sum() == pytest.approx(value, rel=1e-3)
        assert rows.costs[row] == pytest.approx(max(own_weight, LEAST_COST), rel=1e-3)
    np.testing.assert_allclose(rows.norms, (found**2).sum(axis=1) + 0.25, rtol=1e-5)
    gone = np.setdiff1d(np.arange(own.size, far.rest), far.row_of_sample)  # sampled points that are near: no cost
    np.testing.assert_array_equal(rows.costs[gone], LEAST_COST)
    assert (
        gone.size
        == (~sampled & has & ~np.isin(sets._sample.points, own)).sum() + np.isin(sets._sample.points[has], own).sum()
    )


def test_a_problem_is_solved_as_liblinear_solves_it():
    sets = solver()
    for label in RARE[:5]:
        _, _, numbered, rows, _ = prepared(sets, int(label), more=range(0, 300, 7))
        n_positives = int((rows.y > 0).sum())
        a, w = np.zeros(rows.y.size, np.float32), np.zeros(numbered.size, np.float32)
        state = np.array([7], np.uint64)
        bias_weight, primal, gap = solve_rows(
            rows, n_positives, a, w, np.float32(0), np.float32(0.5), 1e-4, 5000, state
        )
        assert gap <= 1e-4
        svc = LinearSVC(
            C=1.0,
            intercept_scaling=0.5,
            dual=True,
            tol=1e-6,
            max_iter=200_000,
            random_state=0,
        )
        points = dense(rows, numbered.size)
        svc.fit(points, rows.y, sample_weight=rows.costs)
        theirs = np.append(svc.coef_.ravel(), svc.intercept_[0] / 0.5)
        slack = np.maximum(0, 1 - rows.y * (points @ svc.coef_.ravel() + svc.intercept_[0]))
        value = 0.5 * theirs @ theirs + (rows.costs * slack**2).sum()
        assert primal == pytest.approx(value, rel=2e-3)
        np.testing.assert_allclose(w, svc.coef_.ravel(), atol=0.03)
        assert bias_weight * 0.5 == pytest.approx(svc.intercept_[0], abs=0.03)


def test_near_points_are_those_with_a_score_above_the_margin():
    sets, rng = solver(), np.random.default_rng(1)
    scratch = sets._own_scratch()
    features = np.sort(rng.choice(X.shape[1], 200, replace=False)).astype(np.int32)
    w = rng.normal(0, 1, 200).astype(np.float32)
    scratch.features[:200], scratch.column[features] = features, np.arange(200)
    scratch.near[[3, 5]] = True
    scores = X[:, features] @ w
    gifts = X[:, features[w > 0]] @ w[w > 0]
    assert find_near(sets._points, w, 200, np.float32(-1.1), SHARE, 0, scratch)[0] > 10
    for most, above in ((X.shape[0], scores), (0, gifts)):  # with all features, or, if there are too many, the best
        n_found, lost = find_near(sets._points, w, 200, np.float32(-1.1), SHARE, most, scratch)
        found = scratch.found[:n_found]
        expected = np.setdiff1d(np.flatnonzero(above > MARGIN + 0.1), [3, 5])
        assert set(found) <= set(expected)  # small gifts are left out of the search
        assert n_found > 0.8 * expected.size
        assert lost == pytest.approx(((scratch.found_scores[:n_found] - 0.1) ** 2).sum(), rel=1e-3)
        if most:
            np.testing.assert_allclose(scratch.found_scores[:n_found], scores[found], rtol=1e-4)


def test_negative_values_list_no_point_twice():
    signed = X.copy()
    signed.data *= np.where(np.random.default_rng(2).random(X.nnz) < 0.5, -1, 1).astype(np.float32)
    options = DiSMEC().solver_options()
    sets = rare.WorkingSetSolver(signed, Y, options, positive_weights=np.ones(Y.shape[1]))
    scratch = sets._own_scratch()
    scratch.features[: X.shape[1]] = scratch.column[:] = np.arange(X.shape[1])
    ones = np.ones(X.shape[1], np.float32)
    n_found, _ = find_near(sets._points, ones, ones.size, np.float32(-1), SHARE, 0, scratch)
    assert n_found > 100
    assert np.unique(scratch.found[:n_found]).size == n_found
    assert not scratch.scores.any()


@pytest.mark.parametrize("weighting", [None, "pw", "pw-cb"])
def test_the_model_is_about_that_of_the_full_solver(always, weighting):
    auto, full = (DiSMEC(weighting=weighting, solver=s).fit(X, Y) for s in ("auto", "full"))
    assert (auto.weights_ != full.weights_).nnz > 0, "the rare labels are trained in another way"
    test = DATA.test
    of_auto, of_full = (evaluate(m.predict(test.X, k=5), test.Y, ks=(1, 5)) for m in (auto, full))
    for name in ("P@1", "P@5"):
        assert of_auto[name] == pytest.approx(of_full[name], abs=2.0)
    assert (auto.gaps_ <= auto.tol).all()


def test_the_objective_over_all_points_is_close_to_the_optimum():
    from linear.twins import Problem, objective, weights_of

    full = DiSMEC(solver="full", prune=0, tol=1e-3, weight_dtype="float32").fit(X, Y)
    trained = solver(prune=0).train(RARE)
    W = weights_of(full)
    W[:, RARE] = np.vstack([trained.weights.toarray().T, trained.intercepts / full.bias])
    ratio = Problem.of(full, X, Y).primal(W)[RARE] / objective(full, X, Y)[RARE]
    assert (ratio > 0.99).all()
    assert np.median(ratio) < 1.15


def test_threads_checkpoints_and_groups_do_not_change_the_model(always, tmp_path):
    one = DiSMEC(n_jobs=1).fit(X, Y)
    two = DiSMEC(n_jobs=2).fit(X, Y)
    for attempt in range(2):  # the second takes everything out of the checkpoint
        checkpoint = Checkpoint(tmp_path / "c", resume=bool(attempt))
        kept = DiSMEC().fit(X, Y, run=Run(checkpoint=checkpoint))
        checkpoint._unlock()
        assert (kept.weights_ != one.weights_).nnz == 0
    assert (two.weights_ != one.weights_).nnz == 0
    np.testing.assert_array_equal(two.intercept_, one.intercept_)
    sets = solver()
    together, alone = sets.train(RARE[:9]), sets.train(RARE[4:5])
    assert (together.weights[4] != alone.weights[0]).nnz == 0


def test_labels_with_the_same_points_have_the_same_weights(always):
    twice = sparse.csr_matrix(sparse.hstack([Y, Y[:, RARE[:20]]]))
    model = DiSMEC().fit(X, twice)
    np.testing.assert_array_equal(model.weights_[:, RARE[:20]].toarray(), model.weights_[:, Y.shape[1] :].toarray())
    np.testing.assert_array_equal(model.intercept_[RARE[:20]], model.intercept_[Y.shape[1] :])
    weights = np.ones(twice.shape[1])
    same_as = rare.identical_labels(twice, weights)
    np.testing.assert_array_equal(same_as[Y.shape[1] :], same_as[RARE[:20]])
    weights[-1] = 2.0  # other weights make another problem
    assert rare.identical_labels(twice, weights)[-1] == twice.shape[1] - 1


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_odd_data_are_no_trouble(always, bias):
    rng = np.random.default_rng(2)
    points = rng.random((40, 12)).astype(np.float32) * (rng.random((40, 12)) < 0.3)
    points[:3] = 0  # without features
    points[:, 11] = 0
    points[7, 11] = 1  # a feature that one point has
    labels = (rng.random((40, 8)) < 0.1).astype(np.float32)
    labels[:, 0] = 0  # without points
    labels[:, 1], labels[7, 1] = 0, 1  # one point
    labels[:, 2], labels[0, 2] = 0, 1  # one point, without features
    model = DiSMEC(bias=bias).fit(points, labels)
    assert np.isfinite(model.weights_.data).all()
    found = model.predict(points, k=8)
    assert not (found.labels == 0).any()
    assert np.isfinite(found.scores[found.labels >= 0]).all()
    assert found.labels[7, 0] == 1 or labels[7].sum() > 1
    alike = DiSMEC(bias=bias).fit(np.ones((30, 3)), [[i % 5] for i in range(30)])
    assert np.isfinite(alike.weights_.data).all()


def test_other_losses_and_warm_starts_see_all_points(always):
    for parameters in ({"loss": "logistic"}, {"loss": "hinge"}, {"warm_start": True}):
        auto, full = (DiSMEC(solver=s, **parameters).fit(X, Y) for s in ("auto", "full"))
        assert (auto.weights_ != full.weights_).nnz == 0
    small = rare.rare_labels(Y, "squared-hinge")
    np.testing.assert_array_equal(np.flatnonzero(small), RARE)
    with pytest.raises(ParameterError, match="solver is 'fast'"):
        DiSMEC(solver="fast").fit(X, Y)


def test_small_data_and_data_with_few_rare_labels_are_left_to_the_full_solver(monkeypatch):
    assert not rare.rare_labels(Y, "squared-hinge").any()
    monkeypatch.setattr(rare, "LEAST_WORK", 0)
    share = RARE.size / (COUNTS > 0).sum()
    for least, used in ((share - 0.01, True), (share + 0.01, False)):
        monkeypatch.setattr(rare, "LEAST_SHARE", least)
        assert rare.rare_labels(Y, "squared-hinge").any() == used
    monkeypatch.undo()
    auto, full = (longtail.DiSMEC(solver=s).fit(X, Y) for s in ("auto", "full"))
    assert (auto.weights_ != full.weights_).nnz == 0


def test_a_label_leaves_the_scratch_arrays_as_they_were():
    sets = solver()
    scratch, own = sets._own_scratch(), positives_of(int(RARE[0]))
    settings = Settings(np.float32(1), np.float32(0.5), 0.03, 30, 3, 10, SHARE)
    train_label(sets._points, sets._sample, own, np.float32(1), settings, 1, scratch)
    assert not scratch.near.any()
    assert (scratch.column == -1).all()


def test_selection_is_that_of_numpy():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 50, 400):
        for values in (rng.normal(size=size), rng.integers(0, 3, size), np.arange(size), np.zeros(size)):
            values = values.astype(np.float32)
            for k in {0, size // 2, size - 1}:
                assert _kth_smallest(values.copy(), k) == np.partition(values, k)[k]


def test_warming_up_compiles_what_a_training_uses(monkeypatch):
    rare.compile_kernels()
    compiled = set(rare.train_labels.signatures)
    monkeypatch.setattr(rare, "LEAST_WORK", 1)
    monkeypatch.setattr(rare, "LEAST_SHARE", 0)
    data = make_longtail(n_points=200, n_features=100, n_labels=40).train
    DiSMEC().fit(data.X, data.Y)
    assert set(rare.train_labels.signatures) == compiled
