"""Random command lines: exit code 0, 1 or 2 within 20 seconds, no traceback, no control characters."""

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

_COMMANDS = ["train", "predict", "evaluate", "explain", "convert", "info", "bench"]
_OPTIONS = [
    "--model", "-m", "--out", "-o", "--base", "--weighting", "--set", "--unit-rows", "--threads", "--seed", "--resume",
    "--overwrite", "--text-field", "--labels-field", "--separator", "--text", "-k", "--exponent", "--json", "--train",
    "--propensity", "--help", "--version", "--list-models", "--debug", "--",
]  # fmt: skip
_VALUES = [
    "popularity", "dismec", "textpipeline", "unitrows", "a.txt", "a.jsonl", "a.csv", "m", "mt", "new", "p.npz",
    "p.jsonl", "", ".", "/", "nowhere", "loop", "a.txt/x", "x" * 300, "0", "-1", "1", "5", "1e400", "nan", "9" * 30,
    "99999999999999999999", "C=1", "C=", "=", "features.min_df=0", "base.C=2", "pw", "pw-cb", "0.5,1.5", "text",
    ";", "\x1b[31m", "\u202eabc", "\n", "😀", "[bold]", ":smile:", "\udcff", "é.txt", "*", "$(x)", "[" * 2000,
    "token_pattern=(a+)+b", "text+text", "labels", "new.txt",
]  # fmt: skip
_CONTROLS = set("\x1b\x07\r\u202e\x9b")


def _surroundings(folder: Path) -> None:
    (folder / "a.txt").write_text("0 0:1\n1 1:1\n0 0:1 1:1\n1 0:2\n")
    (folder / "a.jsonl").write_text('{"text": "law one", "labels": ["a"]}\n{"text": "art two", "labels": ["b"]}\n' * 4)
    (folder / "a.csv").write_text("text,labels\none law,a;b\ntwo,b\n")
    (folder / "loop").symlink_to("loop")
    _run(["train", "a.txt", "-m", "popularity", "-o", "m"])
    _run(["train", "a.jsonl", "-m", "popularity", "-o", "mt"])


def _run(arguments: list[str]) -> tuple[object, str]:
    """Run a command in this process; a command that takes 20 seconds is a finding."""

    def too_long(*_: object) -> None:
        raise Finding(f"no answer within 20 s: {arguments!r}")

    shown = io.StringIO()
    before = sys.argv, signal.signal(signal.SIGALRM, too_long)
    sys.argv = ["longtail", *arguments]
    signal.alarm(20)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            main()
    except SystemExit as end:
        return end.code, shown.getvalue()
    finally:
        signal.alarm(0)
        sys.argv = before[0]
        signal.signal(signal.SIGALRM, before[1])
    return None, shown.getvalue()


@attack("commands/random")
def random_commands(rng: np.random.Generator, folder: Path) -> None:
    """Ten random command lines in the same folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        _surroundings(folder)
        for _ in range(10):
            arguments = [str(rng.choice(_COMMANDS))] if rng.random() < 0.9 else []
            for _ in range(rng.integers(0, 8)):
                arguments.append(str(rng.choice(_OPTIONS if rng.random() < 0.4 else _VALUES)))
            tally("command lines")
            _judge(arguments, *_run(arguments))
    finally:
        os.chdir(before)


def _judge(arguments: list[str], code: object, shown: str) -> None:
    if code not in (0, 2):
        raise Finding(f"exit code {code}: {arguments!r}\n{shown}")
    if "Traceback" in shown and "--debug" not in arguments:
        raise Finding(f"a traceback: {arguments!r}\n{shown}")
    if _CONTROLS & set(shown):
        raise Finding(f"control characters: {arguments!r}\n{shown!r}")
