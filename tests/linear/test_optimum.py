"""DiSMEC finds the minimum that LIBLINEAR finds, and the duality gaps that it reports are true."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from linear.twins import Problem, bibtex, objective, synthetic, weights_of
from longtail import DiSMEC

# The real dataset is used if it is on this machine, the synthetic one always.
DATA = {"synthetic": synthetic()} | ({"bibtex": found} if (found := bibtex()) else {})
EVERY_DATA = pytest.mark.parametrize("data", DATA)
EVERY_LOSS = pytest.mark.parametrize("loss", ["squared-hinge", "hinge", "logistic"])


@dataclass(frozen=True)
class Factors:
    """A weighting that cycles through some factors over the labels."""

    factors: list = field(default_factory=lambda: [0.5, 3.0, 10.0])
    bounded = True
    why_unbounded = ""

    def coefficients(self, counts, n_points):
        counts = np.asarray(counts)
        return np.resize(np.asarray(self.factors, np.float64), counts.size), np.zeros(counts.size)


def some_labels(Y, n=6):
    """Return columns of Y from the most frequent label to the rarest one that has points."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    return Y[:, order[np.linspace(0, order.size - 1, n).astype(int)]]


def reference(loss, C, bias, X, y, own, sample_weight):
    """Return one label's minimum by LIBLINEAR (hinges) or Newton's method (logistic), over augmented features.

    y holds the relevances of positives, and 0 for negatives.
    """
    augmented = sparse.csr_matrix(sparse.hstack([X, np.full((X.shape[0], 1), bias)]) if bias else X, dtype=np.float64)
    weights = np.where(y > 0, own * y, 1.0) * sample_weight
    if loss == "logistic":
        solver = LogisticRegression(C=C, fit_intercept=False, solver="newton-cg", tol=1e-8, max_iter=1000)
    else:
        solver = LinearSVC(
            loss=loss.replace("-", "_"), C=C, dual=True, fit_intercept=False, tol=1e-5, max_iter=200_000, random_state=0
        )  # fmt: skip
    return solver.fit(augmented, np.where(y > 0, 1, -1), sample_weight=weights).coef_.ravel()


@EVERY_DATA
@EVERY_LOSS
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights and relevances"])
def test_the_objective_is_that_of_the_reference_solver(data, loss, weighted):
    X, Y = DATA[data]
    Y = some_labels(Y)
    if weighted:
        relevances = np.random.default_rng(1).uniform(0.2, 1, Y.nnz).astype(np.float32)
        Y = sparse.csr_matrix((relevances, Y.indices, Y.indptr), shape=Y.shape)
    sample_weight = np.random.default_rng(0).uniform(0.3, 3, X.shape[0]).astype(np.float32) if weighted else None
    model = DiSMEC(
        weighting=Factors() if weighted else None,
        loss=loss,
        C=0.3,
        bias=0.8,
        prune=0,
        weight_dtype="float32",
        tol=1e-4,
        max_passes=3000,
    )
    model.fit(X, Y, sample_weight=sample_weight)
    problem = Problem.of(model, X, Y, sample_weight)
    found = problem.primal(weights_of(model))
    present = Y.toarray()
    best = np.column_stack(
        [
            reference(loss, model.C, model.bias, X, present[:, label], problem.own[label], problem.point_weights)
            for label in range(Y.shape[1])
        ]
    )
    np.testing.assert_allclose(found, problem.primal(best), rtol=1e-3)


@EVERY_DATA
def test_linear_svc_with_its_own_intercept_and_class_weights_gives_the_same_weights(data):
    """C, bias and label weights mean what LinearSVC's C, intercept_scaling and class_weight mean."""
    X, Y = DATA[data]
    Y = some_labels(Y, 3)
    model = DiSMEC(
        weighting=Factors(), C=0.5, bias=2.0, prune=0, weight_dtype="float32", tol=1e-5, max_passes=3000
    ).fit(X, Y)
    dense = Y.toarray()
    for label, own in enumerate(Factors().coefficients(model.label_counts_, X.shape[0])[0]):
        svc = LinearSVC(
            C=0.5, intercept_scaling=2.0, class_weight={1: own, 0: 1.0}, tol=1e-7, max_iter=200_000, random_state=0
        )
        svc.fit(X.astype(np.float64), dense[:, label])
        np.testing.assert_allclose(model.weights_.toarray()[:, label], svc.coef_.ravel(), atol=0.01)
        np.testing.assert_allclose(model.intercept_[label], svc.intercept_[0], atol=0.01)


@EVERY_DATA
@EVERY_LOSS
@pytest.mark.parametrize(("weighting", "tol"), [(None, 0.01), ("pw", 0.01), ("pw", 1e-3)])
def test_reported_gaps_are_true(data, loss, weighting, tol):
    """The true relative gap, from weights and dual variables in float64, is below the tolerance."""
    X, Y = DATA[data]
    Y = some_labels(Y, 40)
    model = DiSMEC(
        weighting=weighting, loss=loss, tol=tol, prune=0, weight_dtype="float32", warm_start=True, max_passes=1000
    ).fit(X, Y)
    assert (model.gaps_ <= tol).all()
    problem = Problem.of(model, X, Y)
    primal = problem.primal(weights_of(model))
    dual = problem.dual(model._duals.toarray().T.astype(np.float64))
    true_gaps = (primal - dual) / primal
    assert (true_gaps >= -1e-5).all(), "weak duality"
    assert true_gaps.max() <= tol * 1.02


@EVERY_LOSS
def test_a_smaller_tolerance_gives_a_smaller_objective(loss):
    X, Y = DATA["synthetic"]
    seen = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
    objectives = [
        objective(DiSMEC(loss=loss, tol=tol, prune=0, weight_dtype="float32", max_passes=1000).fit(X, Y), X, Y)[
            seen
        ].sum()
        for tol in (0.3, 0.03, 0.001)
    ]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[0] > objectives[2] * 1.0005
