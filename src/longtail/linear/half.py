"""Half-precision numbers in kernels, which Numba has no type for on CPUs: arrays of float16 go in as uint16."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

_FLOAT, _INT32 = ir.FloatType(), ir.IntType(32)
# Where the processor converts half precision, one instruction does it for a whole vector.
_CONVERTS = platform.machine() in ("aarch64", "arm64") or bool(binding.get_host_cpu_features().get("f16c"))


@intrinsic
def as_float(typing_context, number):
    """Return a number of an array that went through `weights.raw` as float32."""
    if number == types.float32:
        return types.float32(types.float32), lambda context, builder, signature, args: args[0]
    return types.float32(types.uint16), _from_half


def _from_half(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    if _CONVERTS:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), _FLOAT)
    # Shifted into place, exponent and fraction are those of the number times 2**-112, subnormal ones included.
    bits = builder.zext(args[0], _INT32)
    sign = builder.shl(builder.and_(bits, _INT32(0x8000)), _INT32(16))
    rest = builder.shl(builder.and_(bits, _INT32(0x7FFF)), _INT32(13))
    return builder.fmul(builder.bitcast(builder.or_(sign, rest), _FLOAT), ir.Constant(_FLOAT, 2.0**112))
