"""The study file: a journal that several processes append to, and what it must agree with before they do.

Every process holds the lock of a hidden file beside the journal (`core.unfinished`), and a trial names the file of the
process that runs it. The lock ends with its process, however that ends; so a trial whose file is gone belongs to nobody
and is run again, under its own number.
"""

from __future__ import annotations

import contextlib
import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import longtail
from longtail.core.unfinished import check_place, remove_dead_temporaries, temporary_name, unfinished
from longtail.errors import DataError, LongtailError, MissingExtraError, OutputError, first_line
from longtail.tune.front import check_trial

try:
    import fcntl
except ImportError:  # Windows: processes cannot share a study there
    fcntl = None  # type: ignore[assignment]

FORMAT = 2  # raise it when trials of an older file no longer compare with new ones
_NAME = "longtail tune"
_IDENTITY, WORKER = "identity", "worker"
# What a user would call the entries of the identity.
_SAID = {
    "format": "format", "longtail": "version of longtail", "data": "dataset", "models": "--model",
    "objectives": "--objectives", "price": "--price", "fixed": "--fix", "held_out": "--dev", "folds": "--folds",
    "seed": "--seed", "screen": "--screen", "limits": "limits", "propensity": "--propensity", "spaces": "search space",
}  # fmt: skip


def check_file(path: Path, *, resume: bool) -> None:
    """Raise an error if a study cannot begin or continue in this file; changes nothing."""
    check_place(path)
    if path.is_dir():
        raise OutputError(f"{path} is a folder; choose a file for the study")
    if not path.exists():
        return
    _check_journal(path)
    if not resume:
        raise OutputError(f"{path} exists; --resume continues this study, or choose another file")


def _check_journal(path: Path) -> None:
    with open(path, "rb") as file:
        line = file.readline(1_000_000)
    try:
        first = json.loads(line) if line else {"op_code": 0}
    except (ValueError, RecursionError):
        first = None
    if not isinstance(first, dict) or "op_code" not in first:
        raise DataError("was not written by longtail tune; choose another file for the study", path=path)


@dataclass(eq=False)
class Journal:
    """An open study: Optuna's study and the name under which this process runs trials."""

    path: Path
    study: Any
    worker: str

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other process ask for a trial inside the block."""
        if fcntl is None:
            yield
            return
        with open(self.path, "rb") as lock:  # Optuna itself locks another file, for each line that it appends
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def next_trial(self, most: int | None) -> Any:
        """Return a trial to run: one that a killed process left, else a new one; None if there are `most` already."""
        import optuna

        with self.alone(), damage_reported(self.path):
            remove_dead_temporaries(self.path)
            trials = self.study.get_trials(deepcopy=False)
            for left in trials:
                if left.state == optuna.trial.TrialState.RUNNING and not self._is_run_by_another(left):
                    return self._mine(optuna.trial.Trial(self.study, left._trial_id))
            if most is not None and len(trials) >= most:
                return None
            return self._mine(self.study.ask())

    def _is_run_by_another(self, trial: Any) -> bool:
        worker = trial.user_attrs.get(WORKER)
        return worker is not None and worker != self.worker and (self.path.parent / worker).exists()

    def _mine(self, trial: Any) -> Any:
        trial.set_user_attr(WORKER, self.worker)
        return trial


@contextlib.contextmanager
def opened(
    path: Path, identity: Mapping[str, Any], *, sampler: Any, pruner: Any, objectives: Sequence[str]
) -> Iterator[Journal]:
    """Open a study file, new or of the same identity, and hold a worker's lock while the block runs.

    Parameters
    ----------
    path : Path
        The journal.
    identity : mapping
        What trials must agree on to be compared.
    sampler : BaseSampler
        Draws parameters.
    pruner : BasePruner
        Ends trials early.
    objectives : sequence of str
        Metrics; of all, more is better.

    Yields
    ------
    Journal

    Raises
    ------
    DataError
        If the file is of another dataset, version or search; it stays as it is.
    """
    optuna = require_optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    identity = json.loads(json.dumps({"format": FORMAT, "longtail": longtail.__version__, **identity}))
    new = not path.exists() or path.stat().st_size == 0
    if not new:
        _check_content(path, identity, objectives)
        _cut_half_a_line(path)
    with unfinished(temporary_name(path)) as own:
        try:
            with damage_reported(path):
                storage = JournalStorage(JournalFileBackend(str(path)))
                study = optuna.create_study(
                    study_name=_NAME, storage=storage, sampler=sampler, pruner=pruner, load_if_exists=True,
                    directions=["maximize"] * len(objectives),
                )  # fmt: skip
                if _IDENTITY not in study.user_attrs:
                    study.set_user_attr(_IDENTITY, identity)
            yield Journal(path, study, own.name)
        finally:
            with contextlib.suppress(OSError):
                own.unlink()


@contextlib.contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn whatever Optuna says about a journal that is not as it wrote it into a DataError."""
    try:
        yield
    except (LongtailError, OSError, MemoryError):
        raise
    except Exception as error:  # it checks nothing itself, so an entry that was changed can fail anywhere
        raise DataError(
            f"the study is damaged, or was not written by longtail tune ({type(error).__name__}: {first_line(error)}); "
            "choose another file",
            path=path,
        ) from error


def _check_content(path: Path, identity: Mapping[str, Any], objectives: Sequence[str]) -> None:
    """Raise DataError unless the study in a file is whole and has this identity; reads the file and writes nothing."""
    optuna = require_optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with damage_reported(path):
        study = optuna.load_study(study_name=_NAME, storage=JournalStorage(JournalFileBackend(str(path))))
        found = dict(study.user_attrs.get(_IDENTITY, identity))
        for trial in study.get_trials(deepcopy=False):
            check_trial(trial, objectives)
    for name in (*_SAID, *identity):
        if found.get(name) != identity.get(name):
            was, now = (_shown(entries.get(name)) for entries in (found, identity))
            raise DataError(
                f"the study has another {_SAID.get(name, name)} ({was}, not {now}); its trials cannot be compared: "
                "choose another file for the study",
                path=path,
            )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())[:80] or "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cut_half_a_line(path: Path) -> None:
    """Remove a last line that a killed process did not finish; whatever it said is drawn or measured again."""
    remove_dead_temporaries(path)
    if any(path.parent.glob(f".{glob.escape(path.name)}.*.tmp")):
        return  # another process runs, and may be writing this line now
    with open(path, "rb+") as file:
        content = file.read()
        if not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)


def require_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("Optuna", "tune", "longtail tune") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
