"""A part of a benchmark in its own process: its peak memory, caches and compiled kernels are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.common.record import ROOT


def measured_apart(module: str, *arguments: object, environment: Mapping[str, str] | None = None) -> Any:
    """Run `python -m MODULE ARGUMENTS` and return the JSON value in the last line that it prints.

    Parameters
    ----------
    module : str
        The benchmark itself, `__spec__.name`.
    *arguments : object
        Its command line, e.g. a hidden option that measures one size.
    environment : mapping, optional
        Environment variables besides those of this process.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | dict(environment or {})
    )
    return json.loads(done.stdout.splitlines()[-1])
