"""The tables of "Improving tail label prediction for extreme multi-label learning" with our figures, and the levers
side by side, from docs/results/eurlex57k/*.json (made by `longtail bench recipes/eurlex57k/*.toml`).

    python benchmarks/tail_tables.py

Writes docs/results/tail-modules-NAME.json, which `longtail bench` puts into docs/results.md, and the tables in
docs/tail-modules.md. Recipes without results are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tail_modules import ROOT, write

from longtail.bench.results import markdown_table

BASES = {
    "fastxml": "FastXML",
    "parabel": "Parabel",
    "bonsai": "Bonsai",
    "dismec": "DiSMEC",
    "dismec-pw-cb": "DiSMEC PW-cb",
}
LEVERS = {
    "dismec": "DiSMEC", "dismec-pw-cb": "DiSMEC PW-cb", "taug-dismec": "Taug(DiSMEC)",
    "taug-dismec-pw-cb": "Taug(DiSMEC PW-cb)", "rerank-dismec": "PropensityRerank(DiSMEC)",
    "rerank-dismec-pw-cb": "PropensityRerank(DiSMEC PW-cb)", "ranknet-dismec": "RankNet(DiSMEC)",
    "ranknet-dismec-pw-cb": "RankNet(DiSMEC PW-cb)", "ranknet-taug-dismec": "RankNet(Taug(DiSMEC))",
    "ranknet-ensemble-taug-dismec": "RankNet(DiSMEC + Taug(DiSMEC))",
    "ranknet-taug-dismec-pw-cb": "RankNet(Taug(DiSMEC PW-cb))",
}  # fmt: skip
OTHERS = {
    "pfastrexml": "PfastreXML", "glas": "GLaS", "attentionxml": "AttentionXML", "ranknet-bonsai": "RankNet(Bonsai)",
    "ranknet-taug-bonsai": "RankNet(Taug(Bonsai))", "ranknet-ensemble-taug-bonsai": "RankNet(Bonsai + Taug(Bonsai))",
    "ranknet-dismec": "RankNet(DiSMEC)", "ranknet-taug-dismec": "RankNet(Taug(DiSMEC))",
    "ranknet-ensemble-taug-dismec": "RankNet(DiSMEC + Taug(DiSMEC))",
}  # fmt: skip


def result(recipe: str) -> dict[str, Any] | None:
    file = ROOT / "docs" / "results" / "eurlex57k" / f"{recipe}.json"
    content: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return content


def metrics(recipe: str) -> dict[str, float] | None:
    found = result(recipe)
    return None if found is None else found["metrics"]


def improvements(module: str, bases: Iterable[str]) -> str:
    """The form of the paper's tables 2 and 3: a base without the module, and what the module adds."""
    cells = []
    for kind in ("PSP", "PSnDCG"):
        names = [f"{kind}@{k}" for k in (1, 3, 5)]
        for base in bases:
            without, with_it = metrics(base), metrics(f"{module}-{base}")
            if without is None or with_it is None:
                continue
            gains = [with_it[name] - without[name] for name in names]
            gains.append(sum(gains) / len(gains))
            cells.append(
                [f"{BASES[base]}, {kind}", *(f"{without[n]:.2f}" for n in names), *(f"{g:+.2f}" for g in gains)]
            )
    return markdown_table(["base", "@1", "@3", "@5", "gain @1", "gain @3", "gain @5", "mean gain"], cells)


def precision(module: str, bases: Iterable[str]) -> str:
    """The form of the paper's table 5: what the module does to P@k and nDCG@k."""
    names = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")
    cells = []
    for base in bases:
        for recipe, title in ((base, BASES[base]), (f"{module}-{base}", f"RankNet({BASES[base]})")):
            found = metrics(recipe)
            if found is not None:
                cells.append([title, *(f"{found[name]:.2f}" for name in names)])
    return markdown_table(["model", *names], cells)


def side_by_side(recipes: dict[str, str], names: Iterable[str]) -> str:
    cells = []
    for recipe, title in recipes.items():
        found = result(recipe)
        if found is not None:
            values = found["metrics"] | {
                "tail R@5": 100 * found["bands"]["tail"]["recall"],
                "train s": found["train_s"],
            }
            cells.append([title, *(f"{values[name]:.2f}" for name in names)])
    return markdown_table(["model", *names], cells)


def main() -> None:
    tables = {
        "ranknet-gains": improvements("ranknet", BASES),
        "ranknet-precision": precision("ranknet", BASES),
        "taug-gains": improvements("taug", BASES),
        "others": side_by_side(OTHERS, ("PSP@1", "PSP@3", "PSP@5", "P@1")),
        "levers": side_by_side(
            LEVERS, ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "coverage@5", "tail R@5", "train s")
        ),
    }
    for name, table in tables.items():
        write(name, {"table": table}, command="python benchmarks/tail_tables.py")


if __name__ == "__main__":
    main()
