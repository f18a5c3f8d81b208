"""Counted terms: what the ways to count have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a few texts, counted per text.

    Parameters
    ----------
    names : sequence of str
        Distinct terms, in the order in which they occur.
    indptr : (texts + 1,) array of int64
        Where the counts of each text begin, as in CSR.
    indices : array of int32
        Positions in `names`, in any order within a text.
    data : array of float32
        Counts.
    """

    names: Sequence[str]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]
