"""Fronts, picks and what a fit is told to be worth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from longtail.errors import ParameterError
from longtail.tune.curve import at_price, mean_curve, told
from longtail.tune.front import Found, check_rule, front, pick, thinned

OBJECTIVES = ["P@1", "PSP@1"]


def found(*pairs):
    return [
        Found(i, "dismec", {}, {"metrics": {"P@1": p, "PSP@1": s}, "exponent": i / 10}, {"seconds": 1.0}, False)
        for i, (p, s) in enumerate(pairs)
    ]


def test_the_front_is_what_no_point_beats():
    values = np.random.default_rng(0).integers(0, 8, (60, 2)).astype(float)
    points = found(*values)
    kept = {tuple(f.point["metrics"].values()) for f in front(points, OBJECTIVES)}
    beaten = {tuple(a) for a, b in itertools.product(values, values) if (b >= a).all() and (b > a).any()}
    assert kept == {tuple(v) for v in values} - beaten


def test_each_rule_picks_its_point():
    points = found((90, 10), (89.5, 40), (89, 41), (80, 60), (70, 62))
    assert pick(points, OBJECTIVES, "P@1", 1.0).trial == 0
    assert pick(points, OBJECTIVES, "PSP@1", 1.0).trial == 4
    assert pick(points, OBJECTIVES, "price", 1.0).trial == 2
    assert pick(points, OBJECTIVES, "price", 0.6).trial == 1
    assert pick(points, OBJECTIVES, "knee", 1.0).trial == 1  # 19.5/20 + 30/52 of the way from the worst


def test_a_metric_where_less_is_better_is_lowered():
    points = [{"metrics": {"abandonment@1": value}} for value in (30.0, 10.0, 20.0)]
    assert told(points, ["abandonment@1"], 1.0) == [-10.0]


def test_what_a_fit_is_worth_is_at_the_price():
    curve = [f.point for f in found((90, 10), (89.5, 40), (80, 60))]
    assert told(curve, OBJECTIVES, 1.0) == [90, 40]
    assert told(curve, OBJECTIVES, 0.0) == [90, 10]
    assert told(curve, OBJECTIVES, 10.0) == [90, 60]
    assert at_price(curve, OBJECTIVES, 1.0, best=95) == []


def test_curves_of_folds_are_averaged_by_their_points():
    first, second = ([{"metrics": {"P@1": value}, "exponent": 0.5}] for value in (80.0, 90.0))
    assert mean_curve([first, second], [30, 10]) == [{"metrics": {"P@1": 82.5}, "exponent": 0.5}]


def test_a_rule_that_the_objectives_do_not_have_is_refused():
    assert check_rule("psp@1", OBJECTIVES) == "PSP@1"
    with pytest.raises(ParameterError, match="--pick P@3 cannot be used with"):
        check_rule("P@3", OBJECTIVES)
    with pytest.raises(ParameterError, match="--pick price cannot be used with"):
        check_rule("price", ["P@1"])


def test_a_thinned_front_keeps_its_ends():
    points = found(*((i, 100 - i) for i in range(50)))
    kept = thinned(points, 5, [points[7]])
    assert {points[0].trial, points[49].trial, 7} <= {f.trial for f in kept}
    assert len(kept) == 6
