"""Several models as one: the mean of their probabilities or of their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse
from scipy.special import expit

from longtail.compose.candidates import best_of
from longtail.compose.mean import explained_mean, log_mean
from longtail.compose.reranker import check_groups
from longtail.core.calibrated import calibration_in_training
from longtail.core.calibration import CalibrationOfGroups, Floats
from longtail.core.check_arrays import check_finite
from longtail.core.compiled import njit
from longtail.core.estimator import Estimator, Prepared
from longtail.core.explanation import Explanation
from longtail.core.parameters import check_choice, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.unseen import Splits, Unseen, n_score_groups, predict_given, predict_unseen, score_groups
from longtail.core.wrapper import Wrapper, check_fitted_part, check_part, new_part
from longtail.errors import ModelError, ParameterError
from longtail.metrics import Matches

COMBINATIONS = ("scores", "ranks")
_CHUNK = 4096  # points that are combined at a time


@dataclass(kw_only=True, eq=False, repr=False)
class Ensemble(Splits, Wrapper):
    """The weighted mean of the predictions of several models.

    Parameters
    ----------
    models : list of Estimator or None, default None
        Estimators that all take features or all take texts. They must be given; their parameters are reached as
        `models__0__C`.
    combine : {"scores", "ranks"}, default "scores"
        "scores": the scores of each model are calibrated to probabilities on points that it has not seen, and the
        score is the logarithm of their mean; a label that a model does not propose has probability 0 for that model.
        "ranks": the mean over the models of `candidates + 1 - rank`, or 0 if a model does not propose the label. Labels
        that are a candidate of no model come last, with scores below 0, by their best rank.
    weights : None, list of float or "fitted", default None
        Weights of the models: None for equal weights, a list, or "fitted" for the weights that explain the labels of
        unseen points best.
    candidates : int, default 20
        Labels that each model proposes. A larger k in `predict` raises this number, which may change the first labels.
    held_out : float or None, default 0.2
        Share of the points to hold out from an extra training of each model. None uses `folds` instead.
    prefit : bool, default False
        The models are already fitted and stay as they are; `fit` gets points that they have not seen.
    folds : int, default 3
        Without `held_out`: each model is trained this many times, each time without one fold, which it then predicts.
    sample : int, default 100,000
        Largest number of unseen points to use.
    random_state : int, default 0
        Seed of the split.

    Attributes
    ----------
    models_ : list of Estimator
        Fitted models.
    weights_ : ndarray
        Weights of the models; they sum to 1.

    Notes
    -----
    "ranks" with weights that are not "fitted" needs no unseen points: each model is trained only once.
    """

    slot = "models"

    models: Any = None
    combine: str = "scores"
    weights: Any = None
    candidates: int = 20
    held_out: float | None = 0.2
    prefit: bool = False

    @property
    def parts(self) -> list[Any]:
        """Unfitted models; none if they are not given as a list."""
        return list(self.models) if isinstance(self.models, (list, tuple)) else []

    @property
    def models_(self) -> list[Any]:
        """The fitted models."""
        return self.parts_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; with `deep` also the models, as `models__0`, and their own, as `models__0__C`."""
        parameters: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for i, model in enumerate(self.parts):
                parameters[f"models__{i}"] = model
                parameters |= {f"models__{i}__{key}": value for key, value in model.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by the names that `get_params` returns."""
        inner = {key: value for key, value in parameters.items() if key.startswith("models__")}
        super().set_params(**{key: value for key, value in parameters.items() if key not in inner})
        models = self.parts
        places = {key: _place(key, len(models)) for key in inner}
        for key in sorted(
            inner, key=lambda key: places[key][1] != ""
        ):  # replace models before setting their parameters
            number, name = places[key]
            if name:
                models[number].set_params(**{name: inner[key]})
            else:
                models[number] = inner[key]
                self.models = tuple(models) if isinstance(self.models, tuple) else models
        return self

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The scale of scores: logarithms of mean probabilities, or means of ranks."""
        return "log probability" if self.combine == "scores" else None

    def check_parameters(self) -> None:
        models = self.parts
        if not models:
            raise ParameterError(
                f"models is {self.models!r}, but must be a list of estimators, at least one "
                "(on the command line --base NAME,NAME)"
            )
        for i, model in enumerate(models):
            check_part(f"models[{i}]", model)
        if len({model.input_kind for model in models}) > 1:
            raise ParameterError("some models take features and others take texts; wrap the former in TextPipeline")
        check_choice("combine", self.combine, COMBINATIONS)
        check_choice("prefit", self.prefit, (True, False))
        check_whole("candidates", self.candidates, 1)
        if self.weights is not None and not (isinstance(self.weights, str) and self.weights == "fitted"):
            _check_weights(self.weights, len(models))
        self.check_splits()

    def with_default_parts(self) -> Self:
        return self  # there is no default choice of models

    def _prepare(self, X: Any, Y: sparse.csr_matrix, **more: Any) -> Prepared:
        if self.prefit:
            for model in self.parts:
                check_fitted_part(model, Y.shape[1])
        return super()._prepare(X, Y, **more)

    def _fit(self, prepared: Prepared, run: Run) -> None:
        X, Y = prepared.X, prepared.Y
        n_models = len(self.parts)
        self.calibrations_: list[CalibrationOfGroups] = []
        self.weights_ = np.full(n_models, 1 / n_models)
        if self.weights is not None and not isinstance(self.weights, str):
            self.weights_ = _check_weights(self.weights, n_models)
        if self.prefit:
            self.label_counts_, self.n_points_ = self.parts[0].label_counts_, self.parts[0].n_points_
        asked = range(n_models) if self.combine == "scores" or isinstance(self.weights, str) else range(0)
        self.parts_, found = run.together(
            lambda: run.each(lambda i: self._fitted(i, X, Y, run), range(n_models)),
            lambda: run.each(lambda i: self._unseen(i, X, Y, run), asked),
        )
        if found:
            self._learn_from_unseen(found, Y)

    def _fitted(self, i: int, X: Any, Y: sparse.csr_matrix, run: Run) -> Estimator:
        model: Estimator = self.parts[i]
        if self.prefit:
            return model
        return new_part(model).fit(X, Y, label_names=self.label_names_, run=run.part(f"model-{i}"))

    def _learn_from_unseen(self, found: list[Unseen], Y: sparse.csr_matrix) -> None:
        truth = Y[found[0].rows]  # the same points for every model
        if self.combine == "scores":
            self.calibrations_ = [
                _calibrated(unseen, truth, model) for unseen, model in zip(found, self.models_, strict=True)
            ]
        if isinstance(self.weights, str):
            self.weights_ = self._fitted_weights(found, truth)
        if self.combine == "scores":
            ranked = self._combined([u.predictions for u in found], found[0].predictions.k)
            self.probabilities_ = calibration_in_training(self, ranked, truth)

    def _unseen(self, i: int, X: Any, Y: sparse.csr_matrix, run: Run) -> Unseen:
        k = min(self.candidates, Y.shape[1])
        if self.prefit:
            return predict_given(self.parts[i], X, self, k=k)
        new = lambda: new_part(self.parts[i])  # noqa: E731
        names = self.label_names_
        return predict_unseen(new, X, Y, self, k=k, run=run, label_names=names, name=f"unseen-{i}")

    def _fitted_weights(self, found: list[Unseen], truth: sparse.csr_matrix) -> Floats:
        labels, values = self._values([u.predictions for u in found], [u.groups for u in found])
        united, vectors = united_labels(labels, values, len(found))
        hits = Matches.of(Predictions(united, np.zeros(united.shape, np.float32)), truth).hits
        kept = united >= 0
        fit = _mixture_weights if self.combine == "scores" else _rank_weights
        return fit(vectors[kept], hits[kept])

    def _values(self, found: list[Predictions], groups: list[NDArray[np.int8]]) -> tuple[NDArray[np.int32], Floats]:
        """Return the labels of all models side by side (n, models x k) and the value that each model gives them: at
        least 0, but below 0 for ranks beyond the candidates."""
        if self.combine == "scores":
            parts = zip(self.calibrations_, found, groups, strict=True)
            values = [expit(calibration(p.scores, own)) for calibration, p, own in parts]
        else:
            most = min(self.candidates, self.n_labels_)
            ranks = [np.arange(p.k, dtype=np.float64) for p in found]
            worth = [np.where(rank < most, most - rank, most - rank - 1) for rank in ranks]  # 0: not proposed
            values = [np.broadcast_to(own, p.labels.shape) for own, p in zip(worth, found, strict=True)]
        return np.hstack([p.labels for p in found]), np.hstack(values)

    def _predict(self, X: Any, k: int) -> Predictions:
        if self.combine == "scores" and not self.calibrations_:
            raise ParameterError("combine was changed to 'scores' after fit, which needs calibrations; fit again")
        found = [model.predict(X, k=max(k, min(self.candidates, self.n_labels_))) for model in self.models_]
        return self._combined(found, k)

    def _combined(self, found: list[Predictions], k: int) -> Predictions:
        """Return the k best labels of the predictions of all models."""
        parts = []
        for start in range(0, max(len(found[0]), 1), _CHUNK):
            some = [part[start : start + _CHUNK] for part in found]
            groups = [score_groups(model, part.labels) for model, part in zip(self.models_, some, strict=True)]
            united, vectors = united_labels(*self._values(some, groups), len(found))
            mean = log_mean if self.combine == "scores" else _mean_rank
            parts.append(best_of(united, mean(vectors, self.weights_), k))
        return Predictions.concatenate(parts)

    def _explain(self, X: Any, label: int) -> Explanation:
        if self.combine != "scores":
            raise ParameterError(
                "Ensemble cannot explain means of ranks; ask one of the models in its parts_ to explain"
            )
        return explained_mean(self, X, label, self.calibrations_, self.weights_, self.candidates)

    def _get_state(self) -> State:
        state = super()._get_state()
        state.values["n_calibrations"] = len(self.calibrations_)
        state.arrays["weights"] = self.weights_
        for i, calibration in enumerate(self.calibrations_):
            state.nest(f"calibration{i}", calibration.to_state())
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        n_models, count = len(self.parts_), state.whole("n_calibrations")
        self.weights_ = state.array("weights", np.float64, (n_models,))
        check_finite("weights", self.weights_)
        if count not in (0, n_models) or self.weights_.min() < 0 or self.weights_.sum() <= 0:
            raise ModelError(f"the weights or the calibrations do not fit {n_models} models")
        self.calibrations_ = [CalibrationOfGroups.from_state(state.part(f"calibration{i}")) for i in range(count)]
        for calibration, model in zip(self.calibrations_, self.parts_, strict=False):
            check_groups(calibration, model)


def _place(key: str, n_models: int) -> tuple[int, str]:
    """Return the model number in `models__0` or `models__0__C`, and the name of its parameter or ""."""
    number, separator, name = key.removeprefix("models__").partition("__")
    if not number.isdecimal() or bool(separator) != bool(name):
        raise ParameterError(
            f"unknown parameter {key}; models__0 is the first model, models__0__NAME one of its parameters"
        )
    if int(number) >= n_models:
        raise ParameterError(f"{key}: there is no model {number}; the ensemble has {n_models}, numbered from 0")
    return int(number), name


def _check_weights(weights: Any, n_models: int) -> Floats:
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (n_models,) or not np.isfinite(values).all() or (values < 0).any() or values.sum() == 0:
        raise ParameterError(
            f"weights is {weights!r}, but must be None, 'fitted', or {n_models} numbers of at least 0, not all 0"
        )
    return np.asarray(values / values.sum())


def _mean_rank(worth: Floats, weights: Floats) -> Floats:
    """Return the mean worth of ranks; for labels that are no candidate, the worth of their best rank, ties by weight.

    The mean is not used there: ranks beyond the last label that was asked for are unknown, so the order of the first
    labels would depend on k. Models with weight 0 do not count.
    """
    means = np.maximum(worth, 0) @ weights
    own, shares = worth[..., weights > 0], weights[weights > 0]
    beyond = np.where(own < 0, own, -worth.shape[1] - 1.0)  # below the last rank
    best = beyond.max(axis=-1)
    return np.where(means > 0, means, best + (beyond == best[..., None]) @ shares / 2)


def _calibrated(unseen: Unseen, truth: sparse.csr_matrix, model: Any) -> CalibrationOfGroups:
    hits = Matches.of(unseen.predictions, truth).hits
    return CalibrationOfGroups.fit(unseen.predictions, hits, unseen.groups, n_score_groups(model))


def _mixture_weights(probabilities: Floats, hits: NDArray[np.bool_]) -> Floats:
    """Return the weights whose mean probability has the best log-likelihood, which is concave in the weights."""
    n_models = probabilities.shape[1]

    def loss(raw: Floats) -> float:
        weights = np.exp(raw - raw.max())
        mean = np.clip(probabilities @ (weights / weights.sum()), 1e-9, 1 - 1e-9)
        return float(-np.where(hits, np.log(mean), np.log1p(-mean)).mean())

    found = optimize.minimize(loss, np.zeros(n_models), method="L-BFGS-B")
    weights = np.exp(found.x - found.x.max())
    return np.asarray(weights / weights.sum())


def _rank_weights(points: Floats, hits: NDArray[np.bool_]) -> Floats:
    """Return the non-negative coefficients of a logistic regression of hits on the worth of each model's rank."""
    n_models = points.shape[1]

    def loss(x: Floats) -> tuple[float, Floats]:
        z = x[0] + points @ x[1:]
        residual = (expit(z) - hits) / hits.size
        value = float((np.logaddexp(0, z) - hits * z).mean())
        return value, np.concatenate([[residual.sum()], points.T @ residual])

    start = np.concatenate([[-1.0], np.full(n_models, 0.1)])
    bounds = [(None, None), *[(0.0, None)] * n_models]
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[1:]
    return np.asarray(found / found.sum()) if found.sum() > 0 else np.full(n_models, 1 / n_models)


def united_labels(labels: NDArray[np.int32], values: Floats, n_models: int) -> tuple[NDArray[np.int32], Floats]:
    """Return the proposed labels per point, each once (n, w; -1 pads), and their values (n, w, models; 0 if none)."""
    united = np.full(labels.shape, -1, np.int32)
    vectors = np.zeros((*labels.shape, n_models))
    _unite(labels, np.ascontiguousarray(values), n_models, united, vectors)
    return united, vectors


@njit(cache=True, nogil=True)
def _unite(labels, values, n_models, united, vectors):
    width = labels.shape[1] // n_models
    for i in range(labels.shape[0]):
        n = 0
        for j in range(labels.shape[1]):
            if labels[i, j] < 0:
                continue
            place = 0
            while place < n and united[i, place] != labels[i, j]:
                place += 1
            if place == n:
                united[i, place] = labels[i, j]
                n += 1
            vectors[i, place, j // width] = values[i, j]
