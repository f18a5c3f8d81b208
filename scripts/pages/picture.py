"""P@1 against PSP@1 as an SVG: the same input gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np

from longtail.bench.results import Result

mpl.use("Agg")
from matplotlib import pyplot as plt

# Middle tones on a transparent ground: readable on white and on the dark theme's ground.
GREY, FAINT = "#7a7f87", "#9aa0a855"
FAMILIES = {
    "one-vs-rest": ("#2f7fd0", ("dismec",)),
    "label trees": ("#2e9b57", ("parabel", "bonsai")),
    "instance trees": ("#c98a12", ("fastxml", "pfastxml", "pfastrexml")),
    "embedding": ("#b0609f", ("glas",)),
    "read texts": ("#d9534f", ("xgrank", "attentionxml", "aplcxlnet")),
    "tail modules, ensembles": ("#8468c8", ("ranknet", "propensityrerank", "taug", "ensemble")),
    "baseline": (GREY, ("popularity",)),
}
PEERS = "other tools"
SIZE = (9.0, 6.2)
FONT = 8.5
ORDERS = 12  # in which names are placed, for trial
STYLE = {
    "svg.hashsalt": "longtail", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": FONT,
    "text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": FAINT, "xtick.color": GREY, "ytick.color": GREY,
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A model in the picture; only some have their name beside them."""

    name: str
    x: float
    y: float
    family: str
    labelled: bool


def point_of(result: Result, *, labelled: bool, peer: bool = False) -> Point:
    """Return the point of a result."""
    family = PEERS if peer else next(name for name, (_, models) in FAMILIES.items() if result["model"] in models)
    return Point(result["recipe"], result["metrics"]["P@1"], result["metrics"]["PSP@1"], family, labelled)


def in_view(points: list[Point]) -> list[Point]:
    """Return the points within 15 % of the best P@1: one far outlier would press the others together."""
    least = 0.85 * max(point.x for point in points)
    return [point for point in points if point.x >= least]


def frontier(points: list[Point]) -> list[Point]:
    """Return the points that no other one beats in both metrics, by P@1."""
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (-p.x, -p.y, p.name)):
        if not best or point.y > best[-1].y:
            best.append(point)
    return best[::-1]


def draw(points: list[Point]) -> bytes:
    """Return the picture as SVG."""
    with mpl.rc_context(STYLE):
        figure, _ = figure_of(points)
        target = io.BytesIO()
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return target.getvalue()


def figure_of(points: list[Point]) -> tuple[Any, Any]:
    """Return Matplotlib's figure and axes; to be called under `mpl.rc_context(STYLE)`."""
    points = sorted(in_view(points), key=lambda p: (p.name, p.x, p.y))
    figure, axis = plt.subplots(figsize=SIZE, layout="constrained")
    edge = frontier(points)
    axis.plot([p.x for p in edge], [p.y for p in edge], color=GREY, lw=0.8, ls=(0, (4, 3)), alpha=0.6, zorder=1)
    for family, color in [*((name, color) for name, (color, _) in FAMILIES.items()), (PEERS, GREY)]:
        own = [p for p in points if p.family == family]
        if not own:
            continue
        marker = {"marker": "X", "s": 60} if family == PEERS else {"marker": "o", "s": 34}
        for chosen, alpha in ((True, 1.0), (False, 0.45)):
            part = [p for p in own if p.labelled == chosen]
            axis.scatter([p.x for p in part], [p.y for p in part], color=color, alpha=alpha, lw=0, zorder=3, **marker)
        axis.scatter([], [], color=color, label=family, lw=0, **marker)
    axis.set(xlabel="P@1, %", ylabel="PSP@1, %  (rare labels count more)")
    axis.margins(0.09)
    axis.grid(color=FAINT, lw=0.5)
    axis.tick_params(length=0)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", frameon=False, labelcolor=GREY, ncols=7, handletextpad=0.2, fontsize=8)
    figure.canvas.draw()  # places are known from here on
    place_labels(figure, axis, points)
    return figure, axis


@dataclass(frozen=True)
class Ground:
    """The picture in pixels before any name is written."""

    spots: Any  # (points, 2)
    sizes: list[tuple[float, float]]  # of the names
    dots: list[Any]  # boxes: left, bottom, right, top
    lines: list[Any]  # places that names leave free
    frame: Any
    scale: float


def place_labels(figure: Any, axis: Any, points: list[Point]) -> None:
    """Write names beside points, where they cover no point, no other name and no line.

    Names take their places one after the other; of some orders, the one is taken that keeps names nearest.
    """
    figure.set_layout_engine("none")  # nothing moves any more
    renderer = figure.canvas.get_renderer()
    scale = figure.dpi / 72
    spots = axis.transData.transform([(p.x, p.y) for p in points])
    texts = [axis.text(p.x, p.y, p.name, va="bottom", **_style(p)) for p in points]
    boxes = [text.get_window_extent(renderer) for text in texts]
    for text in texts:
        text.remove()
    edge = axis.transData.transform([(p.x, p.y) for p in frontier(points)])
    ground = Ground(
        spots=spots,
        sizes=[(box.width, box.height) for box in boxes],
        dots=[_box(x, y, 0, 0, pad=4 * scale) for x, y in spots],
        lines=[_along(one, other, scale) for one, other in pairwise(edge)],
        frame=np.array(axis.get_window_extent(renderer).extents),
        scale=scale,
    )
    labelled = [i for i, point in enumerate(points) if point.labelled]
    crowded = sorted(labelled, key=lambda i: round(float(np.sort(np.hypot(*(spots - spots[i]).T))[:5].sum()), 3))
    rng = np.random.default_rng(0)
    orders = [crowded, *(rng.permutation(labelled).tolist() for _ in range(ORDERS if len(labelled) > 12 else 0))]
    _, placed = min((arranged(order, points, ground) for order in orders), key=lambda result: result[0])
    for i, (line, corner) in placed.items():
        _write(axis, points[i], line, corner)


def arranged(order: list[int], points: list[Point], ground: Ground) -> tuple[float, dict[int, Any]]:
    """Place names in this order; return what it costs (distances, crossings, names without a place) and the places."""
    names: list[Any] = []
    taken = np.array(ground.dots)
    lines, placed, cost = list(ground.lines), {}, 0.0
    for i in order:
        far = np.hypot(*(ground.spots - ground.spots[i]).T) > 7 * ground.scale  # nearer ones can hardly be told apart
        others = [dot for j, dot in enumerate(ground.dots) if far[j] and points[j].labelled]
        for dx, dy, level in offsets():
            corner = _corner(ground.spots[i], ground.sizes[i], dx * ground.scale, dy * ground.scale)
            own = _box(*corner, *ground.sizes[i], pad=1.5 * ground.scale)
            if not _within(own, ground.frame) or _overlaps(own, taken):
                continue
            line = _line(ground.spots[i], own, ground.scale)
            if any(_crosses(other, own) for other in lines):
                continue
            if not any(_crosses(line, other) for other in ((*others, *names), names, ())[level]):
                names.append(own)
                taken = np.vstack([taken, own])
                lines.append(line)
                placed[i] = (line, corner)
                cost += float(np.hypot(dx, dy)) + 100 * level
                break
        else:
            cost += 1000
    return cost, placed


def _box(x: float, y: float, width: float, height: float, pad: float = 0.0) -> Any:
    """Left, bottom, right, top."""
    return np.array([x - pad, y - pad, x + width + pad, y + height + pad])


def _within(own: Any, frame: Any) -> bool:
    return bool((own[:2] >= frame[:2]).all() and (own[2:] <= frame[2:]).all())


def _overlaps(own: Any, boxes: Any) -> bool:
    return bool(((boxes[:, :2] <= own[2:]) & (own[:2] <= boxes[:, 2:])).all(axis=1).any())


def _crosses(line: Any, box: Any) -> bool:
    """Whether a place on the line is inside the box."""
    return bool(((box[:2] <= line) & (line <= box[2:])).all(axis=1).any())


def offsets() -> Iterator[tuple[float, float, int]]:
    """Yield places around a point, in typographic points: near ones first, right and left before above and below.

    The last value says what the line to the point may cross: 0 nothing, 1 points, 2 names, too.
    """
    angles = (0, 180, 25, 155, -25, -155, 50, 130, -50, -130, 70, 110, -70, -110, 90, -90)
    for level in range(3):
        for radius in (6, 9, 13, 18, 24, 31, 39, 48, 58, 70, 84, 100, 120, 145):
            for angle in angles:
                yield radius * np.cos(np.radians(angle)), radius * np.sin(np.radians(angle)), level


def _corner(spot: Any, size: tuple[float, float], dx: float, dy: float) -> tuple[float, float]:
    """The lower left corner of a name whose nearest side is (dx, dy) away from its point."""
    x = spot[0] + dx - (0 if dx > 1e-6 else size[0] if dx < -1e-6 else size[0] / 2)
    return float(x), float(spot[1] + dy - size[1] / 2)


def _line(spot: Any, own: Any, scale: float) -> Any:
    """Places along the line from a point to the nearest place of its name; none where they are close."""
    near = np.clip(spot, own[:2], own[2:])
    return _along(spot, near, scale) if np.hypot(*(near - spot)) > 8 * scale else np.empty((0, 2))


def _along(one: Any, other: Any, scale: float) -> Any:
    steps = max(2, int(np.hypot(*(other - one)) / scale))
    return one + np.linspace(0, 1, steps)[:, None] * (other - one)


def _style(point: Point) -> dict[str, Any]:
    color = FAMILIES[point.family][0] if point.family in FAMILIES else GREY
    return {"fontsize": FONT, "color": color, "weight": "bold" if point.family == PEERS else "normal"}


def _write(axis: Any, point: Point, line: Any, corner: tuple[float, float]) -> None:
    data = axis.transData.inverted()
    if len(line):
        ends = data.transform(line[[0, -1]])
        axis.plot(ends[:, 0], ends[:, 1], color=GREY, lw=0.5, alpha=0.7, zorder=2, scalex=False, scaley=False)
    axis.text(*data.transform(corner), point.name, va="bottom", ha="left", zorder=4, **_style(point))
