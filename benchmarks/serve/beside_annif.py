"""Annif and `longtail serve` on the same texts in the same run, and longtail behind Annif's `http` backend.

    python -m venv annif && annif/bin/pip install 'annif[omikuji]'      # an environment of its own
    python -m benchmarks.serve.beside_annif MODEL shared/data/eurlex57k --annif annif/bin --nltk NLTK_DATA

MODEL is DiSMEC on EURLEX57K, trained as in `benchmarks.serve.load`. Annif's project uses the omikuji backend and the
first laws of the training data (--laws); NLTK_DATA is a folder with tokenizers/punkt_tab. Each service has one worker,
both get the same requests from the same client, in turns. Writes docs/lab/benchmarks/serve-annif.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.common import add_out, save
from benchmarks.serve.client import Pool, closed_loop
from benchmarks.serve.load import service, suggest_requests, texts_of
from longtail.data import read_dataset
from longtail.data.vocabularies import read_vocabulary

PREFIX = "http://example.org/"
PORT = 5722  # of Annif, on this machine only
PROJECTS = """
[omikuji]
name=omikuji
language=en
backend=omikuji
analyzer=snowball(english)
vocab=laws

[longtail]
name=longtail
language=en
backend=http
vocab=laws
endpoint=http://127.0.0.1:{port}/v1/projects/model/suggest
"""


class Annif:
    """Annif in an environment of its own, with its files in one folder.

    Parameters
    ----------
    programs : path
        Folder with the programs `annif` and `uvicorn`.
    folder : path
        Where vocabulary, projects and models go.
    nltk : path
        Folder with NLTK's data.
    """

    def __init__(self, programs: Path, folder: Path, nltk: Path) -> None:
        self.programs, self.folder = programs.resolve(), folder
        self.environment = {
            **os.environ, "NLTK_DATA": str(nltk.resolve()), "ANNIF_PROJECTS": str(folder / "projects.cfg"),
            "ANNIF_DATADIR": str(folder / "data"), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
        }  # fmt: skip
        self.environment.pop("PYTHONPATH", None)

    def __call__(self, *arguments: object, text: str = "") -> str:
        """Run a command of Annif and return what it prints."""
        command = [str(self.programs / "annif"), *map(str, arguments)]
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, input=text, text=True, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"annif {arguments[0]} failed:\n{done.stderr}")
        return done.stdout

    @contextmanager
    def served(self) -> Iterator[None]:
        """Run Annif's service with one worker of uvicorn, as its own documentation does."""
        command = [str(self.programs / "uvicorn"), "annif:create_app", "--factory", "--port", str(PORT)]
        with open(self.folder / "annif.log", "w") as log:
            process = subprocess.Popen(
                [*command, "--log-level", "warning"], env=self.environment, cwd=self.folder, stdout=log, stderr=log
            )
        try:
            wait_for(f"http://127.0.0.1:{PORT}/v1/projects/omikuji", process)
            yield
        finally:
            process.terminate()
            process.wait(60)


def wait_for(address: str, process: subprocess.Popen[Any], seconds: float = 120) -> None:
    """Wait until an address answers."""
    until = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=10)
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{address} does not answer ({error})") from error
            time.sleep(0.3)


def write_laws(data: Path, folder: Path, number: int) -> None:
    """Write the vocabulary and the first laws of the training data as Annif reads them."""
    names = read_vocabulary(data / "labels.json.xz")
    laws = read_dataset(data / "train.jsonl.xz")
    assert laws.label_names is not None
    vocabulary = (f"<{PREFIX}{label}>\t{names.name(label)}\n" for label in laws.label_names)
    (folder / "laws.tsv").write_text("".join(vocabulary))
    lines = []
    for text, own in zip(laws.texts[:number], laws.Y[:number], strict=True):
        uris = " ".join(f"<{PREFIX}{laws.label_names[label]}>" for label in own.indices)
        lines.append(f"{' '.join(text.split())}\t{uris}\n")
    (folder / "train.tsv").write_text("".join(lines))


async def measure(ports: dict[str, int], texts: list[str], seconds: float, rounds: int) -> dict[str, list[dict]]:
    """Return what each service does with four clients, single texts and batches, in turns."""
    found: dict[str, list[dict]] = {name: [] for name in ports}
    wanted = {name: suggest_requests("model" if name == "longtail" else name, texts) for name in ports}
    for round_number in range(rounds + 1):  # the first warms both
        for name, port in ports.items():
            pool = Pool("127.0.0.1", port, 64)
            row: dict[str, Any] = {}
            for kind, contents, per_request in zip(("single", "batch"), wanted[name], (1, 32), strict=True):
                answers, took = await closed_loop(pool, contents, 4, seconds if round_number else 2)
                done = per_request * answers.statuses.count(200)
                row[kind] = {"clients": 4, "texts_per_second": round(done / took, 1), **answers.figures()}
            pool.close()
            if round_number:
                print(name, row)
                found[name].append(row)
    return found


def behind(annif: Annif, port: int, texts: list[str]) -> int:
    """Compare what Annif's `http` backend suggests with what longtail says; returns the number of equal texts."""
    equal = 0
    for text in texts:
        lines = annif("suggest", "--limit", 10, "longtail", text=text).splitlines()
        through = {uri.strip("<>"): float(score) for uri, _, score in (line.split("\t") for line in lines)}
        body = urllib.parse.urlencode({"text": text, "limit": 10}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/projects/model/suggest", body) as answer:
            direct = {one["uri"]: one["score"] for one in json.load(answer)["results"]}
        # Annif keeps scores as float32 and prints four decimals.
        same = through.keys() == direct.keys() and all(abs(through[uri] - direct[uri]) < 1e-4 for uri in direct)
        equal += same
        if not same:
            print(f"through Annif: {through}\ndirectly: {direct}")
    return equal


def best(rows: list[dict], kind: str) -> float:
    """Return the best round: other programs can only take time away."""
    return max(row[kind]["texts_per_second"] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="folder of EURLEX57K")
    parser.add_argument("--annif", type=Path, required=True, help="folder with Annif's programs")
    parser.add_argument("--nltk", type=Path, required=True, help="folder with NLTK's data")
    parser.add_argument("--laws", type=int, default=8000, help="training texts of Annif's model")
    parser.add_argument("--seconds", type=float, default=10, help="per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    add_out(parser)
    arguments = parser.parse_args()
    texts = texts_of(arguments.data / "test.jsonl.xz", 1600)
    os.environ["LONGTAIL_SERVE_ACCESS_LOG"] = "false"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "service.toml"
        settings.write_text(f'[models.model]\npath = "{arguments.model.resolve()}"\nuri_prefix = "{PREFIX}"\n')
        annif = Annif(arguments.annif, folder, arguments.nltk)
        with service("--config", settings) as (port, _):
            (folder / "projects.cfg").write_text(PROJECTS.format(port=port))
            write_laws(arguments.data, folder, arguments.laws)
            annif("load-vocab", "--language", "en", "laws", "laws.tsv")
            annif("train", "omikuji", "train.tsv")
            version = annif("--version").strip()
            equal = behind(annif, port, texts[:3])
            print(f"behind Annif: {equal} of 3 texts have the same suggestions")
            with annif.served():
                found = uvloop.run(
                    measure({"longtail": port, "omikuji": PORT}, texts, arguments.seconds, arguments.rounds)
                )
    times = {
        kind: round(best(found["longtail"], kind) / best(found["omikuji"], kind), 1) for kind in ("single", "batch")
    }
    print(times)
    command = f"python -m benchmarks.serve.beside_annif MODEL DATA --annif BIN --nltk FOLDER --laws {arguments.laws}"
    content = {
        "annif": version, "laws": arguments.laws, "rounds": found, "times": times,
        "behind_annif": {"texts": 3, "equal": equal},
    }  # fmt: skip
    save("serve-annif", content, command, folder=arguments.out)


if __name__ == "__main__":
    main()
