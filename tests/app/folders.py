"""What lies in a folder, before and after a command."""

from __future__ import annotations

from pathlib import Path


def everything(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
