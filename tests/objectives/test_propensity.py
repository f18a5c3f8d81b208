from __future__ import annotations

import math

import numpy as np
import pytest

from longtail.core import codec
from longtail.errors import DataError, ParameterError
from longtail.objectives import PropensityModel, fit_propensities, propensities_from


def test_formula_by_hand() -> None:
    # A = 1, B = 1, N = e^3 rounded to 20: C = (log 20 - 1) * 2; n = 3 -> 1/p = 1 + C / 4.
    c = (math.log(20) - 1) * 2
    model = PropensityModel(A=1.0, B=1.0)
    np.testing.assert_allclose(model.inverse([0, 3], 20), [1 + c, 1 + c / 4], rtol=1e-15)
    np.testing.assert_allclose(model.propensities([0, 3], 20), [1 / (1 + c), 1 / (1 + c / 4)], rtol=1e-15)


def test_agrees_with_the_usual_code_of_the_field() -> None:
    from napkinxc.metrics import Jain_et_al_inverse_propensity

    Y = (np.random.default_rng(0).random((400, 30)) < np.linspace(0.005, 0.5, 30)).astype(np.float32)
    ours = PropensityModel(0.5, 0.4).inverse(Y.sum(axis=0), 400)
    np.testing.assert_allclose(ours, Jain_et_al_inverse_propensity(Y, A=0.5, B=0.4), rtol=1e-6)


def test_rarer_labels_are_missed_more_and_everything_lies_in_range() -> None:
    p = PropensityModel().propensities(np.arange(1000), 1000)
    assert (np.diff(p) > 0).all()
    assert p[0] > 0
    assert p[-1] < 1


@pytest.mark.parametrize("n_points", [1, 2])
def test_two_points_cannot_say_that_labels_are_missing(n_points: int) -> None:
    assert (PropensityModel().propensities([0, 1], n_points) == 1).all()


@pytest.mark.parametrize("B", [-0.8, 0.0])
def test_negative_b_takes_a_label_without_points_as_one_with_one(B: float) -> None:
    p = PropensityModel(0.3, B).propensities([0, 1, 2], 1000)
    assert p[0] == p[1] == pytest.approx(1 / math.log(1000))  # C (1 + B)^-A = log N - 1, whatever A and B
    assert p[1] < p[2] < 1


def test_presets() -> None:
    assert PropensityModel.preset("wikipedia") == PropensityModel(0.5, 0.4)
    assert PropensityModel.preset("amazon") == PropensityModel(0.6, 2.6)
    assert PropensityModel.preset("default") == PropensityModel()
    with pytest.raises(ParameterError, match='did you mean "amazon"'):
        PropensityModel.preset("amazn")


@pytest.mark.parametrize("parameters", [(0, 1), (-1, 1), (0.5, -1), (0.5, np.inf), (np.nan, 1), ("0.5", 1), (True, 1)])
def test_parameters_out_of_range(parameters: tuple[float, float]) -> None:
    with pytest.raises(ParameterError, match="must be a number above"):
        PropensityModel(*parameters)


@pytest.mark.parametrize(
    ("counts", "n_points", "message"),
    [
        ([1, -1], 10, "label 1 has -1 points"),
        ([1, 11], 10, "0 to 10"),
        ([np.nan], 10, "label 0"),
        ([[1]], 10, "shape"),
        ([1], 0, "n_points is 0"),
        ([1], 2.5, "n_points is 2.5"),
    ],
)
def test_counts_out_of_range(counts: list[float], n_points: int, message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        PropensityModel().propensities(counts, n_points)


def test_travels_as_json() -> None:
    assert codec.decode(codec.encode(PropensityModel(0.6, 2.6))) == PropensityModel(0.6, 2.6)


def test_propensities_from_every_form() -> None:
    counts, n_points = [1, 5, 9], 50
    model = PropensityModel(0.6, 2.6)
    expected = model.propensities(counts, n_points)
    for form in (model, (0.6, 2.6), "amazon", expected, list(expected)):
        np.testing.assert_array_equal(propensities_from(form, counts, n_points), expected)
    np.testing.assert_array_equal(propensities_from(None, counts, n_points), [1, 1, 1])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.5, 0.0, 1.0], "label 1 is 0"),
        ([0.5, 1.0, 1.5], "label 2 is 1.5"),
        ([0.5, np.nan, 1], "label 1 is nan"),
        ([0.5], "3 labels"),
        ((0.5, 1.0, 1.0), r"\(A, B\)"),
        ([object()] * 3, "PropensityModel"),
    ],
)
def test_propensities_from_refuses(value: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        propensities_from(value, [1, 2, 3], 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "planted",
    [PropensityModel(0.55, 1.5), PropensityModel(0.5, 0.4), PropensityModel(0.8, 10.0), PropensityModel(0.2, -0.7)],
)
def test_fit_finds_the_planted_model(planted: PropensityModel) -> None:
    n_points = 1_000_000
    counts = np.round(np.geomspace(1, 40_000, 2_000))
    fit = fit_propensities(counts, counts / planted.propensities(counts, n_points), n_points)
    # Not exact: the average of a curve over a bin is not the curve at the average frequency.
    assert pytest.approx(planted.A, rel=0.01) == fit.model.A
    assert pytest.approx(planted.B, rel=0.02, abs=0.02) == fit.model.B
    assert fit.r2 > 0.9999
    assert fit.rmse < 1e-3
    assert fit.n_labels == 2_000
    assert fit.frequency.size == 100


def test_fit_under_binomial_noise() -> None:
    rng, planted, n_points = np.random.default_rng(0), PropensityModel(0.55, 1.5), 100_000
    complete = np.round(np.geomspace(5, 20_000, 3_000)).astype(np.int64)
    p = np.ones(complete.size)
    for _ in range(50):  # the propensity depends on the observed count: iterate to the pair that agrees
        p = planted.propensities(p * complete, n_points)
    fit = fit_propensities(rng.binomial(complete, p), complete, n_points)
    observed = np.geomspace(3, 10_000, 50)
    difference = fit.model.propensities(observed, n_points) - planted.propensities(observed, n_points)
    assert np.abs(difference).max() < 0.03
    assert fit.r2 > 0.98


def test_bins_are_of_equal_height_and_hold_averages() -> None:
    counts = np.array([4, 1, 0, 2, 3, 6, 5, 7])  # the 0 is left out; 7 labels make 3 bins, the last one of 3
    fit = fit_propensities(counts, np.full(8, 10), 100, labels_per_bin=2)
    np.testing.assert_allclose(fit.frequency, [1.5, 3.5, 6.0])
    np.testing.assert_allclose(fit.propensity, [0.15, 0.35, 0.6])
    assert fit.n_labels == 7


def test_quality_is_measured_against_the_averages() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 1000, 400)
    fit = fit_propensities(counts, counts / rng.uniform(0.1, 1, 400), 10_000, labels_per_bin=20)
    residual = fit.model.propensities(fit.frequency, 10_000) - fit.propensity
    assert fit.rmse == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert fit.r2 == pytest.approx(1 - np.mean(residual**2) / fit.propensity.var())
    assert fit.r2 < 0.5  # propensities drawn without regard to frequency cannot be explained by it


@pytest.mark.parametrize(
    ("counts", "complete", "options", "message"),
    [
        ([1, 2, 3], [1, 2, 2], {"labels_per_bin": 1}, "label 2 has 3 points, more than the 2"),
        ([1, 2], [1, 2, 3], {}, "2 counts, but 3 complete"),
        ([1] * 59, [2] * 59, {}, "59 labels with points give 2 bins of 20"),
        ([1], [1], {"labels_per_bin": 0}, "labels_per_bin is 0"),
        ([1], [99], {}, "complete_counts: label 0"),
    ],
)
def test_fit_refuses(counts: list[int], complete: list[int], options: dict[str, int], message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        fit_propensities(counts, complete, 50, **options)
