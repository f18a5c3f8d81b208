"""Metrics of predictions: ranking, propensity-scored, unbiased and label-wise, with confidence intervals.

`evaluate(predictions, Y)` returns the usual metrics in percent. For others, match once and compute any number of them:

    matches = Matches.of(predictions, Y, inverse_propensities=inverse)
    score(matches, "PSP@3")                                            # a fraction
    bootstrap({"PSP@3": terms(matches, "PSP@3")})                      # with its interval
    by_band(matches, 5, training_counts)                               # head, torso, tail
"""

from longtail.metrics.calibration import Reliability, calibration_error, reliability
from longtail.metrics.intervals import Interval, bootstrap, hoeffding, paired_bootstrap
from longtail.metrics.labelwise import (
    BAND_NAMES,
    by_band,
    coverage,
    frequency_bands,
    label_table,
    label_terms,
    macro_f1,
    macro_precision,
    macro_recall,
)
from longtail.metrics.matches import Matches
from longtail.metrics.named import RelativeChange, evaluate, relative_change, score, terms
from longtail.metrics.pointwise import Terms
from longtail.metrics.propensity import ps_ndcg, ps_precision, ps_recall, unbiased_ndcg, unbiased_precision
from longtail.metrics.ranking import abandonment, ndcg, precision, recall
from longtail.metrics.scorers import Scorer, scorer
from longtail.metrics.sets import evaluate_sets
from longtail.metrics.unbiased import (
    KnownCounts,
    KnownRetention,
    unbiased_adg,
    unbiased_f,
    unbiased_hamming,
    unbiased_mrr,
    unbiased_recall,
)
from longtail.metrics.validation import cross_val_score

__all__ = [
    "BAND_NAMES",
    "Interval",
    "KnownCounts",
    "KnownRetention",
    "Matches",
    "RelativeChange",
    "Reliability",
    "Scorer",
    "Terms",
    "abandonment",
    "bootstrap",
    "by_band",
    "calibration_error",
    "coverage",
    "cross_val_score",
    "evaluate",
    "evaluate_sets",
    "frequency_bands",
    "hoeffding",
    "label_table",
    "label_terms",
    "macro_f1",
    "macro_precision",
    "macro_recall",
    "ndcg",
    "paired_bootstrap",
    "precision",
    "ps_ndcg",
    "ps_precision",
    "ps_recall",
    "recall",
    "relative_change",
    "reliability",
    "score",
    "scorer",
    "terms",
    "unbiased_adg",
    "unbiased_f",
    "unbiased_hamming",
    "unbiased_mrr",
    "unbiased_ndcg",
    "unbiased_precision",
    "unbiased_recall",
]
