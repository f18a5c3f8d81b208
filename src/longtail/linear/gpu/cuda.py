"""A CUDA GPU, through CuPy: kernels.cu is compiled by NVRTC when it is first used; CuPy keeps the result on disk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from longtail.errors import ParameterError, first_line
from longtail.linear.gpu.backend import GROUP, STEP_THREADS, LaunchedKernels
from longtail.linear.options import LOSSES

_KERNELS = (
    "build_rows", "fill", "set_positives", "seed_lists", "steps", "look", "make_lists", "norms", "weights_of_duals",
    "prune_count", "prune_fill", "spread", "scores", "merge_top",
)  # fmt: skip
_LEAST_CAPABILITY = (8, 0)  # asynchronous copies to shared memory
_PLAIN_SHARED = 48 * 1024  # more than this is asked for


class CudaBackend(LaunchedKernels):
    """One GPU.

    Parameters
    ----------
    device : int
        Its number.
    loss : {"squared-hinge", "hinge", "logistic"}
        Loss function; compiled into the kernels.
    width : int
        Labels per chain: 4, 8, 16 or 32; compiled into the kernels.
    """

    xp: Any = cupy
    warps = STEP_THREADS // 32
    memory_errors: tuple[type[BaseException], ...] = (cupy.cuda.memory.OutOfMemoryError,)
    device_errors: tuple[type[BaseException], ...] = (
        cupy.cuda.runtime.CUDARuntimeError,
        cupy.cuda.driver.CUDADriverError,
    )

    def __init__(self, device: int, loss: str, width: int) -> None:
        self.device, self.width = cupy.cuda.Device(device), width
        properties = cupy.cuda.runtime.getDeviceProperties(device)
        self.name = f"GPU {device} ({properties['name'].decode()})"
        if (properties["major"], properties["minor"]) < _LEAST_CAPABILITY:
            raise ParameterError(
                f"{self.name} has compute capability {properties['major']}.{properties['minor']}, but 8.0 or more is "
                "needed; set device='cpu'"
            )
        self.processors = int(properties["multiProcessorCount"])
        with self.device:
            self._functions = _compiled(device, LOSSES[loss], width)
        shared = int(self.device.attributes["MaxSharedMemoryPerBlockOptin"])
        self.hot = (shared - self._functions["look"].shared_size_bytes) // (4 * GROUP)

    def active(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.device
        return context

    def free_bytes(self) -> int:
        return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())

    def release(self) -> None:
        cupy.get_default_memory_pool().free_all_blocks()

    def to_host(self, array: Any) -> NDArray[Any]:
        return np.asarray(cupy.asnumpy(array))

    def _launch(self, kernel: str, grid: Sequence[int], threads: int, arguments: tuple, shared: int = 0) -> None:
        function = self._functions[kernel]
        if shared > _PLAIN_SHARED and function.max_dynamic_shared_size_bytes < shared:
            function.max_dynamic_shared_size_bytes = shared
        given = tuple(np.uint64(0) if argument is None else argument for argument in arguments)
        function(tuple(grid), (threads,), given, shared_mem=shared)


@cache
def _compiled(device: int, loss: int, width: int) -> dict[str, Any]:
    """Return the kernels, compiled for a GPU; `device` is the current one."""
    source = (Path(__file__).parent / "kernels.cu").read_text(encoding="utf-8")
    options = (f"-DLOSS={loss}", f"-DLB={width}", f"-DNT={STEP_THREADS}", "-std=c++17")
    module = cupy.RawModule(code=source, options=options)
    try:
        return {name: module.get_function(name) for name in _KERNELS}
    except (cupy.cuda.compiler.CompileException, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise ParameterError(
            f"the GPU kernels could not be compiled ({first_line(error)}); install a CuPy that fits the driver, "
            "or set device='cpu'"
        ) from error
