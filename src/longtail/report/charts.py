"""Pictures of a report: matplotlib draws them once, the page colours them for light, dark and paper.

Everything is drawn in stand-in colours, which become variables of the page's style; texts stay texts in the page's own
font. Each picture carries a title and a description for people who do not see it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from itertools import pairwise
from typing import Any

from longtail.errors import MissingExtraError

INK, MUTED, GRID, PAPER = "#000001", "#000002", "#000003", "#000004"
SERIES = ("#000011", "#000012", "#000013", "#000014")
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", PAPER: "--card"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, 1)
}
_DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))  # lines differ without colour, too


def drawn(name: str, title: str, description: str, draw: Callable[..., None], *, panels: int = 1) -> str:
    """Return a picture as SVG to put into the page.

    Parameters
    ----------
    name : str
        Prefix of the ids in the picture; each picture of a page has its own.
    title : str
        Title for people who do not see the picture.
    description : str
        What the picture says, in words.
    draw : callable
        Draws on the axes that it is given.
    panels : int, default 1
        Number of axes, side by side.

    Returns
    -------
    str
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "a report") from error
    style = {
        "svg.fonttype": "none", "svg.hashsalt": name, "font.size": 8.5, "text.color": INK, "axes.edgecolor": MUTED,
        "axes.labelcolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED, "axes.facecolor": "none",
        "legend.frameon": False, "axes.linewidth": 0.7, "grid.color": GRID, "grid.linewidth": 0.7,
        "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "lines.linewidth": 1.6,
    }  # fmt: skip
    with mpl.rc_context(style):
        # Small, so that its texts are legible on a phone.
        layout = ConstrainedLayoutEngine(wspace=0.1)
        figure = Figure(figsize=(4.5, 2.8), layout=layout, facecolor="none")
        FigureCanvasSVG(figure)
        fields = figure.subplots(1, panels, squeeze=False)[0]
        for axes in fields:
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        draw(*fields)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_page(stream.getvalue(), name, title, description)


def _for_page(svg: str, name: str, title: str, description: str) -> str:
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]+", r"font-size: \1", svg)
    said = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    opening = re.match(r"<svg [^>]*>", svg)
    assert opening is not None
    box = re.search(r'viewBox="[^"]+"', opening[0])
    assert box is not None
    start = f'<svg {box[0]} role="img" aria-labelledby="{name}-title {name}-desc" xmlns="http://www.w3.org/2000/svg" '
    return f'{start}xmlns:xlink="http://www.w3.org/1999/xlink">{said}{svg[opening.end() :]}'


def bands(rows: list[dict[str, Any]]) -> str:
    """Draw precision, recall and coverage by frequency band."""
    columns = ("precision", "recall", "coverage")
    said = "; ".join(
        f"{row['name']} ({row['labels']:,} labels): " + ", ".join(f"{c} {row[c]:.0f} %" for c in columns)
        for row in rows
    )

    def draw(axes: Any) -> None:
        for number, column in enumerate(columns):
            at = [place + (number - 1) * 0.26 for place in range(len(rows))]
            bars = axes.bar(at, [row[column] for row in rows], 0.24, color=SERIES[number], label=column)
            axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=7.5, color=MUTED)
        axes.set_xticks(range(len(rows)), [f"{row['name']}\n{row['labels']:,} labels" for row in rows])
        axes.set_ylim(0, 108)
        axes.set_ylabel("percent")
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return drawn("bands", "Precision, recall and coverage by label frequency", said, draw)


def thresholds(found: dict[str, Any]) -> str:
    """Draw precision, recall and F1 over the threshold on probabilities."""
    curve, best, budget = found["curve"], found["best"], found["budget"]
    said = (
        f"F1 is highest, {best['f1']:.0f} %, at a threshold of {best['threshold']:.2f} with "
        f"{best['labels per point']:.1f} labels per point"
    )
    if budget is not None:
        said += (
            f"; a threshold of {budget['threshold']:.2g} gives {budget['labels per point']:.1f} labels per point, for "
            f"a budget of {found['wanted labels per point']:.1f}"
        )

    def draw(axes: Any) -> None:
        at = [row["threshold"] for row in curve]
        for number, column in enumerate(("precision", "recall", "f1")):
            name = column if column != "f1" else "F1"
            axes.plot(at, [row[column] for row in curve], color=SERIES[number], ls=_DASHES[number], label=name)
        marks = [(best, "best F1")] + ([] if budget is None else [(budget, "budget")])
        marks.sort(key=lambda mark: mark[0]["threshold"])  # the left one is named on its left, the right on its right
        for (mark, name), (side, shift) in zip(marks, (("right", -4), ("left", 4)), strict=False):
            axes.axvline(mark["threshold"], color=MUTED, lw=0.9, ls=":")
            axes.annotate(
                name, (mark["threshold"], 4), xytext=(shift, 0), textcoords="offset points", fontsize=7.5, color=MUTED,
                ha=side,
            )  # fmt: skip
        axes.plot(best["threshold"], best["f1"], "o", color=SERIES[2], ms=5)
        axes.set(xlim=(0, 1), ylim=(0, 102), xlabel="threshold on the probability", ylabel="percent")
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return drawn("threshold", "Precision, recall and F1 by threshold", f"{said}.", draw)


def reliability(found: dict[str, Any]) -> str:
    """Draw how often labels of a given probability are right, by band."""
    lines = found["lines"]
    said = "; ".join(f"{line['name']}: calibration error {line['ece']:.1f} points" for line in lines)

    def draw(axes: Any) -> None:
        axes.plot([0, 100], [0, 100], color=MUTED, lw=0.9, ls=":")
        for number, line in enumerate(lines):
            axes.plot(
                [100 * p for p in line["probability"]], [100 * r for r in line["right"]], color=SERIES[number],
                ls=_DASHES[number], marker="o", ms=3, label=line["name"],
            )  # fmt: skip
        axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="probability, percent", ylabel="right, percent")
        axes.legend(loc="upper left")

    return drawn("reliability", "How often labels are right, by their probability", said, draw)


def propensity(found: dict[str, Any]) -> str:
    """Draw the propensity model over label frequencies, with the fit to a hierarchy where there is one."""
    said = (
        f"With 1 training point a label is observed with probability {found['propensities'][0]:.2f}, with "
        f"{found['counts'][-1]:,} with {found['propensities'][-1]:.2f} (A = {found['A']:g}, B = {found['B']:g})."
    )
    fit = found["fit"]
    if fit:
        said += f" The hierarchy of the labels suggests A = {fit['A']:.2f}, B = {fit['B']:.2f} (R² {fit['r2']:.2f})."

    def draw(axes: Any) -> None:
        edges, sizes = found["edges"], found["labels"]
        most = max([*sizes, 1])
        widths = [b - a for a, b in pairwise(edges)]
        heights = [0.32 * size / most for size in sizes]
        axes.bar(edges[:-1], heights, widths, align="edge", color=GRID, label="labels")
        axes.plot(found["counts"], found["propensities"], color=SERIES[0], label="in use")
        if fit:
            axes.plot(
                found["counts"], fit["propensities"], color=SERIES[1], ls=_DASHES[1], label="fit to the hierarchy"
            )
            axes.plot(fit["frequency"], fit["observed"], "o", color=SERIES[1], ms=3, alpha=0.8)
        axes.set_xscale("log")
        axes.set(ylim=(0, 1.02), xlabel="training points of a label", ylabel="propensity")
        axes.legend(loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.0))

    return drawn("propensity", "Propensity of labels by their frequency", said, draw)


def frontier(rows: list[dict[str, float]], k: int, own: dict[str, float]) -> str:
    """Draw P against PSP as the exponent rises from 0 to 1, and the model as it ranks by its metrics, `own`."""
    first, last = rows[0], rows[-1]
    said = (
        f"From exponent 0 to 1, P@{k} goes from {first[f'P@{k}']:.1f} to {last[f'P@{k}']:.1f} and PSP@{k} from "
        f"{first[f'PSP@{k}']:.1f} to {last[f'PSP@{k}']:.1f} percent; at 1, P@1 goes from {first['P@1']:.1f} to "
        f"{last['P@1']:.1f} and PSP@1 from {first['PSP@1']:.1f} to {last['PSP@1']:.1f}. As it ranks, the model has P@1 "
        f"{own['P@1']:.1f} and PSP@1 {own['PSP@1']:.1f}."
    )

    depths = list(dict.fromkeys((1, k)))

    def draw(*fields: Any) -> None:
        for number, (axes, depth) in enumerate(zip(fields, depths, strict=True)):
            axes.grid(axis="both")
            x, y = ([row[f"{name}@{depth}"] for row in rows] for name in ("P", "PSP"))
            axes.plot(x, y, color=SERIES[number], marker="o", ms=3)
            for row in (rows[0], rows[len(rows) // 2], rows[-1]):
                axes.annotate(
                    f"{row['exponent']:g}", (row[f"P@{depth}"], row[f"PSP@{depth}"]), xytext=(5, 3),
                    textcoords="offset points", fontsize=7.5, color=MUTED,
                )  # fmt: skip
            if f"P@{depth}" in own:
                place = (own[f"P@{depth}"], own[f"PSP@{depth}"])
                axes.plot(*place, "D", ms=6, color=INK, markerfacecolor="none", markeredgewidth=1.2)
            axes.set(xlabel=f"P@{depth}, percent", ylabel=f"PSP@{depth}, percent")
            axes.margins(0.12)

    return drawn("frontier", "Precision against propensity-scored precision", said, draw, panels=len(depths))
