"""Texts to sparse features, rows scaled to length 1, and pipelines that put a model behind either."""

from __future__ import annotations

from longtail.features.evidence import Evidence
from longtail.features.pipeline import TextPipeline, UnitRows
from longtail.features.text import TextFeatures

__all__ = ["Evidence", "TextFeatures", "TextPipeline", "UnitRows"]
