"""What the text models learn from planted texts, beyond the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import longtail
from contract.planted import N_LABELS, word
from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Silent
from longtail.core.run import Run
from neural.text.text_models import CLUSTERED, TEST, TRAIN, aplc, attention, share_found, xgrank


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "bce"}, {"pooling": "cls"}, {"label_features": "words"}, {"prior": False},
        CLUSTERED, CLUSTERED | {"loss": "bce"}, CLUSTERED | {"label_features": "words"}, CLUSTERED | {"prior": False},
    ],
)  # fmt: skip
def test_xgrank_finds_the_labels_in_every_form(changes, tmp_path):
    model = xgrank(**changes).fit(TRAIN.texts, TRAIN.Y, label_names=[f"w{3 * i:02d}" for i in range(N_LABELS)])
    assert share_found(model) >= 0.95
    model.save(tmp_path / "m")
    loaded, before = longtail.load_model(tmp_path / "m").predict(TEST.texts, k=4), model.predict(TEST.texts, k=4)
    np.testing.assert_array_equal(loaded.labels, before.labels)
    np.testing.assert_array_equal(loaded.scores, before.scores)


@pytest.mark.parametrize("clusters", [{}, CLUSTERED])
def test_labels_begin_at_how_frequent_they_are_or_at_zero(clusters):
    settings = clusters | {"epochs": 1, "learning_rate": 1e-12, "head_learning_rate": 1e-12}
    frequent = xgrank(**settings).fit(TRAIN.texts, TRAIN.Y).network_
    equal = xgrank(**settings, prior=False).fit(TRAIN.texts, TRAIN.Y).network_
    share = np.bincount(TRAIN.Y.indices, minlength=N_LABELS) / TRAIN.Y.shape[0]
    odds = frequent.head.bias.detach().numpy()
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), share, atol=0.02)
    heads = [equal.head, *([equal.clusters] if clusters else [])]
    assert max(float(head.bias.detach().abs().max()) for head in heads) < 1e-6


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_validation_uses_the_network_of_its_epoch_and_not_an_8_bit_copy(make):
    plain, later = (make(held_out=0.3, epochs=5, quantise=q).fit(TRAIN.texts, TRAIN.Y) for q in ("none", "int8"))
    assert [e["P@1"] for e in later.history_.epochs] == [e["P@1"] for e in plain.history_.epochs]
    assert not later._copies
    later.predict(TEST.texts, k=1)
    assert later._copies


@pytest.mark.parametrize("above", [4, 2])
def test_attentionxml_finds_the_labels_through_a_tree(above, tmp_path):
    model = attention(clusters_above=above, cluster_size=2, beam=2).fit(TRAIN.texts, TRAIN.Y)
    assert len(model.network_.levels) == (2 if above == 4 else 3)
    assert share_found(model) >= 0.95
    model.save(tmp_path / "m")
    loaded, before = longtail.load_model(tmp_path / "m").predict(TEST.texts, k=4), model.predict(TEST.texts, k=4)
    np.testing.assert_array_equal(loaded.labels, before.labels)
    np.testing.assert_array_equal(loaded.scores, before.scores)
    text = f"{word(0)} {word(9)}"
    assert model.explain(text, 0).tokens[0].token == word(0)
    found = model.predict([text], k=2)
    for label, score in zip(found.labels[0], found.scores[0], strict=True):
        assert model.explain(text, int(label)).score == pytest.approx(score, abs=1e-5)
    model.set_params(quantise="int8").predict([text], k=2)
    assert model._copies


def test_a_prediction_is_padded_where_too_few_labels_are_retrieved():
    model = xgrank(**CLUSTERED | {"n_retrieved": 1}).fit(TRAIN.texts, TRAIN.Y)
    found = model.predict(TEST.texts, k=N_LABELS)
    assert (found.labels[:, 2:] == -1).all()
    assert (found.labels[:, 0] >= 0).all()


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_a_weighting_raises_the_scores_of_rare_labels(make):
    plain, weighted = (make(weighting=w, epochs=6).fit(TRAIN.texts, TRAIN.Y) for w in (None, "pw-cb"))
    counts = np.bincount(TRAIN.Y.indices, minlength=N_LABELS)
    rare = int(counts.argmin())

    def mean_score(model: Any) -> float:
        found = model.predict(TEST.texts, k=N_LABELS)
        return float(np.mean(found.scores[found.labels == rare] - found.scores[:, 0]))

    assert mean_score(weighted) > mean_score(plain)


def test_validation_keeps_the_best_epoch(tmp_path):
    model = xgrank(held_out=0.2, epochs=6, metric="P@1").fit(TRAIN.texts, TRAIN.Y)
    measured = [epoch["P@1"] for epoch in model.history_.epochs]
    assert model.history_.best_epoch == int(np.argmax(measured))
    model.save(tmp_path / "m")
    assert longtail.load_model(tmp_path / "m").history_ == model.history_


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: longtail.Ensemble(models=[attention(), xgrank(epochs=8)]),
        lambda: longtail.RankNet(base=attention(epochs=20), folds=2, epochs=2, units=4),
        lambda: longtail.Taug(base=attention(epochs=10), tau=0.3),
        lambda: longtail.Ensemble(models=[aplc(epochs=8), attention()]),
        lambda: longtail.RankNet(base=aplc(epochs=14), held_out=0.3, epochs=2, units=4),
        lambda: longtail.Taug(base=aplc(epochs=5), tau=0.3),
    ],
    ids=["ensemble", "ranknet", "taug", "ensemble of aplc", "ranknet of aplc", "taug of aplc"],
)
def test_they_work_inside_wrappers(wrapped):
    assert share_found(wrapped().fit(TRAIN.texts, TRAIN.Y)) >= 0.95


@pytest.mark.parametrize(
    ("make", "kill_after"),
    [(xgrank, 15), (lambda **changes: attention(clusters_above=4, cluster_size=2, beam=2, **changes), 35)],
    ids=["xgrank", "tree"],
)
def test_an_interrupted_training_resumes_to_the_same_model(make, kill_after, tmp_path):
    """Killed after some steps, with a checkpoint at every step; a tree has one checkpoint per level."""
    whole = make(epochs=3).fit(TRAIN.texts, TRAIN.Y).predict(TEST.texts, k=3)
    model = make(epochs=3, checkpoint_seconds=0.0)
    steps = []

    class Killed(Exception): ...

    class Impatient(Silent):
        def advance(self, amount: int = 1) -> None:
            steps.append(amount)
            if len(steps) == kill_after and kill:
                raise Killed

    kill = True
    with pytest.raises(Killed):
        model.fit(TRAIN.texts, TRAIN.Y, run=Run(Impatient(), Checkpoint(tmp_path / "c", resume=False)))
    kill = False
    model.fit(TRAIN.texts, TRAIN.Y, run=Run(Impatient(), Checkpoint(tmp_path / "c", resume=True)))
    again = model.predict(TEST.texts, k=3)
    np.testing.assert_array_equal(again.labels, whole.labels)
    np.testing.assert_array_equal(again.scores, whole.scores)
