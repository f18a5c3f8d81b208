"""A report as one HTML file that needs nothing else, with its numbers and its labels in files beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from longtail.core.model import library_versions
from longtail.core.plain import plain, plain_json
from longtail.data import files
from longtail.errors import DataError, MissingExtraError
from longtail.report import charts, label_findings, measures, point_findings, probabilities
from longtail.report.case import Case
from longtail.workflow.card import composed, parameters
from longtail.workflow.label_files import csv_of, label_columns

_TABLE_BYTES = 1_400_000  # of the page's own table, so that a page has less than 2 MB; the file of labels has all
_COLUMNS = ("training_count", "test_count", "predicted_count", "hits", "precision", "recall", "f1")


@dataclass(frozen=True)
class Places:
    """The files of a report."""

    page: Path
    numbers: Path
    labels: Path

    @classmethod
    def of(cls, page: Path) -> Places:
        """Return the three files of a page: report.html goes with report.json and labels.csv, x.html with x-labels.csv.

        So several reports may share a folder.
        """
        labels = "labels.csv" if page.stem == "report" else f"{page.stem}-labels.csv"
        return cls(page, page.with_suffix(".json"), page.with_name(labels))

    def check(self, *, overwrite: bool) -> None:
        """Raise OutputError if one of the files could not be written; call it before long work."""
        for path in (self.page, self.numbers, self.labels):
            files.check_free(path, overwrite=overwrite)


def analyse(case: Case) -> dict[str, Any]:
    """Return all numbers of a report, ready for JSON.

    Parameters
    ----------
    case : Case
        Predictions, labels, training counts.

    Returns
    -------
    dict
    """
    table, bands = measures.metrics(case), measures.bands(case)
    odds = probabilities.log_odds(case)
    return {
        "title": plain(case.title, 200),
        "summary": measures.summary(case, table, bands),
        "data": _data(case),
        "metrics": table,
        "bands": bands,
        "thresholds": None if odds is None else probabilities.thresholds(case, odds),
        "reliability": None if odds is None else probabilities.reliability(case, odds),
        "propensity": label_findings.propensity_curve(case),
        "frontier": [] if odds is None else probabilities.frontier(case, odds),
        "too often": label_findings.too_often(case),
        "never": label_findings.never(case),
        "confusions": label_findings.confusions(case),
        "points": point_findings.sampled_points(case, probabilities.probability_of(odds)),
        "k": case.k,
        "model": _model(case),
    }


def _data(case: Case) -> dict[str, Any]:
    per_point = case.matches.n_relevant
    return {
        "test points": len(case.predictions),
        "points without labels": int((per_point == 0).sum()),
        "points without suggestions": int(case.predictions.empty.sum()),
        "labels per point": float(per_point.mean()),
        "different labels in the test data": int((case.data.label_counts > 0).sum()),
        **({} if case.n_points is None else {"training points": case.n_points}),
        **({} if case.counts is None else {"labels with training points": int((case.counts > 0).sum())}),
    }


def _model(case: Case) -> dict[str, Any]:
    if case.model is None:
        return {"kind": "a file of predictions"}
    return {
        "class": composed(case.model),
        "parameters": {name: plain(str(value), 200) for name, value, _ in parameters(case.model)},
        "training data fingerprint": case.model.fingerprint_,
    }


def write_report(case: Case, places: Places, *, about: Callable[[], dict[str, str]], overwrite: bool = False) -> None:
    """Compute a report and write its three files.

    Parameters
    ----------
    case : Case
        What it is about.
    places : Places
        Files to write.
    about : callable
        Returns what belongs to the report besides its numbers: files, seconds, memory; called when these are computed.
    overwrite : bool, default False
        Replace existing files.
    """
    if not (case.matches.n_relevant > 0).any():
        raise DataError("no point of the test data has a label; a report compares suggestions with labels")
    template = _template()
    numbers = analyse(case)
    shown = None if case.names == case.data.label_names else case.names
    columns = label_columns(case.matches, case.k, case.counts, case.data.label_names, shown)
    numbers["about"] = {**about(), **_versions()}
    page = template.render(
        numbers=numbers, pictures=_pictures(numbers), style=_resource("style.css"), labels_file=places.labels.name,
        **_script(columns),
    )  # fmt: skip
    contents = {
        places.page: page,
        places.numbers: plain_json(json.dumps(numbers, ensure_ascii=False, indent=1)),
        places.labels: csv_of(columns),
    }
    for path, content in contents.items():
        with files.writing(path, overwrite=overwrite) as stream:
            stream.write(content.encode("utf-8", "backslashreplace"))


def _versions() -> dict[str, str]:
    kept = {name: version for name, version in library_versions().items() if version != "not installed"}
    return {"versions": ", ".join(f"{name} {version}" for name, version in kept.items())}


def _pictures(numbers: dict[str, Any]) -> dict[str, str]:
    """Return the pictures that these numbers allow, by name."""
    found = {}
    if numbers["bands"]:
        found["bands"] = charts.bands(numbers["bands"])
    if numbers["thresholds"]:
        found["thresholds"] = charts.thresholds(numbers["thresholds"])
        found["reliability"] = charts.reliability(numbers["reliability"])
    if numbers["propensity"]:
        found["propensity"] = charts.propensity(numbers["propensity"])
    if numbers["frontier"]:
        own = {row["name"]: row["value"] for row in numbers["metrics"]["rows"]}
        found["frontier"] = charts.frontier(numbers["frontier"], numbers["k"], own)
    return found


def _script(columns: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the table's data and its script, with the digest by which the page allows this script only."""
    shown = columns.get("name", columns["label"])
    order = sorted(
        range(len(shown)), key=lambda i: (-columns["test_count"][i], -columns["predicted_count"][i], shown[i])
    )
    used = [name for name in _COLUMNS if name in columns]
    bands = columns.get("band", [""] * len(shown))
    rows, size = [], 0
    for i in order:
        row = _for_script([plain(shown[i], 120), bands[i], *(columns[name][i] for name in used)])
        size += len(row.encode()) + 1
        if size > _TABLE_BYTES:
            break
        rows.append(row)
    data = f'{{"columns":{_for_script(used)},"rows":[{",".join(rows)}]}}'
    script = _resource("table.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sizes = {"table_rows": len(rows), "all_rows": len(shown)}
    return {"table_data": data, "script": script, "script_digest": digest, **sizes}


def _for_script(value: Any) -> str:
    """Return JSON for a script element, in which no text may look like its end."""
    found = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        found = found.replace(character, f"\\u{ord(character):04x}")
    return found


def _resource(name: str) -> str:
    return resources("longtail.report").joinpath(name).read_text(encoding="utf-8")


def _signed(value: float) -> str:
    """Return a difference with its sign, 0.0 without one."""
    return f"{round(value, 1) or 0.0:+.1f}".replace("-", "\N{MINUS SIGN}").replace("+0.0", "0.0")


def _template() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("jinja2", "report", "a report") from error
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["points"] = _signed
    environment.filters["percent"] = lambda value: f"{value:.1f}"
    environment.filters["thousands"] = lambda value: f"{value:,}"
    return environment.from_string(_resource("report.html.jinja"))
