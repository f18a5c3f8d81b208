"""Labels chosen together: as good as xCOLUMNs' and a plain twin's, never worse than the k most probable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from xcolumns import block_coordinate

import longtail
from longtail.core.batch_optimal import OBJECTIVES, choose_together, learn_gains
from longtail.core.predictions import Predictions
from longtail.errors import DataError, ParameterError

N, L, M, K = 300, 60, 20, 3


def candidates(seed=0):
    """Candidates with probabilities: few labels are frequent, the last row is short."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, L + 1)
    rows = [rng.choice(L, M, replace=False, p=weight / weight.sum()) for _ in range(N)]
    scores = rng.beta(0.5, 2.0, (N, M)) * 0.98 + 0.001
    found = Predictions.from_csr(
        sparse.csr_matrix((scores.ravel(), np.concatenate(rows), np.arange(0, N * M + 1, M)), shape=(N, L)), M
    )
    labels, scores = found.labels.copy(), found.scores.copy()
    labels[-1, 2:], scores[-1, 2:] = -1, -np.inf
    return Predictions(labels, scores, L)


def expected(objective, found, chosen):
    """The plain twin of the value: label by label, by the definition."""
    total = 0.0
    for label in range(L):
        true = found.scores[found.labels == label].astype(float).sum()
        p = chosen.scores[chosen.labels == label].astype(float)
        if objective == "macro-f1" and p.size + true > 0:
            total += 2 * p.sum() / (p.size + true)
        elif objective == "macro-recall" and true > 0:
            total += p.sum() / true
        elif objective == "coverage":
            total += 1 - np.prod(1 - p)
    return total / L


def theirs(objective, found):
    """Labels by xCOLUMNs, as predictions."""
    matrix = found.to_csr(L).astype(np.float64)
    call = {
        "macro-f1": block_coordinate.predict_optimizing_macro_f1_score_using_bc,
        "macro-recall": block_coordinate.predict_optimizing_macro_recall_using_bc,
        "coverage": block_coordinate.predict_optimizing_coverage_using_bc,
    }[objective]
    chosen = sparse.csr_matrix(call(matrix, K, init_y_pred="top", seed=0))
    return Predictions.from_csr(chosen.multiply(matrix).tocsr(), K)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_value_is_that_of_xcolumns(objective):
    found = candidates()[:-1]  # its coverage cannot take a row with fewer than k labels
    chosen = choose_together(found, K, objective)
    own = expected(objective, found, chosen.predictions)
    assert chosen.expected[-1] == pytest.approx(own, abs=1e-5)
    assert own > expected(objective, found, found.top(K))
    assert own >= expected(objective, found, theirs(objective, found)) - 0.001, "0.1 points"
    assert (np.diff(chosen.expected) > -1e-9).all(), "no pass loses"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_exchange_in_a_single_point_gains_anything(objective):
    found = candidates(1)
    chosen = choose_together(found, K, objective).predictions
    best = expected(objective, found, chosen)
    for i in (0, 7, 123):
        for place in range(K):
            for other in set(found.labels[i].tolist()) - set(chosen.labels[i].tolist()):
                labels, scores = chosen.labels.copy(), chosen.scores.copy()
                labels[i, place] = other
                scores[i, place] = found.scores[i][found.labels[i] == other][0]
                assert expected(objective, found, Predictions(labels, scores)) <= best + 1e-5


def test_short_rows_keep_all_their_labels_and_seeds_repeat():
    found = candidates()
    one, two = (choose_together(found, K).predictions for _ in range(2))
    np.testing.assert_array_equal(one.labels, two.labels)
    assert set(one.labels[-1].tolist()) == {*found.labels[-1, :2].tolist(), -1}
    assert (one.labels[:-1] >= 0).all()


@pytest.mark.parametrize("objective", ["macro-f1", "macro-recall"])
def test_gains_learned_on_some_points_are_good_for_others(objective):
    gains = learn_gains(candidates(2), K, objective, np.zeros(L))
    found = candidates(3)
    worth = gains.best_of(found, K)
    dense = found.to_csr(L).toarray()
    scores = np.where(worth.labels >= 0, np.take_along_axis(dense, np.maximum(worth.labels, 0), axis=1), -np.inf)
    chosen = Predictions(worth.labels, scores)
    assert expected(objective, found, chosen) > expected(objective, found, found.top(K)) * 1.02
    alone = gains.best_of(found[5:6], K)
    np.testing.assert_array_equal(alone.labels[0], worth.labels[5])


def test_scores_that_are_no_probabilities_are_refused():
    with pytest.raises(DataError, match="not a probability above 0"):
        choose_together(longtail.Predictions([[0, 1]], [[1.5, -2.0]], 2), 1)
    with pytest.raises(ParameterError, match="objective is 'nonsense'"):
        choose_together(candidates(), 1, "nonsense")


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_k_is_a_whole_number_of_labels(k):
    for choose in (choose_together, lambda found, k: learn_gains(found, k, "macro-f1", np.full(L, 0.1))):
        with pytest.raises(ParameterError, match="k is"):
            choose(candidates(), k)
