"""Tables of README.md and the guides, by name; each is made from results and measurement files alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.common.metrics import BESIDE_PSP, FEWER, METRICS
from benchmarks.common.tables import decimals, markdown_table
from longtail.bench.results import table_rows
from scripts.pages.lab import PEERS, TITLES, Lab

TABLES: dict[str, Callable[[Lab], str]] = {}


def table(name: str) -> Callable[[Callable[[Lab], str]], Callable[[Lab], str]]:
    """Register a function as the maker of a table."""

    def register(make: Callable[[Lab], str]) -> Callable[[Lab], str]:
        TABLES[name] = make
        return make

    return register


def stored(name: str, key: str = "table") -> Callable[[Lab], str]:
    """The table that a measurement file brings along."""
    return lambda lab: str(lab.benchmarks[name][key])


# --- README -----------------------------------------------------------------------------------------------------------

README_COLUMNS = (
    "recipe", "P@1", "P@5", "PSP@1", "PSP@5", "macro-F1@5", "coverage@5", "tail R@5", "train s", "model MB"
)  # fmt: skip
README_RECIPES = (
    "popularity", "dismec", "dismec-pw-cb", "bonsai", "bonsai-pw-cb", "propensityrerank-bonsai", "ranknet-dismec",
    "glas", "fastxml",
)  # fmt: skip


@table("readme")
def _readme(lab: Lab) -> str:
    chosen = [lab.runs["eurlex57k"][recipe] for recipe in README_RECIPES]
    rows = table_rows([*lab.peers("eurlex57k"), *chosen], README_COLUMNS)
    machines = ", ".join(sorted({result["machine"] for result in chosen}))
    links = "all datasets and pictures: [docs/results.md](docs/results.md), commits and commands: "
    links += "[docs/lab/eurlex57k.md](docs/lab/eurlex57k.md)."
    return f"{markdown_table(README_COLUMNS, rows)}\n\n{machines}; {links}"


# --- decisions.md -----------------------------------------------------------------------------------------------------

TABLES["decisions-calibration"] = stored("decisions")
TABLES["decisions-together"] = lambda lab: str(lab.benchmarks["decisions"]["together"])


# --- dismec.md --------------------------------------------------------------------------------------------------------


@table("dismec-settings")
def _settings(lab: Lab) -> str:
    weightings = {"no weighting": "none", "PW": "pw", "PW-cb": "pw-cb"}
    means = {
        title: {row["C"]: row["mean"] for row in lab.benchmarks[f"dismec-settings-{name}"]["rows"]}
        for title, name in weightings.items()
    }
    best = {title: max(column, key=column.__getitem__) for title, column in means.items()}

    def cell(title: str, C: float) -> str:
        if C not in means[title]:
            return ""
        return f"**{means[title][C]:.2f}**" if best[title] == C else f"{means[title][C]:.2f}"

    every = sorted({C for column in means.values() for C in column})
    rows = [[f"{C:g}", *(cell(title, C) for title in means)] for C in every]
    return markdown_table(["C", *means], rows, left=())


@table("dismec-working-sets")
def _working_sets(lab: Lab) -> str:
    titles = {
        "dismec-full": "no weighting, all points", "dismec": "no weighting, working sets",
        "dismec-prune": "the same, `prune=0.01`, float32",
        "dismec-pw-full": "PW, all points", "dismec-pw": "PW, working sets",
        "dismec-pw-cb-full": "PW-cb, all points", "dismec-pw-cb": "PW-cb, working sets",
    }  # fmt: skip
    return _models(lab, "debian-depends", titles)


@table("dismec-memory")
def _memory(lab: Lab) -> str:
    cells = []
    for name in ("eurlex57k", "random"):
        content = lab.benchmarks[f"dismec-memory-{name}"]
        for number, row in enumerate(content["rows"]):
            sizes = f"{row['points']:,} points, {row['features']:,} features, {row['labels']:,} labels"
            title = f"{content['data']} ({sizes}; model {row['model_mb']:.0f} MB)"
            figures = [f"{row[key]:.0f}" for key in ("data_mb", "threads", "formula_mb", "measured_mb")]
            cells.append(["the same" if number else title, *figures])
    return markdown_table(["", "X, Y", "threads", "formula", "measured"], cells)


@table("solver-choices")
def _solver_choices(lab: Lab) -> str:
    columns = [lab.benchmarks[f"solver-choices-{weighting}"]["rows"] for weighting in ("none", "pw")]

    def figures(row: Mapping[str, Any] | None) -> list[str]:
        if row is None:
            return ["", ""]
        seconds = ", ".join(f"{value:.1f}" for value in row["cpu_s_per_1000_labels"])
        return [seconds, f"{row['full_passes']:.1f}, {row['inner_passes']:.1f}"]

    cells = [[name, *(cell for rows in columns for cell in figures(rows.get(name)))] for name in columns[0]]
    header = ["no weighting: s", "full, inner passes", "PW: s", "full, inner passes"]
    return markdown_table(["", *header], cells)


# --- metrics.md -------------------------------------------------------------------------------------------------------

TABLES["unbiasedness"] = stored("unbiasedness")


# --- glas.md ----------------------------------------------------------------------------------------------------------


def _models(lab: Lab, dataset: str, titles: Mapping[str, str]) -> str:
    results = {title: lab.runs[dataset][recipe] for recipe, title in titles.items()}
    cells = [
        [title, *decimals(result["metrics"], METRICS), f"{result['train_s']:.0f}", f"{result['model_mb']:.0f}"]
        for title, result in results.items()
    ]
    return markdown_table(["", *METRICS, "train s", "model MB"], cells)


@table("glas-eurlex57k")
def _glas_eurlex(lab: Lab) -> str:
    titles = {
        "glas": "GLaS, width 1024", "glas-none": "the same without regulariser", "glas-256": "GLaS, width 256",
        "dismec": "DiSMEC", "bonsai": "Bonsai",
    }  # fmt: skip
    return _models(lab, "eurlex57k", titles)


@table("glas-yso-finna-en")
def _glas_yso(lab: Lab) -> str:
    titles = {"glas": "GLaS, width 256", "dismec": "DiSMEC", "bonsai": "Bonsai", "parabel": "Parabel"}
    return _models(lab, "yso-finna-en", titles)


@table("glas-search")
def _search(lab: Lab) -> str:
    cells = [
        [f"{row['labels']:,}", f"{row['exact ms']:.2f}", f"{row['codes ms']:.2f}", f"{row['recall@5']:.3f}",
         str(row["candidates"])]
        for row in lab.benchmarks["mips-256"]["rows"]
    ]  # fmt: skip
    return markdown_table(["labels", "exact ms", "by codes ms", "recall@5", "candidates"], cells, left=())


def _scored(row: Mapping[str, Any]) -> str:
    return "all" if row["negatives"] == "all" else f"own and {int(row['negatives']):,}"


@table("glas-labels")
def _labels(lab: Lab) -> str:
    cells = [
        [f"{row['labels']:,}", _scored(row), f"{1000 * row['step s']:.0f}", *decimals(row, ("exact ms", "codes ms"), 1)]
        for row in lab.benchmarks["glas-labels"]["rows"]
    ]
    return markdown_table(["labels", "scored", "step, CPU ms", "exact ms", "by codes ms"], cells, left=(1,))


@table("glas-labels-accuracy")
def _labels_accuracy(lab: Lab) -> str:
    rows = lab.benchmarks["glas-labels-accuracy"]["rows"]
    cells = [[f"{row['labels']:,}", _scored(row), *decimals(row, METRICS)] for row in rows]
    return markdown_table(["labels", "scored", *METRICS], cells, left=(1,))


GLAS_COLUMNS = ("P@1", "PSP@1", "PSP@5", *BESIDE_PSP, "train P@1", "gap")


def _regulariser(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    cells = []
    for title, rows in groups.items():
        for number, row in enumerate(rows):
            strength = row["strength"]
            name = "none" if row["regulariser"] == "none" else f"GLaS, {strength:,.0f}"
            cells.append(["" if number else title, name, *decimals(row, GLAS_COLUMNS)])
    return markdown_table(["setting", "regulariser", *GLAS_COLUMNS], cells, left=(0, 1))


@table("glas-regulariser-dev")
def _regulariser_dev(lab: Lab) -> str:
    def rows(strengths: Iterable[float], **wanted: Any) -> list[dict[str, Any]]:
        usual = {"loss": "softmax", "network": "linear", "width": 1024, "keep": 1.0, "epsilon": 1e-8}
        wanted = usual | wanted
        found = [r for r in lab.benchmarks["glas-regulariser-dev"]["rows"] if all(r[k] == v for k, v in wanted.items())]
        chosen = [row for row in found if row["strength"] in strengths]
        assert len(chosen) == len(list(strengths)), (wanted, strengths)
        return chosen

    paper = {"loss": "negative-mining, one label per point, batch 4096", "network": "ReLU", "epochs": 10}
    return _regulariser({
        "width 1024, no dropout, 3 epochs": rows((0, 30, 100, 300), epochs=3),
        "width 1024, no dropout, 10 epochs": rows((0, 30), epochs=10),
        "width 256, no dropout, 5 epochs": rows((0, 100), width=256, epochs=5),
        "width 1024, `keep` 0.8, 5 epochs": rows((0, 100, 300), keep=0.8, epochs=5),
        "as in the paper: ReLU, one label per point, batch 4096, negative mining, no dropout":
            rows((0, 10000), **paper),
    })  # fmt: skip


@table("glas-regulariser-test")
def _regulariser_test(lab: Lab) -> str:
    def rows(name: str) -> list[dict[str, Any]]:
        return [row["parameters"] | row for row in lab.benchmarks[name]["rows"]]

    def few(epsilon: float) -> list[dict[str, Any]]:
        found = lab.benchmarks["glas-regulariser-15000"]["rows"]
        return [row for row in found if row["epsilon"] == epsilon and row["strength"] in (0, 100)]

    return _regulariser({
        "test, width 1024, on a GPU, ten seeds": rows("glas-regulariser-ten-seeds"),
        "test, width 256": rows("glas-regulariser-256"),
        "15,000 points": few(1e-4),
        "15,000 points, plain Adam": few(1e-8),
    })  # fmt: skip


# --- instance-trees.md ------------------------------------------------------------------------------------------------

FASTXML = ("fastxml", "pfastxml", "pfastrexml", "pfastrexml-linear")


@table("instance-trees-eurlex57k")
def _instance_trees(lab: Lab) -> str:
    recipes = (*FASTXML, "pfastrexml-fitted")
    return markdown_table(["recipe", *FEWER], [[r, *decimals(lab.metrics("eurlex57k", r), FEWER)] for r in recipes])


@table("instance-trees-coverage")
def _coverage(lab: Lab) -> str:
    names = [f"coverage@{k}" for k in range(1, 6)]
    rows = [[recipe, *decimals(lab.metrics("eurlex57k", recipe), names)] for recipe in FASTXML]
    return markdown_table(["recipe", "k = 1", "2", "3", "4", "5"], rows)


@table("instance-trees-speed")
def _speed(lab: Lab) -> str:
    found = lab.benchmarks["instance-trees-speed"]
    alphas = {"means": 0.8, "linear": 0.5}
    cells = [
        [f"{kind}, alpha = {alpha}", f"{found[f'{kind}_batch_ms']:.2f} ({found[f'{kind}_single_ms']:.2f})"]
        for kind, alpha in alphas.items()
    ]
    return markdown_table(["tail", "ms per point"], cells)


# --- features.md ------------------------------------------------------------------------------------------------------

for _dataset in ("eurlex57k", "debian-depends"):
    TABLES[f"text-features-{_dataset}"] = stored(f"text-features-{_dataset}")
    TABLES[f"text-embeddings-{_dataset}"] = stored(f"text-embeddings-{_dataset}")


# --- label-trees.md ---------------------------------------------------------------------------------------------------

for _dataset in ("eurlex57k", "debian-depends", "yso-finna-en"):
    TABLES[f"peers-{_dataset}"] = stored(f"peers-{_dataset}")
for _dataset in ("delicious", "bibtex"):
    TABLES[f"label-tree-settings-{_dataset}"] = stored(f"label-tree-settings-{_dataset}")
TABLES["label-trees-growth"] = stored("growth-parabel")
TABLES["dismec-growth"] = stored("growth-dismec")
TABLES["scale-out-million"] = stored("million-1000000-1000000")


def _by_cores(name: str) -> Callable[[Lab], str]:
    """The tables of one measurement on several machines, that with the fewest cores first."""

    def make(lab: Lab) -> str:
        numbers = [re.fullmatch(rf"{name}-(\d+)-cores", found) for found in lab.benchmarks]
        files = [lab.benchmarks[f"{name}-{n}-cores"] for n in sorted(int(found[1]) for found in numbers if found)]
        return "\n\n".join(f"{file['machine']}:\n\n{file['table']}" for file in files)

    return make


for _name in ("scale-out-yso-finna-en", "scale-out-yso-finna-en-100000"):
    TABLES[_name] = _by_cores(_name)


TABLES["label-trees-calibration"] = stored("label-trees-calibration")


@table("label-trees")
def _label_trees(lab: Lab) -> str:
    """The trees among the rows that dismec.md shows in full, dataset by dataset."""
    cells = []
    for dataset in ("eurlex57k", "yso-finna-en", "debian-depends"):
        for name in (*PEERS, "Parabel, 1 tree", "Bonsai, 3 trees"):
            row = lab.benchmarks[f"peers-{dataset}"]["rows"][name]
            figures = decimals(row, (*METRICS, "train_s", "predict_s", "model_mb"))
            cells.append([TITLES[dataset] if name == PEERS[0] else "", name, *figures])
    return markdown_table(["", "system", *METRICS, "train s", "predict s", "model MB"], cells, left=(0, 1))


# --- get-started/install.md -------------------------------------------------------------------------------------------

TABLES["installed-size"] = stored("installed-size")


# --- tail-modules.md --------------------------------------------------------------------------------------------------

for _name in ("frontier", "overhead", "norms", "copies", "split", "blocks", "million", "together"):
    TABLES[f"tail-{_name}"] = stored(f"tail-modules-{_name}")

BASES = {
    "fastxml": "FastXML", "parabel": "Parabel", "bonsai": "Bonsai", "dismec": "DiSMEC", "dismec-pw-cb": "DiSMEC PW-cb",
}  # fmt: skip
LEVERS = {
    "dismec": "DiSMEC", "dismec-pw-cb": "DiSMEC PW-cb", "taug-dismec": "Taug(DiSMEC)",
    "taug-dismec-pw-cb": "Taug(DiSMEC PW-cb)", "propensityrerank-dismec": "PropensityRerank(DiSMEC)",
    "propensityrerank-dismec-pw-cb": "PropensityRerank(DiSMEC PW-cb)", "ranknet-dismec": "RankNet(DiSMEC)",
    "ranknet-dismec-pw-cb": "RankNet(DiSMEC PW-cb)", "ranknet-taug-dismec": "RankNet(Taug(DiSMEC))",
    "ranknet-ensemble-taug-dismec": "RankNet(DiSMEC + Taug(DiSMEC))",
    "ranknet-taug-dismec-pw-cb": "RankNet(Taug(DiSMEC PW-cb))",
}  # fmt: skip
BESIDE = {
    "pfastrexml": "PfastreXML", "glas": "GLaS", "attentionxml": "AttentionXML", "ranknet-bonsai": "RankNet(Bonsai)",
    "ranknet-taug-bonsai": "RankNet(Taug(Bonsai))", "ranknet-ensemble-taug-bonsai": "RankNet(Bonsai + Taug(Bonsai))",
    "ranknet-dismec": "RankNet(DiSMEC)", "ranknet-taug-dismec": "RankNet(Taug(DiSMEC))",
    "ranknet-ensemble-taug-dismec": "RankNet(DiSMEC + Taug(DiSMEC))",
}  # fmt: skip


def _gains(lab: Lab, module: str, bases: Iterable[str]) -> str:
    """The form of the paper's tables 2 and 3: a base without the module, and what the module adds."""
    cells = []
    for kind in ("PSP", "PSnDCG", "macro-F1", "coverage"):
        names = [f"{kind}@{k}" for k in (1, 3, 5)]
        for base in bases:
            without, with_it = lab.metrics("eurlex57k", base), lab.metrics("eurlex57k", f"{module}-{base}")
            gains = [with_it[name] - without[name] for name in names]
            gains.append(sum(gains) / len(gains))
            cells.append([f"{BASES[base]}, {kind}@k", *decimals(without, names), *(f"{gain:+.2f}" for gain in gains)])
    return markdown_table(["", "k = 1", "3", "5", "gain, k = 1", "3", "5", "mean gain"], cells)


@table("tail-ranknet-gains")
def _ranknet_gains(lab: Lab) -> str:
    return _gains(lab, "ranknet", BASES)


@table("tail-taug-gains")
def _taug_gains(lab: Lab) -> str:
    return _gains(lab, "taug", ("bonsai", "dismec", "dismec-pw-cb"))


@table("tail-ranknet-precision")
def _ranknet_precision(lab: Lab) -> str:
    """The form of the paper's table 5: what RankNet does to P@k and nDCG@k."""
    names = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")
    cells = []
    for base, title in BASES.items():
        for recipe, shown in ((base, title), (f"ranknet-{base}", f"RankNet({title})")):
            cells.append([shown, *decimals(lab.metrics("eurlex57k", recipe), names)])
    return markdown_table(["model", *names], cells)


@table("tail-beside")
def _beside(lab: Lab) -> str:
    names = ("PSP@1", "PSP@3", "PSP@5", "P@1", *BESIDE_PSP)
    rows = [[title, *decimals(lab.metrics("eurlex57k", recipe), names)] for recipe, title in BESIDE.items()]
    return markdown_table(["model", *names], rows)


@table("tail-levers")
def _levers(lab: Lab) -> str:
    names = (*METRICS, "tail R@5", "train s")
    cells = []
    for recipe, title in LEVERS.items():
        result = lab.runs["eurlex57k"][recipe]
        extra = {"tail R@5": 100 * result["bands"]["tail"]["recall"], "train s": result["train_s"]}
        cells.append([title, *decimals(result["metrics"] | extra, names)])
    return markdown_table(["model", *names], cells)
