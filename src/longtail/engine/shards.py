"""Shards: every machine trains its share of the parts into a folder; one of them puts the folders together.

Nothing connects the machines but files, as in a Slurm array. A shard is a checkpoint of the whole training in which
only its own parts are finished, so putting shards together is resuming a training that has all of their parts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from longtail.core.engine import Arrays, Engine, Item, Result, Task, Threads
from longtail.core.threads import in_threads
from longtail.errors import OutputError, ParameterError

logger = logging.getLogger(__name__)

_FINISHED = "finished.json"
_LISTED = 10  # shards that a message names
_FOLDER = re.compile(r"\.shard-(\d{1,9})-of-(\d{1,9})", re.ASCII)


class PartsKept(Exception):
    """A shard has finished its parts: no error, but the end of a `fit` that cannot go on without other shards."""


@dataclass
class Shards(Engine):
    """Trains one share of the parts, keeps them in the checkpoint, and ends the training by `PartsKept`.

    Parameters
    ----------
    number : int
        Which share, from 1.
    count : int
        Number of shares.
    """

    number: int
    count: int
    n_own: int = 0
    n_parts: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ParameterError(f"there is no shard {self.number} of {self.count}; they are numbered from 1")

    @classmethod
    def parse(cls, text: str) -> Shards:
        """Return the shard of a text such as "3/16"."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if not found:
            raise ParameterError(f"--shard is {text!r}, but must be NUMBER/COUNT, e.g. 3/16 for the third of 16")
        return cls(int(found[1]), int(found[2]))

    @contextlib.contextmanager
    def results(self, task: Task) -> Iterator[Iterator[Arrays]]:
        if task.whole:
            with Threads().results(task) as results:
                yield results
            return
        if task.checkpoint is None:
            raise ParameterError("a shard keeps its parts in a checkpoint; give one to Run")
        numbers = range(self.number - 1, len(task.parts), self.count)  # those that take long come first: all get some

        def kept(number: int) -> Arrays:
            if task.saved(number) is None:
                task.save(number, task.work(task.shared, task.parts[number]))
            return {}

        with (
            in_threads(kept, numbers, n_jobs=task.n_jobs, ahead=task.ahead) as done,
            task.counted(numbers, done) as counted,
        ):
            for _ in counted:
                pass
        self.n_own, self.n_parts = self.n_own + len(numbers), self.n_parts + len(task.parts)
        raise PartsKept

    def each(self, step: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Call `step` for each item; the parts of all are finished before the training ends."""
        results, ended = [], False
        for item in items:
            try:
                results.append(step(item))
            except PartsKept:
                ended = True
        if ended:
            raise PartsKept
        return results

    def folder(self, out: Path) -> Path:
        """Return the folder of this shard of the model `out`."""
        return out.with_name(f"{out.name}.shard-{self.number}-of-{self.count}")

    def finish(self, out: Path) -> None:
        """Mark the folder of this shard as complete."""
        content = {"shard": self.number, "of": self.count, "parts": self.n_own, "of_parts": self.n_parts}
        (self.folder(out) / _FINISHED).write_text(json.dumps(content) + "\n", encoding="utf-8")


def finished_shards(out: Path) -> list[Path]:
    """Return the folders of all shards of a model.

    Parameters
    ----------
    out : path-like
        The model that the shards are for.

    Returns
    -------
    list of Path
        One folder per shard.

    Raises
    ------
    OutputError
        If there are none, some are missing or unfinished, have the name of another, or belong to different divisions.
    """
    found: dict[int, dict[int, Path]] = {}
    for path in sorted(out.parent.iterdir()) if out.parent.is_dir() else []:
        numbers = _FOLDER.fullmatch(path.name.removeprefix(out.name))
        if numbers and path.name.startswith(out.name) and path.is_dir():
            number, count = int(numbers[1]), int(numbers[2])
            if 1 <= number <= count:
                found.setdefault(count, {})[number] = path
    if not found:
        raise OutputError(f"there are no shards of {out}; make them with the same command and --shard 1/N to N/N")
    if len(found) > 1:
        counts = " and ".join(f"of {count} ({_listed(shards)})" for count, shards in sorted(found.items()))
        raise OutputError(f"there are shards of {out} {counts}; remove those of all divisions but one")
    count, shards = next(iter(found.items()))
    if len(shards) < count:  # the first ones only: a name can speak of 999,999,999 shards
        missing = list(islice((number for number in range(1, count + 1) if number not in shards), _LISTED))
        raise OutputError(
            f"{out}: missing shards of {count}: {_listed(missing, count - len(shards))}; "
            f"make them with --shard NUMBER/{count}"
        )
    marks = {number: _mark(path) for number, path in sorted(shards.items())}
    if unfinished := [number for number, mark in marks.items() if mark is None]:
        raise OutputError(
            f"{out}: unfinished shards of {count}: {_listed(unfinished)}; wait for them, or continue them with "
            f"--shard NUMBER/{count} --resume"
        )
    for number, mark in marks.items():
        _check_mark(shards[number], number, count, mark or {})
    return [shards[number] for number in range(1, count + 1)]


def _mark(folder: Path) -> dict[str, Any] | None:
    """Return what `Shards.finish` wrote; None if it wrote nothing, or was killed over it."""
    try:
        mark = json.loads((folder / _FINISHED).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return mark if isinstance(mark, dict) else None


def _check_mark(folder: Path, number: int, count: int, mark: dict[str, Any]) -> None:
    """Raise OutputError if the folder is that of another shard, which was renamed or copied."""
    if (mark.get("shard"), mark.get("of")) != (number, count):
        raise OutputError(
            f"{folder} is shard {mark.get('shard')} of {mark.get('of')} by its content; give it its name back, and "
            f"make this one with --shard {number}/{count}"
        )


def warn_of_lost_parts(folders: Iterable[Path]) -> None:
    """Name finished shards that have fewer files than parts: the merge trains what is not there."""
    for folder in folders:
        n_parts, n_found = (_mark(folder) or {}).get("parts"), sum(1 for _ in folder.rglob("*.safetensors"))
        if isinstance(n_parts, int) and n_found < n_parts:
            logger.warning("%s has lost %d of its %d parts; repeating them", folder, n_parts - n_found, n_parts)


def remove_shards(folders: Iterable[Path]) -> None:
    """Remove the folders of shards whose model is complete."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _listed(numbers: Collection[int], total: int | None = None) -> str:
    """Return the first of some numbers, and how many more there are."""
    shown = sorted(numbers)[:_LISTED]
    more = (len(numbers) if total is None else total) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {more:,} more" if more else "")
