"""From candidates to an answer: the k best, those above a threshold, sets by budget or recall, or a batch together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.core.calibrated import CANDIDATES
from longtail.core.estimator import Estimator
from longtail.core.inputs import check_k
from longtail.core.parameters import check_choice, check_number
from longtail.core.predictions import Predictions
from longtail.core.sets import check_threshold, sorted_sets
from longtail.errors import ParameterError
from longtail.features.pipeline import model_behind

TOGETHER = 100  # candidates per point of labels that are chosen together; of all that are wanted there is no choice
REORDERED = 100  # candidates per point where probabilities have another order than scores


def dial(model: Estimator) -> float | None:
    """Return the exponent by which a model favours rare labels, 0 if it ranks by probability, None if it has none."""
    behind: Any = model_behind(model)
    if not hasattr(behind, "exponent"):
        return None
    return float(behind.exponent_ if behind.exponent is None else behind.exponent)


@dataclass(frozen=True)
class Decision:
    """Which labels a point gets, by the options of the command line.

    Parameters
    ----------
    k : int or None, default None
        Labels per point; None stands for 5, or for all candidates of a set.
    threshold : float, optional
        Score, or probability, that a label must have.
    budget : float, optional
        Largest mean number of labels per point.
    recall : float, optional
        Share of the observed labels to contain.
    confidence : float, optional
        Confidence of the recall.
    optimise : str, optional
        Objective of labels that are chosen together, e.g. "macro-f1".
    probabilities : bool, default False
        Probabilities as scores.
    """

    k: int | None = None
    threshold: float | None = None
    budget: float | None = None
    recall: float | None = None
    confidence: float | None = None
    optimise: str | None = None
    probabilities: bool = False

    @property
    def _wanted(self) -> int:
        return 5 if self.k is None else self.k

    @property
    def of_sets(self) -> bool:
        """Whether points get sets of different sizes."""
        by_probability = self.threshold is not None and self.probabilities
        return self.budget is not None or self.recall is not None or by_probability

    @property
    def calibrated(self) -> bool:
        """Whether scores are probabilities."""
        return self.probabilities or self.of_sets or self.optimise is not None

    def checked(self) -> Decision:
        """Return this, or raise ParameterError for options that contradict each other."""
        if self.k is not None:
            check_k(self.k, self.k)  # how many labels there are is not known yet
        given = {"--threshold": self.threshold, "--budget": self.budget, "--recall": self.recall}
        named = [name for name, value in {**given, "--optimise": self.optimise}.items() if value is not None]
        if len(named) > 1:
            raise ParameterError(f"{' and '.join(named)} cannot be combined; give one of them")
        if self.threshold is not None and self.probabilities:
            check_threshold(self.threshold)
        elif self.threshold is not None:
            check_number("threshold", self.threshold)
        for name, said in (
            ("--recall", "fewer labels would break what is promised"),
            ("--budget", "the budget says how many"),
        ):
            if given[name] is not None and self.k is not None:
                raise ParameterError(f"-k cannot be combined with {name}: {said}")
        if self.confidence is not None and self.recall is None:
            raise ParameterError("--confidence is about --recall; give that, too")
        if self.optimise is not None:
            from longtail.core.batch_optimal import OBJECTIVES

            check_choice("--optimise", self.optimise, OBJECTIVES)
        return self

    def described(self, predictions: Predictions) -> str:
        """Return how many labels these are, for people."""
        if not self.of_sets and self.threshold is None:
            return f"{len(predictions):,} x {predictions.k} predictions"
        each, n_empty = (predictions.labels >= 0).sum() / max(len(predictions), 1), int(predictions.empty.sum())
        empty = f", {n_empty:,} of them empty," if n_empty else ""
        return f"{len(predictions):,} sets of {each:.2f} labels on average{empty}"

    def threshold_of(self, model: Estimator) -> float | None:
        """Return the threshold, looked up for a budget or a recall; None if there is none."""
        if self.budget is None and self.recall is None:
            return self.threshold
        return model.set_threshold(budget=self.budget, recall_at_least=self.recall, confidence=self.confidence)

    def width(self, model: Estimator) -> int:
        """Return how many labels per point to predict."""
        if self.of_sets and self.k is None:
            calibration = model.own_calibration()
            return CANDIDATES if calibration is None else calibration.candidates
        if self._by_probability(model):
            return max(self._wanted, REORDERED)
        return self._wanted if self.optimise is None else max(2 * self._wanted, TOGETHER)

    def _by_probability(self, model: Estimator) -> bool:
        """Return whether a ranking by probability is asked for, and may be another than that of the model."""
        calibration = model.own_calibration()
        ranked = self.probabilities and not self.of_sets and self.optimise is None
        return ranked and calibration is not None and not calibration.keeps_order and not dial(model)

    def apply(self, found: Predictions, model: Estimator) -> Predictions:
        """Return what a point gets of its candidates."""
        if self.optimise is not None:
            from longtail.core.batch_optimal import choose_together

            shares = model.label_counts_ / model.n_points_
            k = min(self._wanted, model.n_labels_)
            return choose_together(found, k, self.optimise, shares=shares).predictions
        if self._by_probability(model):
            return sorted_sets(found, 0.0).top(min(self._wanted, found.k))
        threshold = self.threshold_of(model)
        if threshold is None:
            return found
        if self.of_sets:
            return sorted_sets(found, threshold)
        return found.at_least(threshold)
