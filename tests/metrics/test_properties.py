"""What must hold for any predictions and any labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail import metrics
from longtail.core.predictions import Predictions
from longtail.metrics import KnownCounts, Matches, evaluate
from metrics.cases import random_case

seeds = st.integers(0, 2**32 - 1)
KS = (1, 3, 5)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_order_of_the_points_does_not_matter(seed: int) -> None:
    predictions, Y, inverse = random_case(seed)
    order = np.random.default_rng(seed).permutation(len(predictions))
    expected = evaluate(predictions, Y, inverse_propensities=inverse, ks=KS)
    assert evaluate(predictions[order], Y[order], inverse_propensities=inverse, ks=KS) == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_names_of_the_labels_do_not_matter(seed: int) -> None:
    predictions, Y, inverse = random_case(seed)
    old_of_new = np.random.default_rng(seed).permutation(Y.shape[1])
    new_of_old = np.argsort(old_of_new)
    renamed = np.where(predictions.labels >= 0, new_of_old[predictions.labels], -1)
    expected = evaluate(predictions, Y, inverse_propensities=inverse, ks=KS)
    result = evaluate(
        Predictions(renamed.astype(np.int32), predictions.scores),
        Y[:, old_of_new],
        inverse_propensities=inverse[old_of_new],
        ks=KS,
    )
    assert result == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_one_more_hit_never_lowers_a_metric(seed: int) -> None:
    predictions, Y, inverse = random_case(seed, n=10)
    rng = np.random.default_rng(seed)
    matches = Matches.of(predictions, Y, inverse_propensities=inverse)
    misses = np.argwhere((predictions.labels >= 0) & ~matches.hits)
    if not misses.size:
        return
    i, j = misses[rng.integers(len(misses))]
    absent = np.setdiff1d(Y[i].indices, predictions.labels[i])
    if not absent.size:
        return
    labels = predictions.labels.copy()
    labels[i, j] = rng.choice(absent)  # a wrong prediction becomes a right one
    better = evaluate(Predictions(labels, predictions.scores), Y, inverse_propensities=inverse, ks=KS)
    worse = evaluate(predictions, Y, inverse_propensities=inverse, ks=KS)
    for name in ("P", "nDCG", "R", "PSP", "PSnDCG", "PSR", "coverage"):
        for k in KS:
            assert better[f"{name}@{k}"] >= worse[f"{name}@{k}"] - 1e-9
    assert better["P@5"] > worse["P@5"] or j >= 5


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_labels_that_are_never_missing_give_the_plain_metrics(seed: int) -> None:
    predictions, Y, _ = random_case(seed)
    matches = Matches.of(predictions, Y, inverse_propensities=np.ones(Y.shape[1]))
    complete = KnownCounts(matches.n_relevant)
    for k in KS:
        plain = {name: metrics.score(matches, f"{name}@{k}") for name in ("P", "nDCG", "R")}
        assert metrics.score(matches, f"unbiased-P@{k}") == pytest.approx(plain["P"])
        assert metrics.ps_precision(matches, k, normalized=False).value == pytest.approx(plain["P"])
        assert metrics.ps_ndcg(matches, k, normalized=False).value == pytest.approx(plain["nDCG"])
        assert metrics.ps_recall(matches, k, normalized=False).value == pytest.approx(plain["R"])
        assert metrics.unbiased_recall(matches, k, complete).value == pytest.approx(plain["R"])
        ones = Predictions(predictions.labels[:, :k], np.where(predictions.labels[:, :k] >= 0, 1.0, -np.inf))
        wrong = (ones.to_csr(Y.shape[1]) != Y.astype(np.float32)).sum() / len(predictions)
        assert metrics.unbiased_hamming(matches, k).value == pytest.approx(wrong)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_best_ranking_scores_one(seed: int) -> None:
    _, Y, inverse = random_case(seed)
    weighted = sparse.csr_matrix(Y.multiply(inverse[None, :]))
    best = evaluate(Predictions.from_csr(weighted, 5), Y, inverse_propensities=inverse, ks=KS)
    has_labels = 100 * np.mean(np.diff(Y.indptr) > 0)
    for k in KS:
        assert best[f"PSP@{k}"] == pytest.approx(100)
        assert best[f"PSnDCG@{k}"] == pytest.approx(100)
        assert best[f"nDCG@{k}"] == pytest.approx(has_labels)
        assert best[f"abandonment@{k}"] == pytest.approx(100 - has_labels)


@pytest.mark.parametrize("form", ["dense", "lists", "int64", "stored zeros"])
def test_the_form_of_Y_does_not_matter(form: str) -> None:
    predictions, Y, inverse = random_case(1)
    other = {
        "dense": Y.toarray(),
        "lists": [Y[i].indices.tolist() for i in range(Y.shape[0])],
        "int64": sparse.csc_array(Y, dtype=np.int64),
        "stored zeros": sparse.csr_matrix(
            (np.append(Y.data, 0), np.append(Y.indices, 0), np.append(Y.indptr[:-1], Y.nnz + 1)), shape=Y.shape
        ),
    }[form]
    expected = evaluate(predictions, Y, inverse_propensities=inverse)
    assert evaluate(predictions, other, inverse_propensities=inverse) == pytest.approx(expected)
