"""Result files and the page made of them: docs/results.md and README.md only ever repeat what the JSON files say."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from longtail.core import codec
from longtail.core.registry import named_class
from longtail.errors import DataError, LongtailError, OutputError

Result = dict[str, Any]


def _metric(name: str) -> Callable[[Result], str]:
    return lambda result: f"{result['metrics'][name]:.2f}" if name in result["metrics"] else "–"


def _tail_recall(result: Result) -> str:
    return f"{100 * result['bands']['tail']['recall']:.2f}" if result.get("bands") else "–"


TABLE: dict[str, Callable[[Result], str]] = {
    "recipe": lambda result: result["recipe"],
    **{name: _metric(name) for name in ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "coverage@5")},
    "tail R@5": _tail_recall,
    "train s": lambda result: f"{result['train_s']:.1f}",
    "predict s": lambda result: f"{result['predict_s']:.2f}",
    "peak MB": lambda result: f"{result['peak_rss_mb']:.0f}",
    "model MB": lambda result: f"{result['model_mb']:.1f}",
}
README_COLUMNS = ("recipe", "P@1", "P@5", "PSP@1", "PSP@5", "tail R@5", "train s", "model MB")
README_DATASET = "eurlex57k"
README_RECIPES = (
    "popularity", "dismec", "dismec-pw-cb", "bonsai", "bonsai-pw-cb", "rerank-bonsai", "ranknet-dismec", "glas",
    "fastxml",
)  # fmt: skip
README_PEERS = ("PECOS XR-Linear", "omikuji, 3 trees")  # measured beside DiSMEC in one run
_PEERS_FILE = "benchmarks/dismec-eurlex57k"
_BEGIN, _END = "<!-- results: made by longtail bench -->", "<!-- end of results -->"


def check_writable(folder: Path) -> None:
    """Make the folder of the results, or say why not: asked before a run that may take hours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror or error})") from error
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{folder} may not be written to")


def write_result(result: Result, folder: Path) -> Path:
    """docs/results/<dataset>/<recipe>.json"""
    file = folder / str(result["dataset"]) / f"{result['recipe']}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return file


def read_results(folder: Path) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """Runs by dataset, and the other JSON files (fits, benchmarks) by their name."""
    runs: dict[str, list[Result]] = {}
    others: dict[str, Any] = {}
    for file in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"is not JSON ({error})", path=file) from error
        if isinstance(content, dict) and "metrics" in content and "recipe" in content:
            runs.setdefault(content["dataset"], []).append(content)
        else:
            others[file.relative_to(folder).with_suffix("").as_posix()] = content
    return runs, others


def table_rows(results: Iterable[Result], columns: Sequence[str] = tuple(TABLE)) -> list[list[str]]:
    return [[TABLE[column](result) for column in columns] for result in results]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def results_page(folder: Path) -> str:
    """The text of docs/results.md for the JSON files below `folder`."""
    runs, others = read_results(folder)
    parts = [
        "# Results",
        "Made by `longtail bench` from the JSON files in `docs/results/`, which hold more (all parameters, bands of "
        "frequency, all metrics); do not edit.",
        "Metrics in percent; PSP with the propensities of the recipe (A = 0.55, B = 1.5 unless said otherwise), always "
        "from training counts. Tail: the labels that hold the last 10 % of the training label occurrences. Seconds and "
        "peak memory are of training on prepared features, in a process of its own, after kernels were compiled; model "
        "size is without the vocabulary of a text set.",
    ]
    for dataset, results in runs.items():
        parts += [f"## {dataset}", markdown_table(list(TABLE), table_rows(results)), _provenance(dataset, results)]
    if others:
        parts.append("## Other measurements")
        parts += [f"### {name}\n\n{_described(content)}" for name, content in others.items()]
    return "\n\n".join(parts) + "\n"


def _provenance(dataset: str, results: list[Result]) -> str:
    first = results[0]
    sizes = f"{first['n_train']:,} training and {first['n_test']:,} test points, "
    features = next((result["n_features"] for result in results if result["n_features"]), None)
    if features:  # models that read texts have none
        sizes += f"{features:,} features, "
    lines = [f"{sizes}{first['n_labels']:,} labels. `longtail bench recipes/{dataset}/*.toml`"]
    for result in results:
        where = f"commit {result['commit']}, {result['date']}, {result['machine']}"
        lines.append(f"- {result['recipe']}: {_called(result['model'], result['parameters'])}; {where}")
    return "\n".join(lines)


def _called(name: str, parameters: dict[str, Any]) -> str:
    """A model, or a part of one, as one would write it: parameters that are today's defaults are left out."""
    try:
        signature = inspect.signature(named_class(name)).parameters
        usual = {key: codec.encode(parameter.default) for key, parameter in signature.items()}
    except LongtailError:  # of an extra that is not installed here
        usual = {}
    unusual = {key: value for key, value in parameters.items() if key not in usual or usual[key] != value}
    return f"{name}({', '.join(f'{key} = {_plainly(value)}' for key, value in unusual.items())})"


def _plainly(value: Any) -> str:
    if isinstance(value, dict) and "$class" in value:
        return _called(value["$class"], value["params"])
    if isinstance(value, dict) and "$tuple" in value:
        return f"({', '.join(map(_plainly, value['$tuple']))})"
    return f"[{', '.join(map(_plainly, value))}]" if isinstance(value, list) else str(value)


def _described(content: Any) -> str:
    if isinstance(content, dict):
        plain = {k: v for k, v in content.items() if isinstance(v, (str, int, float, bool)) and k != "table"}
        fields = markdown_table(["field", "value"], [[key, _short(value)] for key, value in plain.items()])
        # A benchmark that compares systems brings its table along.
        return f"{content['table']}\n\n{fields}" if isinstance(content.get("table"), str) else fields
    return f"```json\n{json.dumps(content, indent=1)}\n```"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def readme_table(folder: Path) -> str:
    """The README's table: some runs of one dataset beside other people's tools."""
    runs, others = read_results(folder)
    results = {result["recipe"]: result for result in runs.get(README_DATASET, [])}
    chosen = [results[recipe] for recipe in README_RECIPES if recipe in results]
    if not chosen:
        return "No results yet."
    peers = others.get(_PEERS_FILE, {}).get("rows", {})
    beside = [{"recipe": name, "metrics": peers[name], **peers[name]} for name in README_PEERS if name in peers]
    machines = ", ".join(sorted({result["machine"] for result in chosen}))
    table = markdown_table(README_COLUMNS, table_rows([*beside, *chosen], README_COLUMNS))
    return f"{table}\n\n{machines}; commits, commands, every other recipe: [docs/results.md](docs/results.md)."


def with_results(readme: str, folder: Path) -> str:
    """The README's text with its table renewed."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{readme_table(folder)}\n{_END}{after}" if begin and end else readme


def write_markdown(docs: Path) -> None:
    """Renew docs/results.md, and the table of the README beside docs/, from all JSON files."""
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "results.md").write_text(results_page(docs / "results"), encoding="utf-8")
    readme = docs.resolve().parent / "README.md"
    if readme.is_file():
        readme.write_text(with_results(readme.read_text(encoding="utf-8"), docs / "results"), encoding="utf-8")
