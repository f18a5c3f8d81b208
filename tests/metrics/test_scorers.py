from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from longtail.core.popularity import Popularity
from longtail.errors import NotFittedError, ParameterError
from longtail.metrics import evaluate, scorer
from longtail.objectives import PropensityModel


@pytest.fixture
def data() -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.random((90, 4)).astype(np.float32))
    Y = sparse.csr_matrix((rng.random((90, 12)) < 1 / np.arange(1, 13)).astype(np.float32))
    return X, Y


def expected(X, Y, train, test, name: str, model: PropensityModel) -> float:
    counts = np.asarray(Y[train].sum(axis=0)).ravel().astype(np.int64)
    inverse = model.inverse(counts, len(train))
    predictions = Popularity().fit(X[train], Y[train]).predict(X[test], k=3)
    return evaluate(predictions, Y[test], inverse_propensities=inverse, ks=(3,))[name] / 100


@pytest.mark.parametrize("name", ["P@3", "PSP@3", "PSnDCG@3", "coverage@3"])
@pytest.mark.parametrize("piped", [False, True])
def test_cross_validation_scores_with_the_counts_of_the_training_part(data, name: str, piped: bool) -> None:
    X, Y = data
    estimator = Pipeline([("scale", MaxAbsScaler()), ("model", Popularity())]) if piped else Popularity()
    folds = [(np.arange(60), np.arange(60, 90)), (np.arange(30, 90), np.arange(30))]
    # With an empty grid GridSearchCV is cross_val_score, which itself takes no sparse Y.
    search = GridSearchCV(estimator, {}, scoring=scorer(name.lower()), cv=folds, error_score="raise").fit(X, Y)
    values = [search.cv_results_[f"split{i}_test_score"][0] for i in range(2)]
    assert values == pytest.approx([expected(X, Y, *fold, name, PropensityModel()) for fold in folds])


def test_grid_search_chooses_by_the_scorer(data) -> None:
    X, Y = data

    class Shifted(Popularity):
        """Predicts the labels that come `shift` places after the most popular ones, which is worse."""

        def __init__(self, *, shift: int = 0) -> None:
            self.shift = shift

        def _fit(self, prepared, run) -> None:
            super()._fit(prepared, run)
            self.scores_ = np.roll(self.scores_, self.shift)

    search = GridSearchCV(
        Pipeline([("scale", MaxAbsScaler()), ("model", Shifted())]),
        {"model__shift": [6, 0, 3]},
        scoring=scorer("psp@3"),
        cv=3,
        error_score="raise",
    ).fit(X, Y)
    assert search.best_params_ == {"model__shift": 0}
    assert search.best_score_ == pytest.approx(max(search.cv_results_["mean_test_score"]))


def test_propensity_model_is_used(data) -> None:
    X, Y = data
    train, test = np.arange(60), np.arange(60, 90)
    fitted = Popularity().fit(X[train], Y[train])
    amazon = PropensityModel.preset("amazon")
    value = scorer("PSP@3", propensity=amazon)(fitted, X[test], Y[test])
    assert value == pytest.approx(expected(X, Y, train, test, "PSP@3", amazon))
    assert value != scorer("PSP@3")(fitted, X[test], Y[test])


def test_more_is_better_for_every_scorer(data) -> None:
    X, Y = data
    fitted = Popularity().fit(X, Y)
    left = evaluate(fitted.predict(X, k=1), Y, ks=(1,))["abandonment@1"]
    assert scorer("abandonment@1")(fitted, X, Y) == pytest.approx(-left / 100)


def test_k_beyond_the_labels_and_labels_beyond_the_model(data) -> None:
    X, Y = data
    fitted = Popularity().fit(X, Y[:, :4])
    assert scorer("r@9")(fitted, X, Y[:, :4]) == pytest.approx(np.mean(np.diff(sparse.csr_matrix(Y[:, :4]).indptr) > 0))
    counts = np.append(fitted.label_counts_, np.zeros(8, np.int64))
    inverse = PropensityModel().inverse(counts, 90)
    whole = evaluate(fitted.predict(X, k=3), Y, inverse_propensities=inverse, ks=(3,))
    assert scorer("psp@3")(fitted, X, Y) == pytest.approx(whole["PSP@3"] / 100)


def test_what_cannot_be_scored(data) -> None:
    with pytest.raises(ParameterError, match="unknown metric 'f7@3'"):
        scorer("f7@3")
    with pytest.raises(NotFittedError, match="Popularity has no label_counts_"):
        scorer("p@1")(Popularity(), *data)
