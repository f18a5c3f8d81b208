"""Dates in files: UTC, to the second, as ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the present time, as in "2026-11-16T19:20:00Z"."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def readable_date(text: str) -> str:
    """Return a date that `now` wrote for people, as in "2026-11-16 19:20 UTC"; another text as it is."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return text
