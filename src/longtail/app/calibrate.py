"""longtail calibrate: teach a saved model probabilities, from points that it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.reading import read, reads_data


@reads_data
def calibrate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)],
    data: options.Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="MODEL", help="Directory to write to; default: MODEL is replaced."),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Labels per point to look at; more allow a larger --budget and --recall. Default: 50."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Learn probabilities from points that the model was not trained on, and keep them in the model.

    Afterwards: longtail predict --probabilities, --budget and --recall. 1,000 points are plenty.
    """
    from longtail.app.console import say, status
    from longtail.core.calibrated import CANDIDATES
    from longtail.core.model import KIND, load_model
    from longtail.core.parameters import check_whole
    from longtail.core.store import check_free
    from longtail.errors import ParameterError
    from longtail.workflow.apply import conform
    from longtail.workflow.calibrate import calibrate as calibrated

    wanted = CANDIDATES if candidates is None else candidates
    check_whole("--candidates", wanted, 1)
    target = model if out is None else out
    if out is not None:
        check_free(out, kind=KIND, overwrite=overwrite)
    loaded = load_model(model)
    names = loaded.label_names_
    dataset = read(data, reading, model=loaded, label_names=names)
    if names is None and dataset.label_names is not None:
        raise ParameterError(
            f"{model} was trained without label names, so its labels cannot be matched with those of {data}; "
            "train it with label_names"
        )
    with status("calibrating"):
        error = calibrated(loaded, conform(dataset, loaded), dataset.binary().Y, candidates=wanted)
    loaded.save(target, overwrite=overwrite or out is None)
    say(
        f"calibrated on {dataset.n_points:,} points; ECE@5 is {100 * error:.1f} points on the half that taught "
        f"nothing; wrote {target}"
    )
