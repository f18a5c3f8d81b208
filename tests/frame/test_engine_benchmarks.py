"""Benchmarks of engines: what they record, on tiny data; `bash scripts/test-ray` has the tests that need a cluster."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from benchmarks.common import load, save
from benchmarks.engine import million, scale_out
from benchmarks.engine.estimate import AMAZON_3M, block_costs, estimate
from engine.elsewhere import Elsewhere, Store
from engine.small import small
from longtail.core.threads import thread_count
from longtail.data import Dataset
from scripts.pages.lab import Lab
from scripts.pages.tables import _by_cores


def test_a_million_labels_are_trained_predicted_and_evaluated_within_the_limit(monkeypatch, tmp_path):
    arguments = ["--points", "300", "--labels", "40", "--gigabytes", "3", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["million", *arguments, "--folder", str(tmp_path)])
    assert not million.main()
    found = load("million-300-40", tmp_path)
    for step in ("train", "predict", "evaluate"):
        assert found[step]["cpu_s"] > 0
        assert 0 < found[step]["peak_private_mb"] < 3 * 2**30 / 1e6
        assert f"longtail {step}" in found["table"]
    assert found["figures"]["P@1"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["million-300-40.json"]


def test_a_command_beyond_the_limit_ends_the_benchmark(tmp_path):
    with pytest.raises(SystemExit, match="ended with"):
        million.limited(["demo", "--out", tmp_path / "m"], 10_000_000)


def test_efficiency_is_that_beside_the_fewest_nodes():
    rows = [{"nodes": 1, "threads_s": 20, "ray_s": 22}, {"nodes": 2, "threads_s": 12.5, "ray_s": 13.75}]
    assert scale_out.table(rows, 1).splitlines()[-1] == "| 2 | 12.5 | 13.8 | 1.10 | 80 % | 80 % |"


def test_each_number_of_nodes_is_recorded_once_it_is_measured(monkeypatch, tmp_path):
    engines, (X, Y) = [], small()

    @contextmanager
    def cluster(n_nodes, n_cpus):
        if n_nodes == 4:
            raise TimeoutError
        engines.append((n_nodes, n_cpus))
        yield Elsewhere(Store())

    monkeypatch.setattr(scale_out, "ray_engine", cluster)
    monkeypatch.setattr(scale_out, "features_of", lambda recipe, root: (Dataset(Y, X=X), None))
    monkeypatch.setattr(sys, "argv", ["scale_out", "--nodes", "1", "2", "4", "--out", str(tmp_path)])
    with pytest.raises(TimeoutError):
        scale_out.main()
    found = load(f"scale-out-yso-finna-en-{thread_count(None)}-cores", tmp_path)
    assert engines == [(1, 1), (2, 1)]
    assert [(row["nodes"], row["same_model"]) for row in found["rows"]] == [(1, True), (2, True)]
    assert found["command"].endswith("--nodes 1 2 --cpus 1")
    monkeypatch.setattr(sys, "argv", ["scale_out", "--nodes", "2", "--out", str(tmp_path)])
    assert not scale_out.main()
    assert load(f"scale-out-yso-finna-en-{thread_count(None)}-cores", tmp_path)["estimate"]["nodes"] == 32


def test_pages_show_the_same_measurement_on_all_machines(tmp_path):
    for name, machine in (("x-16-cores", "large"), ("x-2-cores", "small"), ("x-100-2-cores", "other")):
        save(
            name, {"table": f"| {machine} |"}, "", folder=tmp_path / "docs" / "lab" / "benchmarks", machine_name=machine
        )
    assert _by_cores("x")(Lab(tmp_path)) == "small:\n\n| small |\n\nlarge:\n\n| large |"


def test_estimates_grow_with_the_work_and_shrink_with_the_nodes():
    costs = block_costs(*small())
    found = estimate(costs, AMAZON_3M)
    assert estimate(costs, replace(AMAZON_3M, nodes=64))["compute_s"] == pytest.approx(found["compute_s"] / 2)
    assert estimate(costs, replace(AMAZON_3M, labels=2 * AMAZON_3M.labels))["results_gb"] == pytest.approx(
        2 * found["results_gb"]
    )
    assert found["block_s"] == pytest.approx(
        costs["frequent"]["cpu_s"] * AMAZON_3M.points * AMAZON_3M.values_per_point / costs["values"]
    )
