"""A tiny frame for attacks: a registry, a loop with a limit, and a report.

An attack is a function of a random generator and an empty scratch folder. It tries one thing, returns None if longtail
held, and raises `Finding` if it did not. A module of this folder adds its attacks to `ATTACKS` when it is imported:

    @attack("files/xc")
    def mutated_xc_file(rng: np.random.Generator, folder: Path) -> None:
        ...

The part before "/" is the group, by which `python -m scripts.attack --only files` chooses. An attack that starts a
process limits its time itself.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Attack = Callable[[np.random.Generator, Path], None]
ATTACKS: dict[str, Attack] = {}
LEFT_OUT: dict[str, str] = {}  # groups without attacks here, and what they need
_TALLY: Counter[str] = Counter()
_LONGEST_TURN = 1.5  # seconds
_ALLOWED: list[float] = []  # seconds for the trial under way, if the run has a limit of time


class Finding(Exception):
    """longtail did not hold: a crash, a hang, a traceback, a silent difference, something left behind."""


class Waited:
    """Counts the seconds that a loop has waited, asked once per turn; a machine that stood still does not count."""

    def __init__(self) -> None:
        self._total, self._last = 0.0, time.monotonic()

    def __call__(self) -> float:
        now = time.monotonic()
        self._total, self._last = self._total + min(now - self._last, _LONGEST_TURN), now
        return self._total


@dataclass
class Found:
    """One finding: the attack, the trial that repeats it, what happened, and the folder with what was tried."""

    name: str
    trial: int
    what: str
    folder: Path


@dataclass
class Report:
    """What a run tried and found."""

    seed: int
    trials: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    findings: list[Found] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """Return one line per attack, one per count of what was tried, then one paragraph per finding."""
        counts = {name: sum(found.name == name for found in self.findings) for name in self.trials}
        width = max(map(len, self.trials), default=0)
        table = [
            f"{name:{width}}  {trials:7,} trials  {counts[name]:3} findings  {self.seconds[name]:7.1f} s"
            for name, trials in self.trials.items()
        ]
        begin = [f"began with {next(iter(self.trials))} (seed {self.seed})"] if len(self.trials) > 1 else []
        again = "again: --only {0.name} --seed {1} --first {0.trial} --trials 1"
        table += [f"{number:,} {what}" for what, number in sorted(self.tally.items())]
        return (
            begin + table + [f"{f.name}: {f.what}\n  {again.format(f, self.seed)}\n  {f.folder}" for f in self.findings]
        )


def attack(name: str) -> Callable[[Attack], Attack]:
    """Return a decorator that adds an attack to the registry, e.g. as "files/xc"."""

    def add(function: Attack) -> Attack:
        ATTACKS[name] = function
        return function

    return add


def tally(what: str, number: int = 1) -> None:
    """Count what a trial really tried, e.g. trainings that were alive when they were killed."""
    _TALLY[what] += number


def seconds_allowed() -> float:
    """Return how long the trial under way may take if every attack is to have one trial within the limit of the run."""
    return _ALLOWED[0] if _ALLOWED else float("inf")


def load_attacks() -> None:
    """Import every module of this folder, which fills `ATTACKS`."""
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.stem != "frame" and not file.stem.startswith("test_"):
            importlib.import_module(f"attack.{file.stem}")


def chosen(only: str | None = None) -> list[str]:
    """Return the names of all attacks, of one group, or of the one with this name."""
    return [name for name in ATTACKS if only is None or name == only or name.split("/")[0] == only]


def run(
    names: Iterable[str],
    *,
    minutes: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    first: int = 0,
    folder: Path | None = None,
) -> Report:
    """Try attacks until a limit is reached; with `minutes`, all get the same time.

    Every attack has one trial before any has another. The seed decides which one begins, so that runs that are too
    short for all do not leave out the same ones.

    Parameters
    ----------
    names : iterable of str
        Attacks to try.
    minutes : float, optional
        Limit of the whole run; the trial under way is finished. Ctrl-C ends a run early, with its report.
    trials : int, optional
        Trials per attack, at most.
    seed : int, default 0
        Together with the name and the number of a trial it decides everything random.
    first : int, default 0
        Number of the first trial.
    folder : Path, optional
        Where folders of findings are kept; a new temporary folder by default.

    Returns
    -------
    Report
    """
    if minutes is None and trials is None:
        raise ValueError("give minutes or trials")
    names = list(names)
    turn = seed % max(len(names), 1)
    report = Report(seed, trials=dict.fromkeys(names[turn:] + names[:turn], 0))
    report.seconds = dict.fromkeys(report.trials, 0.0)
    _TALLY.clear()
    deadline = time.monotonic() + 60 * (float("inf") if minutes is None else minutes)
    waiting = list(report.trials)
    while waiting and time.monotonic() < deadline:
        untried = [name for name in waiting if not report.trials[name]]
        name = untried[0] if untried else min(waiting, key=report.seconds.__getitem__)
        number, begin = first + report.trials[name], time.monotonic()
        _ALLOWED[:] = [(deadline - begin) / max(len(untried), 1)]
        try:
            found = _try(name, number, seed, folder)
        except KeyboardInterrupt:  # what was found so far is worth a report
            break
        report.seconds[name] += time.monotonic() - begin
        report.trials[name] += 1
        report.findings += [found] if found else []
        if report.trials[name] == trials:
            waiting.remove(name)
    _ALLOWED.clear()
    report.tally = Counter(_TALLY)
    return report


def _try(name: str, number: int, seed: int, folder: Path | None) -> Found | None:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    scratch = Path(tempfile.mkdtemp(prefix=f"attack-{name.replace('/', '-')}-{number}-", dir=folder))
    try:
        ATTACKS[name](rng, scratch)
    except Finding as finding:
        return Found(name, number, str(finding), scratch)
    except Exception:  # the attack itself is wrong, or longtail raised where nothing may: both must be looked at
        return Found(name, number, traceback.format_exc(), scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    return None
