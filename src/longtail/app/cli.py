"""The command `longtail`: its subcommands, and how errors end.

Nothing heavy is imported here or at the top of the command modules: `longtail --help` must not load NumPy.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import longtail
from longtail.app import (
    bench,
    calibrate,
    convert,
    demo,
    evaluate,
    explain,
    info,
    models,
    predict,
    report,
    train,
    warm_up,
)
from longtail.app.streams import safe_streams, stopping
from longtail.core.interrupts import plain_interrupts
from longtail.core.plain import plain
from longtail.errors import LongtailError, first_line


class _PlainFlags:
    """Help that shows `--overwrite`, not `--overwrite <bool>`, which looks as if a value had to follow."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters


class _Group(_PlainFlags, TyperGroup):
    """Commands whose mistakes in options are shown without control characters."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _plain_mistakes():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _plain_mistakes():
            return super().invoke(ctx)


@contextmanager
def _plain_mistakes() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # Typer's; it prints them in a frame
            error.message = plain(error.message)  # type: ignore[attr-defined]
        raise


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
app.command(cls=_Command)(calibrate.calibrate)
app.command(cls=_Command)(predict.predict)
app.command(cls=_Command)(evaluate.evaluate)
app.command(cls=_Command)(explain.explain)
app.command(cls=_Command)(report.report)
app.command(cls=_Command)(convert.convert)
app.command(cls=_Command)(info.info)
app.command(cls=_Command)(models.models)
app.command(cls=_Command)(bench.bench)
app.command(cls=_Command)(demo.demo)
app.command("warm-up", cls=_Command)(warm_up.warm_up)


def _show_version(wanted: bool) -> None:
    from longtail.app.console import print_text

    if wanted:
        print_text(longtail.__version__)
        raise typer.Exit


def _list_models(wanted: bool) -> None:
    from longtail.app.console import print_text
    from longtail.core.registry import estimator_names

    if wanted:
        print_text("\n".join(estimator_names()))
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None: ...


def main() -> None:
    """Run the command line; `longtail.app.streams` lists the exit codes."""
    from longtail.app import console

    with safe_streams(), stopping() as signals:
        console.show_warnings()
        try:
            with plain_interrupts():
                app()
        except SystemExit as end:  # how Typer ends, after a Ctrl-C too
            code = end.code
        except KeyboardInterrupt:  # one that Typer has not caught
            code = 130
        except Exception as error:
            code = _failed(error)
        if signals:
            console.say(f"stopped by {signal.Signals(signals[0]).name}")
            code = 128 + signals[0]
    sys.exit(code)


def _failed(error: Exception) -> int:
    """Print an error as one line, by --debug with its traceback, and return the exit code."""
    from longtail.app import console

    if "--debug" in sys.argv[1:2]:
        console.traceback(error)
    if isinstance(error, LongtailError):
        console.fail(str(error))
        return 2
    if isinstance(error, MemoryError):
        console.fail(f"too little memory ({first_line(error)}); give the command more, or less to do: fewer --threads")
        return 2
    if isinstance(error, OSError):
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        console.fail(f"{place}{error.strerror or first_line(error)}")
        return 2
    console.fail(
        f"unexpected {type(error).__name__}: {first_line(error)}; this is a fault of longtail: please report it with "
        "what `longtail --debug ...` prints"
    )
    return 1


if __name__ == "__main__":
    main()
