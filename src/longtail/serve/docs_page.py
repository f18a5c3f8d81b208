"""The page at /docs: all addresses with their fields, made from the OpenAPI schema.

FastAPI's own page loads its scripts from elsewhere, and is empty on a machine without a way to the internet.
"""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import FastAPI, Response

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{font:14px ui-monospace,monospace}h2{font-size:1rem;margin:1.5rem 0 0}p,ul{margin:.2rem 0}"
)


def add_docs(app: FastAPI) -> None:
    """Serve the page of an application whose routes are complete."""

    @app.get("/docs", include_in_schema=False)
    async def show_docs() -> Response:
        return Response(_page(app.openapi()), media_type="text/html")


def _page(schema: dict[str, Any]) -> str:
    about = schema["info"]
    operations = [
        _operation(schema, method, path, operation)
        for path, item in schema["paths"].items()
        for method, operation in item.items()
    ]
    title = f"{escape(about['title'])} {escape(about['version'])}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f'<main><h1>{title}</h1><p>{escape(about["description"])} Schema: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(operations)}</main></html>"
    )


def _operation(schema: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    fields = [
        (one["name"], one["in"], one["schema"], one.get("required", False)) for one in operation.get("parameters", [])
    ]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        body = _resolved(schema, content["schema"])
        items = _resolved(schema, body.get("items", {}))
        needed = body.get("required", []) + items.get("required", [])
        properties = {**body.get("properties", {}), **items.get("properties", {})}
        fields += [(name, kind, one, name in needed) for name, one in properties.items()]
    rows = "".join(
        f"<li><code>{escape(name)}</code> ({escape(place)}{', required' if required else ''}) "
        f"{escape(one.get('description', ''))}</li>"
        for name, place, one, required in fields
    )
    said = escape(operation.get("description", ""))
    return f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{said}</p>" + (f"<ul>{rows}</ul>" if rows else "")


def _resolved(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return a schema, or the one that it refers to."""
    found: dict[str, Any] = value
    if "$ref" in value:
        found = schema["components"]["schemas"][value["$ref"].rpartition("/")[2]]
    return found
