"""Damaged files of every reader: they are refused with an error of longtail, or read as consistent data."""

from __future__ import annotations

import functools
import logging
import tempfile
import time
from pathlib import Path

import numpy as np

from attack.frame import ATTACKS, Attack, Finding, tally
from attack.kills import end_of, fork
from attack.resign import sign_directory
from attack.seeds import SEEDS, archive, files_of, members, place_of, read_seed
from longtail.errors import LongtailError

_TELLING = [bytes([b]) for b in b' \n\r\t,:;-+.0129eE"{}[]\\\0\xff\x80\xef'] + [
    b"nan", b"1e999", b"99999999999", b"2147483647", b"\\ud800", b"null", b"[" * 50, b"\xf0\x9f\x98\x80",
]  # fmt: skip
_FILES = 200  # per trial; a fork of this process, which takes a fifth of a second, reads them
_HANG_S = 20.0  # of CPU time for one file
_LIMIT_S = 300.0  # for all of them, on a busy machine


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with a few random edits."""
    for _ in range(rng.integers(1, 5)):
        at, piece = int(rng.integers(len(content) + 1)), _TELLING[rng.integers(len(_TELLING))]
        kind = rng.integers(6)
        if kind == 0:
            content = content[:at]
        elif kind == 1:
            content = content[:at] + content[at + int(rng.integers(1, 9)) :]
        elif kind == 2:
            content = content[:at] + piece + content[at:]
        elif kind == 3:
            content = content[:at] + piece + content[at + len(piece) :]
        elif kind == 4:
            content = content[:at] + content[: int(rng.integers(64))] + content[at:]
        elif at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]
    return content


def _mutated_file(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a few random edits; half of the archives get them in one member, with a sound checksum."""
    if not content.startswith(b"PK") or rng.random() < 0.5:
        return mutated(content, rng)
    inside = members(content)
    changed = str(rng.choice(sorted(inside)))
    return archive(inside | {changed: mutated(inside[changed], rng)})


@functools.cache
def _load_kernels() -> None:
    """Load the kernels of XC files once, not in each fork; they start no threads."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_bytes(files_of("a.txt")["a.txt"])
        read_seed("a.txt", Path(folder))


def _judge(name: str, folder: Path) -> None:
    begin = time.process_time()
    try:
        read_seed(name, folder)
    except LongtailError as error:
        if "\n" in str(error):
            raise Finding(f"a message of several lines: {error}") from error
    if time.process_time() - begin > _HANG_S:
        raise Finding(f"it took {time.process_time() - begin:.0f} s of CPU time")


def _attack_on(name: str) -> Attack:
    def attack(rng: np.random.Generator, folder: Path) -> None:
        originals = files_of(name)
        _load_kernels()

        def work() -> None:
            logging.disable()  # warnings about each of thousands of files
            for _ in range(_FILES):  # the last one is in the folder if the process dies
                changed = str(rng.choice(sorted(originals)))
                for file, content in originals.items():
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    (folder / file).write_bytes(_mutated_file(content, rng) if file == changed else content)
                if (place_of(name, folder) / "manifest.json").exists() and rng.random() < 0.7:
                    sign_directory(place_of(name, folder))
                _judge(name, folder)

        says = folder / "says.txt"
        code = end_of(fork(work, says), _LIMIT_S)
        tally("changed files", _FILES)
        if code != 0:
            raise Finding(f"the reader ended with {code}\n{says.read_text() if says.exists() else ''}")

    return attack


for _name in SEEDS:
    ATTACKS[f"files/{_name}"] = _attack_on(_name)
