"""Digests of data: how a checkpoint and a model recognise the data they were made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import n_rows
from longtail.core.state import Array
from longtail.errors import DataError


def fingerprint(*arrays: Array) -> str:
    """Return a short digest of the contents, dtypes and shapes of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def data_fingerprint(X: Any, Y: sparse.csr_matrix) -> str:
    """Return a digest of training data: every value of X (features or texts) and Y."""
    parts = [Y.indices, Y.indptr]
    if (Y.data != 1).any():  # relevances
        parts.append(Y.data)
    if sparse.issparse(X):
        parts += [X.data, X.indices, X.indptr]
    else:
        parts.append(_digest_of_texts(X))
    return fingerprint(*parts, np.asarray([n_rows(X)]))


def _digest_of_texts(texts: Sequence[str]) -> NDArray[np.uint8]:
    digest = hashlib.sha256()
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {row} is {type(text).__name__} ({str(text)[:40]!r}), but must be a string")
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))  # moving a word to the next text must change the digest
        digest.update(encoded)
    return np.frombuffer(digest.digest(), dtype=np.uint8)
