"""scikit-learn's own checks, on the estimator that answers as its classifiers do, and where they do not apply."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator

import longtail

ONE_CLASS_PER_POINT = "gives one class per point as y, not a 0/1 matrix or lists of labels"
SPARSE = "expects a dense array; with very many labels only a sparse matrix fits into memory"
WORDING = "expects scikit-learn's wording of an error that longtail reports in its own"
NOT_APPLICABLE = {
    "check_classifier_data_not_an_array": ONE_CLASS_PER_POINT,
    "check_classifier_not_supporting_multiclass": ONE_CLASS_PER_POINT,
    "check_classifiers_classes": ONE_CLASS_PER_POINT,
    "check_classifiers_one_label": ONE_CLASS_PER_POINT,
    "check_classifiers_train": ONE_CLASS_PER_POINT,
    "check_dtype_object": "y is one class per point, and X holds objects; longtail takes numbers or texts",
    "check_estimators_dtypes": ONE_CLASS_PER_POINT,
    "check_fit2d_1feature": ONE_CLASS_PER_POINT,
    "check_fit_score_takes_y": "scores with accuracy against one class per point",
    "check_pipeline_consistency": "scores with accuracy against one class per point",
    "check_classifier_multioutput": SPARSE,
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifiers_multilabel_representation_invariance": "rows of 0 and 1 as lists are refused: lists hold labels",
    "check_classifiers_regression_target": WORDING,
    "check_complex_data": WORDING,
    "check_fit2d_predict1d": WORDING,
    "check_n_features_in_after_fitting": WORDING,
    "check_requires_y_none": WORDING,
    "check_estimators_empty_data_messages": "points without any feature can be learned from: labels by frequency",
}


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns of checks that are expected to fail, and of those it skips
def test_scikit_learns_checks_hold_where_they_apply():
    model = longtail.IndicatorClassifier(model=longtail.DiSMEC(n_jobs=1), k=2)
    results = check_estimator(model, expected_failed_checks=NOT_APPLICABLE, on_fail="raise")
    passed = {result["check_name"] for result in results if result["status"] == "passed"}
    assert len(passed) >= 30
    assert not passed & NOT_APPLICABLE.keys(), "checks that pass need no excuse"
