"""Which devices a training or a prediction uses, and what is said where there is none."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from longtail.errors import LongtailError, MissingExtraError, ParameterError, first_line
from longtail.linear.gpu.backend import Backend

logger = logging.getLogger(__name__)

DEVICES = ("cpu", "cuda", "auto")


def open_gpus(loss: str, width: int) -> list[Backend]:
    """Return every GPU of this machine, ready to train.

    Parameters
    ----------
    loss : {"squared-hinge", "hinge", "logistic"}
        Loss function.
    width : int
        Labels per chain.

    Raises
    ------
    MissingExtraError
        If CuPy is not installed.
    ParameterError
        If there is no GPU, or CuPy cannot use it.
    """
    n_gpus = _count_gpus()
    from longtail.linear.gpu.cuda import CudaBackend

    return [CudaBackend(number, loss, width) for number in range(n_gpus)]


def gpus_for(device: str, loss: str, width: int, *, what: str) -> list[Backend]:
    """Return the GPUs for a `device` of the user: none for "cpu", or for "auto" where there is none, which is said.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
        What the user asked for.
    loss : {"squared-hinge", "hinge", "logistic"}
        Loss function.
    width : int
        Labels per chain.
    what : str
        What is about to be done, e.g. "training".
    """
    if device == "cpu":
        return []
    try:
        return open_gpus(loss, width)
    except LongtailError as error:
        if device == "cuda":
            raise
        say_fallback(what, error)
        return []


def say_fallback(what: str, error: LongtailError) -> None:
    """Say that the CPU does the work, and why."""
    logger.warning("device='auto': %s on the CPU, because %s", what, error)


def _count_gpus() -> int:
    try:
        cupy: Any = importlib.import_module("cupy")
    except ModuleNotFoundError as error:
        raise MissingExtraError("CuPy", "gpu", "device='cuda'") from error
    except ImportError as error:  # installed, but its libraries or the driver are not
        raise ParameterError(
            f"CuPy cannot be used here ({first_line(error)}); install the CuPy that fits the driver, "
            "or set device='cpu'"
        ) from error
    try:
        n_gpus = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ParameterError(
            f"device is 'cuda', but no GPU can be used ({first_line(error)}); check nvidia-smi, install a CuPy that "
            "fits the driver, or set device='cpu' or 'auto'"
        ) from error
    if n_gpus == 0:
        raise ParameterError("device is 'cuda', but there is no GPU here; set device='cpu' or 'auto'")
    return n_gpus


def chain_width(n_points: int, n_values: int) -> int:
    """Return how many labels take their steps together: the longer the rows, the fewer, so that lanes share a row.

    Measured on an H200 (`python -m benchmarks.linear.gpu --tune`): 8 is best at 136 values per point, 16 at 77 and,
    with 32, at 37, 32 at 12.
    """
    return 8 if n_values > 96 * n_points else 16 if n_values > 24 * n_points else 32
