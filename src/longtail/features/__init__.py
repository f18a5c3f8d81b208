"""From texts to sparse features, and models that take texts."""

from __future__ import annotations

from longtail.features.pipeline import TextPipeline
from longtail.features.text import TextFeatures

__all__ = ["TextFeatures", "TextPipeline"]
