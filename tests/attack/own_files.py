"""Files that longtail writes for itself, or that describe what it does: kept evaluations, journals of searches, jobs,
shards, reports, results, recipes, settings of the service. They are attacked like data: people pass them on as well."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from optuna.pruners import NopPruner

import longtail
from longtail.bench.results import check_writable
from longtail.bench.study import read_experiments
from longtail.core.checkpoint import Checkpoint
from longtail.core.evaluations import Evaluation, keep_evaluation, read_evaluations
from longtail.core.store import json_digest
from longtail.engine.shards import Shards, finished_shards
from longtail.errors import OutputError
from longtail.serve.figures import evaluations
from longtail.serve.settings import read_settings
from longtail.tune.front import OUTCOME, found_in, front, in_words, pick
from longtail.tune.sampler import SamplerOfTrials
from longtail.tune.study import check_file, opened

_JOB = {"class": "x", "data": "0123"}
_IDENTITY = {"data": "0123", "models": ["dismec"]}
_OBJECTIVES = ["P@1", "PSP@1"]
_RECIPE = b"""seed = 3
[data]
train = "train.txt"
held_out = 0.2
[model]
name = "bonsai"
weighting = "pw"
parameters = {n_children = 4, beam = 5}
[evaluate]
propensity = "0.5,1.5"
"""
_STUDY = b"""base = "recipe.toml"
[variants.a.model.parameters]
n_children = 5
[variants.b]
model.weighting = "pw-cb"
data.sample = 50
"""
_SETTINGS = b"""port = 9000
cors_origins = ["https://x.org"]
[models.law]
path = "law"
language = "en"
uri_prefix = "x:"
"""
_REPORT = {
    "about": {"test data": "/x/y/test.txt", "date": "2026-11-16"},
    "data": {"test points": 30},
    "metrics": {"rows": [{"name": "P@1", "value": 80.5}]},
    "frontier": [{"exponent": 0.5, "P@1": 80.0, "PSP@1": 40.0}],
}
_RESULT = {"dataset": "d", "recipe": "r", "command": "longtail bench r.toml", "metrics": {"P@1": 80.5}}


def _written(write: Callable[[Path], Any]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file() and file.stat().st_size]
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _evaluated(folder: Path) -> None:
    model = longtail.Popularity().fit(np.eye(3, dtype=np.float32), [[0], [1], [0]])
    model.save(folder / "evaluated")
    bands = {"tail": {"recall": 0.25, "labels": 3.0}}
    keep_evaluation(folder / "evaluated", Evaluation("d", "2026-11-16", 3, {"P@1": 80.0}, bands, "0.55,1.5", 0.5))


def _reported(folder: Path) -> None:
    _evaluated(folder)
    (folder / "report.json").write_text(json.dumps(_REPORT))


def _read_evaluated(path: Path) -> Any:
    """Read evaluations whose digests are right, whatever else is in them."""
    for file in path.glob("evaluation-*.json"):
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            content = json.loads(file.read_bytes())
            content["sha256"] = json_digest(content)
            file.write_text(json.dumps(content))
    return read_evaluations(path)


def _checkpoint(folder: Path, *, resume: bool = False) -> Checkpoint:
    checkpoint = Checkpoint(folder, resume=resume)
    checkpoint.open(_JOB)
    return checkpoint


def _unfinished(folder: Path) -> None:
    _checkpoint(folder / "unfinished").put("part", {"w": np.arange(6.0)})


@contextlib.contextmanager
def _journal(path: Path) -> Iterator[Any]:
    check_file(path, resume=True)
    sampler = SamplerOfTrials(0, [{"model": "dismec", "dismec.C": 1.0}])
    with opened(path, _IDENTITY, sampler=sampler, pruner=NopPruner(), objectives=_OBJECTIVES) as journal:
        yield journal


def _searched(folder: Path) -> None:
    with _journal(folder / "s.study") as journal:
        for number in range(3):
            trial = journal.next_trial(None)
            values = {"C": trial.suggest_float("dismec.C", 0.1, 10.0, log=True)}
            metrics = dict(zip(_OBJECTIVES, (80.0 + number, 40.0 - number), strict=True))
            curve = [{"metrics": metrics, "exponent": 0.5}]
            costs = {"seconds": 1.0, "memory_mb": 10.0, "model_mb": 1.0}
            trial.set_user_attr(OUTCOME, {"model": "dismec", "values": values, "curve": curve, "costs": costs})
            if number < 2:  # the last one was killed
                journal.study.tell(trial, [80.0 + number, 40.0 - number])


def _read_searched(path: Path) -> Any:
    """Continue a search: look at its trials, take up the one that was killed, ask for another."""
    with _journal(path) as journal:
        found = found_in(journal.study.get_trials(deepcopy=False), 1, {"seconds": 10.0})
        for one in front(found, _OBJECTIVES) if found else []:
            in_words(one.values)
        if found:
            pick(found, _OBJECTIVES, "knee", 1.0)
        for _ in range(2):
            trial = journal.next_trial(None)
            trial.suggest_float("dismec.C", 0.1, 10.0, log=True)


def _sharded(folder: Path) -> None:
    out = folder / "sharded" / "m"
    out.parent.mkdir()
    for number in (1, 2):
        shard = Shards(number, 2)
        _checkpoint(shard.folder(out)).put(f"part{number}", {"w": np.arange(6.0)})
        shard.finish(out)


def _merged(path: Path) -> Any:
    """Read the parts of all shards, as `longtail train --merge` does."""
    checkpoint = Checkpoint(path / "m.partial", resume=False, sources=finished_shards(path / "m"))
    checkpoint.open(_JOB)
    try:
        return [checkpoint.get(f"part{number}") for number in (1, 2)]
    finally:
        checkpoint.clear()


def _replace_result(path: Path) -> None:
    with contextlib.suppress(OutputError):  # it would replace a file that is not its own
        check_writable(path / "d" / "r.json")


OWN: dict[str, tuple[Any, Callable[[Path], Any]]] = {
    "evaluated": (lambda: _written(_evaluated), _read_evaluated),
    "unfinished": (lambda: _written(_unfinished), lambda path: _checkpoint(path, resume=True).get("part")),
    "sharded": (lambda: _written(_sharded), _merged),
    "report.json": (lambda: _written(_reported), lambda path: evaluations(path.parent / "evaluated", path)),
    "s.study": (lambda: _written(_searched), _read_searched),
    "recipe.toml": ({"recipe.toml": _RECIPE}, lambda path: read_experiments([path])),
    "study.toml": ({"recipe.toml": _RECIPE, "study.toml": _STUDY}, lambda path: read_experiments([path])),
    "results": ({"results/d/r.json": json.dumps(_RESULT).encode()}, _replace_result),
    "serve.toml": ({"serve.toml": _SETTINGS}, read_settings),
}
