"""The page at /: static files of the package, read once and served from memory."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request, Response

PAGE = Path(__file__).parent / "page"
# Nothing is fetched from elsewhere, and no other site may frame the page.
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI, folder: Path = PAGE) -> None:
    """Serve the files of a folder at /, its index.html at / itself."""
    for file in sorted(file for file in folder.iterdir() if file.is_file()):
        _add_file(app, "/" if file.name == "index.html" else f"/{file.name}", file)


def _add_file(app: FastAPI, path: str, file: Path) -> None:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    headers = {**_HEADERS, "ETag": tag}

    @app.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)
    async def show(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)
