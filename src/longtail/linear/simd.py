"""Two primitives of the label-blocked solver, written as vector instructions.

A block holds the weights of `BLOCK` labels side by side: row f of `W` (features, BLOCK) is BLOCK contiguous floats. For
one sparse point the solver needs

    dots:  z[b] = sum over its features f of x_f * W[f, b]      (all labels at once)
    adds:  W[f, b] += x_f * d[b]

From plain Numba loops, LLVM produces code that keeps `z` in memory and spends its time storing and reloading it. With
`z` in vector registers the same arithmetic runs about four times as fast. This file emits the two loops in that form;
the tests compare them with plain NumPy.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK = 32  # labels trained together: a row of W is two 512-bit (or four 256-bit) registers of float32
_LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), _LANES)
_INT64 = ir.IntType(64)
_CONTRACT = ("contract",)  # a * b + c may become one fused instruction; nothing else is reordered


@intrinsic
def block_dots(typing_context, W, indices, values, start, end, z):
    """Set z[:] to the sum of values[p] * W[indices[p], :] for p in start..end-1."""
    signature = types.void(W, indices, values, types.int64, types.int64, z)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        W, indices, values, z = (_pointer(context, builder, signature, args, k) for k in (0, 1, 2, 5))
        zero = ir.Constant(_VECTOR, [0.0] * _LANES)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in _groups()]  # promoted to registers by LLVM
        with cgutils.for_range_slice(builder, args[3], args[4], _INT64(1)) as (p, _):
            x = _splat(builder, builder.load(builder.gep(values, [p])))
            row = _row(builder, W, indices, p)
            for group, total in zip(_groups(), sums, strict=True):
                product = builder.fmul(x, _load(builder, row, group), flags=_CONTRACT)
                builder.store(builder.fadd(product, builder.load(total), flags=_CONTRACT), total)
        for group, total in zip(_groups(), sums, strict=True):
            _store(builder, builder.load(total), z, group)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def block_adds(typing_context, W, indices, values, start, end, d):
    """Add values[p] * d[:] to W[indices[p], :] for p in start..end-1."""
    signature = types.void(W, indices, values, types.int64, types.int64, d)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        W, indices, values, d = (_pointer(context, builder, signature, args, k) for k in (0, 1, 2, 5))
        steps = [_load(builder, d, group) for group in _groups()]
        with cgutils.for_range_slice(builder, args[3], args[4], _INT64(1)) as (p, _):
            x = _splat(builder, builder.load(builder.gep(values, [p])))
            row = _row(builder, W, indices, p)
            for group, step in zip(_groups(), steps, strict=True):
                product = builder.fmul(x, step, flags=_CONTRACT)
                _store(builder, builder.fadd(product, _load(builder, row, group), flags=_CONTRACT), row, group)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def prefetch(typing_context, array, position):
    """Fetch the cache line of array[position] (flat) ahead of its use; never faults."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        ask = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]), "llvm.prefetch.p0"
        )
        address = builder.gep(_pointer(context, builder, signature, args, 0), [args[1]])
        builder.call(ask, [builder.bitcast(address, byte), flag(0), flag(3), flag(1)])  # read, keep, data
        return context.get_dummy_value()

    return signature, generate


def _groups() -> range:
    return range(0, BLOCK, _LANES)


def _pointer(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    return context.make_array(signature.args[k])(context, builder, args[k]).data


def _row(builder: Any, W: Any, indices: Any, p: Any) -> Any:
    feature = builder.zext(builder.load(builder.gep(indices, [p])), _INT64)
    return builder.gep(W, [builder.mul(feature, _INT64(BLOCK))])


def _splat(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    lane = ir.IntType(32)
    first = builder.insert_element(undefined, value, lane(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES))


def _load(builder: Any, pointer: Any, group: int) -> Any:
    vector = builder.load(_as_vector(builder, pointer, group))
    vector.align = 4  # NumPy guarantees no more than the alignment of a float
    return vector


def _store(builder: Any, vector: Any, pointer: Any, group: int) -> None:
    builder.store(vector, _as_vector(builder, pointer, group)).align = 4


def _as_vector(builder: Any, pointer: Any, group: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [_INT64(group)]), _VECTOR.as_pointer())
