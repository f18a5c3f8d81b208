"""Addresses of data that is elsewhere, such as s3://bucket/data.jsonl; imports nothing that takes long."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_SECRETS = re.compile(r"(?<=://)[^/?#]*@|[?#].*$", re.DOTALL)


def is_url(value: Any) -> bool:
    """Return whether a path is an address with a protocol."""
    return isinstance(value, (str, os.PathLike)) and _URL.match(str(os.fspath(value))) is not None


def protocol_of(url: str) -> str:
    """Return what comes before :// in lower case."""
    match = _URL.match(url)
    assert match is not None
    return match[1].lower()


def shown(url: str) -> str:
    """Return an address for messages and records: without a user, a password and what follows a question mark."""
    return _SECRETS.sub("", url)


class UrlPath(type(Path())):  # type: ignore[misc]
    """An address where the command line has paths; `Path` would make one slash of two."""

    def __new__(cls, url: str) -> UrlPath:
        path = super().__new__(cls, url)
        path.url = url
        return path

    def __str__(self) -> str:
        return shown(self.url)

    def __fspath__(self) -> str:
        return str(self.url)


def path_or_url(value: str) -> Path:
    """Return what somebody typed as a path, or as an address where it is one."""
    return UrlPath(value) if is_url(value) else Path(value)
