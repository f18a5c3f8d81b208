"""Digests of arrays."""

from __future__ import annotations

import numpy as np

from longtail.core.fingerprint import fingerprint


def test_a_fingerprint_tells_contents_types_and_shapes_apart():
    prints = [
        fingerprint(np.arange(4)),
        fingerprint(np.arange(4, dtype=np.int32)),
        fingerprint(np.arange(4).reshape(2, 2)),
        fingerprint(np.array([0, 1, 2, 4])),
    ]
    assert len(set(prints)) == 4
    assert fingerprint(np.arange(8)[::2]) == fingerprint(np.array([0, 2, 4, 6]))
