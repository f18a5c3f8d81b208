"""The contract of every model: scikit-learn's conventions, ranked predictions, a directory instead of a pickle."""

from __future__ import annotations

import copy
import inspect
import os
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.answers import Answers
from longtail.core.base import Parameterised
from longtail.core.calibrated import ModelCalibration, own_probabilities, with_probabilities
from longtail.core.dates import now
from longtail.core.fallback import FALLBACKS, with_popular
from longtail.core.fingerprint import data_fingerprint
from longtail.core.inputs import (
    check_features,
    check_k,
    check_lengths,
    check_texts,
    empty_rows,
    n_rows,
)
from longtail.core.interrupts import plain_interrupts
from longtail.core.job import job_of
from longtail.core.label_lists import labels_and_names
from longtail.core.parameters import check_choice
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.vocabulary import Vocabulary
from longtail.errors import DataError, ModelError, NotFittedError, ParameterError


@dataclass(frozen=True, eq=False)
class Prepared:
    """Checked training data, as `fit` passes it to `_fit`.

    A class that needs more than X and Y returns a subclass of this from `_prepare`.

    Parameters
    ----------
    X : csr_matrix or sequence of str
        Points: float32 features, or texts.
    Y : csr_matrix of shape (n_points, n_labels)
        Observed labels, as float32 ones.
    """

    X: Any
    Y: sparse.csr_matrix

    def job(self) -> dict[str, Any]:
        """Return what identifies the job to a checkpoint besides the parameters and the data."""
        return {}


class Estimator(Answers, Parameterised):
    """Base of every model.

    A subclass declares its parameters as fields of a keyword-only dataclass (`@dataclass(kw_only=True, eq=False,
    repr=False)`), so its constructor only stores them, and implements `check_parameters`, `_fit`, `_predict`,
    `_get_state` and `_set_state`. Inputs of these are checked and have one type. Labels without training points are
    never predicted: a row ends in padding instead.

    Attributes
    ----------
    n_labels_ : int
        Number of labels in the training data.
    n_points_ : int
        Number of training points.
    n_features_in_ : int
        Number of features; only for models that read features.
    label_counts_ : ndarray of shape (n_labels,)
        Training points per label.
    label_names_ : list of str or None
        Names of the labels, if `fit` was given any.
    fingerprint_ : str
        Digest of the training data.
    """

    input_kind: ClassVar[Literal["features", "text"]] = "features"
    # Parameters that may be changed after `fit`; `predict` takes them too.
    adjustable: ClassVar[tuple[str, ...]] = ()
    # Parameters besides `n_jobs` that may differ when an unfinished training is resumed.
    free_on_resume: ClassVar[tuple[str, ...]] = ()
    # Parameters that belong to the training machine, such as folders: a saved model has their defaults.
    not_saved: ClassVar[tuple[str, ...]] = ()
    # Whether most of the training is in independent parts (`Run.map`), which shards can divide.
    trains_in_parts: bool = False

    n_labels_: int
    n_points_: int
    n_features_in_: int
    label_counts_: NDArray[np.int64]
    label_names_: list[str] | None
    fingerprint_: str
    # What scores are: "probability", "log probability", or None for anything else.
    score_scale: str | None = None
    # For each label, which of the models inside gives its scores, if their scales differ (Taug).
    score_groups_: NDArray[np.int8] | None = None
    # When `fit` ended ("date") and how long it took ("seconds"); the command line adds the name of the data ("data").
    training_: dict[str, Any] | None = None
    # How the training data was read, such as the fields of the text; the command line reads other data in the same way.
    reading_: dict[str, Any] | None = None
    # Names and hierarchy of the labels, if there is a vocabulary.
    vocabulary_: Vocabulary | None = None
    # How scores become probabilities, once the model was calibrated on points that it had not seen.
    probabilities_: ModelCalibration | None = None
    # Where the model was loaded from, "" for a model inside another, until `_check_learned` was called.
    _unchecked: str | None = None

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_names: Sequence[str] | None = None,
        run: Run | None = None,
        verbose: bool = False,
        **more: Any,
    ) -> Self:
        """Train on points and their observed labels.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame, or sequence of str
            CSR or dense features, or texts (a list or a Series), as `input_kind` says.
        Y : sparse matrix, array, DataFrame, or list of lists
            A 0/1 matrix, or one list of label names or label ids per point. Relevances between 0 and 1 are for models
            that use them (`takes_relevances`).
        label_names : sequence of str, optional
            Distinct names, stored with the model; by default the names in Y, sorted, or the columns of a DataFrame.
        run : Run, optional
            Where to show progress and where to keep finished parts.
        verbose : bool, default False
            Show progress: a bar in a terminal or a notebook, elsewhere a line every half minute.
        **more
            Arguments of single models, e.g. `sample_weight` (DiSMEC).

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            If a parameter or an argument cannot be used.
        DataError
            If X, Y or the names are malformed, do not match, or contain no labels.
        TrainingError
            If training fails, e.g. because values are no longer finite.
        """
        started = time.perf_counter()
        self.check_parameters()
        X = self._check_X(X)
        n_points = n_rows(X)
        Y, names = labels_and_names(Y, label_names, n_points=n_points, relevances=self.takes_relevances())
        if n_points == 0 or Y.shape[1] == 0:
            raise DataError(f"nothing to learn from: {n_points} points, {Y.shape[1]} labels")
        if Y.nnz == 0:
            raise DataError("nothing to learn from: no point has a label")
        self.n_points_, self.n_labels_, self._unchecked, self.probabilities_ = n_points, Y.shape[1], None, None
        if self._kind_to_fit() == "features":
            self.n_features_in_ = X.shape[1]
        self.label_counts_ = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        self.label_names_ = names
        self.fingerprint_ = data_fingerprint(X, Y)
        try:
            with plain_interrupts():
                prepared, run = self._prepare(X, Y, **more), (run or Run()).shown(verbose)
                self._open_job(run, self.fingerprint_, **prepared.job())
                self._fit(prepared, run)
        except BaseException:
            del self.n_labels_  # a fit that failed or was interrupted must not look like a fitted model
            raise
        self.training_ = {"date": now(), "seconds": round(time.perf_counter() - started, 3)}
        return self

    def predict(
        self, X: Any, *, k: int = 5, fallback: str = "none", calibrated: bool = False, **options: Any
    ) -> Predictions:
        """Return the k best labels per point, best first.

        A point that the model can say nothing about, because it has no feature or no word that the model knows, gets no
        labels: its row is padding.

        Parameters
        ----------
        X : sparse matrix, array or sequence of str
            Points of the kind that the model was trained on.
        k : int, default 5
            Labels per point; a model with fewer labels gives all.
        fallback : {"none", "popular"}, default "none"
            "popular" gives points without labels the most frequent ones; their scores are shares of training points.
        calibrated : bool, default False
            Return probabilities, in (0, 1], as scores; call `calibrate` first. Labels keep their order: probabilities
            may rise along a row where a model ranks by something else (re-rankers).
        **options
            Other values, for this call, of parameters that may be changed after `fit`, e.g. `exponent` or `beam`. A
            wrapper passes options that it does not have to the models inside.

        Returns
        -------
        Predictions

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        ParameterError
            If k or an option cannot be used, or the model has no probabilities.
        DataError
            If X is malformed, or has another number of features than the training data.
        """
        self.check_fitted()
        if options:
            return self.adjusted(**options).predict(X, k=k, fallback=fallback, calibrated=calibrated)
        self.check_parameters()  # some may have been changed after `fit`
        check_choice("fallback", fallback, FALLBACKS)
        check_choice("calibrated", calibrated, (True, False))
        if calibrated:
            self.check_probabilities()  # before the work
        k = check_k(k, self.n_labels_)
        with plain_interrupts():
            X = self._check_X(X, fitted=True)
            found, unreadable = self._predict(X, k), self._unreadable(X)
        if unreadable is not None:
            found = found.without(unreadable)
        found = with_probabilities(self, found) if calibrated else found
        found = with_popular(found, self) if fallback == "popular" else found
        return found.labelled(self.n_labels_, self.label_names_)

    def adjusted(self, **options: Any) -> Self:
        """Return a copy that predicts with other values of `adjustable` parameters.

        Parameters
        ----------
        **options
            New values by name, e.g. `exponent=0.5`.

        Returns
        -------
        Estimator
            Of the same class; both share what was learned.
        """
        self.check_fitted()
        known = self.options()
        for name in options:
            if name not in known:
                said = f"options are {', '.join(sorted(known))}" if known else "it has no options"
                raise ParameterError(f"predict of this {type(self).__name__} takes no {name}; {said}")
        view = copy.copy(self)
        for name in self.adjustable:
            if name in options:
                setattr(view, name, options[name])
        return view

    def takes_weights(self) -> bool:
        """Return whether `fit` takes `sample_weight`, one weight per point."""
        return "sample_weight" in inspect.signature(self._prepare).parameters

    def takes_relevances(self) -> bool:
        """Return whether `fit` uses relevances of labels, numbers between 0 and 1 in Y; others refuse them."""
        return False

    def options(self) -> set[str]:
        """Return the parameters that `predict` takes for one call."""
        return set(self.adjustable)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to a directory; `longtail.load_model` reads it back.

        Parameters
        ----------
        path : str or path-like
            New or empty directory; it gets manifest.json and a safetensors file.
        overwrite : bool, default False
            Replace a model that is already there.
        """
        from longtail.core.model import save_model

        save_model(self, path, overwrite=overwrite)

    def check_fitted(self) -> None:
        """Raise NotFittedError if the model is not fitted, ModelError if its directory has numbers out of range."""
        if not hasattr(self, "n_labels_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(X, Y) first")
        if self._unchecked is None:
            return
        try:
            self._check_learned()
        except ModelError as error:
            raise ModelError(f"{self._unchecked}: {error}" if self._unchecked else str(error)) from error
        self._unchecked = None

    def check_parameters(self) -> None:
        """Raise ParameterError for values that cannot be used; `fit` and `predict` call it before any work."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.input_tags.sparse = tags.input_tags.two_d_array = self.input_kind == "features"
        tags.input_tags.string = self.input_kind == "text"
        return tags

    def _kind_to_fit(self) -> str:
        """Return what the next `fit` reads."""
        return self.input_kind

    def _check_X(self, X: Any, *, fitted: bool = False) -> Any:
        """Return X as `_fit` and `_predict` get it; `fitted`: compare it with the training data."""
        if (self.input_kind if fitted else self._kind_to_fit()) == "features":
            return check_lengths(check_features(X, n_features=self.n_features_in_ if fitted else None))
        return check_texts(X)

    def _prepare(self, X: Any, Y: sparse.csr_matrix, **more: Any) -> Prepared:
        """Return the data for `_fit`; whatever can fail early is done here, before the checkpoint is opened."""
        if more:
            raise ParameterError(f"fit of {type(self).__name__} takes no {' or '.join(more)}")
        return Prepared(X, Y)

    def _open_job(self, run: Run, data: str, **more: Any) -> None:
        """Bind the run's checkpoint to this model, its parameters and the data with this fingerprint."""
        if run.checkpoint:
            run.checkpoint.open({**job_of(self), "data": data, **more})

    @abstractmethod
    def _fit(self, prepared: Prepared, run: Run) -> None:
        """Learn from `prepared.X` and `prepared.Y`; the run's checkpoint is open."""

    @abstractmethod
    def _predict(self, X: Any, k: int) -> Predictions:
        """Return the k best labels per point; X and k are checked."""

    def _unreadable(self, X: Any) -> NDArray[np.bool_] | None:
        """Return which points get no labels whatever `_predict` says: those without features; None if there are none.

        Models that read texts leave such texts out in `_predict`.
        """
        return empty_rows(X) if self.input_kind == "features" else None

    def _probabilities(self, found: Predictions) -> NDArray[np.float32]:
        """Return the probabilities of predicted labels, by the calibration or by the scores themselves."""
        return own_probabilities(self, found) if self.probabilities_ is None else self.probabilities_(self, found)

    def _scores_to_calibrate(self, found: Predictions) -> NDArray[np.float32]:
        """Return the scores that probabilities follow from; those of a re-ranker must not depend on its exponent."""
        return found.scores

    def _held_out_rows(self, n_points: int) -> NDArray[np.intp] | None:
        """Return the training points that training did not learn from, if there are any."""
        return None

    @abstractmethod
    def _get_state(self) -> State:
        """Return what `_fit` learned."""

    @abstractmethod
    def _set_state(self, state: State) -> None:
        """Undo `_get_state`; arrays may be mapped and read-only. Check types and shapes (`State.array`)."""

    def _check_learned(self) -> None:
        """Raise ModelError if a kernel would index outside an array; called once, before a loaded model is used."""
