"""Primitives of the label-blocked solver that read and change weights, written as vector instructions.

A block holds the weights of `BLOCK` labels side by side: row f of `W` (features, BLOCK) is BLOCK contiguous floats. For
one sparse point the solver needs

    dots:  z[b] = sum over its features f of x_f * W[f, b]      (all labels at once)
    adds:  W[f, b] += x_f * d[b]

From plain Numba loops, LLVM produces code that keeps `z` in memory and spends its time storing and reloading it. With
`z` in vector registers the same arithmetic runs about four times as fast. This file emits the loops in that form; the
tests compare them with plain NumPy.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from longtail.linear.vectors import (
    BLOCK,
    INT64,
    LANES,
    VECTOR,
    Lanes,
    any_lane,
    groups,
    load,
    pointer_to,
    row_of,
    splat,
    store,
)

__all__ = ["BLOCK", "any_above", "block_adds", "block_dots", "prefetch"]


@intrinsic
def block_dots(typing_context, W, indices, values, start, end, z):
    """Set z[:] to the sum of values[p] * W[indices[p], :] for p in start..end-1."""
    signature = types.void(W, indices, values, types.int64, types.int64, z)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        W, indices, values, z = (pointer_to(context, builder, signature, args, k) for k in (0, 1, 2, 5))
        zero = ir.Constant(VECTOR, [0.0] * LANES)
        # Promoted to registers by LLVM. Two sums per vector take turns, since an addition waits for the one before.
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in groups()] for _ in range(2)]

        def add(p: Any, totals: list[Any]) -> None:
            x = splat(builder, builder.load(builder.gep(values, [p])))
            row = _weights(builder, W, indices, p)
            for group, total in zip(groups(), totals, strict=True):
                builder.store((x * load(builder, row, group) + Lanes(builder, builder.load(total))).value, total)

        last = builder.sub(args[4], INT64(1))
        with cgutils.for_range_slice(builder, args[3], last, INT64(2)) as (p, _):
            add(p, sums[0])
            add(builder.add(p, INT64(1)), sums[1])
        odd = builder.trunc(builder.sub(args[4], args[3]), ir.IntType(1))
        with builder.if_then(builder.and_(odd, builder.icmp_signed("<", args[3], args[4]))):
            add(last, sums[0])
        for group, *pair in zip(groups(), *sums, strict=True):
            first, second = (Lanes(builder, builder.load(total)) for total in pair)
            store(builder, first + second, z, group)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def block_adds(typing_context, W, indices, values, start, end, d):
    """Add values[p] * d[:] to W[indices[p], :] for p in start..end-1."""
    signature = types.void(W, indices, values, types.int64, types.int64, d)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        W, indices, values, d = (pointer_to(context, builder, signature, args, k) for k in (0, 1, 2, 5))
        steps = [load(builder, d, group) for group in groups()]
        with cgutils.for_range_slice(builder, args[3], args[4], INT64(1)) as (p, _):
            x = splat(builder, builder.load(builder.gep(values, [p])))
            row = _weights(builder, W, indices, p)
            for group, step in zip(groups(), steps, strict=True):
                store(builder, x * step + load(builder, row, group), row, group)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def any_above(typing_context, z, limits):
    """Return whether z[b] > limits[b] in some lane."""
    signature = types.boolean(z, limits)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        z, limits = (pointer_to(context, builder, signature, args, k) for k in (0, 1))
        return any_lane(load(builder, z, group) > load(builder, limits, group) for group in groups())

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
        address = builder.gep(pointer_to(context, builder, signature, args, 0), [args[1]])
        builder.call(ask, [builder.bitcast(address, byte), flag(0), flag(3), flag(1)])  # read, keep, data
        return context.get_dummy_value()

    return signature, generate


def _weights(builder: Any, W: Any, indices: Any, p: Any) -> Any:
    return row_of(builder, W, builder.zext(builder.load(builder.gep(indices, [p])), INT64))
