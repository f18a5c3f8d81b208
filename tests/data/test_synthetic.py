from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from longtail.core.popularity import Popularity
from longtail.core.predictions import Predictions
from longtail.data.synthetic import SyntheticLongtail, make_longtail
from longtail.errors import ParameterError
from longtail.features import TextFeatures
from longtail.objectives import PW, PropensityModel, Unweighted, Weighting, fit_propensities, hierarchy_counts


@pytest.fixture(scope="module")
def small() -> SyntheticLongtail:
    return make_longtail(2_500, 2_500, 250, random_state=3)


def counts(Y: sparse.csr_matrix) -> NDArray[np.int64]:
    return np.bincount(Y.indices, minlength=Y.shape[1])


def same(A: sparse.csr_matrix, B: sparse.csr_matrix) -> bool:
    return A.shape == B.shape and (A != B).nnz == 0


def test_shapes_and_defaults() -> None:
    made = make_longtail()
    assert made.train.X.shape == (6_000, 5_000)
    assert made.test.X.shape == (2_000, 5_000)
    assert made.train.Y.shape == made.train_complete_Y.shape == (6_000, 1_000)
    assert made.test.Y.shape == made.test_complete_Y.shape == (2_000, 1_000)
    assert made.propensities.shape == (1_000,)
    assert made.train.label_names == made.test.label_names
    assert made.train.label_names[7] == "subject-007"


def test_rows_are_unit_norm_and_canonical(small: SyntheticLongtail) -> None:
    X = small.train.X
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)), 1, rtol=1e-5)
    assert X.dtype == np.float32
    assert sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape).has_canonical_format


def test_same_seed_same_data_other_seed_other_data() -> None:
    a, b, c = (make_longtail(300, 200, 40, random_state=seed) for seed in (1, 1, 2))
    assert same(a.train.X, b.train.X)
    assert same(a.test.Y, b.test.Y)
    assert same(a.train_complete_Y, b.train_complete_Y)
    assert not same(a.train_complete_Y, c.train_complete_Y)
    assert not same(a.train.X, c.train.X)


def slope_of_frequencies(exponent: float) -> float:
    made = make_longtail(40_000, 500, 500, exponent=exponent, propensity=None)
    frequencies = np.sort(counts(made.train_complete_Y))[::-1]
    rank = np.arange(300)
    return float(np.polyfit(np.log(rank + 1 + 4.5), np.log(frequencies[rank]), 1)[0])  # the shift of 45 roots


def test_label_frequencies_follow_the_power_law() -> None:
    flat, middle, steep = (slope_of_frequencies(exponent) for exponent in (0.7, 1.0, 1.3))
    assert middle == pytest.approx(-1.0, abs=0.1)
    assert steep == pytest.approx(-1.3, abs=0.1)
    assert -1.0 < flat < -0.7  # as documented: heavier in the head than asked for


def test_no_label_is_on_most_points() -> None:
    made = make_longtail(propensity=None)
    assert 0.05 < made.train.label_counts.max() / made.train.n_points < 0.2


@pytest.mark.parametrize("labels_per_point", [2.5, 5.0, 12.0])
def test_mean_number_of_complete_labels(labels_per_point: float) -> None:
    made = make_longtail(20_000, 100, 300, labels_per_point=labels_per_point)
    per_point = np.diff(made.train_complete_Y.indptr)
    assert per_point.mean() == pytest.approx(labels_per_point, rel=0.02)
    assert per_point.min() >= 1


def test_observed_labels_are_complete_ones_kept_with_their_propensity() -> None:
    made = make_longtail(30_000, 100, 100, propensity=np.linspace(0.2, 1.0, 100))
    assert made.train.Y.multiply(made.train_complete_Y).nnz == made.train.Y.nnz
    complete, kept = counts(made.train_complete_Y), made.train.label_counts
    p = made.propensities
    deviation = (kept - complete * p) / np.sqrt(complete * p * (1 - p) + 1e-9)
    assert np.abs(deviation).max() < 4.5  # standard deviations of the binomial, over 100 labels
    assert kept[-1] == complete[-1]


def test_the_propensity_model_holds_for_the_observed_counts() -> None:
    model = PropensityModel(0.5, 0.4)
    made = make_longtail(50_000, 100, 200, propensity=model)
    frequent = made.train.label_counts > 200
    met = model.propensities(made.train.label_counts, 50_000)
    np.testing.assert_allclose(met[frequent], made.propensities[frequent], rtol=0.05)
    assert frequent.sum() > 20
    drop = counts(made.test_complete_Y)[frequent].sum() - counts(made.test.Y)[frequent].sum()
    assert drop > 0  # test labels are missing as well


def test_nothing_is_missing_without_propensities() -> None:
    made = make_longtail(500, 100, 30, propensity=None)
    assert same(made.train.Y, made.train_complete_Y)
    assert (made.propensities == 1).all()


def test_complete_labels_obey_the_hierarchy_and_observed_ones_do_not(small: SyntheticLongtail) -> None:
    names, parents = small.train.label_names, small.train.label_parents
    complete = hierarchy_counts(small.train_complete_Y, names, parents)
    assert complete.labels.size >= 20
    np.testing.assert_array_equal(complete.counts, complete.complete_counts)
    observed = hierarchy_counts(small.train.Y, names, parents)
    assert (observed.complete_counts > observed.counts).mean() > 0.9


def test_the_fit_finds_the_planted_curve_in_complete_counts_and_an_upper_bound_in_the_hierarchy() -> None:
    made = make_longtail(40_000, 100, 1_500)
    fit = fit_propensities(made.train.label_counts, counts(made.train_complete_Y), 40_000)
    n = np.geomspace(5, 3_000, 50)
    assert np.abs(fit.model.propensities(n, 40_000) - PropensityModel().propensities(n, 40_000)).max() < 0.04
    assert fit.r2 > 0.95
    # A point where neither the label nor a descendant was observed cannot be counted, so n* is too small.
    seen = hierarchy_counts(made.train.Y, made.train.label_names, made.train.label_parents)
    estimate, truth = seen.counts / seen.complete_counts, made.propensities[seen.labels]
    assert (seen.complete_counts <= counts(made.train_complete_Y)[seen.labels]).all()
    assert estimate.mean() > 1.5 * truth.mean()


def test_texts_hold_the_same_words_as_the_features() -> None:
    sizes = {"n_points": 400, "n_features": 300, "n_labels": 40, "random_state": 5}
    rows, texts = make_longtail(**sizes), make_longtail(**sizes, kind="text")
    assert same(rows.train.Y, texts.train.Y)
    assert texts.train.X is None
    assert len(texts.test.texts) == rows.test.n_points
    features = TextFeatures(min_df=1, max_df=1.0).fit(texts.train.texts)
    used = np.flatnonzero(counts(rows.train.X))
    # The columns have another order, and those of no training text are missing: compare what does not depend on it.
    assert features.n_features_ == used.size
    np.testing.assert_allclose(
        np.sort(features.transform(texts.train.texts).toarray(), axis=1),
        np.sort(rows.train.X[:, used].toarray(), axis=1),
        atol=1e-5,
    )
    words = set(" ".join(texts.train.texts).split())
    assert len(texts.train.label_texts) == 40
    assert sum(word in words for text in texts.train.label_texts for word in text.split()) > 100


def train_and_rank(made: SyntheticLongtail, weighting: Weighting) -> Predictions:
    """One LinearSVC per label, positive class weighted; its C = 0.5 is DiSMEC's C = 1 (|w|^2 without the half)."""
    own, _ = weighting.coefficients(made.train.label_counts, made.train.n_points)
    columns = made.train.Y.tocsc()
    scores = np.full((made.test.n_points, made.test.n_labels), -10.0)
    for label in np.flatnonzero(made.train.label_counts):
        y = columns[:, label].toarray().ravel()
        machine = LinearSVC(C=0.5, class_weight={1.0: own[label]}, tol=1e-2).fit(made.train.X, y)
        scores[:, label] = machine.decision_function(made.test.X)
    return Predictions.from_dense(scores, 5)


def hits(predictions: Predictions, Y: sparse.csr_matrix) -> Any:
    """(n, k): whether the prediction is a label of the point."""
    return np.take_along_axis(Y.toarray(), predictions.labels.astype(np.int64), axis=1) > 0


def test_learnable_with_a_hard_tail_that_propensity_weighting_helps(small: SyntheticLongtail) -> None:
    inverse = PropensityModel().inverse(small.train.label_counts, small.train.n_points)
    plain, weighted = train_and_rank(small, Unweighted()), train_and_rank(small, PW())
    popular = Popularity().fit(small.train.X, small.train.Y).predict(small.test.X, k=5)

    def psp5(predictions: Predictions) -> float:
        """Propensity-scored precision up to its constant."""
        return float((hits(predictions, small.test.Y) * inverse[predictions.labels]).sum())

    def recall(predictions: Predictions, labels: NDArray[np.bool_]) -> float:
        found = hits(predictions, small.test_complete_Y) & labels[predictions.labels]
        return float(found.sum() / small.test_complete_Y[:, labels].sum())

    assert hits(plain, small.test.Y)[:, 0].mean() > 2 * hits(popular, small.test.Y)[:, 0].mean()
    head, tail = small.train.label_counts >= 30, small.train.label_counts < 5
    assert recall(plain, tail) < 0.5 * recall(plain, head)
    assert psp5(weighted) > 1.01 * psp5(plain) > psp5(popular)
    assert recall(weighted, tail) > 1.05 * recall(plain, tail)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_points": 0}, "n_points is 0"),
        ({"n_labels": 2.5}, "n_labels is 2.5"),
        ({"n_test_points": 0}, "n_test_points is 0"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": "a"}, "random_state is 'a'"),
        ({"kind": "images"}, "kind is 'images'"),
        ({"exponent": -1}, "exponent is -1"),
        ({"labels_per_point": 1.0}, "ancestors"),
        ({"n_labels": 4, "labels_per_point": 5.0}, "less than 4"),
        ({"propensity": [0.5]}, "1000 labels"),
    ],
)
def test_refuses(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_longtail(**parameters)


@pytest.mark.parametrize("n_labels", [1, 2, 6])
def test_very_few_labels(n_labels: int) -> None:
    made = make_longtail(20, 10, n_labels, labels_per_point=1.0 if n_labels == 1 else 1.8)
    assert made.train_complete_Y.shape == (20, n_labels)
    assert np.diff(made.train_complete_Y.indptr).min() >= 1
