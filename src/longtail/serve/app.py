"""The ASGI application of one worker."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware

import longtail
from longtail.errors import MissingExtraError
from longtail.serve import metrics, problems
from longtail.serve.annif import annif_routes
from longtail.serve.docs_page import add_docs
from longtail.serve.gate import Gate
from longtail.serve.own import own_routes
from longtail.serve.page_files import add_page
from longtail.serve.service import Service
from longtail.serve.settings import Settings
from longtail.serve.shortcuts import Shortcuts


def check_installed() -> None:
    """Raise MissingExtraError unless the packages of the extra `serve` are there."""
    for package in ("fastapi", "uvicorn", "httptools", "pydantic_settings", "prometheus_client", "python_multipart"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "serve", "longtail serve")


def create_app(settings: Settings, on_failure: Callable[[], None] = lambda: None) -> tuple[Any, Service]:
    """Return the application and the service behind it.

    Parameters
    ----------
    settings : Settings
        Settings of the service.
    on_failure : callable, default nothing
        Called when the models cannot be loaded; `Service.failed` says why.

    Returns
    -------
    (ASGI application, Service)
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start(on_failure)
        yield
        await service.stop()

    app = FastAPI(
        title="longtail", version=longtail.__version__, lifespan=lifespan, redirect_slashes=False, docs_url=None,
        redoc_url=None,
        description="Suggests labels for texts. /v1 is the REST API of Annif; /longtail/v1 has more.",
    )  # fmt: skip
    problems.install(app)
    app.include_router(annif_routes(service))
    app.include_router(own_routes(service))
    _add_health(app, service)
    add_docs(app)
    add_page(app)
    shared = _shared_with(settings.cors_origins)
    gate = Gate(shared(Shortcuts(app, service)), settings, lambda: service.draining, service.queue.too_long, shared)
    return gate, service


def _shared_with(origins: list[str]) -> Callable[[Any], Any]:
    """Return what puts the headers by which browsers let scripts of other origins read an answer around an app."""
    if not origins:
        return lambda app: app
    return lambda app: CORSMiddleware(
        app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["authorization", "content-type"],
        expose_headers=["retry-after"],
    )  # fmt: skip


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/health/live", tags=["health"])
    async def live() -> dict[str, str]:
        """Say that the process runs."""
        return {"status": "live"}

    @app.get("/health/ready", tags=["health"], responses=_NOT_READY)
    async def ready() -> dict[str, str]:
        """Say whether requests are welcome: 503 while models are loaded, and before the service ends."""
        if not service.ready:
            raise problems.busy("draining" if service.draining else "loading models")
        return {"status": "ready"}

    @app.get("/metrics", tags=["health"], response_class=Response, responses=_METRICS)
    def show_metrics() -> Response:
        """Return what the service has counted, in Prometheus' text format."""
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"description": "Loading or draining"}}
_METRICS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
