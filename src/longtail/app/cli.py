"""The command `longtail`: its subcommands, and how errors end.

Nothing heavy is imported here or at the top of the command modules: `longtail --help` must not load NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import longtail
from longtail.app import bench, convert, demo, evaluate, explain, info, models, predict, train, warm_up
from longtail.core.interrupts import plain_interrupts
from longtail.errors import LongtailError


class _PlainFlags:
    """Help that shows `--overwrite`, not `--overwrite <bool>`, which looks as if a value had to follow."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters


class _Group(_PlainFlags, TyperGroup): ...


class _Command(_PlainFlags, TyperCommand): ...


app = typer.Typer(
    name="longtail",
    cls=_Group,
    help="Extreme multi-label classification when labels are many, rare and partly missing.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command(cls=_Command)(train.train)
app.command(cls=_Command)(predict.predict)
app.command(cls=_Command)(evaluate.evaluate)
app.command(cls=_Command)(explain.explain)
app.command(cls=_Command)(convert.convert)
app.command(cls=_Command)(info.info)
app.command(cls=_Command)(models.models)
app.command(cls=_Command)(bench.bench)
app.command(cls=_Command)(demo.demo)
app.command("warm-up", cls=_Command)(warm_up.warm_up)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(longtail.__version__)
        raise typer.Exit


def _list_models(wanted: bool) -> None:
    from longtail.core.registry import estimator_names

    if wanted:
        typer.echo("\n".join(estimator_names()))
        raise typer.Exit


def _be_quiet(wanted: bool) -> None:
    if wanted:
        from longtail.app import console

        console.be_quiet()


def _be_verbose(wanted: bool) -> None:
    if wanted:
        from longtail.app import console

        console.be_verbose()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    list_models: Annotated[
        bool, typer.Option("--list-models", callback=_list_models, is_eager=True, help="Print the names for --model.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", callback=_be_quiet, help="Only results, warnings and errors, no progress.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", callback=_be_verbose, help="Also what the library logs as information.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; a LongtailError is one message and exit code 2, an interrupt is exit code 130."""
    from longtail.app import console

    console.show_warnings()
    try:
        with plain_interrupts():
            app()
    except LongtailError as error:
        console.fail(str(error))
        sys.exit(2)
    except KeyboardInterrupt:  # one that Typer has not caught
        sys.exit(130)


if __name__ == "__main__":
    main()
