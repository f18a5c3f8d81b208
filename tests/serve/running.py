"""The service as a process: started on a free port, waited for, stopped."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN = "from longtail.app.cli import main; main()"


@dataclass
class Running:
    """A service that answers."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    @property
    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(60)


def call(address: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any, Any]:
    """Send a request (bytes: a form, anything else: JSON): status, decoded body, headers."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", data, headers=headers or {})
    if body is not None and not request.has_header("Content-type"):
        kind = "application/x-www-form-urlencoded" if isinstance(body, bytes) else "application/json"
        request.add_header("Content-Type", kind)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status, content, head = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, content, head = error.code, error.read(), error.headers
    is_json = "json" in head.get("content-type", "")
    return status, json.loads(content) if content and is_json else content.decode(), head


def start(*arguments: object, before: str = "", limit: float = 60, ready: int = 200) -> Running:
    """Run `longtail serve ARGUMENTS --port 0`, after the code `before`; wait until /health/ready has the status."""
    log = Path(tempfile.mkstemp(suffix=".log")[1])
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", before + RUN, "serve", *map(str, arguments), "--port", "0"],
            stderr=stream,
        )  # fmt: skip
    until = time.monotonic() + limit
    address = None
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"at (http://\S+)/ ", log.read_text())
        address = found.group(1) if found else None
        try:
            if address and call(address, "/health/ready")[0] == ready:
                return Running(process, address, log)
        except OSError:
            pass
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"the service did not start: {log.read_text()}")
