"""The neural room with only torch, NumPy, SciPy, scikit-learn and safetensors installed, as on some GPU machines."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from longtail import GLaS

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


LOAD = """
import sys


class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


sys.meta_path.insert(0, NotInstalled())
import longtail

try:
    longtail.load_model(sys.argv[1])
except longtail.errors.MissingExtraError as error:
    assert "pip install 'longtail[deep]'" in str(error), error
else:
    raise AssertionError("loaded without torch")
"""


def test_a_saved_model_says_what_to_install_where_torch_is_missing(tmp_path):
    X = np.eye(20, dtype=np.float32)
    GLaS(width=4, epochs=1, n_jobs=1).fit(X, X[:, :3]).save(tmp_path / "m")
    command = [sys.executable, "-c", LOAD, str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
