"""longtail bench: recipes and studies in, result files and a table out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def bench(
    recipes: Annotated[list[Path], typer.Argument(metavar="RECIPE|STUDY...", help="Recipe and study files (TOML).")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where results are written; default: results/ beside the recipe."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only this variant of the studies; may be given several times."),
    ] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the datasets; default: $LONGTAIL_DATA, else shared/data in a folder above the recipe.",
        ),
    ] = None,
    cache: Annotated[Path, typer.Option(metavar="FOLDER", help="Where text features are kept.")] = Path(
        ".cache/features"
    ),
) -> None:
    """Run recipes and all variants of studies, each in its own process.

    Writes OUT/<dataset>/<recipe>.json per run and prints a table. A file that longtail did not write is never replaced.
    A recipe whose data is absent is named and not run; the exit code is 2 only if none could be run.
    """
    from longtail.app.console import fail, print_table, say
    from longtail.bench.prepare import MissingData
    from longtail.bench.recipe import find_data_root
    from longtail.bench.results import TABLE, check_writable, result_file, table_rows, write_result
    from longtail.bench.run import run_recipe
    from longtail.bench.study import read_experiments
    from longtail.errors import DataError, LongtailError

    # All mistakes before the first long run.
    parsed = read_experiments(recipes, variant or ())
    folders = [out or recipe.path.parent / "results" for recipe in parsed]
    for recipe, folder in zip(parsed, folders, strict=True):
        check_writable(result_file(folder, recipe.dataset, recipe.name))
    results, failed = [], False
    for number, (recipe, folder) in enumerate(zip(parsed, folders, strict=True), 1):
        root = find_data_root(data_root, recipe.path)
        say(f"[{number}/{len(parsed)}] {recipe.title} ...")
        try:
            result = run_recipe(recipe, root, cache)
            file = write_result(result, folder)
        except MissingData as error:
            say(f"not run: {recipe.where}: {error}")
            continue
        except LongtailError as error:  # one that fails must not cost the others their hours
            fail(str(error))
            failed = True
            continue
        results.append(result)
        said = f"train {result['train_s']:.1f} s, P@1 {result['metrics']['P@1']:.2f}"
        if "sets" in result:
            said += f", micro-F1 of sets {result['sets']['micro-F1']:.2f}"
        say(f"{recipe.title}: {said}; wrote {file}")
    if not results and not failed:
        raise DataError("none of the recipes could be run")
    for dataset in dict.fromkeys(result["dataset"] for result in results):
        chosen = [result for result in results if result["dataset"] == dataset]
        print_table(dataset, list(TABLE), table_rows(chosen))
    if failed:
        raise typer.Exit(2)
