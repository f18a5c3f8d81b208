"""Propensities, the label weightings derived from them, and the losses they weight: each formula in one place."""

from __future__ import annotations

from longtail.objectives.hierarchy import HierarchyCounts, hierarchy_counts
from longtail.objectives.losses import Loss, loss_named, weighted_gradient, weighted_loss
from longtail.objectives.propensity import PropensityFit, PropensityModel, fit_propensities, propensities_from
from longtail.objectives.ranking import grank_loss, margin_loss, negative_mining_loss, softmax_cross_entropy
from longtail.objectives.weighting import (
    PW,
    PWcb,
    Unbiased,
    Unweighted,
    Weighting,
    normalised,
    normalised_coefficients,
    resolve_weighting,
)

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
    "grank_loss",
    "hierarchy_counts",
    "loss_named",
    "margin_loss",
    "negative_mining_loss",
    "normalised",
    "normalised_coefficients",
    "propensities_from",
    "resolve_weighting",
    "softmax_cross_entropy",
    "weighted_gradient",
    "weighted_loss",
]
