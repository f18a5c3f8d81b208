"""longtail bench as a user types it."""

from __future__ import annotations

import json

from app.folders import everything


def test_bench_runs_what_it_can_and_names_what_it_cannot(cli, xc):
    recipe = '[data]\ntrain = "{}"\ntest = "test.txt"\n[model]\nname = "popularity"\n'
    (xc / "one.toml").write_text(recipe.format("train.txt"))
    (xc / "two.toml").write_text(recipe.format("absent.txt"))
    where = ("--out", xc / "out", "--cache", xc / "cache", "--data-root", xc)
    code, out, err = cli("bench", xc / "two.toml", *where)
    assert code == 2
    assert "not run" in err
    assert "absent.txt" in err
    code, out, err = cli("bench", xc / "one.toml", xc / "two.toml", *where)
    assert code == 0, err
    assert "two.toml: absent.txt is neither" in err
    assert "PSP@5" in out
    assert [file.name for file in (xc / "out").rglob("*.json")] == ["one.json"]


def test_a_recipe_that_fails_does_not_stop_the_others(cli, xc):
    recipe = '[data]\ntrain = "{}"\ntest = "test.txt"\n[model]\nname = "popularity"\n'
    (xc / "broken.txt").write_text("nonsense\n")
    (xc / "bad.toml").write_text(recipe.format("broken.txt"))
    (xc / "good.toml").write_text(recipe.format("train.txt"))
    where = ("--out", xc / "out", "--cache", xc / "cache", "--data-root", xc)
    code, out, err = cli("bench", xc / "bad.toml", xc / "good.toml", *where)
    assert code == 2
    assert "broken.txt" in err
    assert "good" in out


def test_bench_writes_beside_the_recipe_and_nowhere_else(cli, xc, monkeypatch):
    monkeypatch.chdir(xc)
    (xc / "docs").mkdir()
    (xc / "docs" / "results.md").write_text("mine")
    (xc / "README.md").write_text("mine, too")
    (xc / "set").mkdir()
    (xc / "set" / "study.toml").write_text(
        '[data]\ntrain = "../train.txt"\ntest = "../test.txt"\n[model]\nname = "popularity"\n'
        '[variants.plain]\n[variants.weighted.model]\nname = "dismec"\nweighting = "pw"\n'
    )
    before = everything(xc)
    code, out, err = cli("bench", "set/study.toml", "--cache", xc / ".cache")
    assert code == 0, err
    assert "weighted" in out
    found = sorted(str(file.relative_to(xc)) for file in xc.rglob("*.json") if ".cache" not in file.parts)
    assert found == ["set/results/set/plain.json", "set/results/set/weighted.json"]
    result = json.loads((xc / found[1]).read_text())
    assert (result["recipe"], result["weighting"]) == ("weighted", "pw")
    assert result["command"] == "longtail bench studies/study.toml --variant weighted"
    assert {path: content for path, content in everything(xc).items() if path in before} == before
    # The same command again replaces what it wrote, and only the variant that is named.
    (xc / found[0]).write_text((xc / found[0]).read_text().replace('"seed": 0', '"seed": 7'))
    assert cli("bench", "set/study.toml", "--variant", "weighted", "--cache", xc / ".cache")[0] == 0
    assert json.loads((xc / found[0]).read_text())["seed"] == 7
