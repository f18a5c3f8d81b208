"""The picture of a search: every point that was found, the front, the defaults, and the pick."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from longtail.errors import MissingExtraError, ParameterError
from longtail.tune.front import Found, front

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito: for all eyes


def check_picture(path: Path, objectives: Sequence[str]) -> None:
    """Raise an error if no picture can be drawn there, before long work."""
    if path.suffix != ".svg":
        raise ParameterError(f"{path}: unsupported extension {path.suffix!r}; pictures are .svg")
    if len(objectives) < 2:
        raise ParameterError("--picture shows one objective against another; give two --objectives")
    _pyplot()


def draw(stream: BinaryIO, found: Sequence[Found], objectives: Sequence[str], chosen: Found | None) -> None:
    """Draw the first two objectives of all points that were found.

    Parameters
    ----------
    stream : binary stream
        Where to write the SVG.
    found : sequence of Found
        All points.
    objectives : sequence of str
        Metrics; the first two are drawn.
    chosen : Found, optional
        Point to mark.
    """
    figure_class = _pyplot()
    figure = figure_class(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    x, y = objectives[:2]

    def at(points: Sequence[Found]) -> tuple[list[float], list[float]]:
        return tuple([f.point["metrics"][name] for f in points] for name in (x, y))  # type: ignore[return-value]

    for model, colour in zip(dict.fromkeys(f.model for f in found), _COLOURS * len(found), strict=False):
        axes.scatter(*at([f for f in found if f.model == model]), s=10, alpha=0.45, color=colour, label=model)
    best = front(found, [x, y])
    axes.plot(*at(best), color="#333333", linewidth=1.2, label="front")
    axes.scatter(*at([f for f in found if f.default]), marker="D", s=45, color="#333333", label="defaults", zorder=3)
    if chosen is not None:
        axes.scatter(*at([chosen]), marker="*", s=190, color="#f0e442", edgecolor="#333333", label="pick", zorder=4)
    axes.set_xlabel(f"{x}, % on held-out points")
    axes.set_ylabel(f"{y}, % on held-out points")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(stream, format="svg", metadata={"Date": None})


def _pyplot() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Matplotlib", "report", "a picture of a search") from error
    return Figure
