"""The process that `longtail serve` is: it binds the address and keeps workers running.

A worker that ends unasked is replaced. SIGTERM and SIGINT end all workers, which finish what they have accepted; SIGHUP
makes them load models that have changed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from longtail.core.unfinished import temporary_folder
from longtail.errors import ModelError, ParameterError
from longtail.serve.app import check_installed
from longtail.serve.farewell import Farewell
from longtail.serve.feedback import make_folder
from longtail.serve.settings import Settings, to_json

logger = logging.getLogger(__name__)

CANNOT_LOAD = 3  # exit code of a worker: starting another would not help
_QUICK = 5.0  # seconds: a worker that ends sooner is not replaced at once
_MOST_QUICK = 5  # in a row, and the service gives up
_MARGIN = 0.2  # seconds
_BACKLOG = 1024  # connections that the system keeps until a worker takes them


class Supervisor:
    """Workers around one listening socket.

    Parameters
    ----------
    settings : Settings
        Settings of the service.
    """

    def __init__(self, settings: Settings) -> None:
        check_installed()
        self.settings = settings
        self.listening = bind(settings.host, settings.port)
        self.port: int = self.listening.getsockname()[1]
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._started: dict[int, float] = {}
        self._stopping = False
        self._again = False
        self._folder = ExitStack()
        self._numbers = str(self._folder.enter_context(temporary_folder()))

    def run(self, say: Callable[[str], None]) -> int:
        """Serve until a signal comes.

        Parameters
        ----------
        say : callable
            Tells the user something.

        Returns
        -------
        int
            Exit code.
        """
        allow_connections(self.settings.max_connections)
        if self.settings.feedback is not None:
            make_folder(self.settings.feedback)
        wanted = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._refresh}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        try:
            for _ in range(self.settings.workers):
                self._start()
            say(f"serving {', '.join(self.settings.models)} at http://{host}:{self.port}/ (Ctrl-C ends it)")
            return self._watch(say)
        finally:
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)
            self._folder.close()

    def _watch(self, say: Callable[[str], None]) -> int:
        quick = 0
        while not self._stopping:
            time.sleep(0.1)  # a signal ends it early
            if self._again:
                self._again = False
                self._signal_all(signal.SIGHUP)
            for pid, worker in list(self._workers.items()):
                code = worker.poll()
                if code is None or self._stopping:
                    continue
                self._forget(pid)
                if code == CANNOT_LOAD and not self._workers:
                    raise ModelError("the models cannot be loaded; the line above says why")
                said = f"signal {-code}" if code < 0 else f"exit code {code}"
                quick = quick + 1 if time.monotonic() - self._started.pop(pid) < _QUICK else 0
                if quick >= _MOST_QUICK and not self._workers:
                    raise ModelError(f"{quick} workers in a row ended at once ({said}); the lines above may say why")
                with contextlib.suppress(OSError):  # a full disk under stderr is no reason to end
                    say(f"warning: worker {pid} ended ({said}); starting another")
                if quick:
                    time.sleep(1)
                self._start("loaded")
        return 0

    def _start(self, when: str = "at once") -> None:
        """Start a worker that takes requests at once, or, where others may be there, when its models are loaded."""
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": self._numbers}
        descriptor = self.listening.fileno()
        # A worker that is not ready for SIGHUP would be ended by it: it waits until the worker takes it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            worker = subprocess.Popen(
                [sys.executable, "-m", "longtail.serve.worker", str(descriptor), when, str(os.getpid())],
                stdin=subprocess.PIPE, pass_fds=[descriptor], env=environment,
                process_group=0,  # Ctrl-C reaches this process alone, which then tells the workers
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert worker.stdin is not None
        with contextlib.suppress(BrokenPipeError), worker.stdin:
            worker.stdin.write(to_json(self.settings).encode())
        self._workers[worker.pid], self._started[worker.pid] = worker, time.monotonic()

    def _end_all(self) -> None:
        """Ask all workers to end, and wait until they have finished; those that do not are killed."""
        self._signal_all(signal.SIGTERM)
        drained = time.monotonic() + self.settings.drain + _MARGIN
        until = drained + self.settings.time_limit + 10
        farewell = Farewell(self.listening)
        while any(worker.poll() is None for worker in self._workers.values()) and time.monotonic() < until:
            if time.monotonic() > drained:
                farewell.step()
            time.sleep(0.02)
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        farewell.finish()

    def _signal_all(self, number: int) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(number)

    def _forget(self, pid: int) -> None:
        del self._workers[pid]
        with contextlib.suppress(OSError):
            from prometheus_client.multiprocess import mark_process_dead

            mark_process_dead(pid, self._numbers)  # type: ignore[no-untyped-call]

    def _stop(self, _number: int, _frame: Any) -> None:
        self._stopping = True

    def _refresh(self, _number: int, _frame: Any) -> None:
        self._again = True


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise ParameterError if the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        raise ParameterError(f"cannot listen on {host} port {port}: {error.strerror}; use --host or --port") from error
    listening.set_inheritable(True)
    return listening


def allow_connections(number: int) -> None:
    """Raise the limit on open files, as far as the system allows, so that `number` connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 256
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
