"""A process that loads models and predicts with them; if it dies, the model that it was given is at fault.

`python -m attack.jury` is that process: one JSON object per line in, one out.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import traceback
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from attack.frame import Waited

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 20.0  # of CPU time, which a busy machine does not stretch: a trial may take this long
_WALL_SECONDS = 120.0  # for one that waits instead of computing
_WARM_SECONDS = 600.0  # with what is compiled at first
_MEMORY = 8 << 30  # address space beyond what the start needed


@dataclass(frozen=True)
class Verdict:
    """Whether longtail held, and what it said."""

    held: bool
    said: str


class Jury:
    """The process, started when it is needed and again after a crash.

    Parameters
    ----------
    bounds : bool, default False
        Compile kernels that check their bounds, in a cache of their own.
    """

    def __init__(self, *, bounds: bool = False) -> None:
        self.bounds = bounds
        self._process: subprocess.Popen[bytes] | None = None
        self._warm: set[Path] = set()

    def warm(self, path: Path) -> None:
        """Let the process predict with an unchanged model once, so that trials compile nothing."""
        if path not in self._warm:
            verdict = self.judge({"path": str(path), "verify": True, "mmap": True}, _WARM_SECONDS)
            if verdict.said != "answered":
                raise RuntimeError(f"the unchanged model {path} does not predict: {verdict.said}")
            self._warm.add(path)

    def judge(self, case: dict[str, Any], seconds: float = _SECONDS) -> Verdict:
        """Return whether a model was refused or answered properly; a crash, a hang or another error is neither."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(case).encode() + b"\n")
        process.stdin.flush()
        used, waited = _cpu_seconds(process.pid), Waited()
        while not select.select([process.stdout], [], [], 1.0)[0]:
            if _cpu_seconds(process.pid) - used > seconds or waited() > max(seconds, _WALL_SECONDS):
                self.close()
                return Verdict(False, f"no answer within {seconds:g} s of CPU time, {waited():.0f} s in all")
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            return Verdict(False, f"the process died with exit code {code}")
        return Verdict(**json.loads(line))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            paths = [str(ROOT / "tests"), str(ROOT / "src")]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "error::RuntimeWarning"}
            if self.bounds:
                cache = ROOT / ".cache" / "attack" / "numba"
                environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
            command = [sys.executable, "-m", "attack.jury"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        return self._process


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _tried(case: dict[str, Any]) -> Verdict:
    """Load a model, predict one point and many, and look at the predictions."""
    from contract.planted import planted
    from longtail.core.model import load_model
    from longtail.errors import LongtailError
    from longtail.workflow.card import model_card

    try:
        model = load_model(case["path"], verify=case["verify"], mmap=case["mmap"])
        for n_points in (1, 30, 300):
            points = planted(n_points, seed=5).inputs(model.input_kind)
            predictions = model.predict(points, k=min(3, model.n_labels_))
            wrong = _wrong(predictions, n_points, model.n_labels_)
            if not wrong and model.has_probabilities():
                wrong = _wrong(model.predict_sets(points, threshold=0.2), n_points, model.n_labels_)
            if wrong:
                return Verdict(False, f"a prediction {wrong}")
        model_card(case["path"])
        _ask(model, planted(1, seed=5).inputs(model.input_kind))
    except LongtailError as error:
        message = str(error)
        if "\n" in message or len(message) > 2000:
            return Verdict(False, f"a message of {len(message)} characters: {message[:300]!r}")
        return Verdict(True, f"refused, {type(error).__name__}: {message}")
    except BaseException:
        return Verdict(False, traceback.format_exc())
    return Verdict(True, "answered")


def _ask(model: Any, point: Any) -> None:
    """Ask a model all else that commands and the service do: names of labels, how data is read, an explanation."""
    from longtail.core.plain import plain
    from longtail.errors import ParameterError
    from longtail.serve.labels import Labels

    labels = Labels(model, model.vocabulary_, "x:", "")
    for label in range(model.n_labels_):
        plain(model.shown_name(label))
        json.dumps(labels.described(label, labels.language))
    labels.search("label", labels.language, 3, 0)
    _ = {"separator": ";", **(model.reading_ or {})}["separator"].split(",")
    with contextlib.suppress(ParameterError):  # models that do not explain
        model.explain(point[0] if model.input_kind == "text" else point, 0)


def _wrong(predictions: Any, n_points: int, n_labels: int) -> str | None:
    if len(predictions) != n_points:
        return f"has {len(predictions)} rows instead of {n_points}"
    for labels, scores in zip(predictions.labels.tolist(), predictions.scores.tolist(), strict=True):
        kept = [label for label in labels if label >= 0]
        if labels[: len(kept)] != kept or len(set(kept)) != len(kept) or any(label >= n_labels for label in kept):
            return f"has the labels {labels}"
        if any(not a >= b for a, b in pairwise(scores)):
            return f"has the scores {scores}"
    return None


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    limited = False
    for line in sys.stdin:
        verdict = _tried(json.loads(line))
        print(json.dumps(vars(verdict)), file=answers, flush=True)
        if not limited:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
            limited = True


if __name__ == "__main__":
    main()
