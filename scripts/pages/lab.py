"""What was measured: results of recipes and measurement files of benchmarks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from longtail.bench.results import Result, read_results
from longtail.bench.study import read_experiments

TITLES = {
    "eurlex57k": "EURLEX57K", "yso-finna-en": "YSO-Finna (English)", "debian-depends": "Debian dependencies",
    "delicious": "Delicious", "bibtex": "Bibtex",
}  # fmt: skip

# Other people's tools, measured on the same features: rows of peers-DATASET.
PEERS = ("PECOS XR-Linear", "omikuji, 3 trees")
# Rows of measurement files that no single recipe gives: dataset -> (file, configuration, {its ending: title}).
OTHERS = {
    "eurlex57k": (
        "text-models-eurlex57k",
        "xgrank-mpnet-bce + xgrank-mpnet + xgrank-bce + attentionxml-pw-pairs + dismec-pw-cb + dismec-pw-cb-bigrams",
        {"": "ensemble of six", ", exponent 0.04": "ensemble of six, exponent 0.04"},
    ),
}
PAGE_OF_OTHERS = "text-models.md"
ORDER = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")  # rows are sorted by the mean of these


@dataclass(frozen=True)
class Lab:
    """The measurements below a repository's root."""

    root: Path

    @cached_property
    def runs(self) -> dict[str, dict[str, Result]]:
        """Results by dataset and recipe; datasets in the order of TITLES, then by name."""
        found = read_results(self.root / "docs" / "lab" / "runs")
        known = [name for name in TITLES if name in found]
        return {name: found[name] for name in [*known, *sorted(set(found) - set(known))]}

    @cached_property
    def benchmarks(self) -> dict[str, dict[str, Any]]:
        files = sorted((self.root / "docs" / "lab" / "benchmarks").glob("*.json"))
        return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}

    @cached_property
    def recipes(self) -> set[str]:
        """The titles of the recipes that are no variants of studies."""
        return {recipe.title for recipe in read_experiments(sorted((self.root / "recipes").glob("*/*.toml")))}

    def metrics(self, dataset: str, recipe: str) -> dict[str, float]:
        found: dict[str, float] = self.runs[dataset][recipe]["metrics"]
        return found

    def peers(self, dataset: str) -> list[Result]:
        """Rows of other people's tools, in the form of results."""
        content = self.benchmarks.get(f"peers-{dataset}")
        if content is None:
            return []
        measured = ("train_s", "predict_s", "model_mb")
        return [
            {"recipe": name, "metrics": {k: v for k, v in row.items() if "@" in k}}
            | {key: row[key] for key in measured}
            | _origin(content)
            for name in PEERS
            if (row := content["rows"].get(name))
        ]

    def others(self, dataset: str) -> list[Result]:
        """Rows that no single recipe gives, in the form of results."""
        if dataset not in OTHERS:
            return []
        file, configuration, titles = OTHERS[dataset]
        rows = {row["configuration"]: row for row in self.benchmarks[file]["all_metrics"] if row["part"] == "test"}
        metrics = {title: rows[f"{configuration}{end}"] for end, title in titles.items()}
        return [
            {"recipe": title, "model": "ensemble", "metrics": {k: v for k, v in row.items() if "@" in k}}
            | _origin(self.benchmarks[file])
            for title, row in metrics.items()
        ]


def _origin(content: dict[str, Any]) -> Result:
    return {name: content[name] for name in ("command", "measured_by", "commit", "date", "machine") if name in content}


def quality(result: Result) -> float:
    """Return the mean of P@1, P@3, P@5, PSP@1, PSP@3 and PSP@5, by which rows are sorted."""
    return sum(result["metrics"][name] for name in ORDER) / len(ORDER)


def best_first(results: list[Result]) -> list[Result]:
    return sorted(results, key=lambda result: (-quality(result), result["recipe"]))
