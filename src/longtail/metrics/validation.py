"""Cross-validation with sparse labels, which scikit-learn's `cross_val_score` does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.inputs import n_rows
from longtail.core.label_lists import labels_and_names
from longtail.metrics.scorers import scorer


def cross_val_score(
    estimator: Any, X: Any, Y: Any, *, scoring: str | Callable[..., float] | None = None, cv: Any = 5
) -> NDArray[np.float64]:
    """Return the score of an estimator on each fold, trained on the others.

    Parameters
    ----------
    estimator : Estimator or IndicatorClassifier
        Unfitted; it is cloned. scikit-learn's own metrics need an `IndicatorClassifier`.
    X : sparse matrix, array, DataFrame, or sequence of str
        Points.
    Y : sparse matrix, array, DataFrame, or list of lists
        Labels, as `fit` takes them.
    scoring : str or callable, optional
        A metric of longtail with its cut-off ("PSP@3"), a scorer of scikit-learn by name ("f1_micro"), or a function of
        estimator, X and Y; by default the estimator's own `score` (P@1).
    cv : int or splitter, default 5
        Number of folds, without shuffling, or a splitter of scikit-learn.

    Returns
    -------
    ndarray of float64
        One score per fold.
    """
    from sklearn.base import clone
    from sklearn.metrics import get_scorer
    from sklearn.model_selection import check_cv
    from sklearn.utils import _safe_indexing as rows_of

    if isinstance(scoring, str):
        scoring = scorer(scoring) if "@" in scoring else get_scorer(scoring)
    Y, _ = labels_and_names(Y, n_points=n_rows(X))
    scores = []
    for train, test in check_cv(cv).split(np.empty((Y.shape[0], 0))):
        model = clone(estimator).fit(rows_of(X, train), Y[train])
        unseen = rows_of(X, test), Y[test]
        scores.append(model.score(*unseen) if scoring is None else scoring(model, *unseen))
    return np.array(scores, np.float64)
