"""The names that users may rely on: adding or dropping one is a decision, and shows up here."""

from __future__ import annotations

import subprocess
import sys

import longtail

PUBLIC = [
    "APLCXLNet",
    "AttentionXML",
    "AutoModel",
    "Bonsai",
    "Dataset",
    "DiSMEC",
    "Ensemble",
    "Estimator",
    "Evidence",
    "FastXML",
    "GLaS",
    "IndicatorClassifier",
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


WITHOUT_TORCH = """
import sys
from importlib.machinery import PathFinder


class WithoutTorch(PathFinder):
    def find_spec(name, path=None, target=None):
        return None if name.split(".")[0] == "torch" else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch  # as if it were not installed
import longtail
from longtail import *
assert DiSMEC is longtail.DiSMEC and RankNet is longtail.RankNet
print(" ".join(sorted(set(longtail.__all__) - {"__version__"})))
try:
    longtail.GLaS
except longtail.errors.MissingExtraError as error:
    print(error)
"""


def test_a_star_import_without_torch_leaves_the_neural_models_out():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    names, message = done.stdout.splitlines()
    assert names.split() == [name for name in PUBLIC if name not in ("APLCXLNet", "AttentionXML", "GLaS", "XGRank")]
    assert message == "a neural model needs torch: pip install 'longtail[deep]'"
