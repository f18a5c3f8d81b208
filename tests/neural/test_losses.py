"""The torch losses against their NumPy definitions, and their gradients against finite differences."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from longtail.errors import ParameterError
from longtail.neural import losses
from longtail.neural.losses import LOSSES, LabelWeights, Positives, warn_if_unbounded
from longtail.objectives import (
    PW,
    PWcb,
    grank_loss,
    loss_named,
    margin_loss,
    negative_mining_loss,
    softmax_cross_entropy,
    weighted_loss,
)

N, C = 7, 12
COUNTS = np.array([1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 3, 0])
N_POINTS = 100

TWINS = {
    "margin": lambda s, y, own: margin_loss(s, y, own, margin=1.0),
    "negative-mining": lambda s, y, own: negative_mining_loss(s, y, own, hardest=10),
    "softmax": softmax_cross_entropy,
    "grank": grank_loss,
}
DECOMPOSABLE = {"bce": "logistic", "squared-hinge": "squared-hinge"}


def case(seed: int = 0, scale: float = 2.0):
    """Scores and labels; one point has no label, one has all."""
    rng = np.random.default_rng(seed)
    Y = rng.random((N, C)) < 0.25
    Y[2], Y[4] = False, True
    return scale * rng.standard_normal((N, C)), Y


def torch_loss(name, scores, Y, own, opposite=None, **options):
    positives = Positives.of(torch.from_numpy(Y))
    pick = [
        None if w is None else torch.from_numpy(np.asarray(w, np.float32))[positives.columns] for w in (own, opposite)
    ]
    return float(LOSSES[name](torch.from_numpy(scores), positives, *pick, **options))


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("weighted", [False, True])
def test_ranking_losses_are_the_mean_over_points_of_their_definitions(name, weighted):
    scores, Y = case()
    own = np.linspace(0.2, 3, C) if weighted else np.ones(C)
    expected = np.mean([TWINS[name](s, y, own) for s, y in zip(scores, Y, strict=True)])
    assert expected > 0.1
    assert torch_loss(name, scores, Y, own if weighted else None) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", DECOMPOSABLE)
def test_decomposable_losses_are_the_mean_over_points_of_the_sum_over_labels(name):
    scores, Y = case()
    loss = loss_named(DECOMPOSABLE[name])
    ones, zeros = np.ones(C), np.zeros(C)
    plain = weighted_loss(loss, scores, Y, ones, zeros).sum() / N
    assert torch_loss(name, scores, Y, None) == pytest.approx(plain, rel=1e-5)
    own = np.linspace(0.2, 3, C)
    weighted = weighted_loss(loss, scores, Y, own, zeros).sum() / N
    assert torch_loss(name, scores, Y, own) == pytest.approx(weighted, rel=1e-5)
    opposite = 1 - own
    bounded = weighted_loss(loss, scores, Y, own, opposite, bounded=True).sum() / N
    assert bounded > weighted_loss(loss, scores, Y, own, opposite).sum() / N + 0.1, "the bound must matter here"
    assert torch_loss(name, scores, Y, own, opposite) == pytest.approx(bounded, rel=1e-5)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"negative-mining"}))
def test_a_column_that_stands_for_several_labels_counts_as_often_as_a_negative(name):
    """Columns that are nobody's label, repeated, against the same columns once with their number."""
    scores, Y = case()
    Y[4] = False
    Y[:, 8:] = False
    own, times = np.linspace(0.2, 3, C), np.array([1] * 8 + [1, 2, 3, 5])
    expected = torch_loss(name, np.repeat(scores, times, 1), np.repeat(Y, times, 1), np.repeat(own, times))
    found = torch_loss(name, scores, Y, own, stands_for=torch.from_numpy(times.astype(np.float32)))
    assert found == pytest.approx(expected, rel=1e-5)
    assert torch_loss(name, scores, Y, own, stands_for=torch.ones(C)) == pytest.approx(
        torch_loss(name, scores, Y, own), rel=1e-5
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_the_function(name, weighted, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)  # finite differences need float64
    scores, Y = case(seed=3)
    positives = Positives.of(torch.from_numpy(Y))
    own = torch.linspace(0.2, 3, C, dtype=torch.float64)[positives.columns] if weighted else None
    assert torch.autograd.gradcheck(
        lambda s: LOSSES[name](s, positives, own), torch.from_numpy(scores).requires_grad_()
    )


@pytest.mark.parametrize("name", LOSSES)
def test_large_scores_stay_finite(name):
    scores, Y = case(scale=300.0)
    tensor = torch.from_numpy(scores.astype(np.float32)).requires_grad_()
    loss = LOSSES[name](tensor, Positives.of(torch.from_numpy(Y)))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_bf16_scores_give_a_float32_loss(name):
    scores, Y = case()
    tensor = torch.from_numpy(scores).to(torch.bfloat16)
    loss = LOSSES[name](tensor, Positives.of(torch.from_numpy(Y)))
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(torch_loss(name, tensor.double().numpy(), Y, None), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_against_the_gradient_moves_observed_labels_up_and_others_down(name):
    scores, Y = case()
    tensor = torch.from_numpy(scores).requires_grad_()
    LOSSES[name](tensor, Positives.of(torch.from_numpy(Y))).backward()
    gradient = tensor.grad.numpy()
    assert (gradient[Y] <= 0).all()
    assert (gradient[~Y] >= 0).all()
    ranked = Y.any(1) & ~Y.all(1)
    assert (gradient[ranked][Y[ranked]] < 0).any()


def test_weights_come_from_the_objectives_normalised():
    for weighting in (PW(), PWcb()):
        own, _ = weighting.coefficients(COUNTS, N_POINTS)
        weights = LabelWeights(weighting, COUNTS, N_POINTS)
        picked, opposite = weights.of(torch.tensor([3, 0, 3]))
        expected = own * C / own.sum()  # eq. 24
        np.testing.assert_allclose(picked, expected[[3, 0, 3]], rtol=1e-6)
        assert opposite is None
    assert LabelWeights(None, COUNTS, N_POINTS).of(torch.tensor([1])) == (None, None)


def test_the_unbiased_weighting_warns_and_is_refused_by_ranking_losses(caplog):
    with caplog.at_level(logging.WARNING, "longtail"):
        weights = LabelWeights("unbiased", COUNTS, N_POINTS)
        assert not caplog.text  # the warning comes once per training
        warn_if_unbounded("unbiased")
    assert "not bounded below" in caplog.text
    assert "Terms below 0 count as 0" in caplog.text
    scores, Y = case()
    positives = Positives.of(torch.from_numpy(Y))
    own, opposite = weights.of(positives.columns)
    assert (opposite <= 0).all()
    assert float(losses.binary_cross_entropy(torch.from_numpy(scores), positives, own, opposite)) >= 0
    for name in TWINS:
        with pytest.raises(ParameterError, match="decompose over labels"):
            LOSSES[name](torch.from_numpy(scores), positives, own, opposite)
