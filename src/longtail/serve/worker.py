"""One worker process, started by `supervisor`: `python -m longtail.serve.worker DESCRIPTOR WHEN PARENT`.

Settings come by standard input. SIGTERM drains: /health/ready says 503 and answers close their connections, so that
clients go elsewhere; then the listening socket is closed, and the process ends when the last accepted request is
answered. SIGHUP loads models that have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import uvicorn

from longtail.core.plain import plain
from longtail.errors import LongtailError, first_line
from longtail.features.counting import load_kernels
from longtail.serve.app import create_app
from longtail.serve.connections import GuardedProtocol
from longtail.serve.settings import Settings, from_json
from longtail.serve.supervisor import CANNOT_LOAD

# Seconds that the prediction thread may keep the event loop waiting for the interpreter; by default 0.005.
_SWITCH = 0.001
_MARGIN = 2.0  # seconds after which a worker without a supervisor does not wait for the end of its requests any longer
_AT_ONCE = 64  # connections that all workers together accept between two looks at the open ones


class Worker(uvicorn.Server):
    """uvicorn's server, which drains before it ends.

    Parameters
    ----------
    settings : Settings
        Settings of the service.
    """

    def __init__(self, settings: Settings) -> None:
        app, self.service = create_app(settings, self._stop_now)
        GuardedProtocol.idle_limit, GuardedProtocol.max_connections = settings.idle_limit, settings.max_connections
        GuardedProtocol.gate = app
        self.settings = settings
        self._accepting: list[socket.socket] = []
        self._opening: set[asyncio.Task[Any]] = set()
        self._asked_to_end = False
        super().__init__(
            uvicorn.Config(
                app,
                http=GuardedProtocol,
                ws="none",  # whatever else is installed
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_keep_alive=max(1, int(settings.idle_limit)),
                timeout_graceful_shutdown=int(settings.time_limit) + 1,
            )
        )

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self.service.draining:  # a second signal
            super().handle_exit(sig, frame)
            return
        self.service.draining = True
        asyncio.get_running_loop().call_soon_threadsafe(self._drain)

    def remember_sigterm(self) -> None:
        """Let SIGTERM wait until this worker serves; before this call, when there is nothing to finish, it ends it.

        uvicorn takes the signal over while it serves, and raises it once more at the end, when nothing must come of it.
        The signal is not blocked instead: other threads, such as those of NumPy, would take it, and it would be lost.
        """

        def remember(_number: int, _frame: Any) -> None:
            self._asked_to_end = True

        signal.signal(signal.SIGTERM, remember)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.service.refresh)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # what came meanwhile is taken now
        if self._asked_to_end:
            self.handle_exit(signal.SIGTERM, None)
        for listening in sockets or []:
            self._accepting.append(listening.dup())
            loop.add_reader(self._accepting[-1], self._accept, self._accepting[-1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in self._accepting:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        if self._opening:  # accepted, but not yet among the connections whose end uvicorn waits for
            await asyncio.wait(self._opening)
        await super().shutdown(sockets)

    def _accept(self, listening: socket.socket) -> None:
        """Take connections that wait: uvloop takes one between two looks at all others, so that many would wait."""
        loop = asyncio.get_running_loop()
        for _ in range(max(_AT_ONCE // self.settings.workers, 1)):
            try:
                connection, _address = listening.accept()
            except OSError:  # there are no more, or another worker has them
                return
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _protocol(self) -> GuardedProtocol:
        return GuardedProtocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def _opened(self, task: asyncio.Task[Any]) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logging.getLogger(__name__).warning("a connection was lost at once: %s", first_line(error))

    def _drain(self) -> None:
        asyncio.get_running_loop().call_later(self.settings.drain, self._stop_now)

    def _stop_now(self) -> None:
        self.should_exit = True


def end_with_parent(parent: int, seconds: float) -> None:
    """Wait until the supervisor was killed, then end this process: nobody would replace it, or stop it.

    Parameters
    ----------
    parent : int
        Process id of the supervisor, which may have been killed already.
    seconds : float
        Time to finish what was accepted, as after SIGTERM. A model that is just being loaded may take longer.
    """
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(seconds)
    os._exit(1)


class PlainLines(logging.Formatter):
    """One line per message, whatever names and paths are in it; lines of a traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return plain(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return "\n".join(f"  {plain(line)}" for line in super().formatException(ei).splitlines())


def main() -> int:
    """Serve until a signal; return the exit code."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(PlainLines("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH)
    load_kernels()
    settings = from_json(sys.stdin.read())
    until_ended = settings.drain + settings.time_limit + _MARGIN
    threading.Thread(target=end_with_parent, args=(int(sys.argv[3]), until_ended), daemon=True).start()
    listening = socket.socket(fileno=int(sys.argv[1]))
    worker = Worker(settings)
    try:
        if sys.argv[2] == "loaded":  # one that takes the place of another: requests wait, or other workers take them
            worker.service.models.refresh()
        worker.remember_sigterm()
        worker.run([listening])
    except KeyboardInterrupt:  # uvicorn raises the signals that it got once more, when it has ended
        return 0
    except LongtailError as error:
        return _failed(error)
    return 0 if worker.service.failed is None else _failed(worker.service.failed)


def _failed(error: BaseException) -> int:
    message = str(error) if isinstance(error, LongtailError) else f"{type(error).__name__}: {first_line(error)}"
    logging.getLogger(__name__).error("%s", message)
    return CANNOT_LOAD


if __name__ == "__main__":
    sys.exit(main())
