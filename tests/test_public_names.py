"""The names that users may rely on: adding or dropping one is a decision, and shows up here."""

from __future__ import annotations

import longtail

PUBLIC = [
    "APLCXLNet",
    "AttentionXML",
    "Bonsai",
    "Dataset",
    "DiSMEC",
    "Ensemble",
    "Estimator",
    "FastXML",
    "GLaS",
    "LabelTable",
    "PW",
    "PWcb",
    "Parabel",
    "PfastXML",
    "PfastreXML",
    "Popularity",
    "Predictions",
    "PropensityModel",
    "PropensityRerank",
    "RankNet",
    "Taug",
    "TextFeatures",
    "TextPipeline",
    "Texts",
    "Unbiased",
    "UnitRows",
    "Vocabulary",
    "XGRank",
    "errors",
    "evaluate",
    "load_model",
    "make_longtail",
    "metrics",
    "read_dataset",
    "read_label_table",
    "read_predictions",
    "read_vocabulary",
    "save_model",
    "write_dataset",
    "write_predictions",
]


def test_the_public_names_are_these():
    assert sorted(set(longtail.__all__) - {"__version__"}) == PUBLIC


def test_every_public_name_can_be_had_and_is_documented():
    for name in PUBLIC:
        assert getattr(longtail, name).__doc__, name
