"""Contributions of words and features: they sum to the score, and they point at the right places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import longtail
from attack.resign import Model
from attack.victims import saved
from contract.planted import N_LABELS, WORDS_PER_LABEL, planted, word
from longtail.errors import DataError, ParameterError
from longtail.linear.shards import Shards

TRAIN, TEST = planted(90), planted(4, seed=1)
TREES = {"n_trees": 2, "max_leaf": 2}


def text_pipeline(model=None, **features):
    return longtail.TextPipeline(model=model, features=longtail.TextFeatures(min_df=1, max_df=1.0, **features))


MODELS = {
    "dismec": lambda: longtail.DiSMEC(),
    "logistic": lambda: longtail.DiSMEC(loss="logistic"),
    "unit rows": lambda: longtail.UnitRows(),
    "parabel": lambda: longtail.Parabel(**TREES, beam=None),
    "bonsai": lambda: longtail.Bonsai(n_children=3, **TREES, beam=None),
    "rerank": lambda: longtail.PropensityRerank(folds=2),
    "rerank over trees": lambda: longtail.PropensityRerank(base=longtail.Parabel(**TREES), held_out=0.3),
    "ranknet": lambda: longtail.RankNet(folds=2, blocks=0),
    "taug": lambda: longtail.Taug(tau=0.3),
    "calibrated taug": lambda: longtail.Taug(tau=0.3, merge="calibrated"),
    "ensemble": lambda: longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Parabel(**TREES)]),
    "fastxml": lambda: longtail.FastXML(n_trees=5, n_jobs=1),
    "pfastrexml": lambda: longtail.PfastreXML(n_trees=5, n_jobs=1),
    "popularity": lambda: longtail.Popularity(),
    "texts of fastxml": lambda: text_pipeline(longtail.FastXML(n_trees=5)),
    "texts": text_pipeline,
    "pairs of words": lambda: text_pipeline(ngram_range=(1, 2)),
    "texts with a bias": lambda: text_pipeline(bias=0.5),
    "ensemble of texts": lambda: longtail.Ensemble(models=[text_pipeline(), text_pipeline(ngram_range=(2, 2))]),
}


def test_without_a_way_of_its_own_a_contribution_is_what_leaving_a_feature_out_costs():
    model = longtail.FastXML(n_trees=5).fit(TRAIN.X, TRAIN.Y)
    row = TEST.X[:1]
    label = int(model.predict(row, k=1).labels[0, 0])
    found = model.explain(row, label)
    for place, own in enumerate(found.features):
        less = row.copy()
        less.data[place] = 0
        less.eliminate_zeros()
        ranked = model.predict(less, k=N_LABELS)
        there = ranked.scores[0][ranked.labels[0] == label]
        assert there.size, "the planted trees reach every label of a point"
        assert own.contribution == pytest.approx(found.score - float(there[0]), abs=1e-6)
    assert max(own.contribution for own in found.features) > 0.01
    flat = longtail.Popularity().fit(TRAIN.X, TRAIN.Y).explain(row, label)
    assert (flat.bias, {own.contribution for own in flat.features}) == (flat.score, {0.0})


@pytest.mark.parametrize("name", MODELS)
def test_contributions_and_bias_sum_to_the_score(name):
    model = MODELS[name]()
    model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y)
    inputs = TEST.inputs(model.input_kind)
    best = model.predict(inputs, k=2)
    for row in range(len(TEST.texts)):
        point = inputs[row] if model.input_kind == "text" else inputs[row : row + 1]
        for label, score in zip(best.labels[row], best.scores[row], strict=True):
            found = model.explain(point, int(label))
            assert found.label == label
            assert found.score == pytest.approx(score, abs=1e-4)
            assert found.bias + sum(own.contribution for own in found.features) == pytest.approx(found.score, abs=1e-6)
            if model.input_kind == "text":
                assert [TEST.texts[row][token.start : token.end] for token in found.tokens] == [
                    token.token for token in found.tokens
                ]
                speaks = any(own.contribution for own in found.features)  # or no single word matters
                assert sum(abs(token.weight) for token in found.tokens) == pytest.approx(1 if speaks else 0)


@pytest.mark.parametrize("name", ["dismec", "parabel", "bonsai", "taug"])
def test_the_features_of_a_label_speak_for_it(name):
    model = MODELS[name]().fit(TRAIN.X, TRAIN.Y)
    for label in range(N_LABELS):
        other = (label + 3) % N_LABELS
        x = np.zeros((1, TRAIN.X.shape[1]), np.float32)
        for own in (label, other):
            x[0, own * WORDS_PER_LABEL : (own + 1) * WORDS_PER_LABEL] = 0.4
        found = model.explain(x, label)
        best = max(found.features, key=lambda feature: feature.contribution)
        assert best.feature // WORDS_PER_LABEL == label
        assert best.name == str(best.feature)


def test_a_term_is_found_at_all_its_places():
    model = text_pipeline(ngram_range=(1, 2)).fit(TRAIN.texts, TRAIN.Y)
    text = f"İ İ {word(0).upper()}, {word(1)}; {word(0)} unknown {word(1)}"  # one capital I becomes two characters
    found = model.explain(text, 0)
    assert [(token.token, token.start) for token in found.tokens] == [
        ("W00", 4), ("W00, w01", 4), ("w01", 9), ("w00", 14), ("w01", 26),
    ]  # fmt: skip
    assert {own.name for own in found.features} == {"w00", "w01", "w00 w01"}
    assert found.tokens[0].weight == found.tokens[3].weight > 0


def test_what_cannot_be_explained_is_said():
    model = longtail.DiSMEC().fit(TRAIN.X, np.hstack([TRAIN.Y.toarray(), np.zeros((90, 1))]))
    with pytest.raises(ParameterError, match="label 6 has no training points"):
        model.explain(TEST.X[:1], 6)
    with pytest.raises(DataError, match="one point, not 2"):
        model.explain(TEST.X[:2], 0)
    with pytest.raises(DataError, match="features of one point"):
        model.explain("a text", 0)
    with pytest.raises(ParameterError, match="means of ranks"):
        longtail.Ensemble(models=[longtail.DiSMEC()], combine="ranks").fit(TRAIN.X, TRAIN.Y).explain(TEST.X[:1], 0)


def test_a_score_that_is_not_finite_is_not_explained(tmp_path):
    model = longtail.DiSMEC(weight_dtype="float32").fit(TRAIN.X, TRAIN.Y)
    (part,) = model._shards.parts
    model._shards = Shards([replace(part, values=np.full_like(part.values, np.inf))])
    model.save(tmp_path / "m")  # anybody may write such a model
    with pytest.raises(DataError, match=r"the score of label 0 is (inf|nan), which no contributions sum to"):
        longtail.load_model(tmp_path / "m").explain(TEST.X[:1], 0)


@pytest.mark.parametrize("entry", [np.nan, -np.inf])
def test_a_score_that_is_not_finite_is_refused_without_warnings(entry, tmp_path, recwarn):
    model = Model.of(saved("ranknet"))
    model.arrays["learned/part0/learned/intercepts"].fill(entry)
    model.write(tmp_path / "m")
    with pytest.raises(DataError, match=r"the score of label 0 is (-inf|nan), which no contributions sum to"):
        longtail.load_model(tmp_path / "m").explain(TEST.X[:1], 0)
    assert not recwarn.list
