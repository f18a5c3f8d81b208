"""Text models in two processes, as torchrun starts them: one model, written by the first process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import longtail
from longtail.data import Dataset, write_dataset
from neural.text.text_models import ENCODER, TRAIN, aplc, xgrank
from neural.text.tiny import planted_encoder

COMMON: dict[str, Any] = ENCODER | {"epochs": 2, "batch_size": 31}  # shares of 15 and 16
SETTINGS: dict[str, dict[str, Any]] = {
    "xgrank": COMMON,
    "aplcxlnet": COMMON | {"width": 16, "hidden_learning_rate": 0.02},
}
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
SCRIPT = """
import sys
from longtail.app.cli import main

folder, encoder = sys.argv[1:3]
for command in sys.argv[3:]:
    name, *settings = command.split()
    arguments = ["train", f"{folder}/train", "--model", name, "--out", f"{folder}/{name}", "--calibrate", "no"]
    sys.argv = ["longtail", *arguments, f"--set=encoder={encoder}", *(f"--set={setting}" for setting in settings)]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Return the folder in which two processes have trained the models, one after the other."""
    folder = tmp_path_factory.mktemp("processes")
    write_dataset(Dataset(TRAIN.Y, texts=TRAIN.texts), folder / "train")
    (folder / "script.py").write_text(SCRIPT)
    commands = [" ".join([name, *(f"{key}={value}" for key, value in SETTINGS[name].items())]) for name in SETTINGS]
    command = [*LAUNCH, str(folder / "script.py"), str(folder), planted_encoder(), *commands]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("; wrote ") == len(SETTINGS)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*SETTINGS, "script.py", "train"])
    return folder


@pytest.mark.parametrize(("make", "name"), [(xgrank, "xgrank"), (aplc, "aplcxlnet")])
def test_two_processes_train_an_encoder_as_one_does(trained, make, name):
    together = longtail.load_model(trained / name).network_.state_dict()
    alone = make(**SETTINGS[name]).fit(TRAIN.texts, TRAIN.Y).network_.state_dict()
    assert sorted(together) == sorted(alone)
    for key, values in alone.items():
        # Attention does not depend on the bias of its keys: the gradient is rounding, which Adam scales up.
        if not key.endswith("key.bias"):
            torch.testing.assert_close(
                together[key], values, rtol=1e-3, atol=1e-4, msg=lambda said, key=key: f"{key}: {said}"
            )
