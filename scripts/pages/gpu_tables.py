"""Tables of gpu.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common.metrics import METRICS
from benchmarks.common.tables import markdown_table
from scripts.pages.lab import Lab
from scripts.pages.tables import table

_SETS = ("eurlex57k", "debian-depends", "yso-finna-en", "amazon-670k-like", "wikilshtc-325k-like")
_WEIGHTINGS = {"none": "none", "pw": "PW", "pw-cb": "PW-cb"}


def _rows(lab: Lab) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return set, file and row of each training."""
    files = [(name, lab.benchmarks[f"gpu-{name}"]) for name in _SETS]
    return [(name, content, row) for name, content in files for row in content["rows"]]


def _seconds(row: dict[str, Any], key: str) -> str:
    times = row.get(f"{key}_train_s")
    return "–" if times is None else ", ".join(f"{s:.2f}" if s < 10 else f"{s:.1f}" for s in times)


@table("gpu-seconds")
def _gpu_seconds(lab: Lab) -> str:
    cells = []
    for name, content, row in _rows(lab):
        checked = f"{row['check_gap']:.4f}" if "check_gap" in row else "–"
        drift = f"{row['check_drift']:.0e}" if "check_drift" in row else "–"
        sizes = [f"{content[key]:,}" for key in ("points", "labels")]
        first = [name, *sizes, _WEIGHTINGS[row["weighting"]], f"{row['tol']:g}"]
        cells.append([*first, *(_seconds(row, key) for key in ("gpu", "ordered", "cpu")), checked, drift])
    header = ["", "points", "labels", "weighting", "`tol`", "GPU s", "reproducible s", "CPU s", "gap, float64", "drift"]
    return markdown_table(header, cells)


@table("gpu-metrics")
def _gpu_metrics(lab: Lab) -> str:
    cells = []
    for name, _, row in _rows(lab):
        if "cpu_P@1" in row:
            pairs = [(row.get(f"gpu_{metric}"), row.get(f"cpu_{metric}")) for metric in METRICS]
            largest = max(abs(gpu - cpu) for gpu, cpu in pairs if gpu is not None)
            figures = ["–" if gpu is None else f"{gpu:.2f} / {cpu:.2f}" for gpu, cpu in pairs]
            cells.append([name, _WEIGHTINGS[row["weighting"]], f"{row['tol']:g}", *figures, f"{largest:.2f}"])
    return markdown_table(["GPU / CPU", "weighting", "`tol`", *METRICS, "largest difference"], cells)


@table("gpu-time")
def _gpu_time(lab: Lab) -> str:
    """What the seconds of one training without weighting went to."""
    cells = []
    for name in _SETS:
        if (found := lab.benchmarks[f"gpu-{name}"].get("profile")) is None:
            continue
        spent = found["milliseconds"]
        others = sum(spent.values()) - spent["steps"] - spent["look"]
        outside = 1000 * found["seconds"] - sum(spent.values())
        seconds = [f"{ms / 1000:.2f}" for ms in (spent["steps"], spent["look"], others, outside)]
        cells.append([name, str(found["waves"]), *seconds, f"{found['visits'] / 1e6:,.0f}"])
    return markdown_table(["", "waves", "steps s", "looks s", "other kernels s", "outside s", "million visits"], cells)
