"""The regularisers against eq. 2 and 3 of Guo et al. (2019), written down in full."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.neural.regularisers import CoOccurrence, glas, gravity, spread_out

N, L, D = 40, 9, 5


@pytest.fixture(scope="module")
def Y():
    dense = (np.random.default_rng(1).random((N, L)) < 0.2).astype(np.float32)
    dense[:, 7] = 0  # a label without points
    return dense


def target(Y):
    """U of eq. 3: the mean of F(y|y') and F(y'|y)."""
    A = Y.T @ Y
    U = np.zeros((L, L))
    for y in range(L):
        for z in range(L):
            if A[y, z]:
                U[y, z] = 0.5 * (A[y, z] / A[z, z] + A[y, z] / A[y, y])
    return U


def drawn_case():
    rng = np.random.default_rng(2)
    V = rng.standard_normal((L, D))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    drawn = rng.integers(L, size=20)  # more than L, so that labels repeat
    labels, times = np.unique(drawn, return_counts=True)
    return V, drawn, labels, times


def test_co_occurrence_is_the_mean_conditional_frequency(Y):
    U = CoOccurrence(sparse.csr_matrix(Y), "cpu")
    for labels in ([0, 3, 5], [8, 7, 1, 2], list(range(L))):
        found = U.among(torch.tensor(labels))
        np.testing.assert_allclose(found, target(Y)[np.ix_(labels, labels)], rtol=1e-6)
    assert np.diag(target(Y))[0] == 1


def test_glas_is_eq_3_over_the_labels_as_they_were_drawn(Y):
    V, drawn, labels, times = drawn_case()
    B = len(drawn)
    expected = ((V[drawn] @ V[drawn].T - target(Y)[np.ix_(drawn, drawn)]) ** 2).sum() / B**2
    U = CoOccurrence(sparse.csr_matrix(Y), "cpu").among(torch.from_numpy(labels))
    found = glas(torch.from_numpy(V[labels]).float(), torch.from_numpy(times), U)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_spread_out_is_eq_2_without_pairs_of_a_label_with_itself():
    V, drawn, labels, times = drawn_case()
    different = drawn[:, None] != drawn[None, :]
    expected = ((V[drawn] @ V[drawn].T) ** 2)[different].sum() / len(drawn) ** 2
    found = spread_out(torch.from_numpy(V[labels]).float(), torch.from_numpy(times))
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_gravity_is_the_mean_square_of_all_scores_of_the_batch():
    V, drawn, labels, times = drawn_case()
    points = np.random.default_rng(3).standard_normal((6, D))
    expected = ((points @ V[drawn].T) ** 2).mean()
    found = gravity(torch.from_numpy(V[labels]).float(), torch.from_numpy(times), torch.from_numpy(points).float())
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_minimising_glas_alone_gives_the_target_inner_products(Y):
    """With enough dimensions the minimum is V'V = U, if U is positive definite with unit diagonal."""
    labels = torch.tensor([0, 1, 2, 3])
    U = CoOccurrence(sparse.csr_matrix(Y), "cpu").among(labels)
    assert torch.linalg.eigvalsh(U).min() > 0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        V = torch.randn(4, 8, requires_grad=True)
    optimiser = torch.optim.Adam([V], lr=0.05)
    for _ in range(400):
        unit = torch.nn.functional.normalize(V)
        optimiser.zero_grad()
        glas(unit, torch.ones(4), U).backward()
        optimiser.step()
    unit = torch.nn.functional.normalize(V).detach()
    torch.testing.assert_close(unit @ unit.T, U, atol=2e-3, rtol=0)
