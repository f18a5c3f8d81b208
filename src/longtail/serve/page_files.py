"""The page at /: static files of the package, read once and served from memory."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

PAGE = Path(__file__).parent / "page"
# Nothing is fetched from elsewhere, and no other site may frame the page.
_POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI, folder: Path = PAGE) -> None:
    """Serve the files of a folder at /, its index.html at / itself; without one, / leads to /docs."""
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    for name, file in files.items():
        _add_file(app, "/" if name == "index.html" else f"/{name}", file)
    if "index.html" not in files:
        app.get("/", include_in_schema=False)(_to_docs)


async def _to_docs() -> Response:
    return RedirectResponse("docs")


def _add_file(app: FastAPI, path: str, file: Path) -> None:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    headers = {**_HEADERS, "ETag": tag}

    @app.get(path, include_in_schema=False)
    async def show(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)
