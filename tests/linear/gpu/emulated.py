"""kernels.cu itself on a CPU: compiled by g++ with cuda_on_cpu.h, behind the launches that a GPU gets."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from longtail.linear import gpu
from longtail.linear.gpu.backend import STEP_THREADS, LaunchedKernels
from longtail.linear.options import LOSSES

SHIM = Path(__file__).with_name("cuda_on_cpu.h")
KERNELS = Path(gpu.__file__).with_name("kernels.cu")
COMPILER = shutil.which("g++")


class Emulated(LaunchedKernels):
    """A GPU whose kernels run in fibers, with warps interrupted at random."""

    xp = np
    name = "emulated GPU"
    hot = 40
    warps = STEP_THREADS // 32
    processors = 4
    memory_errors: tuple = (MemoryError,)
    device_errors: tuple = ()

    def __init__(self, folder: Path, loss: str, width: int, *more: str) -> None:
        self.width = width
        library = folder / f"kernels-{loss}-{width}{''.join(more)}.so"
        if not library.exists():
            defined = [f"-DLOSS={LOSSES[loss]}", f"-DLB={width}", f"-DNT={STEP_THREADS}", f'-DKERNELS="{KERNELS}"']
            command = [COMPILER, "-O2", "-std=c++17", "-w", "-shared", "-fPIC", "-x", "c++", str(SHIM)]
            subprocess.run([*command, *defined, *more, "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))
        self.launches: list[str] = []

    def active(self):
        return nullcontext()

    def free_bytes(self):
        return 2**28

    def release(self): ...

    def to_host(self, array):
        return np.array(array)

    def _launch(self, kernel, grid, threads, arguments, shared=0):
        held = [self._held(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(value) for value in held))
        assert self.library.launch(kernel.encode(), *grid, threads, pointers) == 0
        self.launches.append(kernel)

    @staticmethod
    def _held(argument):
        if argument is None:
            return ctypes.c_void_p(0)
        if isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            return ctypes.c_void_p(argument.ctypes.data)
        return (ctypes.c_char * argument.nbytes).from_buffer_copy(argument.tobytes())
