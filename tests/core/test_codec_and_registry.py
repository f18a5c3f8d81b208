"""Parameters as JSON and back; names to classes and nothing else."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import longtail
from longtail.core import codec, registry
from longtail.core.popularity import Popularity
from longtail.errors import ModelError, ParameterError


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 0.1, "text", [1, [2]], {"a": {"b": None}}, (1, 2), ((1,), [2]), {"pair": (1, 2)}],
)
def test_plain_values_survive_json(value):
    back = codec.decode(json.loads(json.dumps(codec.encode(value))))
    assert back == value
    assert type(back) is type(value)


def test_numpy_values_become_plain_ones():
    assert codec.encode(np.float64(0.5)) == 0.5
    assert codec.encode(np.arange(3)) == [0, 1, 2]


def test_an_estimator_is_written_by_name_and_parameters():
    encoded = codec.encode(Popularity())
    assert encoded == {"$class": "popularity", "params": {}}
    assert isinstance(codec.decode(encoded), Popularity)


def test_a_parameter_of_a_foreign_class_is_refused():
    class Foreign:
        pass

    with pytest.raises(ParameterError, match="Foreign"):
        codec.encode(Foreign())


@pytest.mark.parametrize(
    "forged",
    [
        {"$class": "os:system", "params": {}},
        {"$class": "popularity", "params": {"unknown": 1}},
        {"$class": "popularity", "params": []},
        {"$class": "popularity"},
        {"$class": ["popularity"], "params": {}},
    ],
)
def test_a_forged_manifest_cannot_name_other_classes_or_parameters(forged):
    with pytest.raises(ModelError, match="cannot be read"):
        codec.decode(forged)


def test_an_unknown_model_gets_a_suggestion():
    with pytest.raises(ParameterError, match='unknown model "popularty"; did you mean "popularity"'):
        registry.estimator_class("popularty")
    with pytest.raises(ParameterError, match=r"known: .*popularity"):
        registry.estimator_class("zzz")


def test_every_registered_name_leads_to_its_class_and_back():
    for name in registry.estimator_names():
        assert registry.name_of(registry.estimator_class(name)) == name
    for name in registry._PARTS:
        assert registry.name_of(registry.named_class(name)) == name


def test_an_estimator_of_ones_own_can_be_registered(monkeypatch):
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))

    class Mine(Popularity):
        pass

    with pytest.raises(ParameterError, match=r"is not registered; call longtail\.core\.registry\.register_"):
        registry.name_of(Mine)
    registry.register_estimator("mine", f"{Mine.__module__}:{Mine.__qualname__}")
    assert registry.name_of(Mine) == "mine"
    assert "mine" in registry.estimator_names()


@dataclasses.dataclass(frozen=True)
class Doubled:
    """A weighting of one's own: every noted label counts `times` times."""

    times: float = 2.0
    bounded = True
    why_unbounded = ""

    def coefficients(self, counts, n_points):
        return np.full(len(counts), self.times), np.zeros(len(counts))


def test_a_weighting_of_ones_own_is_saved_once_it_is_registered(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_PARTS", dict(registry._PARTS))
    X, Y = sparse.eye(6, format="csr"), [[0], [1], [0], [1], [0], [1]]
    model = longtail.DiSMEC(weighting=Doubled(3.0)).fit(X, Y)
    with pytest.raises(ParameterError, match=r"call longtail\.core\.registry\.register_part"):
        model.save(tmp_path / "m")
    registry.register_part("doubled", f"{Doubled.__module__}:{Doubled.__qualname__}")
    model.save(tmp_path / "m")
    assert longtail.load_model(tmp_path / "m").weighting == Doubled(3.0)


def test_of_many_known_names_only_the_nearest_are_said():
    known = [f"name {i}" for i in range(1043)]
    near = registry.unknown("label", "nmae 7", known)
    assert near.startswith('unknown label "nmae 7"; did you mean "name 7", ')
    assert near.endswith("? 1,043 are known")
    assert len(near) < 150
    assert registry.unknown("label", "?", known).endswith(
        "1,043 are known, e.g. name 0, name 1, name 10, name 100, name 1000"
    )


def test_installed_packages_add_estimators_by_entry_points(monkeypatch):
    def points(group):
        named = {"longtail.estimators": ["mine", "dismec"], "longtail.parts": ["myweighting"]}
        return [SimpleNamespace(name=name, value="longtail.core.popularity:Popularity") for name in named[group]]

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    registry._installed.cache_clear()
    try:
        assert "mine" in registry.estimator_names()
        assert registry.estimator_class("mine") is registry.estimator_class("popularity")
        assert registry.named_class("myweighting") is registry.estimator_class("popularity")
        assert registry.estimator_class("dismec").__name__ == "DiSMEC", "names of longtail itself stay"
    finally:
        registry._installed.cache_clear()
    monkeypatch.undo()
    with pytest.raises(ParameterError, match=r"unknown class .*register_estimator"):
        registry.named_class("mine")
