"""Random command lines: exit code 0 or 2 within 20 seconds, no traceback, no control characters."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from pathlib import Path

import numpy as np

from attack.frame import Finding, attack, tally
from longtail.app.cli import main

_COMMANDS = [
    "train",
    "calibrate",
    "predict",
    "evaluate",
    "explain",
    "report",
    "convert",
    "info",
    "models",
    "tune",
    "bench",
]
# Command lines that succeed, of which one or two words are changed; `serve` does not end, `demo` takes too long.
_SOUND = [
    "train a.txt -m popularity -o new --overwrite",
    "train a.jsonl -m dismec --set features.min_df=1 -o new --overwrite --vocabulary v.csv --language en",
    "calibrate mt b.jsonl -o new --overwrite",
    "calibrate c b.txt",
    "predict mt b.jsonl -o p.jsonl --overwrite -k 2 --fallback popular --keep text",
    "predict c b.txt -o p.csv --overwrite --budget 1",
    "predict c b.txt -o p.txt --overwrite --recall 0.5 --confidence 0.5",
    "predict mt --text law --json",
    "evaluate mt b.jsonl --propensity 0.5,1.5 --labels-out l.csv --overwrite --keep",
    "evaluate p.npz b.txt --train a.txt --json",
    "explain mt law --label a",
    "report m b.txt --out r.html --overwrite --title x --train a.txt",
    "convert a.jsonl d --overwrite",
    "convert a.txt e.X.npz --overwrite",
    "train a.txt -m dismec -o new --overwrite --workspace .",
    "train a.txt -m dismec -o new --overwrite --shard 1/1 --resume",
    "train a.txt -m dismec -o parts --shard 2/2 --workspace d",
    "train a.txt -m dismec -o new --merge --overwrite",
    "info d --json",
    "info mt --markdown",
    "models dismec",
    "bench recipe.toml --out results --data-root .",
    "tune a.txt --model dismec --trials 1 --study s.study --resume --objectives P@1",
]  # fmt: skip
_OPTIONS = [
    "--model", "-m", "--out", "-o", "--base", "--weighting", "--set", "--unit-rows", "--threads", "--seed", "--resume",
    "--overwrite", "--text-field", "--labels-field", "--separator", "--text", "-k", "--exponent", "--json", "--train",
    "--propensity", "--help", "--version", "--list-models", "--debug", "--", "--fields", "--label-texts-field",
    "--relevance-field", "--id-field", "--weight-field", "--delimiter", "--encoding", "--calibrate", "--vocabulary",
    "--language", "--threshold", "--budget", "--recall", "--confidence", "--optimise", "--probabilities", "--keep",
    "--fallback", "--against", "--labels-out", "--label", "--evidence", "--title", "--study", "--trials", "--dev",
    "--folds", "--screen", "--fix", "--pick", "--recipe", "--recipes", "--picture", "--max-size", "--price", "--quiet",
    "--workspace", "--shard", "--merge", "--sets", "--markdown", "--max-memory", "--max-seconds", "--minutes",
    "--objectives", "--cache", "--data-root", "--variant",
]  # fmt: skip
_VALUES = [
    "popularity", "dismec", "textpipeline", "unitrows", "a.txt", "a.jsonl", "a.csv", "m", "mt", "new", "p.npz",
    "p.jsonl", "", ".", "/", "nowhere", "loop", "a.txt/x", "x" * 300, "0", "-1", "1", "5", "1e400", "nan", "9" * 30,
    "99999999999999999999", "C=1", "C=", "=", "features.min_df=0", "base.C=2", "pw", "pw-cb", "0.5,1.5", "text",
    ";", "\x1b[31m", "\u202eabc", "\n", "😀", "[bold]", ":smile:", "\udcff", "é.txt", "*", "$(x)", "[" * 2000,
    "token_pattern=(a+)+b", "text+text", "labels", "new.txt", "b.txt", "b.jsonl", "v.csv", "c", "d", "s.study",
    "r.html", "l.csv", "recipe.toml", "en", "separate", "utf-16", "rot13", "macro-f1@1", "P@1,PSP@1", "knee",
    "text,labels", "0.9", "a[].b", "vocabulary", "hierarchy=vocabulary", "-", "deep.json", "deep.toml", "void.jsonl",
    "1/1", "1/2", "2/1", "1/999999999", "memory://a.txt", "memory://", "memory://\x1b[31m/a.jsonl", "nofs://a.txt",
    "file://a.txt", "memory://a/*.txt",
]  # fmt: skip
_CPU_S, _WALL_S = 20, 120  # a busy machine does not stretch the first
_CLOCKS = (signal.SIGPROF, signal.SIGALRM)
_CONTROLS = set("\x1b\x07\r\u202e\x9b")


def _surroundings(folder: Path) -> None:
    (folder / "a.txt").write_text("0 0:1\n1 1:1\n0 0:1 1:1\n1 0:2\n" * 5)
    (folder / "a.jsonl").write_text('{"text": "law one", "labels": ["a"]}\n{"text": "art two", "labels": ["b"]}\n' * 4)
    (folder / "a.csv").write_text("text,labels\none law,a;b\ntwo,b\n")
    (folder / "b.txt").write_text("1 0:1\n0 1:1\n0,1 0:1 1:1\n1 0:3\n")
    (folder / "b.jsonl").write_text('{"text": "law", "labels": ["a"], "id": "x"}\n{"text": "art", "labels": ["b"]}\n')
    (folder / "v.csv").write_text("id,label,language,parents\na,law\x1b[31m,en,\nb,art\u202e,en,a\n", encoding="utf-8")
    (folder / "void.jsonl").write_text('{"text": "", "labels": ["a"]}\n' * 3)  # nothing that a model knows
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "deep.toml").write_text("a = " + "[" * 100_000)
    (folder / "recipe.toml").write_text('[data]\ntrain = "a.txt"\ntest = "b.txt"\n[model]\nname = "popularity"\n')
    (folder / "loop").symlink_to("loop")
    _run(["train", "a.txt", "-m", "popularity", "-o", "m"])
    _run(["train", "a.jsonl", "-m", "dismec", "--set", "features.min_df=1", "-o", "mt", "--vocabulary", "v.csv"])
    _run(["train", "a.txt", "-m", "dismec", "--calibrate", "yes", "-o", "c"])
    _run(["predict", "m", "b.txt", "-o", "p.npz"])


def _run(arguments: list[str]) -> tuple[object, str]:
    """Run a command in this process; one that takes too long ends with exit code 1, which is a finding."""

    seconds = iter(range(_WALL_S))

    def too_long(number: int, _: object) -> None:
        # One signal per second: a machine that stood still for minutes sends one.
        if number == signal.SIGPROF or next(seconds, None) is None:
            raise Finding(f"no answer within {_CPU_S} s of CPU time, {_WALL_S} s in all")

    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    before = sys.argv, sys.stdin, [signal.signal(number, too_long) for number in _CLOCKS]
    sys.argv, sys.stdin = ["longtail", *arguments], io.TextIOWrapper(io.BytesIO(b"0 0:1\n1 1:1\n"))
    signal.setitimer(signal.ITIMER_PROF, _CPU_S)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            main()
    except SystemExit as end:
        shown.flush()
        return end.code, shown.buffer.getvalue().decode()  # type: ignore[attr-defined]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.argv, sys.stdin = before[:2]
        for number, handler in zip(_CLOCKS, before[2], strict=True):
            signal.signal(number, handler)
    raise Finding(f"no exit code: {arguments!r}")


@attack("commands/random")
def random_commands(rng: np.random.Generator, folder: Path) -> None:
    """Ten random command lines in the same folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        _surroundings(folder)
        for _ in range(10):
            arguments = _changed(rng) if rng.random() < 0.6 else _composed(rng)
            tally("command lines")
            _judge(arguments, *_run(arguments))
    finally:
        os.chdir(before)


def _composed(rng: np.random.Generator) -> list[str]:
    """Return a command with random words."""
    arguments = [str(rng.choice(_COMMANDS))] if rng.random() < 0.9 else []
    return arguments + [_word(rng, options=0.4) for _ in range(rng.integers(0, 8))]


def _changed(rng: np.random.Generator) -> list[str]:
    """Return a sound command line with one or two words replaced, added or left out."""
    arguments = str(rng.choice(_SOUND)).split()
    for _ in range(rng.integers(1, 3)):
        at, kind = int(rng.integers(1, len(arguments) + 1)), int(rng.integers(3))
        word = [_word(rng, options=0.5 if kind == 1 else 0.1)]
        if kind == 1 and word[0] in _OPTIONS:
            word.append(_word(rng, options=0.0))
        arguments[at : at + (kind != 1)] = word if kind < 2 else []
    return arguments


def _word(rng: np.random.Generator, *, options: float) -> str:
    return str(rng.choice(_OPTIONS if rng.random() < options else _VALUES))


def _judge(arguments: list[str], code: object, shown: str) -> None:
    if code not in (0, 2):
        raise Finding(f"exit code {code}: {arguments!r}\n{shown}")
    if "Traceback" in shown and "--debug" not in arguments:
        raise Finding(f"a traceback: {arguments!r}\n{shown}")
    if _CONTROLS & set(shown):
        raise Finding(f"control characters: {arguments!r}\n{shown!r}")
