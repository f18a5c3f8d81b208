"""Every estimator that trains in parts: the same model, whatever engine runs the parts.

`tests/engine/test_ray_contract.py` does the same on a real Ray cluster.
"""

from __future__ import annotations

import pytest

from contract.models import IN_PARTS, fitted, shared
from engine.elsewhere import Elsewhere, Store
from engine.small import assert_same
from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.engine import transport
from longtail.engine.shards import PartsKept, Shards


def test_these_train_in_parts():
    wrappers = {"ensemble", "propensityrerank", "ranknet", "taug", "textpipeline", "unitrows"}
    assert set(IN_PARTS) == {"bonsai", "dismec", "fastxml", "parabel", "pfastrexml", "pfastxml", *wrappers}


@pytest.mark.parametrize("name", IN_PARTS)
def test_workers_elsewhere_make_the_same_model(name, monkeypatch):
    monkeypatch.setattr(transport, "LARGE", 100)
    store = Store()
    assert_same(fitted(name, run=Run(engine=Elsewhere(store))), shared(name))
    assert store.arrays


@pytest.mark.parametrize("name", IN_PARTS)
def test_shards_together_make_the_same_model(name, tmp_path):
    folders = [tmp_path / "shard-1", tmp_path / "shard-2"]
    for number, folder in enumerate(folders, 1):
        with pytest.raises(PartsKept):
            fitted(name, run=Run(checkpoint=Checkpoint(folder, resume=False), engine=Shards(number, 2)))
    whole = Checkpoint(tmp_path / "whole", resume=False, sources=folders)
    assert_same(fitted(name, run=Run(checkpoint=whole)), shared(name))
