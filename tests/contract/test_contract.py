"""What every estimator keeps, whatever it does inside. Runs on all that are registered; a new one is picked up."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import longtail
from contract.planted import N_FEATURES, N_LABELS, Planted, planted
from longtail.core import registry
from longtail.core.estimator import Estimator
from longtail.core.predictions import Predictions
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.errors import DataError, ModelError, NotFittedError, ParameterError
from longtail.metrics import scorer
from neural.text.tiny import planted_encoder

# What makes a text model quick and certain on 90 short texts.
SMALL: dict[str, Any] = {"length": 32, "epochs": 20, "batch_size": 16, "dropout": 0.0}
FAST = {"n_jobs": 1, "learning_rate": 5e-3, "head_learning_rate": 0.02}
# Constructor arguments that make an estimator quick on 90 points; what is not listed runs with its defaults.
ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "parabel": lambda: {"max_leaf": 2},
    "bonsai": lambda: {"n_children": 3, "max_leaf": 2},
    "pfastrexml": lambda: {"tail": "linear"},  # that with a loss to weigh; tests of the room look at both
    "propensityrerank": lambda: {"base": longtail.DiSMEC(), "folds": 2},
    "ranknet": lambda: {"base": longtail.DiSMEC(), "folds": 2, "epochs": 2, "units": 4},
    "glas": lambda: {"width": 16, "epochs": 15, "batch_size": 16, "learning_rate": 0.05, "n_jobs": 1},
    "attentionxml": lambda: (
        SMALL
        | {
            "hidden": 16,
            "widths": (16,),
            "word_width": 16,
            "learning_rate": 0.02,
            "epochs": 30,
            "word_dropout": 0.0,
            "average_from": None,
        }
    ),
    "aplcxlnet": lambda: SMALL | FAST | {"encoder": planted_encoder(), "width": 16, "hidden_learning_rate": 0.02},
    "xgrank": lambda: SMALL | FAST | {"encoder": planted_encoder()},
    "taug": lambda: {"base": longtail.DiSMEC(), "tau": 0.3},
    "ensemble": lambda: {"models": [longtail.DiSMEC(), longtail.Parabel(max_leaf=2, n_trees=1)], "weights": "fitted"},
    "textpipeline": lambda: {"model": longtail.DiSMEC(), "features": longtail.TextFeatures(min_df=1)},
}
# Parameters to search in the GridSearchCV test; what is not listed is searched with its defaults alone.
GRIDS: dict[str, dict[str, list[Any]]] = {
    "dismec": {"C": [0.1, 1.0]},
    "textpipeline": {"features__min_df": [1, 2]},
    "propensityrerank": {"exponent": [0.0, 1.0]},
    "ensemble": {"combine": ["scores", "ranks"]},
    "taug": {"base__C": [0.1, 1.0]},
}
# Estimators that look at no features: they cannot find the planted labels, and must give the popular ones.
BLIND = {"popularity"}
# Estimators that make rows short themselves.
SCALING = {"unitrows"}

NAMES = registry.estimator_names()
FEATURE_MODELS = [name for name in NAMES if registry.estimator_class(name).input_kind == "features"]
TEXT_MODELS = [name for name in NAMES if registry.estimator_class(name).input_kind == "text"]
every = pytest.mark.parametrize("name", NAMES)
every_feature_model = pytest.mark.parametrize("name", FEATURE_MODELS)
every_text_model = pytest.mark.parametrize("name", TEXT_MODELS)

TRAIN, TEST = planted(90), planted(30, seed=1)


def make(name: str, **changes: Any) -> Estimator:
    arguments = ARGUMENTS.get(name, dict)()
    return registry.estimator_class(name)(**arguments).set_params(**changes)


def fitted(name: str, data: Planted = TRAIN, **changes: Any) -> Estimator:
    model = make(name, **changes)
    return model.fit(data.inputs(model.input_kind), data.Y)


def answers(model: Estimator, data: Planted = TEST, k: int = 3) -> Predictions:
    return model.predict(data.inputs(model.input_kind), k=k)


def assert_same(one: Predictions, other: Predictions) -> None:
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.scores, other.scores)


def assert_well_formed(predictions: Predictions, n_points: int, k: int, n_labels: int = N_LABELS) -> None:
    assert predictions.labels.shape == predictions.scores.shape == (n_points, k)
    for labels, scores in zip(predictions.labels, predictions.scores, strict=True):
        kept = labels[labels >= 0]
        assert (labels[: kept.size] == kept).all(), "padding comes last"
        assert np.unique(kept).size == kept.size, "no label twice"
        assert (kept < n_labels).all()
        pairs = list(zip((-scores[: kept.size]).tolist(), kept.tolist(), strict=True))
        assert pairs == sorted(pairs), "best first, ties by the lower id"


# --- what is learned ---------------------------------------------------------------------------------------------


@every
def test_the_planted_labels_are_found(name):
    predictions = answers(fitted(name), k=2)
    assert_well_formed(predictions, 30, 2)
    if name in BLIND:
        by_count = np.argsort(-np.bincount(TRAIN.Y.indices, minlength=N_LABELS), kind="stable")
        assert (predictions.labels == by_count[:2]).all()
        return
    first_is_right = TEST.Y[np.arange(30), predictions.labels[:, 0]]
    assert np.asarray(first_is_right).sum() >= 29
    found = [len(set(row) & set(true)) / len(true) for row, true in zip(predictions.labels, TEST.lists, strict=True)]
    assert np.mean(found) >= 0.95


@every
def test_a_second_fit_forgets_the_first(name):
    other = planted(60, seed=7)
    model = fitted(name)
    model.fit(other.inputs(model.input_kind), other.Y)
    assert_same(answers(model), answers(fitted(name, other)))
    assert model.n_points_ == 60
    np.testing.assert_array_equal(model.label_counts_, np.bincount(other.Y.indices, minlength=N_LABELS))


# --- the same answer, whichever way it is asked ----------------------------------------------------------------------


@every
def test_a_batch_and_single_points_agree(name):
    model = fitted(name)
    inputs = TEST.inputs(model.input_kind)
    together = answers(model)
    singly = Predictions.concatenate([model.predict(inputs[i : i + 1], k=3) for i in range(30)])
    np.testing.assert_array_equal(together.labels, singly.labels)
    np.testing.assert_allclose(together.scores, singly.scores, rtol=1e-5, atol=1e-6)


@every
def test_smaller_k_is_a_prefix_of_larger_k(name):
    model = fitted(name)
    assert_same(answers(model, k=1), answers(model, k=4).top(1))


@every
def test_no_points_give_no_predictions(name):
    model = fitted(name)
    assert answers(model, planted(0)).labels.shape == (0, 3)


@every
def test_the_same_seed_gives_the_same_model(name):
    assert_same(answers(fitted(name)), answers(fitted(name)))


@every
def test_the_number_of_threads_changes_nothing(name):
    threads = [key for key in make(name).get_params() if key.split("__")[-1] == "n_jobs"]
    one, two, many = (answers(fitted(name, **dict.fromkeys(threads, n))) for n in (1, 2, -1))
    assert_same(one, two)
    assert_same(one, many)


@every
def test_labels_as_lists_and_as_matrices_are_the_same(name):
    inputs = TRAIN.inputs(make(name).input_kind)
    from_csr = answers(fitted(name))
    for Y in (TRAIN.lists, TRAIN.Y.toarray(), TRAIN.Y.toarray().astype(bool), TRAIN.Y.tocsc()):
        assert_same(answers(make(name).fit(inputs, Y)), from_csr)


@every_feature_model
def test_sparse_dense_and_int64_features_are_the_same(name):
    wide = TRAIN.X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    expected = answers(fitted(name))
    for X in (TRAIN.X.toarray(), TRAIN.X.toarray().astype(np.float64), TRAIN.X.tocsc(), wide):
        model = make(name).fit(X, TRAIN.Y)
        assert_same(model.predict(TEST.X, k=3), expected)
        assert_same(model.predict(TEST.X.toarray(), k=3), expected)


@every_text_model
def test_texts_in_any_sequence_are_the_same(name):
    expected = answers(fitted(name))
    for texts in (tuple(TRAIN.texts), np.array(TRAIN.texts), np.array(TRAIN.texts, dtype=object)):
        assert_same(answers(make(name).fit(texts, TRAIN.Y)), expected)


class Interrupted(Silent):
    """A progress that somebody stops with Ctrl-C."""

    started = finished = 0

    def start(self, task: str, total: int) -> None:
        self.started += 1

    def advance(self, amount: int = 1) -> None:
        if amount:
            raise KeyboardInterrupt

    def finish(self) -> None:
        self.finished += 1


@every
def test_a_progress_that_began_ends_when_training_is_interrupted(name):
    progress, model = Interrupted(), make(name)
    with contextlib.suppress(KeyboardInterrupt):  # not all have one
        model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y, run=Run(progress))
    assert progress.started == progress.finished
    assert hasattr(model, "n_labels_") == (progress.started == 0)


# --- gaps in the data ------------------------------------------------------------------------------------------------


def with_gaps() -> Planted:
    """Points without features, points without labels, a label without points."""
    X, Y, texts = TRAIN.X.toarray(), TRAIN.Y.toarray(), list(TRAIN.texts)
    for empty in (0, 17):
        X[empty], texts[empty] = 0, ""
    Y[[1, 2, 17]] = 0
    Y[:, 4] = 0
    return Planted(sparse.csr_matrix(X), sparse.csr_matrix(Y), texts)


@every
def test_empty_points_points_without_labels_and_labels_without_points_are_no_trouble(name, tmp_path):
    gaps = with_gaps()
    model = fitted(name, gaps)
    assert model.label_counts_[4] == 0
    for k in (1, N_LABELS):
        assert_well_formed(answers(model, gaps, k=k), 90, k)
    model.save(tmp_path / "m")
    assert_same(answers(longtail.load_model(tmp_path / "m"), gaps), answers(model, gaps))


# Losses that a model can be trained with besides its default.
LOSSES = {"dismec": ["hinge", "logistic"], "glas": ["bce", "grank"], "xgrank": ["grank"]}


@every
def test_labels_without_points_are_not_predicted(name):
    """They have the lowest ids, which win every tie, and there are more of them than others."""
    unseen = 2 * N_LABELS
    wide = sparse.hstack([sparse.csr_matrix((90, unseen)), TRAIN.Y], format="csr")
    keys = [key for key in make(name).get_params() if key.split("__")[-1] == "weighting"]
    variants = [{}, dict.fromkeys(keys, "pw-cb"), *({"loss": loss} for loss in LOSSES.get(name, []))]
    for changes in variants if keys else variants[:1]:
        model = make(name, **changes)
        model.fit(TRAIN.inputs(model.input_kind), wide)
        for k in (2, N_LABELS + 3):
            found = answers(model, k=k)
            assert_well_formed(found, 30, k, unseen + N_LABELS)
            assert ((found.labels >= unseen) | (found.labels == -1)).all(), changes
            assert (found.labels[:, 0] >= unseen).all(), changes


@every_feature_model
def test_a_feature_that_training_never_saw_is_no_trouble(name):
    unseen = TEST.X.tolil()
    unseen[:, N_FEATURES - 1] = 1.0
    model = fitted(name)
    np.testing.assert_array_equal(model.predict(unseen.tocsr(), k=1).labels, model.predict(TEST.X, k=1).labels)


@every_text_model
def test_words_that_training_never_saw_are_no_trouble(name):
    model = fitted(name)
    unseen = [text + " zyzzyva" for text in TEST.texts]
    assert_same(model.predict(unseen, k=3), model.predict(TEST.texts, k=3))


# --- what is refused -------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("k", [0, -1, N_LABELS + 1, 1.5, "3"])
def test_a_k_that_makes_no_sense_is_refused(name, k):
    with pytest.raises(ParameterError, match="k "):
        answers(fitted(name), k=k)


@every
def test_predicting_or_saving_before_fitting_is_refused(name, tmp_path):
    model = make(name)
    with pytest.raises(NotFittedError, match="not fitted"):
        answers(model)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@every_feature_model
def test_features_that_cannot_be_used_are_refused(name):
    model = fitted(name)
    with pytest.raises(DataError, match="was fitted with"):
        model.predict(TEST.X[:, :5], k=1)
    broken = TEST.X.toarray()
    broken[3, 0] = np.nan
    with pytest.raises(DataError, match="point 3"):
        model.predict(broken, k=1)
    with pytest.raises(DataError, match="X must"):
        model.predict(TEST.texts, k=1)


@every_text_model
def test_what_is_not_a_text_is_refused(name):
    with pytest.raises(DataError, match="text"):
        make(name).fit(TRAIN.X, TRAIN.Y)
    with pytest.raises(DataError, match="1"):
        make(name).fit([TRAIN.texts[0], 5, *TRAIN.texts[2:]], TRAIN.Y)


@every
def test_points_and_labels_must_be_as_many(name):
    model = make(name)
    with pytest.raises(DataError, match="X has 90 points, but Y has 89"):
        model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y[:-1])


@every
def test_data_without_any_label_is_refused(name):
    model = make(name)
    with pytest.raises(DataError, match="no point has a label"):
        model.fit(TRAIN.inputs(model.input_kind), np.zeros((90, N_LABELS)))
    with pytest.raises(NotFittedError):
        answers(model)


@every_feature_model
@pytest.mark.parametrize("value", [3e38, -1e11])
def test_features_too_large_to_be_squared_are_refused_or_scaled(name, value):
    broken = TRAIN.X.toarray()
    broken[3, 0] = value
    if name in SCALING:
        assert_well_formed(make(name).fit(broken, TRAIN.Y).predict(broken, k=2), 90, 2)
        return
    with pytest.raises(DataError, match=r"point 3 .*scale rows"):
        make(name).fit(broken, TRAIN.Y)
    with pytest.raises(DataError, match=r"point 3 .*scale rows"):
        fitted(name).predict(broken, k=1)


@every
def test_fit_and_predict_leave_their_inputs_alone(name):
    data, test = planted(90), planted(30, seed=1)
    shuffled = data.X.copy()  # rows in an odd order, which a careless model would sort in place
    for start, end in zip(shuffled.indptr[:-1], shuffled.indptr[1:], strict=True):
        shuffled.indices[start:end] = shuffled.indices[start:end][::-1].copy()
    shuffled.has_sorted_indices = False
    model = make(name)
    inputs = data.texts if model.input_kind == "text" else shuffled
    before = [a.copy() for a in (shuffled.data, shuffled.indices, shuffled.indptr, data.Y.data, data.Y.indices)]
    parameters = repr(model.get_params())
    model.fit(inputs, data.Y)
    answers(model, test)
    after = [shuffled.data, shuffled.indices, shuffled.indptr, data.Y.data, data.Y.indices]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert data.texts == planted(90).texts
    assert (test.X != planted(30, seed=1).X).nnz == 0
    assert repr(model.get_params()) == parameters, "fit changes no parameter"


# --- model directories -----------------------------------------------------------------------------------------------


@every
def test_a_saved_model_answers_as_before(name, tmp_path):
    model = make(name)
    names = [f"label {i}" for i in range(N_LABELS)]
    model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y, label_names=names).save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    assert type(loaded) is type(model)
    assert_same(answers(loaded), answers(model))
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert loaded.label_names_ == names
    assert loaded.fingerprint_ == model.fingerprint_
    np.testing.assert_array_equal(loaded.label_counts_, model.label_counts_)
    loaded.save(tmp_path / "again")
    assert_same(answers(longtail.load_model(tmp_path / "again")), answers(model))


@every
def test_a_missing_or_altered_model_file_is_noticed(name, tmp_path):
    fitted(name).save(tmp_path / "m")
    for file in list((tmp_path / "m").iterdir()):
        content = file.read_bytes()
        for wrong in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b"", None):
            file.unlink() if wrong is None else file.write_bytes(wrong)
            with pytest.raises(ModelError, match=file.name):
                longtail.load_model(tmp_path / "m")
        file.write_bytes(content)
    assert_same(answers(longtail.load_model(tmp_path / "m")), answers(fitted(name)))


# --- scikit-learn's habits -------------------------------------------------------------------------------------------


@every
def test_the_constructor_takes_keywords_only_and_only_stores(name):
    cls = registry.estimator_class(name)
    model = make(name)
    for parameter in cls._get_param_names():
        assert inspect.signature(cls).parameters[parameter].kind is inspect.Parameter.KEYWORD_ONLY
        marker = object()  # no constructor may look at its values: clone and set_params rely on it
        assert getattr(cls(**{parameter: marker}), parameter) is marker
    assert cls(**model.get_params(deep=False)).get_params(deep=False) == model.get_params(deep=False)


@every
def test_a_clone_is_unfitted_and_learns_the_same(name):
    model = fitted(name)
    copy = clone(model)
    assert repr(copy.get_params()) == repr(model.get_params())
    with pytest.raises(NotFittedError):
        answers(copy)
    copy.fit(TRAIN.inputs(copy.input_kind), TRAIN.Y)
    assert_same(answers(copy), answers(model))


@every
def test_it_works_as_the_last_step_of_a_pipeline(name):
    model = make(name)
    first = ("normalise", Normaliser()) if model.input_kind == "features" else ("same", "passthrough")
    pipeline = Pipeline([first, ("model", model)])
    pipeline.fit(TRAIN.inputs(model.input_kind), TRAIN.Y)
    predictions = pipeline.predict(TEST.inputs(model.input_kind), k=3)
    assert_well_formed(predictions, 30, 3)
    # Normalised rows differ in their last bits, and what a tree does with those is chance: the same rows for both.
    same = Normaliser().fit_transform if model.input_kind == "features" else list
    alone = make(name).fit(same(TRAIN.inputs(model.input_kind)), TRAIN.Y)
    assert_same(predictions, alone.predict(same(TEST.inputs(model.input_kind)), k=3))


def Normaliser():
    from sklearn.preprocessing import Normalizer

    return Normalizer()


@every
def test_a_grid_search_by_psp_works(name):
    model = make(name)
    search = GridSearchCV(model, GRIDS.get(name, {}), scoring=scorer("psp@3"), cv=2, error_score="raise")
    search.fit(TRAIN.inputs(model.input_kind), TRAIN.Y)
    assert 0 <= search.best_score_ <= 1
    assert_well_formed(search.best_estimator_.predict(TEST.inputs(model.input_kind), k=3), 30, 3)


@every
def test_a_model_that_trains_a_loss_takes_every_weighting(name):
    model = make(name)
    for key in [key for key in model.get_params() if key.split("__")[-1] == "weighting"]:
        for weighting in (None, "pw", "pw-cb"):
            assert_well_formed(answers(fitted(name, **{key: weighting})), 30, 3)
        with pytest.raises(ParameterError, match="weighting"):
            fitted(name, **{key: "nonsense"})
