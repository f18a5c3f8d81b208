"""The tables of serve.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common.tables import markdown_table
from scripts.pages.lab import Lab
from scripts.pages.tables import table


@table("serve")
def _serve(lab: Lab) -> str:
    found = lab.benchmarks["serve"]
    loads = [(f"{row['rate']:.0f} requests per second", row) for row in found["open"]]
    loads.append((f"{found['closed']['clients']} clients without a pause", found["closed"]))
    loads.append((f"{found['batch']['clients']} clients, batches of 32 texts", found["batch"]))
    loads.append((f"twice what it can do: {found['overload']['rate']:,.0f} per second", found["overload"]))
    cells = []
    for name, row in loads:
        rate = row.get("per_second") or row.get("texts_per_second")
        refused = sum(count for status, count in row["statuses"].items() if status != "200")
        share = refused / sum(row["statuses"].values())
        cells.append(
            [
                name, "–" if rate is None else f"{rate:,.0f}", f"{row['p50']:.1f}", f"{row['p99']:.1f}",
                f"{100 * share:.0f} %", f"{row['service_cpu_ms']:.2f}", f"{row['memory_mb']:.0f}",
                f"{100 * row['others_share']:.0f} %",
            ]
        )  # fmt: skip
    columns = [
        "load", "texts per second", "p50, ms", "p99, ms", "refused (503)", "CPU ms per text", "memory, MB",
        "CPU time taken by other programs",
    ]  # fmt: skip
    return markdown_table(columns, cells)


@table("serve-annif")
def _beside_annif(lab: Lab) -> str:
    found = lab.benchmarks.get("serve-annif")
    if found is None:
        return "Not measured yet."
    names = {"longtail": "longtail, DiSMEC of 45,000 laws", "omikuji": f"Annif, omikuji of {found['laws']:,} laws"}
    cells = []
    for name, rows in found["rounds"].items():
        best = {kind: max((row[kind] for row in rows), key=_rate) for kind in ("single", "batch")}
        cells.append(
            [names[name]] + [figure for one in best.values() for figure in (f"{_rate(one):,.0f}", f"{one['p50']:.1f}")]
        )
    cells.append(["longtail / Annif", f"{found['times']['single']:.1f} x", "", f"{found['times']['batch']:.1f} x", ""])
    columns = ["", "single texts per second", "p50, ms", "texts per second in batches of 32", "p50 of a batch, ms"]
    return markdown_table(columns, cells)


def _rate(row: dict[str, Any]) -> float:
    return float(row["texts_per_second"])
