"""Tiny data for benchmarks, and a way to run them as their command lines would."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.common import load
from longtail.data import make_longtail


@pytest.fixture(scope="module")
def tiny():
    made = make_longtail(n_points=240, n_features=300, n_labels=30, n_test_points=60)
    return made.train, made.test


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Call the main function of a benchmark with arguments and return what it records."""

    def call(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments), "--out", str(tmp_path)])
        return module.main()

    def recorded(module, name, *arguments):
        assert not call(module, *arguments)
        content = load(name, tmp_path)
        assert content.keys() >= {"command", "commit", "date", "machine", "table"}
        assert content["command"].startswith(f"python -m {module.__name__}")
        json.dumps(content, allow_nan=False)
        return content

    return recorded
