"""longtail serve: suggestions over HTTP, by Annif's REST API and a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]MODEL", help="Model directories, with ids for addresses.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings of the service (TOML); options here come first.")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="Address to listen on; default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="Port, 0 for a free one; default: 8000.")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Worker processes; default: 1.")] = None,
    feedback: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Store feedback here; default: feedback is off.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Load models again when their directories change (SIGHUP does so once).")
    ] = False,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Require the token in this file of every request.")
    ] = None,
) -> None:
    """Serve models: Annif's REST API (/v1), more (/longtail/v1, /docs), and a page to work with (/).

    Models that read texts suggest labels for them; those trained on features predict rows of features.
    """
    from longtail.app import console
    from longtail.errors import MissingExtraError

    try:
        from longtail.serve.settings import read_settings
        from longtail.serve.supervisor import Supervisor
    except ImportError as error:
        raise MissingExtraError(str(error.name), "serve", "longtail serve") from error
    from longtail.serve.models import check_models

    given: dict[str, Any] = {"host": host, "port": port, "workers": workers, "feedback": feedback}
    settings = read_settings(
        config, **given, token_file=token_file, models=_named(models), watch=2.0 if watch else None
    )
    check_models(settings)
    raise typer.Exit(Supervisor(settings).run(console.say))


def _named(models: list[str] | None) -> dict[str, dict[str, Any]] | None:
    """Return models by id: what stands before =, or the name of the directory."""
    from longtail.errors import ParameterError

    if not models:
        return None
    found: dict[str, dict[str, Any]] = {}
    for given in models:
        name, equals, path = given.partition("=")
        name, path = (name, path) if equals else (Path(given).resolve().name, given)
        if name in found:
            raise ParameterError(f"two models are called {name!r}; give them names: NAME=MODEL")
        found[name] = {"path": Path(path)}
    return found
