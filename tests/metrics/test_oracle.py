"""Agreement with napkinxc, which implements the field's usual code, on random data with all kinds of unusual rows."""

from __future__ import annotations

import numpy as np
import pytest
from napkinxc import metrics as napkinxc
from scipy import sparse

from longtail.core.predictions import Predictions
from longtail.metrics import Matches, evaluate, ps_ndcg, ps_precision, ps_recall
from metrics.cases import random_case

KS = (1, 2, 3, 4, 5)


def as_lists(predictions: Predictions, Y: sparse.csr_matrix) -> tuple[list[list[int]], list[list[int]]]:
    truth = [Y[i].indices.tolist() for i in range(Y.shape[0])]
    return truth, [[label for label in row.tolist() if label >= 0] for row in predictions.labels]


@pytest.mark.parametrize("seed", range(8))
def test_plain_metrics_agree(seed: int) -> None:
    predictions, Y, _ = random_case(seed)
    assert (np.diff(Y.indptr) == 0).any()
    assert (predictions.labels[:, :5] < 0).any()
    truth, predicted = as_lists(predictions, Y)
    ours = evaluate(predictions, Y, ks=KS)
    for name, oracle in (
        ("P", napkinxc.precision_at_k),
        ("nDCG", napkinxc.ndcg_at_k),
        ("R", napkinxc.recall_at_k),
        ("coverage", napkinxc.coverage_at_k),
        ("macro-P", napkinxc.macro_precision_at_k),
        ("macro-R", napkinxc.macro_recall_at_k),
        ("macro-F1", napkinxc.macro_f1_measure_at_k),
    ):
        expected = 100 * oracle(truth, predicted, k=5)
        np.testing.assert_allclose([ours[f"{name}@{k}"] for k in KS], expected, atol=1e-6, err_msg=name)
    # Deliberately the complement: abandonment is leaving without a hit.
    complement = 100 * (1 - napkinxc.abandonment_at_k(truth, predicted, k=5))
    np.testing.assert_allclose([ours[f"abandonment@{k}"] for k in KS], complement, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_propensity_scored_metrics_agree(seed: int) -> None:
    predictions, Y, inverse = random_case(seed)
    truth, predicted = as_lists(predictions, Y)
    ours = evaluate(predictions, Y, inverse_propensities=inverse, ks=KS)
    matches = Matches.of(predictions, Y, inverse_propensities=inverse)
    for name, metric, oracle in (
        ("PSP", ps_precision, napkinxc.psprecision_at_k),
        ("PSnDCG", ps_ndcg, napkinxc.psndcg_at_k),
        ("PSR", ps_recall, napkinxc.psrecall_at_k),
    ):
        expected = 100 * oracle(truth, predicted, inverse, k=5)
        np.testing.assert_allclose([ours[f"{name}@{k}"] for k in KS], expected, atol=1e-6, err_msg=name)
        plain = oracle(truth, predicted, inverse, k=5, normalize=False)
        np.testing.assert_allclose([metric(matches, k, normalized=False).value for k in KS], plain, atol=1e-8)
