"""Values worked out by hand on the case of cases.py, and what happens at the edges."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from scipy import sparse

from longtail import metrics
from longtail.errors import DataError, ParameterError
from longtail.metrics import KnownCounts, KnownRetention, Matches
from metrics.cases import PAPER_INVERSE, PAPER_PREDICTIONS, PAPER_Y, predictions, random_case

COUNTS = KnownCounts([5, 2, 1])
RETENTION = KnownRetention([0.5, 1.0, 0.25, 0.2, 0.4])
D2, D3 = 1 / log2(3), 1 / log2(4)


@pytest.fixture
def matches() -> Matches:
    return Matches.of(predictions(PAPER_PREDICTIONS), PAPER_Y, inverse_propensities=PAPER_INVERSE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("P@1", 1 / 3),
        ("P@3", (2 / 3 + 1 / 3) / 3),
        ("R@3", (2 / 4 + 1 / 1) / 3),
        ("nDCG@3", ((1 + D3) / (1 + D2 + D3) + D2 / 1) / 3),
        ("abandonment@1", 2 / 3),
        ("abandonment@2", 1 / 3),
        # gains 2 + 4 and 3; the best of point 0 are 5, 4, 3, of point 1 its only label, 3
        ("PSP@1", 2 / (5 + 3)),
        ("PSP@3", (6 + 3) / (12 + 3)),
        ("PSR@3", (6 / 4 + 3) / (12 / 4 + 3)),
        ("PSnDCG@3", ((2 + 4 * D3) / (1 + D2 + D3) + 3 * D2) / ((5 + 4 * D2 + 3 * D3) / (1 + D2 + D3) + 3)),
        ("unbiased-P@3", (6 / 3 + 3 / 3) / 3),
        ("unbiased-nDCG@3", ((2 + 4 * D3) + 3 * D2) / (1 + D2 + D3) / 3),
        # labels 0, 2, 4 are hit; 0, 2, 3, 4 are true; 0 and 2 are predicted twice each, 1 twice, 3 and 4 once
        ("coverage@3", 3 / 4),
        ("coverage@1", 1 / 4),
        ("macro-P@3", (1 / 2 + 0 + 1 / 2 + 0 + 1) / 5),
        ("macro-R@3", (1 + 0 + 1 + 0 + 1 / 2) / 5),
        ("macro-F1@3", (2 / 3 + 0 + 2 / 3 + 0 + 2 / 3) / 5),
    ],
)
def test_value(matches: Matches, name: str, expected: float) -> None:
    assert metrics.score(matches, name) == pytest.approx(expected, abs=1e-12)
    assert metrics.score(matches, name.upper()) == metrics.score(matches, name)


@pytest.mark.parametrize(
    ("metric", "k", "assumption", "expected"),
    [
        (metrics.unbiased_recall, 3, COUNTS, ((2 + 4) / 5 + 3 / 2) / 3),
        (metrics.unbiased_recall, 2, COUNTS, (2 / 5 + 3 / 2) / 3),
        (metrics.unbiased_recall, 3, RETENTION, ((2 + 4) + 2.5) / 3),
        (metrics.unbiased_mrr, 3, COUNTS, ((2 + 4 / 3) / 5 + 3 / 2 / 2) / 3),
        (metrics.unbiased_mrr, 3, RETENTION, ((2 + 4 / 3) + 2.5 / 2) / 3),
        (metrics.unbiased_adg, 3, COUNTS, ((2 + 4 * D3) / 5 + 3 * D2 / 2) / 3),
        (metrics.unbiased_adg, 3, RETENTION, ((2 + 4 * D3) + 2.5 * D2) / 3),
        # the second row has only two predictions
        (metrics.unbiased_f, 3, COUNTS, (2 * 6 / (5 + 3) + 2 * 3 / (2 + 2)) / 3),
    ],
)
def test_estimates_beyond_propensities(matches, metric, k, assumption, expected) -> None:
    assert metric(matches, k, assumption).value == pytest.approx(expected, abs=1e-12)


def test_unbiased_ndcg_divides_by_k_labels_also_where_no_point_has_as_many() -> None:
    single = Matches.of(predictions([[0, 1, 2]]), [[0]], inverse_propensities=[4.0])
    assert metrics.score(single, "unbiased-nDCG@3") == pytest.approx(4 / (1 + D2 + D3))
    assert metrics.ps_ndcg(single, 3, normalized=False).value == pytest.approx(4)


def test_unbiased_hamming_loss(matches: Matches) -> None:
    # point 0: false 1, hits 1 - 2 and 1 - 4, missed 5 + 3; point 1: false 1, hit 1 - 3; point 2: three false
    assert metrics.unbiased_hamming(matches, 3).value == pytest.approx(((1 - 1 - 3 + 8) + (1 - 2) + 3) / 3)


def test_f_score_needs_known_counts(matches: Matches) -> None:
    with pytest.raises(ParameterError, match="KnownCounts"):
        metrics.unbiased_f(matches, 3, RETENTION)


@pytest.mark.parametrize(
    ("assumption", "message"),
    [
        (KnownCounts([3, 2, 1]), "point 0 has 4 observed labels"),
        (KnownCounts([5, 2]), "there are 3 points"),
        (KnownRetention([1.0, 1.0]), "Y has 5 labels"),
        (KnownRetention([1.0, 1.0, 0.0, 1.0, 1.0]), "greater than 0"),
    ],
)
def test_assumptions_that_cannot_hold(matches: Matches, assumption, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        metrics.unbiased_recall(matches, 3, assumption)


def test_evaluate_gives_percent_under_the_agreed_keys() -> None:
    ranked = predictions(PAPER_PREDICTIONS)
    plain = metrics.evaluate(ranked, PAPER_Y, ks=(1, 3))
    scored = metrics.evaluate(ranked, PAPER_Y, ks=(1, 3), inverse_propensities=PAPER_INVERSE)
    assert list(plain) == [
        f"{m}@{k}"
        for m in ("P", "nDCG", "R", "coverage", "abandonment", "macro-P", "macro-R", "macro-F1")
        for k in (1, 3)
    ]
    assert set(scored) - set(plain) == {f"{m}@{k}" for m in ("PSP", "PSnDCG", "PSR") for k in (1, 3)}
    assert plain["P@3"] == pytest.approx(100 / 3)
    assert scored["PSP@3"] == pytest.approx(60)


def test_labels_on_one_side_only_are_misses() -> None:
    ranked = predictions([[7, 0], [1, 2]])
    wide = metrics.evaluate(ranked, sparse.csr_matrix(([1, 1], ([0, 1], [0, 9])), shape=(2, 10)), ks=(2,))
    assert wide["P@2"] == pytest.approx(25)
    assert wide["coverage@2"] == pytest.approx(50)
    narrow = metrics.evaluate(ranked, [[0], [1]], ks=(2,), inverse_propensities=[2.0, 2.0])
    assert narrow["P@2"] == pytest.approx(50)
    assert narrow["macro-P@2"] == pytest.approx(100 * 2 / 8), "labels 0..7 exist, two of them are predicted rightly"


def test_a_test_set_without_labels_scores_zero() -> None:
    result = metrics.evaluate(
        predictions([[0, 1]]), sparse.csr_matrix((1, 3)), ks=(1, 2), inverse_propensities=np.ones(3)
    )
    assert all(value == (100.0 if name.startswith("abandonment") else 0.0) for name, value in result.items())


def test_cut_predictions_are_refused_but_complete_rankings_are_not() -> None:
    ranked = predictions([[0, 1]])
    with pytest.raises(ParameterError, match="needs 3 predictions per point, but there are 2"):
        metrics.evaluate(ranked, sparse.csr_matrix([[1, 0, 0]]), ks=(3,))
    whole = metrics.evaluate(ranked, sparse.csr_matrix([[1, 1]]), ks=(3,), inverse_propensities=[1.0, 1.0])
    assert whole["P@3"] == pytest.approx(100 * 2 / 3)
    assert whole["nDCG@3"] == whole["PSnDCG@3"] == whole["R@3"] == whole["PSP@3"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"ks": (0,)}, ParameterError, "k is 0"),
        ({"ks": (2, "3")}, ParameterError, "k is '3'"),
        ({"ks": ()}, ParameterError, "ks is empty"),
        ({"ks": 3}, ParameterError, "must be a list of cut-offs"),
        ({"ks": (1,), "inverse_propensities": [1.0, 2.0]}, ParameterError, "2 inverse propensities for the 5 labels"),
        ({"ks": (1,), "inverse_propensities": [1, 1, 0.5, 1, 1]}, ParameterError, "of label 2 is 0.5"),
        ({"ks": (1,), "inverse_propensities": [1, np.nan, 1, 1, 1]}, ParameterError, "of label 1 is nan"),
        ({"ks": (1,), "inverse_propensities": np.ones((5, 1))}, ParameterError, "one number per label"),
    ],
)
def test_arguments_that_cannot_be_used(arguments, error, message: str) -> None:
    with pytest.raises(error, match=message):
        metrics.evaluate(predictions(PAPER_PREDICTIONS), PAPER_Y, **arguments)


def test_data_that_does_not_match() -> None:
    with pytest.raises(DataError, match="for 3 points, but Y has 2"):
        metrics.evaluate(predictions(PAPER_PREDICTIONS), PAPER_Y[:2])
    with pytest.raises(DataError, match="point 1 has the same label predicted twice"):
        metrics.evaluate(predictions([[0, 1], [3, 3]]), [[0], [3]])
    with pytest.raises(DataError, match="no points"):
        metrics.evaluate(predictions(PAPER_PREDICTIONS)[:0], sparse.csr_matrix((0, 5)))


@pytest.mark.parametrize("name", ["Q@3", "P", "P@", "P@0", "P@x", "psp@-1", ""])
def test_names_that_are_not_metrics(matches: Matches, name: str) -> None:
    with pytest.raises(ParameterError, match=r"unknown metric|cut-off"):
        metrics.score(matches, name)


def test_propensity_scored_metrics_ask_for_propensities() -> None:
    with pytest.raises(ParameterError, match="needs inverse_propensities"):
        metrics.score(Matches.of(predictions(PAPER_PREDICTIONS), PAPER_Y), "PSP@1")


def test_relative_change_gives_the_numbers_of_the_paper() -> None:
    # Qaraei et al. 2021, table 5, EURLex-4K, "Original" and "PW-cb": its columns "PS" and "vanilla" say 6.85, -1.55.
    columns = ("PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5", "P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")
    base = dict(zip(columns, (42.17, 49.77, 52.86, 47.72, 49.87, 86.95, 74.37, 62.07, 77.28, 68.04), strict=True))
    method = dict(zip(columns, (46.80, 52.52, 54.07, 50.96, 52.12, 86.06, 73.24, 60.61, 76.19, 66.68), strict=True))
    for result in (base, method):
        result.update({"nDCG@1": result["P@1"], "PSnDCG@1": result["PSP@1"]})
    change = metrics.relative_change(method, base)
    assert 100 * change.propensity_scored == pytest.approx(6.85, abs=0.005)
    assert 100 * change.vanilla == pytest.approx(-1.55, abs=0.005)
    with pytest.raises(ParameterError, match="PSP@1 of the base is 0"):
        metrics.relative_change(method, base | {"PSP@1": 0.0})
    with pytest.raises(ParameterError, match="nDCG@5 is missing"):
        metrics.relative_change({k: v for k, v in method.items() if k != "nDCG@5"}, base)


def test_the_cut_does_not_depend_on_what_lies_behind_it() -> None:
    ranked, Y, inverse = random_case(3)
    whole = metrics.evaluate(ranked, Y, ks=(1, 3), inverse_propensities=inverse)
    assert whole == pytest.approx(metrics.evaluate(ranked.top(3), Y, ks=(1, 3), inverse_propensities=inverse))


def test_an_array_in_place_of_predictions_is_an_error_that_says_what_to_make_of_it():
    with pytest.raises(DataError, match=r"from_dense\(scores, k\)"):
        metrics.evaluate(np.zeros((2, 3)), np.eye(2, 3))
