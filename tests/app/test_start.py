"""What a user waits for before the first answer."""

from __future__ import annotations

import json
import subprocess
import sys

from longtail import DiSMEC, TextFeatures, TextPipeline

PROBE = """
import json, sys
sys.argv = ["longtail", "predict", {model!r}, "--text", "boats at sea", "--json", "-k", "1"]
from longtail.app.cli import main
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
heavy = "numba llvmlite sklearn pandas pyarrow scipy.stats scipy.special scipy.optimize torch matplotlib".split()
print("PROBE" + json.dumps([name for name in heavy if name in sys.modules]))
"""


def test_predicting_one_text_loads_only_what_it_needs(tmp_path):
    texts = ["fish and boats at sea", "wheat and rye in fields"] * 4
    features = TextFeatures(min_df=1, max_df=1.0)
    model = TextPipeline(model=DiSMEC(), features=features).fit(texts, [[0], [1]] * 4, label_names=["sea", "farming"])
    model.save(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(model=str(tmp_path / "model"))], capture_output=True, text=True, check=True
    )
    answer, _, heavy = done.stdout.rpartition("PROBE")
    assert json.loads(answer)["labels"] == ["sea"]
    assert json.loads(heavy) == []
