"""Fields of a form: URL-encoded, as Annif's clients send them, or multipart."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from longtail.serve.problems import Problem

FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 1_500  # excluded labels, up to 1,000, are one field each
_MANY_ESCAPES = 2_000  # %XX in a form, decoded in half a millisecond


async def fields_of(request: Request) -> dict[str, list[str]]:
    """Return the values of each field of a form.

    Parameters
    ----------
    request : Request
        Request with a form as its body.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    Problem
        If the body is not a form, or not UTF-8.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        # Starlette's parser takes a body byte by byte, which for a long text is slower than the prediction.
        return await fields_in(await request.body())
    if kind == "multipart/form-data":
        try:
            async with request.form(max_files=0, max_fields=_MOST_FIELDS, max_part_size=2**31) as form:
                pairs = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        except Problem:
            raise
        except HTTPException as error:
            raise Problem(400, f"the body is not a form: {error.detail}") from error
    else:
        raise Problem(415, f"Content-Type is {kind or 'missing'!r}; send {FORM}")
    return _by_name(pairs)


async def fields_in(body: bytes) -> dict[str, list[str]]:
    """Return the values of each field of a URL-encoded form.

    Letters that are not ASCII are two to four escapes each, and decoding a long Greek or Chinese text takes a second: a
    thread does it, so that others are answered meanwhile.
    """
    if body.count(b"%") > _MANY_ESCAPES:
        return _by_name(await asyncio.to_thread(_pairs, body))
    return _by_name(_pairs(body))


def _by_name(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


def _pairs(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError as error:
        raise Problem(400, f"the form is not URL-encoded UTF-8 ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        raise Problem(400, f"the form has too many fields; at most {_MOST_FIELDS:,} are allowed") from error


Form = TypeVar("Form", bound=BaseModel)


def checked(form: type[Form], fields: dict[str, Any]) -> Form:
    """Return a form with checked values, or raise a problem that names the field."""
    try:
        return form(**fields)
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        place = ".".join(map(str, mistake["loc"]))
        raise Problem(400, f"{place}: {mistake['msg'][:1].lower()}{mistake['msg'][1:]}") from error
