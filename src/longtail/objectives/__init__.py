"""Propensities, the label weightings made from them, and the losses that these weight: each formula in one place."""

from __future__ import annotations

from longtail.objectives.hierarchy import HierarchyCounts, hierarchy_counts
from longtail.objectives.losses import Loss, loss_named, weighted_gradient, weighted_loss
from longtail.objectives.propensity import PropensityFit, PropensityModel, fit_propensities, propensities_from
from longtail.objectives.weighting import PW, PWcb, Unbiased, Unweighted, Weighting, normalised, resolve_weighting

__all__ = [
    "PW",
    "HierarchyCounts",
    "Loss",
    "PWcb",
    "PropensityFit",
    "PropensityModel",
    "Unbiased",
    "Unweighted",
    "Weighting",
    "fit_propensities",
    "hierarchy_counts",
    "loss_named",
    "normalised",
    "propensities_from",
    "resolve_weighting",
    "weighted_gradient",
    "weighted_loss",
]
