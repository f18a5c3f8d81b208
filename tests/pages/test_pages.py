"""The pages of results: made from the JSON files alone, current, and the same for the same input."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from longtail.bench.study import read_experiments
from longtail.core.codec import encode
from scripts.pages.build import outdated, outputs, write
from scripts.pages.lab import Lab, best_first, quality
from scripts.pages.marks import filled
from scripts.pages.picture import Point, frontier, in_view
from scripts.pages.results import BASELINE, MOST_ROWS, shortened

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made():
    return outputs(ROOT)


def test_the_committed_pages_are_what_the_tool_makes(made):
    stale = [str(path.relative_to(ROOT)) for path, content in made.items() if path.read_bytes() != content]
    assert stale == [], "run `python -m scripts.pages`"
    assert {"README.md", "results.md", "tail-modules.md", "text-models.md"} <= {path.name for path in made}


def test_pictures_have_the_same_bytes_each_time(made):
    again = outputs(ROOT)
    pictures = [path for path in made if path.suffix == ".svg"]
    assert len(pictures) == len(Lab(ROOT).runs)
    for path in pictures:
        assert again[path] == made[path]
        assert b"<dc:date>" not in made[path]


def test_results_has_one_table_and_one_picture_per_dataset(made):
    page = made[ROOT / "docs" / "results.md"].decode()
    sections = page.split("\n## ")[1:]
    assert len(sections) == len(Lab(ROOT).runs) >= 5
    for section in sections:
        assert len(re.findall(r"^!\[.*\]\(images/results-.*\.svg\)$", section, flags=re.MULTILINE)) == 1
        rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
        assert 5 <= len(rows) <= MOST_ROWS


def test_results_keep_other_tools_and_the_baseline(made):
    page = made[ROOT / "docs" / "results.md"].decode()
    for dataset, section in zip(Lab(ROOT).runs, page.split("\n## ")[1:], strict=True):
        names = [line.split(" |")[0].strip("|* ") for line in section.splitlines() if line.startswith("| ")][2:]
        assert BASELINE in names
        assert {peer["recipe"] for peer in Lab(ROOT).peers(dataset)} <= set(names)


def test_the_lowest_of_our_rows_make_room():
    rows = [{"recipe": f"ours {i}"} for i in range(MOST_ROWS + 3)]
    rows[3:3] = [{"recipe": "peer"}]
    rows += [{"recipe": BASELINE}, {"recipe": "other peer"}]
    shown = [row["recipe"] for row in shortened(rows, {"peer", "other peer"})]
    assert len(shown) == MOST_ROWS
    assert shown[2:5] == ["ours 2", "peer", "ours 3"]
    assert shown[-3:] == [f"ours {MOST_ROWS - 4}", BASELINE, "other peer"]
    assert shortened(rows[:5], {"peer"}) == rows[:5]


# Parameters that name files, whose place differs from machine to machine.
PLACES = {"encoder", "vectors", "label_text"}


def measured_experiments():
    files = [*(ROOT / "recipes").glob("*/*.toml"), *(ROOT / "studies").glob("*.toml")]
    # The datasets of the papers are not at hand; their recipes wait for the files.
    not_run = set(re.findall(r"`recipes/([\w-]+)/`", (ROOT / "docs" / "lab" / "papers.md").read_text(encoding="utf-8")))
    assert not not_run & set(Lab(ROOT).runs)
    return [recipe for recipe in read_experiments(files) if recipe.dataset not in not_run]


# Parameters that models got after a result was recorded, with the value that is the behaviour before them.
ADDED_LATER = {
    "dismec": {"reproducible": False},
    "aplcxlnet": {"accumulate": 1, "checkpoint_seconds": 60.0, "epsilon": 1e-8, "schedule": "linear"},
    "attentionxml": {
        "accumulate": 1, "checkpoint_seconds": 60.0, "epsilon": 1e-8, "warmup": 0.0, "weight_decay": 0.0,
        "beam": 160, "cluster_size": 8, "clusters_above": 50_000,  # one network, as before, for fewer labels
    },
    "glas": {"accumulate": 1, "checkpoint_seconds": 60.0, "warmup": 0.0, "weight_decay": 0.0},
    "bonsai": {"power": 2},
    "parabel": {"n_children": 2, "power": 2},  # binary, as before
    "pfastrexml": {"tail": "means", "weighting": None},
    # The price is without effect: exponents are given.
    "propensityrerank": {"dial": None, "max_precision_loss": 1.0, "objective": None, "price_metric": "P@1"},
    "ranknet": {"price_metric": "P@1"},
    "xgrank": {
        "accumulate": 1, "checkpoint_seconds": 60.0, "epsilon": 1e-8, "schedule": "linear", "compile": False,
        "label_features": "words", "prior": True,
    },
}  # fmt: skip
# The same for objects inside parameters.
PARTS_ADDED_LATER = {"pw": {"strength": 1.0}, "pwcb": {"strength": 1.0}}
# Measured by benchmarks that recorded only what differs from the defaults, or nothing.
HARDLY_RECORDED = {"eurlex57k/dismec-pw-cb-bigrams", "yso-finna-en/bonsai", "yso-finna-en/parabel"}


def differences(model, then, now, given=None):
    """What an estimator has now that its record contradicts or lacks; `given` limits the latter to these names."""
    found = [name for name in (then.keys() & now.keys()) - PLACES if plain(now[name]) != plain(then[name])]
    lacking = now.keys() - then.keys() - PLACES
    before = ADDED_LATER.get(model, {})
    found += [name for name in lacking & before.keys() if plain(now[name]) != before[name]]
    return sorted([*found, *(lacking - before.keys() if given is None else lacking & given)])


def test_a_recipe_still_says_what_its_result_was_measured_with():
    """Neither a default that changes nor a line that is added may change a recipe in silence."""
    compared, lacking = 0, set()
    for recipe in measured_experiments():
        then = Lab(ROOT).runs[recipe.dataset][recipe.name].get("parameters", {})
        now = encode(recipe.estimator())["params"]
        given = set(recipe.parameters) if recipe.title in HARDLY_RECORDED and then else None
        if then or not now:
            assert differences(recipe.model, then, now, given) == [], recipe.title
        else:
            assert recipe.title in HARDLY_RECORDED
        compared += len(then.keys() & now.keys())
        lacking |= {(recipe.model, name) for name in now.keys() - then.keys() if recipe.title not in HARDLY_RECORDED}
    assert compared > 1000
    assert lacking == {(model, name) for model, added in ADDED_LATER.items() for name in added}, "keep the list short"


def test_differences_between_a_recipe_and_its_record_are_found():
    then = {"C": 1.0, "encoder": "here"}
    assert differences("xgrank", then, {"C": 1.0, "encoder": "there", "prior": True}) == []
    assert differences("xgrank", then, {"C": 2.0, "prior": False, "new": 1}) == ["C", "new", "prior"]
    assert differences("dismec", then, {"C": 1.0, "tol": 0.1, "bias": 1}, {"tol"}) == ["tol"]


def plain(value):
    """Tuples as lists, and models inside without what was added later, at any depth."""
    if isinstance(value, dict) and "$class" in value:
        added = (ADDED_LATER | PARTS_ADDED_LATER).get(value["$class"], {})
        return {k: plain(v) for k, v in value["params"].items() if k not in added or v != added[k]}
    if isinstance(value, dict):
        return plain(value["$tuple"]) if list(value) == ["$tuple"] else {key: plain(v) for key, v in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_every_recipe_and_variant_has_a_result_that_names_commit_and_command():
    runs, experiments = Lab(ROOT).runs, measured_experiments()
    assert {f"{dataset}/{name}" for dataset, found in runs.items() for name in found} == {e.title for e in experiments}
    for recipe in experiments:
        result = runs[recipe.dataset][recipe.name]
        assert re.fullmatch(r"[0-9a-f]{7}\+?", result["commit"]), recipe.title
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"]), recipe.title
        file = re.search(r"(recipes|studies)/\S+\.toml", result["command"])
        assert (ROOT / file[0]).is_file(), result["command"]
        assert result["model"] == recipe.model
        assert result["command"] != result.get("measured_by"), recipe.title
        if "note" in result:  # not measured by the command
            assert result["measured_by"], recipe.title


def test_every_measurement_names_command_commit_and_date():
    benchmarks = Lab(ROOT).benchmarks
    assert len(benchmarks) > 30
    for name, content in benchmarks.items():
        assert re.fullmatch(r"[0-9a-f]{7}\+?", content["commit"]), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"]), name
        assert content["command"] != content.get("measured_by"), name
        assert ("history_note" in content) == content.get("history", False), name
        for module in re.findall(r"python -m (benchmarks\.[\w.]+)", content["command"]):
            assert (ROOT / Path(*module.split("."))).with_suffix(".py").is_file(), content["command"]


def test_lab_pages_say_what_measured_a_row(made):
    page = made[ROOT / "docs" / "lab" / "eurlex57k.md"].decode()
    renamed = [result for result in Lab(ROOT).runs["eurlex57k"].values() if "measured_by" in result]
    assert len(renamed) > 10
    for result in renamed:
        assert f"| `{result['command']}` | `{result['measured_by']}` | {result['commit']} |" in page, result["recipe"]
    for name in ("eurlex57k", "benchmarks"):
        head = made[ROOT / "docs" / "lab" / f"{name}.md"].decode().split("\n| ")[0]
        assert "working tree had changes" in head
        assert "added the figures" in head


def test_rows_are_sorted_by_the_mean_of_six_metrics():
    rows = [{"recipe": name, "metrics": dict.fromkeys(("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5"), value)}
            for name, value in (("b", 2.0), ("a", 2.0), ("c", 3.0))]  # fmt: skip
    assert [row["recipe"] for row in best_first(rows)] == ["c", "a", "b"]
    assert quality(rows[0]) == 2.0


def test_the_frontier_and_the_view():
    points = [Point(name, x, y, "label trees", True) for name, x, y in (
        ("best P", 90.0, 40.0), ("beaten", 89.0, 39.0), ("both", 88.0, 50.0), ("best PSP", 80.0, 55.0),
        ("far", 9.0, 1.0),
    )]  # fmt: skip
    assert [point.name for point in frontier(points)] == ["best PSP", "both", "best P"]
    assert "far" not in {point.name for point in in_view(points)}


def test_tables_are_filled_between_their_marks_only():
    page = "a\n<!-- table: one -->\nold\n<!-- end of table -->\nb <!-- a comment -->\n"
    assert filled(page, {"one": lambda lab: f"| {lab} |"}, "new") == page.replace("old", "| new |")
    with pytest.raises(KeyError, match="no table is called 'one'"):
        filled(page, {}, None)
    with pytest.raises(ValueError, match="has no '<!-- end of table -->'"):
        filled("<!-- table: one -->\nold\n", {"one": str}, None)


def test_a_new_figure_makes_pages_stale_and_writing_renews_them(tmp_path):
    for folder in ("docs", "recipes", "studies"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.png"))
    shutil.copy(ROOT / "README.md", tmp_path)
    file = tmp_path / "docs" / "lab" / "runs" / "eurlex57k" / "popularity.json"
    result = json.loads(file.read_text())
    result["metrics"]["P@1"] = 8.99
    file.write_text(json.dumps(result))
    stale = {str(path.relative_to(tmp_path)) for path in outdated(tmp_path)}
    assert {"README.md", "docs/lab/eurlex57k.md"} <= stale
    assert "docs/lab/bibtex.md" not in stale
    assert {str(path.relative_to(tmp_path)) for path in write(tmp_path)} == stale
    assert "| popularity | 8.99 |" in (tmp_path / "README.md").read_text()
    assert outdated(tmp_path) == []
