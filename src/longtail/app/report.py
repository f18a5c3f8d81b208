"""longtail report: what a model does on test data, as one page for colleagues."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import data_name, reads_data
from longtail.core.urls import path_or_url


@reads_data
def report(
    subject: options.Subject,
    data: options.Data,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE.html", help="Page to write; a .json and a .csv file go beside it.")
    ] = Path("report.html"),
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="Training data, for evidence and the fit of the propensity curve.", parser=path_or_url
        ),
    ] = None,
    against: options.Against = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the page; default: model and data.")] = "",
    propensity: options.Propensity = "default",
    exponent: options.Exponent = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="N", help="Labels per point to find a threshold for; default: as many as were observed."),
    ] = None,
    overwrite: options.Overwrite = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Write a report: metrics with intervals, frequency bands, thresholds, labels and points to look at.

    The page is one file that opens without a network, in light, dark and on paper.
    """
    import math
    import time

    from longtail.app.console import say, status
    from longtail.app.evaluate import mention_unknown
    from longtail.app.subject import load_other, load_subject
    from longtail.core import store
    from longtail.core.model import KIND
    from longtail.core.parameters import check_positive
    from longtail.errors import OutputError
    from longtail.report.case import CANDIDATES, Case
    from longtail.report.page import Places, write_report
    from longtail.workflow.build import parse_propensity

    began = time.perf_counter()
    if out.suffix not in (".html", ".htm"):
        raise OutputError(f"{out}: unsupported extension {out.suffix!r}; a report is an .html file")
    if budget is not None:
        check_positive(**{"--budget": budget})
    places = Places.of(out)
    places.check(overwrite=overwrite)
    for path in (places.page, places.numbers, places.labels):
        options.check_apart(path, subject, data, train, *(against or []))
    chosen = parse_propensity(propensity)
    candidates = CANDIDATES if budget is None else max(CANDIDATES, 2 * math.ceil(budget))
    found = load_subject(subject, data, train, reading, k=candidates, exponent=exponent)
    others = {_short(path, against or []): load_other(path, found, reading, k=CANDIDATES) for path in against or []}
    if found.counts is None:
        say("PSP, the bands and the propensity curve are left out: they need the training data (give --train DATA)")
    else:
        mention_unknown(found.Y, found.counts, found.data.label_names)
    case = Case(
        title or f"{subject.name} on {data.name}", found.predictions, found.data,
        found.shown_names() or found.data.label_names or [str(i) for i in range(found.data.n_labels)],
        model=found.model, counts=found.counts, n_points=found.n_points, training=found.training,
        others=others, propensity=chosen, budget=budget,
    )  # fmt: skip
    inputs = {"model": subject, "test data": data} | ({} if train is None else {"training data": train})
    about = {what: data_name(path) for what, path in inputs.items()}
    if found.model is not None:
        about |= _trained(found.model.training_, store.read_manifest(subject, KIND)["versions"])
    with status("writing the report"), options.said_as(budget="--budget"):
        write_report(case, places, about=lambda: about | _spent(began), overwrite=overwrite)
    say(f"wrote {places.page} ({places.page.stat().st_size / 1e6:.1f} MB), {places.numbers} and {places.labels}")


def _short(path: Path, paths: list[Path]) -> str:
    """Return the last part of a path, or all of it where another path ends alike."""
    return path.name if [other.name for other in paths].count(path.name) == 1 else str(path)


def _trained(said: Any, versions: dict[str, str]) -> dict[str, str]:
    """Return on what, when, how long and with what a model was trained, as far as it says so."""
    from longtail.workflow.card import training_facts

    facts = training_facts(said)
    found = {"trained on": facts.get("data"), "trained": facts.get("date")}
    if "seconds" in facts:
        found["seconds of training"] = f"{facts['seconds']:,.1f}"
    found["trained with"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return {name: value for name, value in found.items() if value}


def _spent(began: float) -> dict[str, str]:
    """Return the date, and what the report took until now."""
    import datetime
    import time

    from longtail.bench.memory import peak

    now, seconds = datetime.datetime.now(datetime.UTC), time.perf_counter() - began
    spent = {"seconds": f"{seconds:.1f}", "peak memory": f"{peak() / 1e6:,.0f} MB"}
    return {"date": f"{now:%Y-%m-%d}", **{f"{what} of this report": value for what, value in spent.items()}}
