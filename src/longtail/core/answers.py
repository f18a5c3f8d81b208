"""What users ask of a fitted model beyond `predict`: a score, probabilities, names of labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from longtail.core.explanation import Explanation
from longtail.core.inputs import one_point
from longtail.core.label_lists import share_of_hits
from longtail.core.leaving_out import explained_by_leaving_out
from longtail.core.parameters import check_whole
from longtail.core.predictions import Predictions
from longtail.core.probabilities import available_if
from longtail.core.registry import unknown
from longtail.core.vocabulary import Vocabulary
from longtail.errors import DataError, ParameterError

if TYPE_CHECKING:
    from longtail.core.calibrated import ModelCalibration
    from longtail.core.run import Run


def _has_probabilities(model: Any) -> bool:
    """Return True if a model has probabilities, else raise AttributeError."""
    try:
        model.check_probabilities()
    except ParameterError as error:
        raise AttributeError(str(error)) from error
    return True


class Answers(ABC):
    """Methods of `Estimator` that follow from its `predict` and the names that it keeps."""

    n_labels_: int
    label_names_: list[str] | None
    vocabulary_: Vocabulary | None
    score_scale: str | None
    probabilities_: ModelCalibration | None

    @abstractmethod
    def predict(self, X: Any, *, k: int = 5, **options: Any) -> Predictions: ...

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

    def has_probabilities(self) -> bool:
        """Return whether `predict(X, calibrated=True)` has probabilities to return."""
        return self.probabilities_ is not None or self.score_scale is not None

    def own_calibration(self) -> ModelCalibration | None:
        """Return how scores become probabilities, as learned from unseen points; None if that was not learned."""
        return self.probabilities_

    def check_probabilities(self) -> None:
        """Raise ParameterError if the model has no probabilities; the message says how it gets them."""
        if not self.has_probabilities():
            raise ParameterError(
                f"this {type(self).__name__} has no probabilities; calibrate it on points that it was not trained on: "
                "model.calibrate(X, Y), or longtail calibrate MODEL DATA"
            )

    def calibrate(self, X: Any, Y: Any, *, candidates: int = 50) -> Self:
        """Learn how scores become probabilities, from points that the model was not trained on.

        `predict(X, calibrated=True)` then returns probabilities; `save` keeps what was learned. A half of the points
        teaches, the other half decides whether labels are calibrated by groups of frequency. 1,000 points are plenty.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame, or sequence of str
            Points that the model was not trained on.
        Y : sparse matrix, array, DataFrame, or list of lists
            Their observed labels, as `fit` takes them; names are matched with those of the model.
        candidates : int, default 50
            Labels per point to look at.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If these are the training data, there are too few points, no point has a label, or all scores are equal.
        """
        from longtail.core.calibrated import fit_calibration, unseen_answers

        self.probabilities_ = fit_calibration(self, unseen_answers(self, X, Y, candidates=candidates))
        return self

    def calibrate_by_training(
        self, X: Any, Y: Any, *, held_out: float = 0.1, run: Run | None = None, **more: Any
    ) -> Self:
        """Calibrate without unseen points: train a copy without a share of the points, and calibrate on that share.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame, or sequence of str
            The points that the model was trained on.
        Y : sparse matrix, array, DataFrame, or list of lists
            Their observed labels.
        held_out : float, default 0.1
            Share of the points that the copy is trained without.
        run : Run, optional
            Where to show progress and where to keep finished parts.
        **more
            Arguments of `fit` with one value per point, e.g. `sample_weight` (DiSMEC).

        Returns
        -------
        self
        """
        from longtail.core.calibrated import calibration_of_copy

        self.probabilities_ = calibration_of_copy(self, X, Y, held_out=held_out, run=run, **more)
        return self

    @available_if(_has_probabilities)
    def predict_probabilities(self, X: Any, *, k: int = 5) -> Predictions:
        """Return the k best labels per point with their probabilities as scores.

        The same as `predict(X, k=k, calibrated=True)`. Only models with probabilities have this method: those that were
        calibrated (`calibrate`), and those whose scores are probabilities, their logarithms or quotients of them:
        `Popularity`, `DiSMEC` with the logistic loss, `AutoModel`, re-rankers, `Ensemble` of scores, `Taug` with
        `merge="calibrated"`. scikit-learn's `predict_proba` would return an array of points x labels.

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
        return self.predict(X, k=k, calibrated=True)

    def predict_sets(
        self,
        X: Any,
        *,
        threshold: float | None = None,
        budget: float | None = None,
        recall_at_least: float | None = None,
        confidence: float | None = None,
        most: int | None = None,
        **options: Any,
    ) -> Predictions:
        """Return as many labels per point as it needs, most probable first: a set, not a ranking of fixed length.

        Give one of `threshold`, `budget` and `recall_at_least`; the last two look up a threshold that `calibrate` has
        measured, so a point gets the same set alone and in a batch. What is promised for `recall_at_least` holds for
        new points of the same kind as those of `calibrate`, on average over points, and for observed labels only:
        labels that nobody assigned, and labels that are not among the candidates of the model, cannot be counted in.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame, or sequence of str
            Points of the kind that the model was trained on.
        threshold : float, optional
            Probability that a label must have, above 0 and at most 1.
        budget : float, optional
            Largest mean number of labels per point, e.g. 3.5.
        recall_at_least : float, optional
            Share of the observed labels that the sets must contain, in expectation: conformal risk control.
        confidence : float, optional
            For `recall_at_least`: promise the expected recall with this probability over the choice of the points that
            calibrated, e.g. 0.95; sets get a little larger. By default the promise is an average over that choice, too.
        most : int, optional
            Largest set; by default all candidates of the calibration (50). Not with `recall_at_least`.
        **options
            As in `predict`.

        Returns
        -------
        Predictions
            With probabilities as scores; rows end in padding. `rows()`, `names`, `to_indicator()` and `to_frame()`
            leave padding out.

        Raises
        ------
        ParameterError
            If the model is not calibrated, not exactly one of the three is given, or no threshold reaches the recall.
        """
        from longtail.core.calibrated import CANDIDATES
        from longtail.core.sets import sorted_sets

        chosen = self.set_threshold(
            threshold=threshold, budget=budget, recall_at_least=recall_at_least, confidence=confidence
        )
        if most is not None and recall_at_least is not None:
            raise ParameterError("most cannot be given with recall_at_least: smaller sets would break the promise")
        calibration = self.own_calibration()
        k = most or (CANDIDATES if calibration is None else calibration.candidates)
        return sorted_sets(self.predict(X, k=k, calibrated=True, **options), chosen)

    def set_threshold(
        self,
        *,
        threshold: float | None = None,
        budget: float | None = None,
        recall_at_least: float | None = None,
        confidence: float | None = None,
    ) -> float:
        """Return the probability that a label must have to be in a set; arguments as in `predict_sets`."""
        from longtail.core.sets import check_threshold

        given = {"threshold": threshold, "budget": budget, "recall_at_least": recall_at_least}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise ParameterError(f"give one of {', '.join(given)}; given: {', '.join(named) or 'none'}")
        if confidence is not None and recall_at_least is None:
            raise ParameterError("confidence is about recall_at_least; give that, too")
        self.check_probabilities()
        if threshold is not None:
            check_threshold(threshold)
            return float(threshold)
        calibration = self.own_calibration()
        if calibration is None:
            raise ParameterError(
                f"{named[0]} needs points that this {type(self).__name__} was not trained on; calibrate it first: "
                "model.calibrate(X, Y), or longtail calibrate MODEL DATA"
            )
        curve = calibration.curve
        return curve.for_budget(budget) if budget is not None else curve.for_recall(recall_at_least or 0.0, confidence)

    def explain(self, point: Any, label: int | str) -> Explanation:
        """Return how much each token or feature of one point contributed to the score of a label.

        Parameters
        ----------
        point : str, sparse matrix or array
            One text, or the features of one point.
        label : int or str
            Id or name of the label.

        Returns
        -------
        Explanation

        Raises
        ------
        ParameterError
            If the model cannot explain its scores (an `Ensemble` of ranks), or does not know the label.
        DataError
            If the score is not finite, as that of a model with infinite weights.
        """
        model: Any = self
        model.check_fitted()
        model.check_parameters()
        number = self.label_id(label)
        X = model._check_X(one_point(point, model.input_kind), fitted=True)
        if model.label_counts_[number] == 0:  # no model scores it
            raise ParameterError(f"label {number} has no training points, so it has no score to explain")
        with np.errstate(all="ignore"):  # what is not finite in a model ends in the score
            found = self._explain(X, number)
        if not math.isfinite(found.score):
            raise DataError(f"the score of label {number} is {found.score}, which no contributions sum to")
        return found

    def _explain(self, X: Any, label: int) -> Explanation:
        """Return the explanation of a label for the one point in X; both are checked, and the label has points."""
        return explained_by_leaving_out(self, X, label)

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
