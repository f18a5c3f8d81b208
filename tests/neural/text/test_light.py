"""The text models with only torch, transformers, NumPy, SciPy, scikit-learn and safetensors installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from neural.text.tiny import planted_encoder

SCRIPT = """
import sys

sys.path[:0] = [{tests!r}]


class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite", "typer"):
            raise ImportError(name)


sys.meta_path.insert(0, NotInstalled())
from contract.planted import planted
from longtail.neural.text.xgrank import XGRank

data = planted(30)
model = XGRank(encoder={encoder!r}, length=16, epochs=1, batch_size=16, n_jobs=1).fit(data.texts, data.Y)
assert model.predict(data.texts, k=2).labels.shape == (30, 2)
"""


def test_xgrank_trains_and_predicts_without_numba():
    script = SCRIPT.format(tests=str(Path(__file__).parents[2]), encoder=planted_encoder())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
