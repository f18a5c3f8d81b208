"""What `longtail tune` finds within how many minutes, beside the defaults, on held-out points and on test points.

    python -m benchmarks.tune.search [--dataset eurlex57k] [--trials 30] [--threads N] [--kill TRIALS]

Runs the command line: a search of DiSMEC and Bonsai at the default price that trains its pick on all points, and one of
two trials, which are the defaults, in the same way. The price counts from the best P@1 that was found, which a search
raises; so a third row shows the most PSP@1 that the search found at the P@1 of the defaults' pick, or more. With
`--kill`, the search is run once more, killed with SIGKILL after so many trials, and resumed; its trials must be those
of the first. The test part is only scored. CPU minutes are those of all threads together; on idle cores they are the
minutes of the clock times the cores. Writes docs/lab/benchmarks/tune-DATASET.json.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import add_out, markdown_table, save
from benchmarks.common.data import add_data_root, data_root
from benchmarks.common.metrics import FIRST, measured
from benchmarks.common.tables import decimals
from longtail import load_model
from longtail.data import read_dataset
from longtail.tune.candidate import Candidate
from longtail.tune.front import OUTCOME, Found, found_in, pick
from longtail.workflow.apply import conform

MODELS = ("dismec", "bonsai")
OBJECTIVES, PRICE = ["P@1", "PSP@1"], 1.0


def command_of(train: Path, study: Path, trials: int, options: Sequence[str]) -> list[str]:
    """Return the command line of a search."""
    search = ["--model", ",".join(MODELS), "--trials", str(trials), "--study", str(study)]
    return [sys.executable, "-m", "longtail.app.cli", "tune", str(train), *search, *options]


def timed(command: Sequence[str]) -> dict[str, float]:
    """Run a command and return its minutes of the clock and of all threads."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"minutes": round((time.monotonic() - started) / 60, 2), "cpu_minutes": round(cpu / 60, 2)}


def trials_in(study: Path) -> list[Any]:
    """Return the trials of a study file."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(study)))
    trials: list[Any] = optuna.load_study(study_name=None, storage=storage).get_trials()
    return trials


def summary(trials: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return what two searches must have in common: everything but seconds and memory."""
    return [(t.number, t.state.name, t.params, t.values, t.user_attrs.get(OUTCOME, {}).get("curve")) for t in trials]


def killed_and_resumed(train: Path, study: Path, trials: int, options: Sequence[str], after: int) -> list[Any]:
    """Return the trials of a search that was killed when `after` trials had ended, and resumed."""
    process = subprocess.Popen(command_of(train, study, trials, options))
    while not study.exists() or sum(t.state.is_finished() for t in trials_in(study)) < after:
        if process.poll() is not None:
            raise SystemExit("the search ended before it could be killed")
        time.sleep(1)
    process.kill()
    process.wait()
    subprocess.run([*command_of(train, study, trials, options), "--resume"], check=True)
    return trials_in(study)


def tested(fitted: Any, test: Path) -> dict[str, float]:
    """Return the metrics of a fitted model on test points."""
    data = read_dataset(test, label_names=fitted.label_names_)
    found = measured(fitted.predict(conform(data, fitted), k=5), data.Y, fitted.label_counts_, fitted.n_points_)
    return {name: found[name] for name in FIRST}


def at_precision(found: Sequence[Found], least: float) -> Found:
    """Return the point with the most PSP@1 among those with this P@1 or more."""
    return max((f for f in found if f.point["metrics"]["P@1"] >= least), key=lambda f: f.point["metrics"]["PSP@1"])


def trained(best: Found, train: Path, threads: int | None) -> Any:
    """Return the model of a point, fitted on all points as `--out` does."""
    data = read_dataset(train)
    model = Candidate(best.model, best.values, threads=threads).estimator(text=True, point=best.point)
    return model.fit(data.texts, data.Y, label_names=data.label_names)


def row_of(title: str, n_trials: int, best: Found, fitted: Any, test: Path) -> dict[str, Any]:
    """Return a point that a search found, with its figures on held-out points and on test points."""
    options = {key: value for key, value in best.point.items() if key != "metrics"}
    row: dict[str, Any] = {"search": title, "trials": n_trials, "model": best.model, "values": best.values}
    held_out = {name: round(best.point["metrics"][name], 2) for name in OBJECTIVES}
    return row | {"options": options, "held_out": held_out, "test": tested(fitted, test)}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    cells = []
    for row in rows:
        figures = [*decimals(row["held_out"], OBJECTIVES), *decimals(row["test"], FIRST)]
        times = [f"{row[key]:.1f}" if key in row else "–" for key in ("minutes", "cpu_minutes")]
        cells.append([row["search"], row["model"], *figures, *times])
    parts = [*(f"{name}, held out" for name in OBJECTIVES), *(f"{name}, test" for name in FIRST)]
    return markdown_table(["", "pick", *parts, "minutes", "CPU minutes"], cells, left=(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_root(parser)
    parser.add_argument("--dataset", default="eurlex57k")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--kill", type=int, metavar="TRIALS")
    parser.add_argument("--threads", type=int)
    add_out(parser)
    asked = parser.parse_args()
    train, test = (data_root(asked.data_root) / asked.dataset / f"{part}.jsonl.xz" for part in ("train", "test"))
    options = [] if asked.threads is None else ["--threads", str(asked.threads)]
    rows: list[dict[str, Any]] = []
    content: dict[str, Any] = {}
    picks: list[Found] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, trials in (("the defaults", len(MODELS)), ("the search", asked.trials)):
            study, model = folder / f"{trials}.study", folder / f"{trials}.model"
            times = timed(command_of(train, study, trials, [*options, "--pick", "price", "--out", str(model)]))
            found = found_in(trials_in(study), len(MODELS), {})
            picks.append(pick(found, OBJECTIVES, "price", PRICE))
            rows.append(row_of(title, trials, picks[-1], load_model(model), test) | times)
        same_price = at_precision(found, picks[0].point["metrics"]["P@1"])
        title = "the search, at the P@1 of the defaults"
        rows.append(row_of(title, trials, same_price, trained(same_price, train, asked.threads), test))
        if asked.kill is not None:
            again = killed_and_resumed(train, folder / "killed.study", asked.trials, options, asked.kill)
            same = summary(again) == summary(trials_in(study))
            content = {"killed_after": asked.kill, "same_trials_when_resumed": same}
    print(table(rows))
    command = f"python -m benchmarks.tune.search --dataset {asked.dataset} --trials {asked.trials}"
    command += f" --kill {asked.kill}" * (asked.kill is not None)
    save(f"tune-{asked.dataset}", {"rows": rows, "table": table(rows)} | content, command, folder=asked.out)


if __name__ == "__main__":
    main()
