from __future__ import annotations

import numpy as np
import pytest

from longtail.core import codec
from longtail.errors import ParameterError
from longtail.objectives import (
    PW,
    PropensityModel,
    PWcb,
    Unbiased,
    Unweighted,
    normalised,
    normalised_coefficients,
    resolve_weighting,
)

COUNTS = np.array([0, 1, 2, 10, 500])
N = 1000
MODEL = PropensityModel(0.6, 2.6)
P = MODEL.propensities(COUNTS, N)


def test_pw_is_equation_15() -> None:
    own, opposite = PW(MODEL).coefficients(COUNTS, N)
    np.testing.assert_allclose(own, (2 - P) / P, rtol=1e-12)
    assert (opposite == 0).all()


def test_pw_keeps_the_order_of_the_unbiased_zero_one_loss() -> None:
    # Eq. 7: 1/p for a wrong score, 1 - 1/p for a right one; eq. 8 shifts it so that a right one costs nothing.
    wrong, right = 1 / P, 1 - 1 / P
    np.testing.assert_allclose(PW(MODEL).coefficients(COUNTS, N)[0], wrong - right)


def test_pwcb_corrects_then_rebalances_by_equation_21() -> None:
    own, opposite = PWcb(MODEL, beta=0.9).coefficients(COUNTS, N)
    by_hand = [(1 - 0.9) / (1 - 0.9 ** max(n, 1)) * (2 - p) / p for n, p in zip(COUNTS, P, strict=True)]
    np.testing.assert_allclose(own, by_hand, rtol=1e-12)
    assert (opposite == 0).all()


def test_pwcb_rebalances_then_corrects_by_equation_20() -> None:
    own, _ = PWcb(MODEL, beta=0.9, order="rebalance-then-correct").coefficients(COUNTS, N)
    by_hand = [(1 - 0.9) / (1 - 0.9 ** max(n / p, 1)) / p + 1 / p - 1 for n, p in zip(COUNTS, P, strict=True)]
    np.testing.assert_allclose(own, by_hand, rtol=1e-12)


def test_pwcb_extremes_of_beta() -> None:
    # beta = 0 balances nothing; near 1, C(n) is 1/n.
    np.testing.assert_allclose(PWcb(MODEL, beta=0.0).coefficients(COUNTS, N)[0], PW(MODEL).coefficients(COUNTS, N)[0])
    inverse_frequency = PW(MODEL).coefficients(COUNTS, N)[0] / np.maximum(COUNTS, 1)
    np.testing.assert_allclose(PWcb(MODEL, beta=1 - 1e-9).coefficients(COUNTS, N)[0], inverse_frequency, rtol=1e-5)


@pytest.mark.parametrize("kind", [PW, PWcb])
def test_the_dial_moves_every_label_by_equal_steps_of_its_logarithm(kind) -> None:
    full, _ = kind(MODEL).coefficients(COUNTS, N)
    at = {s: kind(MODEL, strength=s).coefficients(COUNTS, N)[0] for s in (0, 0.25, 0.5, 1)}
    assert (at[0] == 1).all()
    np.testing.assert_array_equal(at[1], full)
    np.testing.assert_allclose(np.log(at[0.25]), 0.25 * np.log(full), rtol=1e-12)
    np.testing.assert_allclose(at[0.25] ** 2, at[0.5], rtol=1e-12)
    deep, _ = normalised_coefficients(kind(MODEL, strength=0), COUNTS, N)
    np.testing.assert_allclose(deep, 1)


def test_unbiased_is_equation_4() -> None:
    own, opposite = Unbiased(MODEL).coefficients(COUNTS, N)
    np.testing.assert_allclose(own, 1 / P, rtol=1e-12)
    np.testing.assert_allclose(opposite, (P - 1) / P, rtol=1e-12)


def test_only_the_unbiased_loss_is_unbounded() -> None:
    assert PW().bounded
    assert PWcb().bounded
    assert Unweighted().bounded
    assert not Unbiased().bounded
    assert "not bounded below" in Unbiased().why_unbounded


@pytest.mark.parametrize("kind", [PW, PWcb])
def test_normalised_over_pairs_the_observed_pairs_have_mean_one(kind) -> None:
    counts = np.array([1, 5, 200, 3000])
    per_label, _ = normalised_coefficients(kind(), counts, 5000)
    per_pair, _ = normalised_coefficients(kind(normalise="pairs"), counts, 5000)
    assert per_label.mean() == pytest.approx(1)
    assert per_pair @ counts / counts.sum() == pytest.approx(1)
    np.testing.assert_allclose(per_pair / per_pair[0], per_label / per_label[0])
    with pytest.raises(ParameterError, match="normalise"):
        kind(normalise="points")


def test_normalised_has_mean_one_and_keeps_ratios() -> None:
    eta = normalised([1.0, 3.0, 8.0])
    np.testing.assert_allclose(eta, [0.25, 0.75, 2.0])
    with pytest.raises(ParameterError, match="sum 0"):
        normalised([0.0, 0.0])


def test_resolve() -> None:
    assert resolve_weighting(None) == Unweighted()
    assert resolve_weighting("pw") == PW()
    assert resolve_weighting("pw-cb") == PWcb()
    assert resolve_weighting("unbiased") == Unbiased()
    assert resolve_weighting("pw:0.25") == PW(strength=0.25)
    assert resolve_weighting("pw-cb:0.5") == PWcb(strength=0.5)
    mine = PWcb(MODEL, beta=0.5)
    assert resolve_weighting(mine) is mine
    own, opposite = resolve_weighting(None).coefficients(COUNTS, N)
    assert (own == 1).all()
    assert (opposite == 0).all()


@pytest.mark.parametrize("wrong", ["pwcb ", 3, PW, {"name": "pw"}])
def test_resolve_refuses(wrong: object) -> None:
    with pytest.raises(ParameterError, match="weighting"):
        resolve_weighting(wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pw-cb:much", "write name:strength, e.g. pw-cb:0.5"),
        ("pw-cb:", "write name:strength"),
        ("pw:1.5", "strength is 1.5, but must be a number from 0"),
        ("pw:nan", "strength is nan"),
        ("unbiased:0.5", "unbiased takes none"),
        ("pwc:0.5", 'unknown weighting "pwc"'),
    ],
)
def test_a_strength_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        resolve_weighting(text)


@pytest.mark.parametrize(
    "options",
    [{"beta": 1.0}, {"beta": -0.1}, {"beta": "0.9"}, {"order": "both"}, {"propensity": 0.5}, {"strength": "1"}],
)
def test_parameters_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(options))}"):
        PWcb(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("weighting", [PW(MODEL), PWcb(MODEL, beta=0.5, strength=0.3), Unbiased()])
def test_travels_as_json(weighting: object) -> None:
    assert codec.decode(codec.encode(weighting)) == weighting
