"""What the tail modules do, in pictures: on EURLEX57K, training split to test split, with the settings of the recipes.

    python -m benchmarks.tail.modules frontier [dismec parabel bonsai fastxml ...]
    python -m benchmarks.tail.modules overhead       # seconds of prediction through RankNet and of its base alone
    python -m benchmarks.tail.modules norms          # classifier norm against label frequency, before and after Taug
    python -m benchmarks.tail.modules copies         # PSP@k against n_aug
    python -m benchmarks.tail.modules split          # PSP@k against tau
    python -m benchmarks.tail.modules blocks         # RankNet with and without parts of itself

Each writes docs/lab/benchmarks/tail-modules-NAME.json; all but `overhead` draw docs/images/tail_NAME.png. `frontier`
adds to what the file holds for other bases; given the base `none`, it only draws the picture again. The data is that of
recipes/eurlex57k.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import ROOT, add_out, decimals, image, load, markdown_table, save
from benchmarks.common.data import features_of, recipe_named
from benchmarks.common.metrics import BESIDE_PSP, FIRST
from longtail import DiSMEC, RankNet, Taug, load_model
from longtail.compose.residual import ResidualBlocks
from longtail.data import Dataset
from longtail.trees.label.weights import TreeModel
from longtail.workflow.score import score_predictions

mpl.use("Agg")
from matplotlib import pyplot as plt

KEPT = ROOT / ".cache" / "tail-modules"  # fitted bases
EXPONENTS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
COPIES = (0, 1, 4, 8)
SPLITS = (0.05, 0.1, 0.2, 0.3, 0.5)
METRICS = ("P@1", "P@5", "PSP@1", "PSP@3", "PSP@5", *BESIDE_PSP)
COLORS = {
    "dismec": "tab:blue", "parabel": "tab:green", "bonsai": "tab:orange", "fastxml": "tab:red",
    "dismec-pw-cb": "tab:purple", "taug-dismec": "tab:cyan", "taug-dismec-pw-cb": "tab:pink",
    "taug-bonsai": "tab:brown",
}  # fmt: skip
PANELS = {
    "bases": ("dismec", "parabel", "bonsai", "fastxml"),
    "levers of DiSMEC": ("dismec", "taug-dismec", "dismec-pw-cb", "taug-dismec-pw-cb"),
}
ROUNDS = 9


def data() -> tuple[Dataset, Dataset]:
    return features_of(recipe_named("eurlex57k/dismec"))


def estimator(name: str) -> Any:
    """Return the unfitted estimator of a recipe or variant of EURLEX57K."""
    return recipe_named(f"eurlex57k/{name}").estimator()


def measured(model: Any, test: Dataset, **arguments: Any) -> dict[str, float]:
    found = model.predict(test.X, k=5, **arguments)
    scores = score_predictions(
        found, test.Y, training_counts=model.label_counts_, n_training_points=model.n_points_
    ).metrics
    return {name: round(scores[name], 2) for name in METRICS}


def table(first: str, rows: dict[str, dict[str, float]]) -> str:
    return markdown_table([first, *METRICS], [[name, *decimals(values, METRICS)] for name, values in rows.items()])


def write(name: str, content: dict[str, Any], folder: Path, *, command: str | None = None) -> None:
    """Record a measurement and print its table."""
    save(f"tail-modules-{name}", content, command or f"python -m benchmarks.tail.modules {name}", folder=folder)
    print(content["table"])


# --- the frontier ---------------------------------------------------------------------------------------------------


def frontier(names: Iterable[str], out: Path) -> None:
    """Measure PSP@1 against P@1 as the exponent moves: without blocks (PropensityRerank) and with them (RankNet)."""
    train, test = data()
    lines = load("tail-modules-frontier", out).get("lines", {})
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name == "none":
            continue
        model = estimator(f"ranknet-{name}").fit(train.X, train.Y)
        model.base_.save(KEPT / name, overwrite=True)
        model.parts_ = [Remembering(model.base_)]
        ranknet = {str(e): measured(model, test, exponent=e) for e in EXPONENTS}
        chosen = measured(model, test) | {"exponent": round(model.exponent_, 3)}
        model.blocks_ = ResidualBlocks.none(model.n_labels_)
        closed = {str(e): measured(model, test, exponent=e) for e in EXPONENTS}
        lines[name] = {"PropensityRerank": closed, "RankNet": ranknet, "chosen": chosen}
        print(name, chosen, flush=True)
    lines = {name: lines[name] for name in COLORS if name in lines}
    if list(names) != ["none"]:
        write("frontier", {"lines": lines, "table": frontier_table(lines)}, out)
    figure, axes = plt.subplots(1, 2, figsize=(15, 6.5), layout="constrained")
    for axis, (title, shown) in zip(axes, PANELS.items(), strict=True):
        draw_frontier(axis, {name: lines[name] for name in shown if name in lines})
        axis.set(title=f"EURLEX57K, test split: {title}", xlabel="P@1, %", ylabel="PSP@1, %")
    axes[1].set_xlim(left=87)  # beyond, exponents of PW-cb lose both
    figure.savefig(image("tail_frontier.png", out), dpi=110)


class Remembering:
    """Stand-in for a fitted base that is always asked about the same points: it predicts them once."""

    def __init__(self, base: Any) -> None:
        self.base, self.found, self.score_groups_ = base, {}, base.score_groups_

    def options(self) -> set[str]:
        return set()

    def adjusted(self) -> Remembering:
        return self  # not a copy: views of the model around it share what is remembered

    def predict(self, X: Any, *, k: int) -> Any:
        if k not in self.found:
            self.found[k] = self.base.predict(X, k=k)
        return self.found[k]


def frontier_table(lines: dict[str, Any]) -> str:
    """Return PSP@1 at equal P@1: that of the plain base, and half a point, one and two less."""
    steps = (0.0, 0.5, 1.0, 2.0)
    modules = ("PropensityRerank", "RankNet")
    cells = []
    for name, line in lines.items():
        plain = next(base for base in PANELS["bases"] if base in name)
        most = lines.get(plain, line)["PropensityRerank"]["0.0"]["P@1"]
        start = line["PropensityRerank"]["0.0"]
        cells.append([name, *decimals(start, FIRST)])
        cells[-1] += [at_precision(line[module], most - step) for module in modules for step in steps]
    header = [f"{module}, {-step:+g}" if step else f"{module}, 0" for module in modules for step in steps]
    return markdown_table(["base", *FIRST, *header], cells)


def at_precision(line: dict[str, dict[str, float]], least: float) -> str:
    """Return PSP@1 at the largest exponent that leaves this much P@1, on lines between the measured exponents."""
    points = [(values["P@1"], values["PSP@1"]) for values in line.values()]
    if max(precision for precision, _ in points) < least:
        return "-"
    last = max(i for i, (precision, _) in enumerate(points) if precision >= least)
    if last + 1 == len(points):
        return f"{points[last][1]:.2f}"
    (high, one), (low, other) = points[last], points[last + 1]
    return f"{one + (high - least) / (high - low) * (other - one):.2f}"


def draw_frontier(axis: Any, lines: dict[str, Any]) -> None:
    for name, line in lines.items():
        for module, style in (("PropensityRerank", "-"), ("RankNet", "--")):
            points = [(values["P@1"], values["PSP@1"]) for values in line[module].values()]
            axis.plot(*zip(*points, strict=True), marker=".", linestyle=style, color=COLORS[name])
            if module == "PropensityRerank":
                axis.plot(*points[0], marker="o", color=COLORS[name], markersize=9, linestyle="none")
        axis.plot(line["chosen"]["P@1"], line["chosen"]["PSP@1"], marker="*", color=COLORS[name], markersize=16)
        axis.plot([], [], color=COLORS[name], label=name)
    for e in (0.1, 0.3, 0.5, 1.0):
        values = next(iter(lines.values()))["PropensityRerank"][str(e)]
        axis.annotate(f"{e:g}", (values["P@1"], values["PSP@1"]), xytext=(6, 4), textcoords="offset points")
    for label, style in (("base alone", "ko"), ("PropensityRerank, exponent 0 to 1", "k-"), ("RankNet", "k--")):
        axis.plot([], [], style, label=label)
    axis.plot([], [], "k*", markersize=12, label="RankNet, the exponent it chose")
    axis.legend(loc="lower left")


# --- the price of prediction -----------------------------------------------------------------------------------------


def overhead(_: Iterable[str], out: Path) -> None:
    """Measure the median seconds of the base and of RankNet around it, in turns, for the test split and for one point.

    What the network learned does not matter here: its weights are random, over all labels. Bases that `frontier` left
    behind are taken as they are; the others are trained first.
    """
    train, test = data()
    content, cells = {}, []
    for name in PANELS["bases"]:
        if not (KEPT / name).is_dir():
            estimator(name).fit(train.X, train.Y).save(KEPT / name)
        base = load_model(KEPT / name)
        few = train.subset(np.arange(min(2000, train.n_points)))
        model = RankNet(base=base, prefit=True, blocks=0).fit(few.X, few.Y)
        wide = np.random.default_rng(0).normal(size=(1, model.n_labels_, model.units)).astype(np.float32)
        rows = np.arange(model.n_labels_, dtype=np.int32)
        model.blocks_ = ResidualBlocks(rows, wide, wide[:, 0], wide, wide[:, :, 0].copy())
        points = [test.X[i] for i in range(min(300, test.n_points))]
        whole, one = in_turns(base, model, [test.X] * ROUNDS), in_turns(base, model, points)
        content[name] = {"test split": whole, "one point": one}
        cells.append([name, *(f"{1000 * v:.0f}" for v in whole), f"{whole[1] / whole[0]:.2f}"])
        cells[-1] += [*(f"{1000 * v:.2f}" for v in one), f"{one[1] / one[0]:.2f}"]
        print(cells[-1], flush=True)
    header = [
        "base",
        f"{test.n_points} points, ms",
        "through RankNet",
        "times",
        "one point, ms",
        "through RankNet",
        "times",
    ]
    write("overhead", {"seconds": content, "table": markdown_table(header, cells)}, out)


def in_turns(base: Any, model: Any, inputs: list[Any]) -> list[float]:
    """Return the median seconds of the base and of the model around it; each input goes to both in turn."""
    seconds: list[list[float]] = [[], []]
    for X in [inputs[0], *inputs]:  # the first once more: it warms up
        for part, own in zip((base, model), seconds, strict=True):
            started = time.perf_counter()
            part.predict(X, k=5)
            own.append(time.perf_counter() - started)
    return [round(float(np.median(own[1:])), 6) for own in seconds]


# --- classifier norms ------------------------------------------------------------------------------------------------


def norms(_: Iterable[str], out: Path) -> None:
    """Measure the norm of label classifiers, from frequent to rare, of DiSMEC and of the leaves of Bonsai."""
    train, _test = data()
    counts = np.bincount(train.Y.indices, minlength=train.Y.shape[1])
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    figure, axes = plt.subplots(1, 3, figsize=(16, 4.5), layout="constrained")
    axes[0].plot(counts[order])
    axes[0].set(title="training points", xlabel="label, by its number of points", yscale="log")
    content: dict[str, Any] = {}
    for axis, name, norm in ((axes[1], "dismec", dismec_norms), (axes[2], "bonsai", bonsai_norms)):
        plain = norm(estimator(name).fit(train.X, train.Y))
        taug = Taug(base=estimator(name), merge="raw").fit(train.X, train.Y)
        augmented = np.zeros_like(plain)
        for labels, model in zip((taug.head_, taug.tail_), taug.parts_, strict=True):
            augmented[labels] = norm(model)[: labels.size]
        for title, values, color in (("plain", plain, "tab:blue"), ("Taug", augmented, "tab:red")):
            axis.plot(values[order], ".", markersize=2, alpha=0.25, color=color)
            axis.plot(smooth(values[order]), color=color, label=title)
            fifths = [float(part.mean().round(3)) for part in np.array_split(values[order], 5)]
            content[f"{name}, {title}"] = fifths
        axis.set(title=f"norm of the classifiers of {name}", xlabel="label, by its number of points")
        axis.legend()
    header = ["mean norm of labels, from frequent to rare", *(f"fifth {i}" for i in range(1, 6))]
    cells = [[name, *(f"{value:.2f}" for value in fifths)] for name, fifths in content.items()]
    write("norms", {"fifths": content, "table": markdown_table(header, cells)}, out)
    figure.savefig(image("tail_norms.png", out), dpi=110)


def dismec_norms(model: DiSMEC) -> NDArray[np.float64]:
    return np.sqrt(np.asarray(model.weights_.multiply(model.weights_).sum(axis=0)).ravel())


def bonsai_norms(model: Any) -> NDArray[np.float64]:
    """Return the mean over trees of the norm of a label's classifier in its leaf."""
    return np.mean([leaf_norms(tree, model.n_labels_) for tree in model.trees_], axis=0)


def leaf_norms(tree: TreeModel, n_labels: int) -> NDArray[np.float64]:
    found = np.zeros(n_labels)
    for v in range(tree.n_nodes):
        edges = slice(tree.child_start[v], tree.child_start[v + 1])
        children, n_rows = tree.child[edges], int(tree.row_start[v + 1] - tree.row_start[v])
        squares = np.zeros(children.size)
        for r in range(n_rows):
            own, weights = tree.row(v, r)
            squares[own] += weights.astype(np.float64) ** 2
        labels = children >= 0  # the others are nodes below
        found[children[labels]] = np.sqrt(squares[labels]) * tree.scale[edges][labels]
    return found


def smooth(values: NDArray[np.float64], width: int = 101) -> NDArray[np.float64]:
    return np.convolve(np.pad(values, width // 2, mode="edge"), np.full(width, 1 / width), mode="valid")


# --- Taug's two numbers ----------------------------------------------------------------------------------------------


def swept(name: str, parameter: str, values: Iterable[float], title: str, out: Path) -> None:
    train, test = data()
    plain = estimator("bonsai").fit(train.X, train.Y)
    rows = {"Bonsai": measured(plain, test)}
    for value in values:
        model = Taug(base=estimator("bonsai"), merge="raw", **{parameter: value}).fit(train.X, train.Y)
        rows[f"Taug, {parameter} = {value}"] = measured(model, test)
        print(value, rows[f"Taug, {parameter} = {value}"], flush=True)
    write(name, {"rows": rows, "table": table("model", rows)}, out)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for axis, metrics in zip(axes, (("PSP@1", "PSP@3", "PSP@5"), ("P@1", "P@5")), strict=True):
        for metric in metrics:
            line = axis.plot(
                list(values), [rows[f"Taug, {parameter} = {v}"][metric] for v in values], marker="o", label=metric
            )
            axis.axhline(rows["Bonsai"][metric], color=line[0].get_color(), linestyle=":")
        axis.set(xlabel=title, ylabel="%")
        axis.legend()
    figure.suptitle("Taug over Bonsai on EURLEX57K, test split; dotted: Bonsai alone")
    figure.savefig(image(f"tail_{name}.png", out), dpi=110)


def copies(_: Iterable[str], out: Path) -> None:
    swept("copies", "n_aug", COPIES, "altered copies of each tail point, n_aug", out)


def split(_: Iterable[str], out: Path) -> None:
    swept("split", "tau", SPLITS, "share of the labels that are head, tau", out)


# --- parts of RankNet ------------------------------------------------------------------------------------------------


def blocks(_: Iterable[str], out: Path) -> None:
    """Measure RankNet over one DiSMEC, with and without parts of it.

    Three fifths of the training split train the base, one fifth the module, and the rest measures: not the test split,
    since defaults were chosen by such figures.
    """
    train, _test = data()
    part = np.random.default_rng(0).permutation(train.n_points) % 5
    first, second, held = (train.subset(np.flatnonzero(chosen)) for chosen in (part < 3, part == 3, part == 4))
    base = estimator("dismec").fit(first.X, first.Y)
    variants: dict[str, dict[str, Any]] = {
        "no blocks, which is PropensityRerank": {"blocks": 0}, "RankNet": {}, "two blocks": {"blocks": 2},
        "8 units": {"units": 8}, "no population-aware loss": {"balance": 0.0, "anchor": 1e4, "shrink": 1e3},
        "the population-aware loss alone": {"anchor": 0.0, "shrink": 1.0},
    }  # fmt: skip
    lines = {}
    for name, changes in variants.items():
        model = RankNet(base=base, prefit=True, **changes).fit(second.X, second.Y)
        model.parts_ = [Remembering(base)]
        lines[name] = {str(e): measured(model, held, exponent=e) for e in EXPONENTS[:8]}
        print(name, model.held_out_psp_, flush=True)
    write("blocks", {"lines": lines, "table": blocks_table(lines)}, out)
    figure, axis = plt.subplots(figsize=(8, 6), layout="constrained")
    for name, line in lines.items():
        points = [(values["P@1"], values["PSP@1"]) for values in line.values()]
        axis.plot(*zip(*points, strict=True), marker=".", label=name)
    axis.set(title="RankNet over one DiSMEC, exponents 0 to 0.7", xlabel="P@1, %", ylabel="PSP@1, %")
    axis.legend()
    figure.savefig(image("tail_blocks.png", out), dpi=110)


def blocks_table(lines: dict[str, Any]) -> str:
    """Return the metrics without an exponent, and PSP@1 at equal P@1."""
    levels = [next(iter(lines.values()))["0.0"]["P@1"] - step for step in (0.0, 0.5, 1.0, 2.0)]
    cells = [
        [name, *decimals(line["0.0"], FIRST), *(at_precision(line, least) for least in levels)]
        for name, line in lines.items()
    ]
    header = ["RankNet with", *(f"exponent 0: {metric}" for metric in FIRST)]
    return markdown_table([*header, *(f"PSP@1 at P@1 {least:.2f}" for least in levels)], cells)


def main() -> None:
    pictures: dict[str, Callable[[Iterable[str], Path], None]] = {
        "frontier": frontier, "overhead": overhead, "norms": norms, "copies": copies, "split": split, "blocks": blocks,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=list(pictures))
    parser.add_argument("bases", nargs="*", default=list(COLORS))
    add_out(parser)
    options = parser.parse_args()
    pictures[options.picture](options.bases, options.out)


if __name__ == "__main__":
    main()
