"""longtail bench: recipes in, result files and tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def bench(
    recipes: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RECIPE...", help="Recipe files (TOML); without any, only the pages are renewed."),
    ] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where datasets lie; default: $LONGTAIL_DATA, else ../shared/data."),
    ] = None,
    docs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results.md and results/ are written.")] = Path(
        "docs"
    ),
    cache: Annotated[Path, typer.Option(metavar="FOLDER", help="Where text features are kept.")] = Path(
        ".cache/features"
    ),
) -> None:
    """Run recipes, each in a process of its own, and add them to the results table.

    A recipe whose data are absent is not run, and is named; the exit code is 2 only if none could be run.
    """
    from longtail.app.console import fail, print_table, say
    from longtail.bench.prepare import MissingData
    from longtail.bench.recipe import find_data_root, read_recipe
    from longtail.bench.results import TABLE, check_writable, table_rows, write_markdown, write_result
    from longtail.bench.run import run_recipe
    from longtail.errors import DataError, LongtailError

    parsed = [read_recipe(path) for path in recipes or ()]  # all mistakes before the first long run
    check_writable(docs / "results")
    results, failed = [], False
    for number, recipe in enumerate(parsed, 1):
        root = find_data_root(data_root, recipe.path)
        say(f"[{number}/{len(parsed)}] {recipe.title} ...")
        try:
            result = run_recipe(recipe, root, cache)
        except MissingData as error:
            say(f"not run: {recipe.path}: {error}")
            continue
        except LongtailError as error:  # one that fails must not cost the others their hours
            fail(str(error))
            failed = True
            continue
        results.append(result)
        write_result(result, docs / "results")
        say(f"{recipe.title}: train {result['train_s']:.1f} s, P@1 {result['metrics']['P@1']:.2f}")
    if parsed and not results and not failed:
        raise DataError("none of the recipes could be run")
    write_markdown(docs)
    for dataset in dict.fromkeys(result["dataset"] for result in results):
        chosen = [result for result in results if result["dataset"] == dataset]
        print_table(dataset, list(TABLE), table_rows(chosen))
    say(f"wrote {docs / 'results.md'}")
    if failed:
        raise typer.Exit(2)
