"""Gaps in the data: empty points, points without labels, labels without points, unseen features."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import longtail
from contract.models import (
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
    model = shared(name)
    np.testing.assert_array_equal(model.predict(unseen.tocsr(), k=1).labels, model.predict(TEST.X, k=1).labels)


@every_text_model
def test_words_that_training_never_saw_are_no_trouble(name):
    model = shared(name)
    unseen = [text + " zyzzyva" for text in TEST.texts]
    assert_same(model.predict(unseen, k=3), model.predict(TEST.texts, k=3))
