"""Extreme multi-label classification when labels are many, rare and partly missing.

Public names are imported on first use, so `import longtail` stays light.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Predictions": "longtail.core.predictions",
    "Bonsai": "longtail.trees.label.models",
    "DiSMEC": "longtail.linear.dismec",
    "Estimator": "longtail.core.estimator",
    "FastXML": "longtail.trees.instance.fastxml",
    "GLaS": "longtail.neural.glas",
    "PfastXML": "longtail.trees.instance.fastxml",
    "PfastreXML": "longtail.trees.instance.fastxml",
    "Parabel": "longtail.trees.label.models",
    "IndicatorClassifier": "longtail.core.indicator",
    "Popularity": "longtail.core.popularity",
    "PropensityRerank": "longtail.compose.propensity_rerank",
    "RankNet": "longtail.compose.ranknet",
    "Taug": "longtail.compose.taug",
    "Ensemble": "longtail.compose.ensemble",
    "AutoModel": "longtail.compose.auto",
    "AttentionXML": "longtail.neural.text.attentionxml",
    "APLCXLNet": "longtail.neural.text.aplcxlnet",
    "XGRank": "longtail.neural.text.xgrank",
    "load_model": "longtail.core.model",
    "save_model": "longtail.core.model",
    "make_longtail": "longtail.data.synthetic",
    "Evidence": "longtail.features",
    "TextFeatures": "longtail.features",
    "TextPipeline": "longtail.features",
    "UnitRows": "longtail.features",
    "PropensityModel": "longtail.objectives",
    "PW": "longtail.objectives",
    "PWcb": "longtail.objectives",
    "Unbiased": "longtail.objectives",
    "Dataset": "longtail.data.dataset",
    "LabelTable": "longtail.data.labels",
    "Texts": "longtail.data.texts",
    "Vocabulary": "longtail.core.vocabulary",
    "read_dataset": "longtail.data.formats",
    "read_label_table": "longtail.data.labels",
    "read_predictions": "longtail.data.predictions_io",
    "read_vocabulary": "longtail.data.vocabularies",
    "write_dataset": "longtail.data.formats",
    "write_predictions": "longtail.data.predictions_writer",
    "evaluate": "longtail.metrics",
    "metrics": "longtail.metrics",
    "errors": "longtail.errors",
}

_NEED_TORCH = ("longtail.neural.",)


def _names() -> list[str]:
    """Return the public names that can be imported here: without torch, the neural models are left out."""
    missing = () if importlib.util.find_spec("torch") else _NEED_TORCH
    return ["__version__", *sorted(name for name, home in _HOME.items() if not home.startswith(missing))]


def __getattr__(name: str) -> Any:
    if name == "__all__":  # asked for by `from longtail import *`, and only then worth a look for torch
        return _names()
    if name not in _HOME:
        raise AttributeError(f"module 'longtail' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    return module if name in ("errors", "metrics") else getattr(module, name)


def __dir__() -> list[str]:
    return _names()
