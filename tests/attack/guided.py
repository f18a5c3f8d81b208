"""Fuzzing guided by coverage (atheris): inputs that reach new code of a reader are kept and changed further.

`python -m attack.guided TARGET CORPUS [options of libFuzzer]` is the process that is attacked. A target is one file of
a seed (`a.csv`, `a.X.npz:a.Y.npz`), one member of an archive (`p.npz:p.npz:labels.npy`), or one file of a saved model
(`model dismec:manifest`, `model dismec:arrays`); digests are made again after each change. Without atheris, which
has no wheel for every Python, the group is empty.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attack.frame import ATTACKS, Attack, Finding, tally

ROOT = Path(__file__).resolve().parents[2]
# Kernels are compiled from bytecode, which must stay as it is.
_KERNELS = [
    ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
    for file in sorted((ROOT / "src" / "longtail").rglob("*.py"))
    if "njit" in file.read_text(encoding="utf-8")
]
_MODELS = ("popularity", "dismec", "bonsai", "fastxml", "pfastrexml, means", "taug", "textpipeline", "ensemble, ranks")
_SECONDS = 20
_Target = tuple[bytes, Callable[[bytes, Path], None]]


def target_names() -> list[str]:
    """Return the names of all targets."""
    from attack.seeds import SEEDS, files_of, members

    names = []
    for seed in SEEDS:
        for file, content in files_of(seed).items():
            names.append(f"{seed}:{file}" if len(files_of(seed)) > 1 else seed)
            if content.startswith(b"PK"):
                names += [f"{seed}:{file}:{member}" for member in members(content)]
    return names + [f"model {model}:{what}" for model in _MODELS for what in ("manifest", "arrays")]


def _target(name: str) -> _Target:
    """Return the sound bytes of a target, and what reads changed ones in a folder."""
    return _model_target(name) if name.startswith("model ") else _file_target(name)


def _file_target(name: str) -> _Target:
    from attack.resign import sign_directory
    from attack.seeds import archive, files_of, members, read_seed

    seed, _, rest = name.partition(":")
    file, _, member = rest.partition(":")
    originals = files_of(seed)
    file = file or next(iter(originals))
    inside = members(originals[file]) if member else {}

    def read(content: bytes, folder: Path) -> None:
        for other, unchanged in originals.items():
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            if other != file:
                (folder / other).write_bytes(unchanged)
        (folder / file).write_bytes(archive(inside | {member: content}) if member else content)
        if (folder / seed / "manifest.json").exists():
            sign_directory(folder / seed)
        read_seed(seed, folder)

    return (inside[member] if member else originals[file]), read


def _model_target(name: str) -> _Target:
    from attack.resign import Model, sign
    from attack.victims import saved
    from contract.planted import planted
    from longtail.core.model import load_model

    victim, _, what = name.removeprefix("model ").partition(":")
    path = saved(victim)
    model = Model.of(path)
    arrays = path / model.manifest["arrays"]["file"]
    points = planted(3, seed=5)

    def read(content: bytes, folder: Path) -> None:
        copy = folder / "model"
        if not copy.exists():
            shutil.copytree(path, copy)
        manifest = (path / "manifest.json").read_bytes()
        if what == "manifest":
            manifest = content
        else:
            (copy / arrays.name).write_bytes(content)
        (copy / "manifest.json").write_bytes(sign(manifest, (copy / arrays.name).read_bytes()))
        loaded = load_model(copy, mmap=False)
        loaded.predict(points.inputs(loaded.input_kind), k=2)

    return (path / "manifest.json" if what == "manifest" else arrays).read_bytes(), read


def main() -> None:
    """Fuzz one target until a limit of libFuzzer is reached, or a finding ends the process."""
    import atheris

    # Code of longtail is instrumented when it is imported, so nothing above imports it.
    with atheris.instrument_imports(include=["longtail", "rdflib"], exclude=_KERNELS):
        from longtail.errors import LongtailError

        name, corpus = sys.argv[1], Path(sys.argv[2])
        original, read = _target(name)
        scratch = tempfile.TemporaryDirectory()
        read(original, Path(scratch.name))  # imports the rest, compiles kernels
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "original").write_bytes(original)

    def one_input(content: bytes) -> None:
        try:
            read(content, Path(scratch.name))
        except LongtailError as error:
            if "\n" in str(error):
                raise Finding(f"a message of several lines: {error}") from error

    atheris.Setup([sys.argv[0], str(corpus), *sys.argv[3:]], one_input)
    atheris.Fuzz()


def _guided(name: str) -> Attack:
    def attack(rng: np.random.Generator, folder: Path) -> None:
        corpus = ROOT / ".cache" / "attack" / "corpus" / re.sub(r"[^\w.#-]", "_", name)
        limits = [f"-max_total_time={_SECONDS}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=65536"]
        limits += [f"-seed={int(rng.integers(1, 2**31))}", "-print_final_stats=1"]
        paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])
        done = subprocess.run(
            [sys.executable, "-m", "attack.guided", name, str(corpus), *limits, f"-artifact_prefix={folder}/"],
            env=os.environ | {"PYTHONPATH": paths}, capture_output=True, timeout=600, check=False,
        )  # fmt: skip
        said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
        executed = re.search(r"number_of_executed_units:\s*(\d+)", said)
        tally("inputs guided by coverage", int(executed[1]) if executed else 0)
        if done.returncode != 0:
            raise Finding(f"exit code {done.returncode}: {said[-3000:]}")

    return attack


if __name__ == "__main__":
    main()
elif importlib.util.find_spec("atheris") is not None:
    for _name in target_names():
        ATTACKS[f"guided/{_name}"] = _guided(_name)
