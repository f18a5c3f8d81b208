"""Joining a cluster: what Ray raises becomes one line that says what to do. Needs no Ray."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from longtail.engine import ray as engine_module
from longtail.engine.ray import RayEngine
from longtail.errors import ParameterError


class RayError(Exception):
    """Stands for the errors of Ray."""


MISMATCH = "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\nThis process: 3.12.1"


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("auto", ConnectionError("none found"), "there is no Ray cluster on this machine; start one with"),
        ("head:6379", ConnectionError("Failed to connect"), "(Failed to connect); where it asks for a token, set"),
        ("head:6379", RuntimeError(MISMATCH), "Ray: 2.60.0 Python: 3.11.7 This process: 3.12.1; this machine must be"),
        ("auto", RayError("token missing"), "could not join the Ray cluster at 'auto': token missing;"),
        ("nowhere", ValueError("bad format"), "'nowhere' is no address of a Ray cluster (bad format)"),
    ],
)
def test_what_ray_raises_is_explained(address, error, said, monkeypatch):
    def init(**_):
        raise error

    monkeypatch.setattr(engine_module, "check_address", lambda address: None)
    monkeypatch.setenv("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # which it sets
    fake = SimpleNamespace(init=init, exceptions=SimpleNamespace(RayError=RayError))
    with pytest.raises(ParameterError) as raised:
        RayEngine(address)._initialise(fake)
    assert said in str(raised.value)
