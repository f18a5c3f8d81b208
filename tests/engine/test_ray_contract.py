"""Every estimator that trains in parts, on a real Ray cluster: the model that threads make."""

from __future__ import annotations

import pytest

from contract.models import IN_PARTS, fitted, shared
from engine.small import assert_same
from longtail.core.run import Run

pytest.importorskip("ray", reason="Ray is not installed; bash scripts/test-ray runs these tests")
pytestmark = pytest.mark.filterwarnings("default")  # those of Ray


@pytest.mark.parametrize("name", IN_PARTS)
def test_the_model_is_that_of_threads(name, engine):
    assert_same(fitted(name, run=Run(engine=engine)), shared(name))
