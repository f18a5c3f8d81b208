"""Parts of a training on a Ray cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

from longtail.core.engine import Arrays, Engine, Task
from longtail.engine.address import START, check_address
from longtail.engine.flight import Flight, written
from longtail.engine.transport import Sent
from longtail.engine.worker import described, versions
from longtail.errors import EngineError, MissingExtraError, ParameterError, first_line

logger = logging.getLogger(__name__)

_PATIENCE = 60.0  # seconds until a node must have answered
_LONGEST = 500  # characters of what Ray says


class RayEngine(Engine):
    """Runs parts as tasks of a Ray cluster (extra `distributed`).

    This process, the driver, cuts the work into parts, sends what they share once, and keeps the checkpoint. It must
    run on a node of the cluster. Parts of lost nodes and killed workers are computed again.

    Parameters
    ----------
    address : str, default "auto"
        "auto" for the cluster of this machine, HOST:PORT of its head, or "local" to start Ray for this process only.

    Examples
    --------
    >>> with RayEngine("auto") as engine:  # doctest: +SKIP
    ...     DiSMEC().fit(X, Y, run=Run(engine=engine))
    """

    has_helpers = True

    def __init__(self, address: str = "auto") -> None:
        self.address = address
        self.sent: Sent | None = None
        self._started = False
        self._checked: set[str] = set()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Connect to the cluster, unless this process is connected already, and check its nodes.

        Raises
        ------
        ParameterError
            If there is no cluster at the address.
        EngineError
            If a node has other versions.
        MissingExtraError
            If Ray is not installed.
        """
        ray = _ray()
        if not ray.is_initialized():
            self._initialise(ray)
            self._started = True
        self.sent = Sent(ray.put)
        try:
            self.check_nodes()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect; Ray that was started for this process ends."""
        self._checked.clear()
        self.sent = None
        if self._started:
            self._started = False
            _ray().shutdown()

    def _initialise(self, ray: Any) -> None:
        check_address(self.address)
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": None}
        if self.address == "local":
            quiet["include_dashboard"] = False
        # The first part that fails ends the training with its error; Ray would print those of others on the way out.
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        try:
            with _own_signals():
                ray.init(address=self.address, **quiet)
        except ConnectionError as error:
            if self.address == "auto":
                raise ParameterError(f"there is no Ray cluster on this machine; {START}") from error
            raise ParameterError(
                f"the Ray cluster at {self.address} does not let this process in ({first_line(error)}); where it asks "
                "for a token, set RAY_AUTH_MODE=token, with the same token on all nodes"
            ) from error
        except ValueError as error:
            raise ParameterError(f"{self.address!r} is no address of a Ray cluster ({first_line(error)})") from error
        except (RuntimeError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())[:_LONGEST]
            raise ParameterError(
                f"could not join the Ray cluster at {self.address!r}: {reason}; this machine must be one of its nodes, "
                "with the same versions of Python and Ray, and the same token"
            ) from error

    def nodes(self, memory: int = 0) -> list[dict[str, Any]]:
        """Return the nodes that are alive and have a CPU and so many bytes of memory."""
        wanted = {"CPU": 1, "memory": memory}
        return [
            node
            for node in _ray().nodes()
            if node["Alive"] and all(node["Resources"].get(name, 0) >= least for name, least in wanted.items())
        ]

    def check_nodes(self) -> None:
        """Raise EngineError if a node lacks longtail or has another version; one that does not answer is logged."""
        ray = _ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        new = {node["NodeID"]: _name(node) for node in self.nodes() if node["NodeID"] not in self._checked}
        ask = ray.remote(num_cpus=0, max_retries=0)(_probe())
        asked = {
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(): name
            for node, name in new.items()
        }
        answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=_PATIENCE) if asked else ([], [])
        for reference in silent:
            logger.warning("node %s did not answer within %.0f s", asked[reference], _PATIENCE)
        for reference in answered:
            try:
                found = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise EngineError(
                    f"node {asked[reference]} cannot say which versions it has ({first_line(error.cause)}); install "
                    f"{described(versions())} there, as on this machine"
                ) from error
            except ray.exceptions.RayError:
                continue  # it is gone
            if found != versions():
                raise EngineError(
                    f"node {asked[reference]} has {described(found)}, but this machine has {described(versions())}; "
                    "install the same on all nodes, where the Python of Ray finds it, and resume what was interrupted"
                )
        self._checked.update(new)

    def check_memory(self, wanted: int) -> None:
        """Raise EngineError if no node has the memory that one part needs."""
        most = {_name(node): int(node["Resources"].get("memory", 0)) for node in self.nodes()}
        if most and wanted > max(most.values()):
            name = max(most, key=lambda node: most[node])
            raise EngineError(
                f"a part needs {written(wanted)} of memory, but the largest node, {name}, offers "
                f"{written(most[name])}; add larger nodes, or start Ray there with --memory"
            )

    @contextlib.contextmanager
    def results(self, task: Task) -> Iterator[Iterator[Arrays]]:
        if self.sent is None or not _ray().is_initialized():
            self.connect()
        assert self.sent is not None
        self.check_nodes()
        self.check_memory(task.memory)
        flight = Flight(task, self, self.sent)
        try:
            with task.counted(range(len(task.parts)), flight.results()) as counted:
                yield counted
        finally:
            flight.end()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Ray", "distributed", "work on a cluster") from error
    return ray


def _probe() -> Any:
    """Return a function that reports versions; being local, it is sent as code, and needs no longtail to be called."""

    def probe() -> dict[str, str]:
        import platform

        found = {"Python": platform.python_version()}
        try:
            import longtail
        except ImportError:
            return found | {"longtail": "(not installed)"}
        return found | {"longtail": longtail.__version__}

    return probe


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of signals, which Ray replaces: the command line has its own, to keep finished parts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
