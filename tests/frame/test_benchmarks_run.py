"""Benchmarks run: each on tiny made-up data, as its command line would, with what it records."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.commands import end_to_end, installed_size, start
from benchmarks.data import read_xc
from benchmarks.linear import dial, solver_choices
from benchmarks.linear import memory as linear_memory
from benchmarks.metrics import speed, unbiasedness
from benchmarks.tail import kept, million, modules, price, rehearse, together, values
from benchmarks.tune import search
from longtail.app.cli import main
from longtail.data import write_dataset


def here(measure):
    """Return a stand-in for `measured_apart` that measures in this process, where kernels are compiled already."""
    return lambda module, *arguments, **_: json.loads(json.dumps(measure(*arguments)))


@pytest.fixture
def tiny_modules(tiny, monkeypatch, tmp_path):
    for module in (modules, together):
        monkeypatch.setattr(module, "data", lambda: tiny)
    monkeypatch.setattr(modules, "KEPT", tmp_path / "bases")
    (tmp_path / "bases").mkdir()
    monkeypatch.setattr(modules, "ROUNDS", 1)
    return tmp_path


def test_tail_frontier(tiny_modules, run):
    found = run(modules, "tail-modules-frontier", "frontier", "dismec")
    line = found["lines"]["dismec"]
    exponents = [str(e) for e in modules.EXPONENTS]
    assert list(line["RankNet"]) == list(line["PropensityRerank"]) == exponents
    base = modules.load_model(tiny_modules / "bases" / "dismec")
    _, test = modules.data()
    # At exponent 0 and without blocks, the order of a single base is that of the base itself.
    assert line["PropensityRerank"]["0.0"] == modules.measured(base, test)
    assert line["PropensityRerank"]["0.0"] != line["PropensityRerank"]["1.0"]
    assert (tiny_modules / "tail_frontier.png").is_file()


def test_a_base_that_remembers_predicts_once(tiny):
    train, test = tiny

    class Counting(modules.DiSMEC):
        asked = 0

        def _predict(self, X, k):
            type(self).asked += 1
            return super()._predict(X, k)

    base = Counting().fit(train.X, train.Y)
    model = modules.RankNet(base=base, prefit=True, blocks=0).fit(train.X, train.Y)
    expected = [model.predict(test.X, exponent=e) for e in (0.0, 0.5)]
    Counting.asked, model.parts_ = 0, [modules.Remembering(base)]
    for one, e in zip(expected, (0.0, 0.5), strict=True):
        np.testing.assert_array_equal(model.predict(test.X, exponent=e).labels, one.labels)
    assert Counting.asked == 1


def test_tail_blocks(tiny_modules, run):
    found = run(modules, "tail-modules-blocks", "blocks")
    assert len(found["lines"]) == 6
    assert found["lines"]["no blocks, which is PropensityRerank"]["0.0"].keys() == set(modules.METRICS)
    assert (tiny_modules / "tail_blocks.png").is_file()


def test_tail_overhead(tiny_modules, run, monkeypatch):
    monkeypatch.setattr(modules, "PANELS", {"bases": ("dismec", "parabel")})
    assert run(modules, "tail-modules-overhead", "overhead")["seconds"].keys() == {"dismec", "parabel"}


def test_tail_norms_and_sweeps(tiny_modules, run, monkeypatch):
    for name, value in (("COPIES", (0, 1)), ("SPLITS", (0.2,))):
        monkeypatch.setattr(modules, name, value)
    assert len(run(modules, "tail-modules-norms", "norms")["fifths"]) == 4
    assert run(modules, "tail-modules-copies", "copies")["rows"].keys() >= {"Bonsai", "Taug, n_aug = 1"}
    assert run(modules, "tail-modules-split", "split")["rows"].keys() == {"Bonsai", "Taug, tau = 0.2"}


def test_tail_together(tiny_modules, run, monkeypatch):
    monkeypatch.setattr(together, "estimator", lambda name: modules.estimator(name).set_params(epochs=2))
    monkeypatch.setattr(together, "RESAMPLES", 3)
    monkeypatch.setattr(together, "EXPONENTS", np.linspace(0, 1, 5))
    found = run(together, "tail-modules-together", "dismec")["bases"]["dismec"]
    assert len(found) == 6
    assert found["RankNet alone"]["difference"] == 0.0


def test_tail_million(tiny_modules, run, monkeypatch):
    monkeypatch.setattr(million, "measured_apart", here(lambda option, n_labels: million.measure(n_labels)))
    (row,) = run(million, "tail-modules-million", "--labels", 100)["rows"]
    assert row["labels"] == 100
    assert row["base_mb"] > 0


def test_memory_of_dismec(run, monkeypatch):
    monkeypatch.setattr(
        linear_memory, "measured_apart", here(lambda option, folder, n: linear_memory.measure(folder, n))
    )
    sizes = ("--points", 400, "--features", 200, "--labels", 20, "--per-point", 10)
    found = run(linear_memory, "dismec-memory-random", *sizes, "--threads", 1, 2)
    one, two = found["rows"]
    assert (one["points"], one["features"], one["labels"]) == (400, 200, 20)
    assert one["formula_mb"] == pytest.approx(sum(one["parts_mb"].values()))
    block = linear_memory.BLOCK * 4 * (400 + 200) / 1e6
    assert two["formula_mb"] - one["formula_mb"] == pytest.approx(block)


def test_solver_choices(tiny, run, monkeypatch, tmp_path):
    write_dataset(tiny[0], tmp_path / "train")
    monkeypatch.setattr(solver_choices, "features_folder", lambda *_: tmp_path)

    def measure(option, variant, folder, *rest):
        assert option == "--measure"
        return solver_choices.measure(variant, folder, 32, None)

    monkeypatch.setattr(solver_choices, "measured_apart", here(measure))
    chosen = ("as built", "blocks by frequency alone", "blocks of random labels")
    found = run(solver_choices, "solver-choices-none", "--blocks", 1, "--repeat", 2, "--only", *chosen)
    assert tuple(found["rows"]) == chosen
    assert len(found["rows"]["as built"]["cpu_s_per_1000_labels"]) == 2
    assert found["rows"]["as built"]["labels"] == np.count_nonzero(tiny[0].label_counts)


@pytest.mark.parametrize("variant", solver_choices.VARIANTS)
def test_what_a_solver_choice_undoes_is_still_there(variant, monkeypatch):
    from longtail.linear import kernels

    with monkeypatch.context() as patch:
        before = {module: dict(vars(module)) for module in (kernels, solver_choices.simd, solver_choices.vectors)}
        for module, names in before.items():
            for name, value in names.items():
                patch.setattr(module, name, value)  # put back afterwards
        solver_choices.VARIANTS[variant][0]()
        changed = [
            name
            for module, names in before.items()
            for name, value in vars(module).items()
            if name not in names or value is not names[name]
        ]
        assert all(any(name in names for names in before.values()) for name in changed)
        assert bool(changed) == (solver_choices.VARIANTS[variant][0] is not solver_choices.as_built)


def test_speed_of_metrics(run):
    found = run(speed, "metrics-speed", "--points", 200)
    assert found["largest_difference"] < 1e-6
    assert found["points"] == 200


def test_unbiasedness(run, tmp_path):
    found = run(unbiasedness, "unbiasedness", "--repeats", 20)
    for row in found["rows"]:
        assert abs(row["unbiased-P"]["mean"] - row["complete"]) < 0.01
        assert row["P"]["mean"] < row["complete"] - 0.1
    assert (tmp_path / "unbiasedness.png").is_file()


def test_reading_xc(tiny, run, monkeypatch, tmp_path):
    def measure(option, file, only, reader):
        assert (option, only) == ("--data", "--only")
        return read_xc.READERS[reader](str(file))

    monkeypatch.setattr(read_xc, "measured_apart", here(measure))
    write_dataset(tiny[0], tmp_path / "x.txt")
    found = run(read_xc, "read-xc", "--data", tmp_path / "x.txt", "--repeat", 1)
    assert found["rows"].keys() == {"longtail", "scikit-learn"}
    matrix = tiny[0].X
    assert found["rows"]["longtail"]["arrays_mb"] * 1e6 > matrix.data.nbytes + matrix.indices.nbytes


def test_a_benchmark_without_data_says_so(run, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["read_xc", "--data", str(tmp_path / "none.txt"), "--out", str(tmp_path)])
    assert read_xc.main() == 2
    assert "is absent" in capsys.readouterr().out


def test_start_subtracts_later_trainings_from_the_first(run, monkeypatch, tmp_path):
    seen = []

    def timed(command, cache):
        seen.append((command, cache))
        first = "train" in command and not any(cache == other and "train" in c for c, other in seen[:-1])
        return {"seconds": 9.0 if first else 2.0, "cpu_s": 8.0 if first else 1.0}

    monkeypatch.setattr(start.measure, "__defaults__", (timed,))
    (tmp_path / "a.jsonl").write_text("")
    found = run(start, "start", "--data", tmp_path / "a.jsonl", "--repeat", 2)
    assert found["rows"]["first training, beyond later ones"] == {"seconds": 7.0, "cpu_s": 7.0}
    cold = {cache for command, cache in seen if "--text" in command}
    assert len(cold) == 3  # the warm one, and a new one per turn


def test_a_command_of_start_is_timed_and_must_succeed(tmp_path):
    found = start.timed((*start.PYTHON, "-c", "sum(range(10**6))"), tmp_path)
    assert found["cpu_s"] > 0
    assert found["seconds"] > 0
    with pytest.raises(subprocess.CalledProcessError):
        start.timed((*start.PYTHON, "-c", "raise SystemExit(3)"), tmp_path)


def test_end_to_end_has_both_commands_and_every_stage(run, monkeypatch, tmp_path):
    lines = [json.dumps({"text": f"fish{i % 7} boats{i % 3} sea", "labels": [f"l{i % 3}"]}) for i in range(120)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    def timed(command, cache):
        if "train" in command:
            from longtail import DiSMEC, TextPipeline, read_dataset

            data = read_dataset(tmp_path / "a.jsonl")
            model = TextPipeline(model=DiSMEC()).fit(data.texts, data.Y, label_names=data.label_names)
            model.save(command[command.index("--out") + 1], overwrite=True)
        return {"seconds": 1.0, "cpu_s": 1.0}

    def stages(*arguments):
        return end_to_end.stages_of(tmp_path / "a.jsonl", tmp_path / "a.jsonl", arguments[1])

    monkeypatch.setattr(end_to_end, "timed", timed)
    monkeypatch.setattr(end_to_end, "measured_apart", here(stages))
    found = run(
        end_to_end, "end-to-end", "--train", tmp_path / "a.jsonl", "--test", tmp_path / "a.jsonl", "--repeat", 1
    )
    names = {name.split(": ")[-1] for name in found["rows"]}
    assert names == {"train", "predict", "import", "read", "features", "solver", "write", "load", "rank"}


def test_installed_sizes_add_up(run):
    found = run(installed_size, "installed-size")
    assert found["sizes"]["numpy"] > 1e7
    assert {"llvmlite", "scikit-learn"} <= found["sizes"].keys()  # the first comes with Numba
    assert "torch" not in found["sizes"]  # an extra
    assert f"| together | {sum(found['sizes'].values()) / 1e6:.0f} |" in found["table"]


@pytest.fixture
def of_recipes(tiny, monkeypatch):
    for module in (kept, dial):
        monkeypatch.setattr(module, "features_of", lambda *_, **__: tiny)


def test_a_path_along_the_dial(of_recipes, run):
    found = run(dial, "dial-eurlex57k-pw-cb", "--dataset", "eurlex57k", "--strengths", 0, 1)
    assert [row["strength"] for row in found["rows"]] == [0.0, 1.0]
    for row in found["rows"]:  # a warm start ends near the same optimum
        assert abs(row["path P@1"] - row["full P@1"]) < 5


def test_what_the_price_keeps(of_recipes, run, monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    found = run(price, "price-bibtex", "--datasets", "bibtex", "--models", "bonsai", "dismec", "dismec/pw-cb")
    rows = {row["model"]: row for row in found["rows"]}
    assert {"bonsai", "dismec", "PropensityRerank(dismec)", "the dial of dismec", "AutoModel"} <= rows.keys()
    assert all(row.get("lacks", 0) >= 0 for row in rows.values())  # the sweep contains what is chosen
    assert rows["the dial of dismec"]["chosen"][0] in ("dismec", "dismec/pw-cb")
    assert rows["the dial of dismec"]["elsewhere"].keys() == {"P@1", "PSP@1"}


def test_luck_of_a_sweep_is_not_found_again_on_other_points():
    rng = np.random.default_rng(0)
    hits = (rng.random((5, 41, 2000)) < 0.5).astype(np.float32)
    points = np.ones(2000)
    sweep, chosen = (values.Values(part, part, points) for part in (hits, hits[:1, :1]))
    best = sweep.percent()[1].max() - chosen.percent()[1][0, 0]
    other = values.elsewhere(sweep, chosen)
    assert best > 1.5
    assert abs(other["PSP@1"]) < 1
    hits[4, 40] = rng.random(2000) < 0.6
    assert abs(values.elsewhere(sweep, chosen)["PSP@1"] - 10) < 3, "what is better is found again"


def test_rules_of_choice_are_rehearsed_on_training_points(of_recipes, run, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    train, judging = kept.data_of("bibtex@0", None)
    assert train.n_points + judging.n_points == tiny[0].n_points, "test points are not read"
    for name in ("bonsai", "dismec", "dismec/pw-cb"):
        kept.make("bibtex@0", name, train, judging, 1)
    found = run(rehearse, "rehearse", "--datasets", "bibtex@0", "--repeats", 2)
    assert [(row["reserve"], row["least_gain"]) for row in found["rows"]] == rehearse.RULES
    assert all(row["choices"] == 2 and row["dataset"] == "bibtex" for row in found["rows"])
    assert [(row["reserve"], row["least_gain"]) for row in found["alone"]] == rehearse.RULES
    assert all(row["choices"] == 2 * 3 and row["lacking"] >= 0 for row in found["alone"]), "every draw, every model"
    paid = {row["least_gain"]: row["paid"] for row in found["rows"] if row["reserve"] == 0}
    assert paid[1.0] <= paid[0.0]


def test_a_search_is_measured_beside_the_defaults(run, monkeypatch, tmp_path):
    (tmp_path / "small").mkdir()
    for part in ("train", "test"):
        lines = [json.dumps({"text": f"fish{i % 8} boats{i % 3} sea", "labels": [f"l{i % 8}"]}) for i in range(120)]
        with lzma.open(tmp_path / "small" / f"{part}.jsonl.xz", "wt") as file:
            file.write("\n".join(lines))

    def timed(command):
        monkeypatch.setattr(sys, "argv", ["longtail", *command[3:]])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        return {"minutes": 0.1, "cpu_minutes": 0.2}

    monkeypatch.setattr(search, "timed", timed)
    found = run(search, "tune-small", "--dataset", "small", "--data-root", tmp_path, "--trials", 3)
    titles = [("the defaults", 2), ("the search", 3), ("the search, at the P@1 of the defaults", 3)]
    assert [(row["search"], row["trials"]) for row in found["rows"]] == titles
    defaults, _, same_price = (row["held_out"] for row in found["rows"])
    assert all(same_price[name] >= defaults[name] for name in defaults), "the defaults are among the trials"
    for row in found["rows"]:
        assert row["test"]["P@1"] > 90, "the words give the label away"
        assert row["held_out"].keys() == {"P@1", "PSP@1"}
        assert row["test"].keys() == {"P@1", "PSP@1", "macro-F1@5", "coverage@5"}
