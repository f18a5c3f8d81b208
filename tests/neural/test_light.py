"""The neural room where only torch, NumPy, SciPy, scikit-learn and safetensors are installed, e.g. on a GPU machine."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys


class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite", "typer", "rich", "pyarrow", "zstandard", "faiss", "accelerate"):
            raise ImportError(name)


sys.meta_path.insert(0, NotInstalled())
import numpy as np
from scipy import sparse
from longtail.neural.glas import GLaS

X = sparse.random(40, 30, 0.3, format="csr", rng=0)
model = GLaS(width=8, epochs=1, batch_size=16, n_jobs=1).fit(X, sparse.csr_matrix(np.eye(4)[np.arange(40) % 4]))
assert len(model.history_.epochs) == 1
"""


def test_glas_trains_without_numba_faiss_and_accelerate():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
