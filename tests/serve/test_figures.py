"""Figures of a model from what other commands write: evaluations kept beside it, reports, printed metrics."""

from __future__ import annotations

import json

import pytest

from longtail.errors import ParameterError
from longtail.serve.figures import evaluations
from serve.conftest import REPORT, text_model


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    """A model without figures; those beside the served one belong to other tests."""
    path = tmp_path_factory.mktemp("figures") / "model"
    text_model().save(path)
    return path


def test_a_report_has_metrics_and_the_frontier(model, folder, cli, tmp_path):
    code, _, err = cli("report", model, folder / "dev.jsonl", "--out", tmp_path / "report.html")
    assert code == 0, err
    content = json.loads((tmp_path / "report.json").read_text())
    assert all(content[part].keys() >= REPORT[part].keys() for part in ("about", "data"))
    (found,) = evaluations(model, tmp_path / "report.json")
    assert found["data"].endswith("/dev.jsonl")
    assert found["points"] == 200
    assert [row["exponent"] for row in found["frontier"]] == [i / 10 for i in range(11)]
    assert all(row.keys() >= {"P@1", "PSP@1"} for row in found["frontier"])
    code, printed, _ = cli("evaluate", model, folder / "dev.jsonl", "--json", "--keep")
    metrics = json.loads(printed)
    assert found["metrics"]["P@1"] == pytest.approx(metrics["P@1"])
    (tmp_path / "metrics.json").write_text(printed)
    named, kept = evaluations(model, tmp_path / "metrics.json")
    assert named["metrics"] == pytest.approx(metrics)
    assert kept["metrics"] == pytest.approx(metrics)
    assert (named["data"], kept["points"], kept["frontier"]) == ("metrics.json", 200, [])


@pytest.mark.parametrize("content", ["", "[1]", '{"P@1": "high"}', '{"frontier": []}', "5"])
def test_another_file_is_refused(content, model, tmp_path):
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(ParameterError, match=r"other\.json: neither the JSON of"):
        evaluations(model, tmp_path / "other.json")
