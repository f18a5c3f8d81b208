from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.errors import ParameterError
from longtail.objectives import PW, Loss, PropensityModel, Unbiased, loss_named, weighted_gradient, weighted_loss
from longtail.objectives.losses import LOSSES, SQUARED_HINGE

EVERY = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("name", "positive", "negative"),
    [
        ("squared-hinge", [9.0, 0.25, 0.0], [0.0, 2.25, 9.0]),
        ("hinge", [3.0, 0.5, 0.0], [0.0, 1.5, 3.0]),
        ("logistic", [np.log1p(np.exp(2)), np.log1p(np.exp(-0.5)), np.log1p(np.exp(-2))], None),
        ("squared-error", [9.0, 0.25, 1.0], [4.0, 0.25, 4.0]),
    ],
)
def test_values_by_hand(name: str, positive: list[float], negative: list[float] | None) -> None:
    loss, s = loss_named(name), np.array([-2.0, 0.5, 2.0])
    np.testing.assert_allclose(loss.positive(s), positive)
    if negative is None:  # cross-entropy: -log(1 - sigmoid(s))
        negative = (-np.log(1 - 1 / (1 + np.exp(-s)))).tolist()
    np.testing.assert_allclose(loss.negative(s), negative)


@EVERY
def test_gradients_are_the_slopes(loss: Loss) -> None:
    s = RNG.uniform(-3, 3, 200)
    s = s[np.abs(np.abs(s) - 1) > 1e-3]  # the hinge has no slope at its kink
    h = 1e-6
    np.testing.assert_allclose(
        loss.positive_gradient(s), (loss.positive(s + h) - loss.positive(s - h)) / (2 * h), atol=1e-6
    )
    np.testing.assert_allclose(
        loss.negative_gradient(s), (loss.negative(s + h) - loss.negative(s - h)) / (2 * h), atol=1e-6
    )


@EVERY
def test_stable_for_large_scores(loss: Loss) -> None:
    s = np.array([-1e4, 1e4])
    for part in (loss.positive, loss.negative, loss.positive_gradient, loss.negative_gradient):
        assert np.isfinite(part(s)).all()  # warnings are errors here: nothing overflows on the way either


@EVERY
def test_unbiased_weighting_gives_the_complete_loss_in_expectation(loss: Loss) -> None:
    """Eq. 6, exactly: over y given y*, a relevant label is observed with probability p, an irrelevant one never."""
    counts, n_points = np.array([1, 7, 40]), 100
    model = PropensityModel()
    p = model.propensities(counts, n_points)
    own, opposite = Unbiased(model).coefficients(counts, n_points)
    s = RNG.normal(size=(20, 3))
    observed = weighted_loss(loss, s, np.ones_like(s), own, opposite)
    not_observed = weighted_loss(loss, s, np.zeros_like(s), own, opposite)
    np.testing.assert_allclose(p * observed + (1 - p) * not_observed, loss.positive(s), atol=1e-10)
    np.testing.assert_allclose(not_observed, loss.negative(s))
    biased = p * loss.positive(s) + (1 - p) * loss.negative(s)
    assert np.abs(biased - loss.positive(s)).max() > 0.1  # the plain loss does not have the property


def test_pw_squared_hinge_is_equation_16() -> None:
    counts, n_points = np.array([1, 7, 40]), 100
    p = PropensityModel().propensities(counts, n_points)
    s = RNG.normal(size=(20, 3))
    Y = RNG.random((20, 3)) < 0.5
    found = weighted_loss(SQUARED_HINGE, s, sparse.csr_matrix(Y), *PW().coefficients(counts, n_points))
    np.testing.assert_allclose(
        found, np.where(Y, (2 - p) / p * np.maximum(1 - s, 0) ** 2, np.maximum(1 + s, 0) ** 2), rtol=1e-12
    )


@EVERY
def test_weighted_gradient_is_the_slope(loss: Loss) -> None:
    s, Y = RNG.uniform(-0.9, 0.9, (10, 4)), RNG.random((10, 4)) < 0.5
    own, opposite, h = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, -0.5, 0.0, -3.0]), 1e-6
    slope = (weighted_loss(loss, s + h, Y, own, opposite) - weighted_loss(loss, s - h, Y, own, opposite)) / (2 * h)
    np.testing.assert_allclose(weighted_gradient(loss, s, Y, own, opposite), slope, atol=1e-6)


def test_refuses() -> None:
    with pytest.raises(ParameterError, match='did you mean "hinge"'):
        loss_named("hing")
    with pytest.raises(ParameterError, match="shape"):
        weighted_loss(SQUARED_HINGE, np.zeros((2, 3)), np.zeros((3, 2)), 1.0, 0.0)
