"""docs/results.md (one table and one picture per dataset) and the full tables of docs/lab."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from benchmarks.common.tables import markdown_table
from longtail.bench.results import TABLE, Result, table_rows
from scripts.pages.lab import PAGE_OF_OTHERS, TITLES, Lab, best_first
from scripts.pages.picture import Point, draw, frontier, in_view, point_of

COLUMNS = (
    "recipe", "P@1", "P@5", "PSP@1", "PSP@5", "macro-F1@5", "coverage@5", "tail R@5", "train s", "model MB"
)  # fmt: skip
MOST_ROWS = 20
BASELINE = "popularity"
DO_NOT_EDIT = "<!-- Made by `python -m scripts.pages` from the JSON files in docs/lab; do not edit. -->"
METRICS_NOTE = (
    "Metrics in percent. PSP@k uses the propensities of the recipe (A = 0.55, B = 1.5 unless said otherwise), always "
    "from training counts. Tail R@5 is the recall at 5 of the labels that hold the last 10 % of the label occurrences "
    "in training. Seconds and peak memory are of training on prepared features, in its own process, after kernels were "
    "compiled; the size of a model is without the vocabulary of a text dataset."
)
ORIGIN_NOTE = (
    "*Command* is how to run it today; *measured by*, where it is given, is what produced the figures, since recipes "
    "and benchmarks have been moved and renamed. *Commit* is that of the source tree which was "
    'measured; "+" behind it means that the working tree had changes that were not committed. Where a note says that '
    "the commit is the one that added the figures, the measured tree was not recorded, and this is the first commit "
    "that has them."
)


def points(lab: Lab, dataset: str) -> list[Point]:
    """Return everything that was measured on a dataset as points; names stand beside recipes and other tools."""
    shown = {result["recipe"] for result in chosen(lab, dataset)}
    found = [point_of(result, labelled=name in shown) for name, result in lab.runs[dataset].items()]
    found += [point_of(result, labelled=True) for result in lab.others(dataset)]
    return found + [point_of(result, labelled=True, peer=True) for result in lab.peers(dataset)]


def chosen(lab: Lab, dataset: str) -> list[Result]:
    """Return our runs that the page names: all of them, or recipes only where there are many."""
    runs = lab.runs[dataset]
    if len(runs) <= MOST_ROWS:
        return list(runs.values())
    return [result for name, result in runs.items() if f"{dataset}/{name}" in lab.recipes]


def pictures(lab: Lab) -> dict[str, bytes]:
    """Return the SVG files by name."""
    return {f"results-{dataset}.svg": draw(points(lab, dataset)) for dataset in lab.runs}


def results_page(lab: Lab) -> str:
    """Return docs/results.md."""
    parts = [
        DO_NOT_EDIT,
        "# Results",
        f"The best models per dataset (at most {MOST_ROWS} rows; other tools and the popularity baseline are always "
        "shown), sorted by the mean of P@1, P@3, P@5, PSP@1, PSP@3, PSP@5. "
        "P@1 says how often the first label is right; PSP@1 is the same with rare labels counting more, since they are "
        "missing more often ([metrics](metrics.md)). *Other tools* are in italics. † marks what was trained on a GPU.",
        METRICS_NOTE,
        "Every run with its commit, date, machine and command: " + ", ".join(
            f"[{TITLES.get(dataset, dataset)}](lab/{dataset}.md)" for dataset in lab.runs
        ) + "; other measurements: [benchmarks](lab/benchmarks.md).",
    ]  # fmt: skip
    for dataset in lab.runs:
        parts += _section(lab, dataset)
    return "\n\n".join(parts) + "\n"


def _section(lab: Lab, dataset: str) -> list[str]:
    title = TITLES.get(dataset, dataset)
    everything = points(lab, dataset)
    outside = sorted(set(everything) - set(in_view(everything)), key=lambda point: (-point.x, point.name))
    named = ", ".join(f"{point.name} ({point.x:.1f}, {point.y:.1f})" for point in outside)
    beyond = "; nothing that was measured is beyond the dashed line" if len(frontier(everything)) > 1 else ""
    pale = "" if all(point.labelled for point in everything) else f" Pale points: [variants](lab/{dataset}.md)."
    left_out = f" Outside the picture: {named}." if outside else ""
    return [
        f"## {title}",
        _sizes(lab, dataset),
        f"![{title}: P@1 against PSP@1 of all models](images/results-{dataset}.svg)",
        f"Up and right is better{beyond}.{pale}{left_out}",
        _short_table(lab, dataset),
    ]


def _sizes(lab: Lab, dataset: str) -> str:
    whole = next(result for result in lab.runs[dataset].values() if result.get("n_features"))
    return (
        f"{whole['n_train']:,} training and {whole['n_test']:,} test points, {whole['n_features']:,} features, "
        f"{whole['n_labels']:,} labels."
    )


def _short_table(lab: Lab, dataset: str) -> str:
    peers = {result["recipe"] for result in lab.peers(dataset)}
    others = {result["recipe"] for result in lab.others(dataset)}
    shown = shortened(best_first([*chosen(lab, dataset), *lab.others(dataset), *lab.peers(dataset)]), peers)
    rows = table_rows(shown, COLUMNS)
    for row, result in zip(rows, shown, strict=True):
        if result["recipe"] in peers:
            row[0] = f"*{row[0]}*"
        elif result["recipe"] in others:
            row[0] = f"[{row[0]}]({PAGE_OF_OTHERS}) †"
        elif "NVIDIA" in result.get("machine", ""):
            row[0] += " †"
    return markdown_table(COLUMNS, rows)


def shortened(rows: list[Result], peers: Collection[str]) -> list[Result]:
    """Return at most MOST_ROWS rows, best first; other tools and the baseline stay, the lowest of our rows go."""
    kept = [row for row in rows if row["recipe"] in peers or row["recipe"] == BASELINE]
    ours = [row for row in rows if row not in kept][: MOST_ROWS - len(kept)]
    return [row for row in rows if row in kept or row in ours]


def dataset_page(lab: Lab, dataset: str) -> str:
    """Return docs/lab/<dataset>.md: every run with all columns, and where each comes from."""
    results = best_first(list(lab.runs[dataset].values()))
    beside = [*lab.peers(dataset), *lab.others(dataset)]
    columns, marks = list(TABLE), _marks(results)
    return "\n\n".join(
        [
            DO_NOT_EDIT,
            f"# {TITLES.get(dataset, dataset)}: all runs",
            f"{_sizes(lab, dataset)} Sorted by the mean of P@1, P@3, P@5, PSP@1, PSP@3, PSP@5; other tools come last. "
            f"The JSON files in `docs/lab/runs/{dataset}/` hold more: all parameters, all metrics, frequency bands, "
            "versions.",
            METRICS_NOTE,
            ORIGIN_NOTE,
            markdown_table(columns, table_rows([*results, *beside], columns)),
            "## Where each row comes from",
            markdown_table(
                ["recipe", "command", "measured by", "commit", "date", "machine"],
                [_provenance(result, marks) for result in [*results, *beside]], left=range(6),
            ),
            *(f"{mark} {note}" for note, mark in marks.items()),
        ]
    ) + "\n"  # fmt: skip


def _marks(results: list[Result]) -> dict[str, str]:
    """Notes of results, each with its mark."""
    notes = dict.fromkeys(result["note"] for result in results if "note" in result)
    return dict(zip(notes, "†‡§¶", strict=False))


def _provenance(result: Result, marks: dict[str, str]) -> list[str]:
    mark = f" {marks[result['note']]}" if "note" in result else ""
    where = [str(result.get(name, "–")) for name in ("commit", "date", "machine")]
    measured_by = f"`{result['measured_by']}`" if "measured_by" in result else ""
    return [f"{result['recipe']}{mark}", f"`{result['command']}`", measured_by, *where]


def benchmarks_page(lab: Lab) -> str:
    """Return docs/lab/benchmarks.md: the tables of all measurement files."""
    parts = [
        DO_NOT_EDIT,
        "# Benchmarks",
        "Measurements beside the recipes, from `docs/lab/benchmarks/*.json`. *History* marks what was measured with "
        "defaults or code that are no longer today's.",
        ORIGIN_NOTE,
    ]
    for name, content in lab.benchmarks.items():
        parts.append(f"## {name}")
        if content.get("history"):
            parts.append(f"*History*: {content['history_note']}.")
        parts += _described(content)
    return "\n\n".join(parts) + "\n"


def _described(content: dict[str, Any]) -> list[str]:
    skipped = {"table", "history", "history_note"}
    plain = {k: v for k, v in content.items() if isinstance(v, (str, int, float, bool)) and k not in skipped}
    fields = markdown_table(["field", "value"], [[key, _short(value)] for key, value in plain.items()], left=(0, 1))
    brought = content.get("table")
    return [brought, fields] if isinstance(brought, str) else [fields]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")
