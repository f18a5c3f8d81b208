"""The metrics that benchmarks record and show."""

from __future__ import annotations

from typing import Any

SIX = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
BESIDE_PSP = ("macro-F1@5", "coverage@5")  # PSP never stands alone: docs/metrics.md says why
METRICS = (*SIX, *BESIDE_PSP)
FEWER = ("P@1", "P@5", "PSP@1", "PSP@5", *BESIDE_PSP)
FIRST = ("P@1", "PSP@1", *BESIDE_PSP)


def measured(ranked: Any, Y: Any, counts: Any, n_points: int, *, digits: int = 2) -> dict[str, float]:
    """Return METRICS of ranked labels, in percent.

    Parameters
    ----------
    ranked : Predictions
        At least five labels per point.
    Y : CSR indicator
        True labels; may have labels beyond those of training.
    counts : array of int
        Training points per label, from which propensities come.
    n_points : int
        Points in training.
    digits : int, default 2
        Decimals kept.
    """
    import numpy as np

    from longtail.metrics import evaluate
    from longtail.objectives import PropensityModel

    known = np.pad(counts, (0, max(0, Y.shape[1] - len(counts))))
    inverse = PropensityModel().inverse(known, n_points)
    found = evaluate(ranked, Y, inverse_propensities=inverse, ks=(1, 3, 5))
    return {name: round(float(found[name]), digits) for name in METRICS}
