"""What users ask of a fitted model beyond `predict`: a score, probabilities, names of labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from longtail.core.label_lists import share_of_hits
from longtail.core.parameters import check_whole
from longtail.core.predictions import Predictions
from longtail.core.probabilities import as_probabilities, available_if, scores_are_probabilities
from longtail.core.registry import unknown
from longtail.core.vocabulary import Vocabulary
from longtail.errors import ParameterError


class Answers:
    """Methods of `Estimator` that follow from its `predict` and the names that it keeps."""

    n_labels_: int
    label_names_: list[str] | None
    vocabulary_: Vocabulary | None
    score_scale: str | None

    def predict(self, X: Any, *, k: int = 5, **options: Any) -> Predictions:
        raise NotImplementedError

    def score(self, X: Any, Y: Any) -> float:
        """Return P@1: the share of points whose best label is among the observed ones.

        Other metrics are in `longtail.metrics`, as functions and as scorers for scikit-learn.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame, or sequence of str
            Points.
        Y : sparse matrix, array, DataFrame, or list of lists
            Their labels, as `fit` takes them; names are matched with those of the model.

        Returns
        -------
        float
            Between 0 and 1; a point without a prediction counts as a miss.
        """
        return share_of_hits(self.predict(X, k=1).labels[:, 0], Y, self.label_names_)

    @available_if(scores_are_probabilities)
    def predict_probabilities(self, X: Any, *, k: int = 5) -> Predictions:
        """Return the k best labels per point with their probabilities as scores.

        Only models whose scores are probabilities, or logarithms of them, have this method: `Popularity`, `DiSMEC` with
        the logistic loss, and calibrated models (`PropensityRerank` with exponent 0, `Ensemble` of scores, `Taug` with
        `merge="calibrated"`). scikit-learn's `predict_proba` would return an array of points x labels.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame, or sequence of str
            Points of the kind that the model was trained on.
        k : int, default 5
            Labels per point.

        Returns
        -------
        Predictions
        """
        found = self.predict(X, k=k)
        return found if self.score_scale == "probability" else replace(found, scores=as_probabilities(found))

    def shown_name(self, label: int) -> str:
        """Return what people are shown for a label id: its name in the vocabulary or in the data, or the id."""
        if self.label_names_ is None:
            return str(label)
        name = self.label_names_[label]
        return name if self.vocabulary_ is None else self.vocabulary_.name(name)

    def label_id(self, label: int | str) -> int:
        """Return the id of a label, given its id or its name."""
        if isinstance(label, str):
            if self.label_names_ is None:
                raise ParameterError(f"the model has no label names; give the id of {label!r}")
            if label not in self.label_names_:
                raise ParameterError(unknown("label", label, self.label_names_))
            return self.label_names_.index(label)
        check_whole("label", label, 0)
        if label >= self.n_labels_:
            raise ParameterError(f"label is {label}, but the model has {self.n_labels_} labels")
        return int(label)
