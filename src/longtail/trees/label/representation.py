"""Represent labels for clustering: one sparse row of unit length per label, made from the points that have it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.errors import DataError

REPRESENTATIONS = ("pifa", "output", "joint")


def label_representation(X: sparse.csr_matrix, Y: sparse.csr_matrix, kind: str) -> sparse.csr_matrix:
    """Return one row of unit length per label; a label without points has an empty row.

    Parameters
    ----------
    X : (n, D) csr_matrix of float32
        Features.
    Y : (n, L) csr_matrix
        Label indicator.
    kind : {"pifa", "output", "joint"}
        "pifa": the sum of the unit-length feature vectors of the label's points (Prabhu et al. 2018, section 4.1;
        Khandagale et al. 2020, eq. 1). "output": the sum of the label vectors of its points, i.e. how often it occurs
        together with each label (Khandagale et al. 2020, section 3.1.2). "joint": both side by side, each of unit
        length.

    Returns
    -------
    (L, D), (L, L) or (L, D + L) csr_matrix of float32

    Raises
    ------
    DataError
        If X has no columns, and labels are to be compared by them.
    """
    if X.shape[1] == 0 and kind != "output":
        raise DataError("X has no features, so labels cannot be compared by the features of their points")
    by_label = sparse.csr_matrix(Y.T, dtype=np.float32)
    parts = []
    if kind in ("pifa", "joint"):
        parts.append(_unit_rows(by_label @ _normalised(X)))
    if kind in ("output", "joint"):
        parts.append(_unit_rows(by_label @ Y))
    return parts[0] if len(parts) == 1 else _unit_rows(sparse.hstack(parts, format="csr"))


def _unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    return _normalised(sparse.csr_matrix(matrix, dtype=np.float32))


def _normalised(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    from sklearn.preprocessing import normalize

    return normalize(matrix) if min(matrix.shape) else matrix  # scikit-learn refuses data without features
