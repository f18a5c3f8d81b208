"""longtail warm-up: compile the kernels of the usual models before they are needed."""

from __future__ import annotations

import time
from typing import Annotated

import typer

_POINTS = 1200  # enough for every path of training and prediction that large data takes


def warm_up(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Models, e.g. bonsai; default: dismec.")
    ] = None,
) -> None:
    """Compile kernels on made-up texts, so that the first training does not wait for it.

    Numba keeps compiled kernels in its cache; this command is quick when they are there.
    """
    from longtail.app.console import say, status
    from longtail.data import make_longtail
    from longtail.features.pipeline import model_behind
    from longtail.linear.dismec import DiSMEC
    from longtail.linear.rare import compile_kernels
    from longtail.workflow.build import build_estimator

    names = models or ["dismec"]
    estimators = [build_estimator(name, text=True) for name in names]  # a wrong name is an error before any work
    data = make_longtail(n_points=_POINTS, n_features=400, n_labels=60, kind="text", random_state=0)
    started = time.perf_counter()
    for name, estimator in zip(names, estimators, strict=True):
        with status(f"compiling the kernels of {name}"):
            estimator.fit(data.train.texts, data.train.Y)
            if isinstance(model_behind(estimator), DiSMEC):
                compile_kernels()  # of rare labels, which data of this size does not use
            estimator.predict(data.train.texts, k=5)
            estimator.predict(data.train.texts[:1], k=5)
    say(f"the kernels of {', '.join(names)} are ready ({time.perf_counter() - started:.0f} s)")
