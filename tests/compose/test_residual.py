"""The blocks of RankNet: the kernel, a plain twin over all labels, and the network that is trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

from longtail.compose.residual import ResidualBlocks
from longtail.neural.ranking_network import RankedLists, RankingNetwork, RankingSettings, population_loss

L, V, N, M = 12, 5, 20, 6
ALL = np.arange(L, dtype=np.int32)


def lists(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.permutation(L)[:M] for _ in range(N)]).astype(np.int32)
    labels[rng.random((N, M)) < 0.2] = -1
    log_odds = np.where(labels >= 0, rng.normal(size=(N, M)), -np.inf)
    return labels, log_odds, (labels >= 0) & (rng.random((N, M)) < 0.3)


def weights(n_blocks, seed=1):
    rng = np.random.default_rng(seed)
    shapes = {"inward": (n_blocks, L, V), "hidden_bias": (n_blocks, V), "outward": (n_blocks, L, V)}
    shapes["bias"] = (n_blocks, L)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def plain(arrays, labels, log_odds):
    """F = W2 relu(W1 f) + f over vectors of all labels, f = 0 for labels that are no candidates; point by point."""
    result = np.full(log_odds.shape, -np.inf)
    for i in range(labels.shape[0]):
        own = labels[i] >= 0
        z = log_odds[i, own]
        for inward, hidden_bias, outward, bias in zip(*(arrays[k] for k in arrays), strict=True):
            f = np.zeros(L)
            f[labels[i, own]] = expit(z)
            change = outward @ np.maximum(inward.T @ f + hidden_bias, 0) + bias
            z = z + change[labels[i, own]]
        result[i, own] = z
    return result


@pytest.mark.parametrize("n_blocks", [0, 1, 3])
def test_the_kernel_and_its_plain_twin_agree(n_blocks):
    labels, log_odds, _ = lists()
    arrays = weights(n_blocks)
    np.testing.assert_allclose(
        ResidualBlocks(ALL, **arrays)(labels, log_odds), plain(arrays, labels, log_odds), rtol=1e-4, atol=1e-4
    )


def test_labels_that_the_network_has_not_met_keep_their_log_odds_and_are_not_seen():
    labels, log_odds, _ = lists()
    arrays = weights(2)
    known = np.array([1, 4, 5, 11])
    rows = np.full(L, -1, np.int32)
    rows[known] = np.arange(known.size)
    fewer = {name: array if name == "hidden_bias" else array[:, known] for name, array in arrays.items()}
    found = ResidualBlocks(rows, **fewer)(labels, log_odds)
    unknown = ~np.isin(labels, known)
    np.testing.assert_array_equal(found[unknown], log_odds[unknown].astype(np.float32))
    expected = plain(arrays, np.where(unknown, -1, labels), log_odds)
    np.testing.assert_allclose(found[~unknown], expected[~unknown], rtol=1e-4, atol=1e-4)


def settings(**changes):
    values = {"blocks": 2, "units": V, "balance": 1.0, "margin": 1.0, "negatives": M, "anchor": 1.0, "dropout": 0.0}
    return RankingSettings(**(values | {"shrink": 0.0} | changes))


def network(**changes):
    labels, log_odds, hits = lists()
    counts = np.arange(1, L + 1)
    made = RankingNetwork(RankedLists(labels, log_odds, hits, 0.3 * np.arange(L), counts), settings(**changes))
    arrays = weights(made.settings.blocks)
    with torch.no_grad():
        for b in range(made.settings.blocks):
            made.inward[b][:] = torch.from_numpy(arrays["inward"][b])
            made.outward[b][:] = torch.from_numpy(arrays["outward"][b])
            made.hidden_bias[b][:] = torch.from_numpy(arrays["hidden_bias"][b])
            made.bias[b][:, 0] = torch.from_numpy(arrays["bias"][b])
    return made, arrays, labels, log_odds, hits


def test_the_trained_network_is_what_predicts():
    made, arrays, labels, log_odds, _ = network()
    for name, array in made.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    with torch.no_grad():
        added = made(torch.arange(N)).numpy()
    own = labels >= 0
    np.testing.assert_allclose(
        (log_odds + added)[own], ResidualBlocks(ALL, **arrays)(labels, log_odds)[own], rtol=1e-4, atol=1e-4
    )


def test_a_new_network_is_the_identity():
    labels, log_odds, hits = lists()
    fresh = RankingNetwork(RankedLists(labels, log_odds, hits, np.zeros(L), np.ones(L)), settings())
    with torch.no_grad():
        assert fresh(torch.arange(N)).abs().max() == 0


def plain_population_loss(F, n, right, wrong, balance, margin):
    total = 0.0
    for i in right:
        for j in right:
            if n[i] + n[j]:
                total += max(0.0, (n[i] - n[j]) / (n[i] + n[j]) * (F[i] - F[j]))
        for k in wrong:
            total += balance * max(0.0, F[k] - F[i] + margin)
    return total


def test_the_loss_is_the_papers():
    rng = np.random.default_rng(0)
    F, n = rng.normal(size=(N, M)), rng.integers(0, 9, size=(N, M))
    hits = rng.random((N, M)) < 0.5
    wrong = ~hits & (rng.random((N, M)) < 0.7)
    expected = [
        plain_population_loss(F[i], n[i], np.flatnonzero(hits[i]), np.flatnonzero(wrong[i]), 0.7, 0.4) for i in range(N)
    ]
    loss = population_loss(*(torch.from_numpy(a) for a in (F, n.astype(float), hits, wrong)), 0.7, 0.4)
    assert float(loss) == pytest.approx(np.mean(expected))


def test_a_training_step_adds_the_cross_entropy_and_what_the_blocks_changed():
    made, _, labels, log_odds, hits = network(anchor=2.0, shrink=0.5)
    own = labels >= 0
    with torch.no_grad():
        loss = float(made.training_step(torch.arange(N)))
        added = np.where(own, made(torch.arange(N)).numpy(), 0)
    z = np.where(own, log_odds, 0) + added
    lift = 0.3 * np.arange(L)
    ranked = -np.logaddexp(0, -z) + lift[np.maximum(labels, 0)]
    counts = np.maximum(labels, 0) + 1
    hinges = np.mean(
        [
            plain_population_loss(ranked[i], counts[i], *(np.flatnonzero(m[i]) for m in (hits, own & ~hits)), 1, 1)
            for i in range(N)
        ]
    )
    surprise = ((np.logaddexp(0, z) - hits * z) * own).sum() / N
    assert loss == pytest.approx(hinges + 2.0 * surprise + 0.5 * (added**2).sum() / N, rel=1e-4)


def test_negatives_are_a_random_few_of_the_wrong_candidates():
    made, *_ = network(negatives=2)
    wrong = made.present & ~made.hits
    torch.manual_seed(0)
    some = made._some_of(wrong)
    assert not (some & ~wrong).any()
    np.testing.assert_array_equal(some.sum(1).numpy(), np.minimum(wrong.sum(1).numpy(), 2))
    assert (some != made._some_of(wrong)).any()
