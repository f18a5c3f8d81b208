"""Gaps in the data: empty points, points without labels, labels without points, unseen features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import longtail
from contract.models import (
    BLIND,
    TEST,
    TRAIN,
    answers,
    assert_same,
    assert_well_formed,
    every,
    every_feature_model,
    every_text_model,
    fitted,
    make,
    shared,
)
from contract.planted import N_FEATURES, N_LABELS, Planted
from longtail.errors import ParameterError


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


def readable_and_not(name):
    """Inputs of which the first three say nothing: empty, and without a known word or with a stored zero."""
    model = shared(name)
    if model.input_kind == "text":
        return model, ["", " \n", "zyzzyva 繁体字", *TEST.texts]
    zeros = sparse.csr_matrix((np.zeros(2, np.float32), [0, 3], [0, 0, 0, 2]), shape=(3, N_FEATURES))
    return model, sparse.vstack([zeros, TEST.X], format="csr")


@every
def test_a_point_without_anything_known_gets_no_labels(name):
    model, inputs = readable_and_not(name)
    found = model.predict(inputs, k=3)
    if name in BLIND:  # a point without features is one like any other
        assert_same(found[:3], found[3:6])
        return
    assert found.empty.tolist() == [True] * 3 + [False] * 30
    np.testing.assert_array_equal(found.labels[3:], answers(model).labels)


@every
def test_the_fallback_gives_the_most_frequent_labels(name):
    model, inputs = readable_and_not(name)
    filled, plain = model.predict(inputs, k=3, fallback="popular"), model.predict(inputs, k=3)
    counts = np.bincount(TRAIN.Y.indices, minlength=N_LABELS)
    popular = np.argsort(-counts, kind="stable")[:3]
    for row in range(3):
        np.testing.assert_array_equal(filled.labels[row], popular)
        np.testing.assert_allclose(filled.scores[row], counts[popular] / 90, rtol=1e-6)
    assert_same(filled[3:], plain[3:])
    with pytest.raises(ParameterError, match="fallback is 'popula', but must be one of 'none', 'popular'"):
        model.predict(inputs, fallback="popula")


def test_models_inside_wrappers_decide_about_empty_points():
    """Popularity needs no features, wherever it is; beside it, models that do stay silent."""
    zeros = sparse.csr_matrix((2, N_FEATURES), dtype=np.float32)
    for answering in (
        longtail.UnitRows(model=longtail.Popularity()),
        longtail.PropensityRerank(base=longtail.Popularity(), folds=2),
        longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Popularity()]),
    ):
        assert not answering.fit(TRAIN.X, TRAIN.Y).predict(zeros, k=2).empty.any()
    texts = longtail.TextPipeline(model=longtail.Popularity(), features=longtail.TextFeatures(min_df=1))
    assert not texts.fit(TRAIN.texts, TRAIN.Y).predict([""], k=2).empty.any()
    silent = longtail.PropensityRerank(base=longtail.UnitRows(), folds=2).fit(TRAIN.X, TRAIN.Y)
    assert silent.predict(zeros, k=2).empty.all()


@every_feature_model
def test_a_feature_that_training_never_saw_is_no_trouble(name):
    unseen = TEST.X.tolil()
    unseen[:, N_FEATURES - 1] = 1.0
    model = shared(name)
    np.testing.assert_array_equal(model.predict(unseen.tocsr(), k=1).labels, model.predict(TEST.X, k=1).labels)


@every_text_model
def test_words_that_training_never_saw_are_no_trouble(name):
    model = shared(name)
    unseen = [text + " zyzzyva" for text in TEST.texts]
    assert_same(model.predict(unseen, k=3), model.predict(TEST.texts, k=3))
