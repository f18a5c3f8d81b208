"""From texts to sparse features, rows of one length, and models behind either."""

from __future__ import annotations

from longtail.features.pipeline import TextPipeline, UnitRows
from longtail.features.text import TextFeatures

__all__ = ["TextFeatures", "TextPipeline", "UnitRows"]
