"""Fuzzing guided by coverage (atheris): inputs that reach new code of a reader are kept and changed further.

`python -m attack.guided` is the process that is attacked: one JSON object per line in, one out. It imports longtail
once, which takes longest, and fuzzes each target in a fork of itself. A target is one file of a seed (`a.csv`,
`a.X.npz:a.Y.npz`), one member of an archive (`p.npz:p.npz:labels.npy`), or one file of a saved model
(`model dismec:manifest`, `model dismec:arrays`); digests are made again after each change. Without atheris, which has
no wheel for every Python, the group is left out.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attack.frame import ATTACKS, LEFT_OUT, Attack, Finding, seconds_allowed, tally

ROOT = Path(__file__).resolve().parents[2]
# Kernels are compiled from bytecode, which must stay as it is.
_KERNELS = [
    ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
    for file in sorted((ROOT / "src" / "longtail").rglob("*.py"))
    if "njit" in file.read_text(encoding="utf-8")
]
_MODELS = (
    "popularity", "dismec", "bonsai", "fastxml", "pfastrexml, means", "taug", "textpipeline", "ensemble, ranks",
    "dismec, in shards and files",
)  # fmt: skip
# What readers and models import only when they are used; a fork need not do it again.
_LAZY = (
    "data.formats", "data.tables", "data.frames", "data.vocabularies", "core.model", "workflow.card", "compose.taug",
    "linear.dismec", "trees.label.models", "trees.instance.fastxml", "features.pipeline",
)  # fmt: skip
_SECONDS = (4.0, 20.0)  # of one trial, with its start: at least, at most
_HANG_S, _WALL_S = 20.0, 240  # of CPU time for one input; of waiting, with a machine that does not stand still
_CLOCK_S = 3600  # libFuzzer's own limit for one input; it looks at the clock
_TOKEN = re.compile(r"(?<=arrays-)[0-9a-f]{8}(?=\.safetensors)")  # another one in each process
_Target = tuple[bytes, Callable[[bytes, Path], None]]


def target_names() -> list[str]:
    """Return the names of all targets."""
    from attack.seeds import SEEDS, files_of, members

    names = []
    for seed in SEEDS:
        for file, content in files_of(seed).items():
            shown = _TOKEN.sub("x", file)
            names.append(f"{seed}:{shown}" if len(files_of(seed)) > 1 else seed)
            if content.startswith(b"PK"):
                names += [f"{seed}:{shown}:{member}" for member in members(content)]
    return names + [f"model {model}:{what}" for model in _MODELS for what in ("manifest", "arrays")]


def _target(name: str) -> _Target:
    """Return the sound bytes of a target, and what reads changed ones in a folder."""
    return _model_target(name) if name.startswith("model ") else _file_target(name)


def _file_target(name: str) -> _Target:
    from attack.resign import sign_directory
    from attack.seeds import archive, files_of, members, place_of, read_seed

    seed, _, rest = name.partition(":")
    file, _, member = rest.partition(":")
    originals = files_of(seed)
    file = next(name for name in originals if not file or _TOKEN.sub("x", name) == file)
    inside = members(originals[file]) if member else {}

    def read(content: bytes, folder: Path) -> None:
        for other, unchanged in originals.items():
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            if other != file:
                (folder / other).write_bytes(unchanged)
        (folder / file).write_bytes(archive(inside | {member: content}) if member else content)
        if (place_of(seed, folder) / "manifest.json").exists():
            sign_directory(place_of(seed, folder))
        read_seed(seed, folder)

    return (inside[member] if member else originals[file]), read


def _model_target(name: str) -> _Target:
    from attack.resign import sign_directory
    from attack.victims import saved
    from contract.planted import planted
    from longtail.core.model import load_model

    victim, _, what = name.removeprefix("model ").partition(":")
    path = saved(victim)
    arrays = path / json.loads((path / "manifest.json").read_bytes())["arrays"]["file"]
    points = planted(3, seed=5)

    def read(content: bytes, folder: Path) -> None:
        copy = folder / "model"
        if not copy.exists():
            shutil.copytree(path, copy)
        shutil.copy(path / "manifest.json", copy)
        (copy / ("manifest.json" if what == "manifest" else arrays.name)).write_bytes(content)
        sign_directory(copy)
        loaded = load_model(copy, mmap=False)
        loaded.predict(points.inputs(loaded.input_kind), k=2)

    return (path / "manifest.json" if what == "manifest" else arrays).read_bytes(), read


def _fuzz(case: dict[str, Any], begin: float) -> None:
    """Fuzz one target until its time is over, or a finding ends the process."""
    import atheris

    from longtail.errors import LongtailError

    scratch = tempfile.TemporaryDirectory()
    with atheris.instrument_imports(include=["longtail", "rdflib"], exclude=_KERNELS):
        original, read = _target(case["target"])
        read(original, Path(scratch.name))  # imports the rest, compiles kernels
    corpus = Path(case["corpus"])
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "original").write_bytes(original)

    def one_input(content: bytes) -> None:
        used = time.process_time()
        try:
            read(content, Path(scratch.name))
        except LongtailError as error:
            if "\n" in str(error):
                raise Finding(f"a message of several lines: {error}") from error
        if time.process_time() - used > _HANG_S:
            raise Finding(f"an input took {time.process_time() - used:.0f} s of CPU time")

    left = max(2, round(case["seconds"] - (time.monotonic() - begin)))
    limits = [f"-max_total_time={left}", f"-timeout={_CLOCK_S}", "-rss_limit_mb=4096", "-max_len=65536"]
    limits += [f"-seed={case['seed']}", "-print_final_stats=1", f"-artifact_prefix={case['folder']}/"]
    atheris.Setup([sys.argv[0], str(corpus), *limits], one_input)
    atheris.Fuzz()


def main() -> None:
    """Fuzz what the lines of stdin ask for, one target after the other."""
    import atheris

    # Code of longtail is instrumented when it is imported, so nothing above imports it.
    with atheris.instrument_imports(include=["longtail", "rdflib"], exclude=_KERNELS):
        from attack import resign, seeds, victims  # noqa: F401 - for the forks
        from attack.kills import end_of

        for module in (*(f"longtail.{name}" for name in _LAZY), "rdflib"):
            importlib.import_module(module)
    for line in sys.stdin:
        case, begin = json.loads(line), time.monotonic()
        child = os.fork()
        if not child:
            with open(case["log"], "wb") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            try:
                _fuzz(case, begin)
            finally:
                os._exit(1)
        try:
            code: int | str = end_of(child, case["seconds"] + _WALL_S)
        except Finding as finding:
            code = str(finding)
        sys.stdout.write(json.dumps(code) + "\n")
        sys.stdout.flush()


class _Fuzzer:
    """The process, started when it is needed."""

    process: subprocess.Popen[str] | None = None

    def ask(self, case: dict[str, Any]) -> int | str:
        """Return how the fork ended that fuzzed a target."""
        if self.process is None:
            known = os.environ.get("PYTHONPATH")  # atheris may be there
            paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src"), *([known] if known else [])])
            self.process = subprocess.Popen(
                [sys.executable, "-m", "attack.guided"], env=os.environ | {"PYTHONPATH": paths}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(case), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            ended, self.process = self.process.wait(), None
            return f"the process that forks ended with {ended}"
        return json.loads(answer)  # type: ignore[no-any-return]


_FUZZER = _Fuzzer()


def _guided(name: str) -> Attack:
    def attack(rng: np.random.Generator, folder: Path) -> None:
        corpus = ROOT / ".cache" / "attack" / "corpus" / re.sub(r"[^\w.#-]", "_", name)
        least, most = _SECONDS
        case = {"target": name, "corpus": str(corpus), "folder": str(folder), "log": str(folder / "log.txt")}
        seconds = min(max(seconds_allowed(), least), most)
        code = _FUZZER.ask(case | {"seconds": seconds, "seed": int(rng.integers(1, 2**31))})
        said = (folder / "log.txt").read_text(errors="replace") if (folder / "log.txt").exists() else ""
        executed = re.search(r"number_of_executed_units:\s*(\d+)", said)
        tally("inputs guided by coverage", int(executed[1]) if executed else 0)
        tally("targets of which code was covered", int(bool(executed)))
        if code != 0:
            raise Finding(f"exit code {code}: {said[-3000:]}")

    return attack


if __name__ == "__main__":
    main()
elif importlib.util.find_spec("atheris") is None:
    LEFT_OUT["guided"] = "needs atheris: pip install 'longtail[fuzz]'"
else:
    for _name in target_names():
        ATTACKS[f"guided/{_name}"] = _guided(_name)
