"""Benchmarks of label trees and of GLaS run on tiny made-up data, with what they record."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.neural import glas_ablation, glas_labels
from benchmarks.trees import calibration, growth, settings, stages


def test_growth(run, monkeypatch, tmp_path):
    def measure(option, model, one, n_labels):
        assert (option, one) == ("--model", "--one")
        # So little data may take no new memory in a process that has freed some.
        return growth.measure(n_labels, model) | {"training_mb": float(n_labels)}

    monkeypatch.setattr(growth, "measured_apart", lambda module, *given, **_: measure(*given))
    monkeypatch.setattr(growth, "TEST_POINTS", 50)
    found = run(growth, "growth-parabel", "--labels", 60, 120)
    assert [row["labels"] for row in found["rows"]] == [60, 120]
    assert found["rows"][1]["model_mb"] > found["rows"][0]["model_mb"] > 0
    assert (tmp_path / "growth.png").is_file()


def test_labels_of_glas(tiny, run, monkeypatch):
    monkeypatch.setattr(glas_labels, "features_of", lambda *_: tiny)
    found = run(
        glas_labels, "glas-labels", "--labels", 20, 30, "--negatives", "auto", "all", "--width", 16, "--epochs", 1
    )
    assert [(row["labels"], row["negatives"]) for row in found["rows"]] == [
        (20, "auto"), (20, "all"), (30, "auto"), (30, "all"),
    ]  # fmt: skip
    assert all(row["step s"] > 0 and row["exact ms"] > 0 and row["codes ms"] > 0 for row in found["rows"])
    assert all(row["recall@5"] > 0.9 for row in found["rows"])
    assert all(0 < row["macro-F1@5"] < row["coverage@5"] for row in found["rows"])


def test_accuracy_of_glas_has_no_times(tiny, run, monkeypatch):
    monkeypatch.setattr(glas_labels, "features_of", lambda *_: tiny)
    few = ("--labels", 20, "--width", 16, "--epochs", 1)
    timed, plain = (run(glas_labels, "glas-labels", *few, *more)["rows"][0] for more in ((), ("--accuracy",)))
    assert plain.keys() == {"labels", "negatives", *glas_labels.METRICS}
    assert plain == {name: timed[name] for name in plain}


def test_one_setting_of_glas_at_a_time(tiny, run, monkeypatch):
    train, test = tiny
    monkeypatch.setattr(glas_ablation, "features_of", lambda *_: tiny)
    monkeypatch.setitem(glas_ablation.WHERE["15,000 points"], "points", 100)
    small = ("--set", "width=8", "epochs=1", "n_jobs=1", "--seeds", 0, 1)
    found = run(glas_ablation, "glas-here", "--name", "here", *small, "--only", "where 15,000 points:", "base")
    assert [row["setting"] for row in found["rows"]] == ["base", "15,000 points: none", "15,000 points: glas"]
    model = glas_ablation.GLaS(width=8, epochs=1, n_jobs=1, random_state=1).fit(train.X, train.Y)
    scored = glas_ablation.measured(model.predict(test.X, k=5), test.Y, train.label_counts, train.n_points, digits=3)
    assert found["rows"][0]["of each seed"]["P@1"][1] == scored["P@1"]
    assert all(metric in found["table"] for metric in scored)
    held = run(glas_ablation, "glas-held", "--name", "held", *small[:-1], "--only", "base", "--held-out", 40)
    assert "--held-out 40" in held["command"]
    assert held["rows"][0]["PSP@1"] != found["rows"][0]["PSP@1"], "the test part is not read"


def test_stages_of_label_trees(run, tiny, monkeypatch):
    monkeypatch.setattr(stages, "features_of", lambda *_, **__: tiny)
    monkeypatch.setattr(stages, "recipe_named", lambda title: SimpleNamespace(test=title))
    found = run(stages, "label-tree-stages-made-up", "--dataset", "made-up", "--children", 4)
    assert list(found["rows"]) == ["Parabel, 4 children", "Bonsai"]
    for row in found["rows"].values():
        assert set(row["seconds"]) == set(stages.STAGES)
        assert all(wall > 0 and cpu >= 0 for wall, cpu in row["seconds"].values())
        assert row["P@1"] > 20  # the tree was trained on all points


def test_calibration_of_label_trees(tiny, run, monkeypatch):
    monkeypatch.setattr(calibration, "features_of", lambda *_: tiny)
    found = run(calibration, "label-trees-calibration", "--dataset", "bibtex")
    assert list(found["rows"]) == list(calibration.MODELS)
    for row in found["rows"].values():
        assert sum(share for _, share, _ in row["bins"]) == pytest.approx(1)
        assert row["ece"] == pytest.approx(sum(share * abs(mean - right) for mean, share, right in row["bins"]))
        assert 0 < row["ece"] < 1


def test_settings_of_label_trees(run, tiny, monkeypatch):
    monkeypatch.setattr(settings, "features_of", lambda *_: tiny)
    monkeypatch.setattr(settings, "recipe_named", lambda title: title)
    chosen = ["Parabel", "binary"]
    found = run(
        settings, "label-tree-settings-made-up", "--dataset", "made-up", "--points", 200, "--folds", 2, "--seeds", 0, 1,
        "--trees", 1, "--only", *chosen,
    )  # fmt: skip
    assert list(found["rows"]) == chosen
    for figures in found["rows"].values():
        assert [len(runs) for runs in figures["P@1"]] == [2, 2]
        assert np.mean(figures["P@1"]) > 20
    assert "(+0.00 ± 0.00)" in found["table"]  # few labels are one leaf, whatever the children
    again = run(
        settings, "label-tree-settings-made-up", "--dataset", "made-up", "--points", 200, "--folds", 2, "--seeds", 0,
        "--trees", 1, "--only", "Parabel",
    )  # fmt: skip
    assert again["rows"]["binary"] == found["rows"]["binary"], "what is not measured again stays"
    assert [len(runs) for runs in again["rows"]["Parabel"]["P@1"]] == [1, 1]
