"""Emit LLVM code that works on the lanes of a block as vectors, written as if they were numbers.

From a plain loop over the lanes with several arrays, reductions and divisions Numba makes scalar code: 32 times the
instructions. `Lanes` is a part of a block in a register; its operators emit one vector instruction each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any

from llvmlite import ir

BLOCK = 32  # labels trained together: a row of W is two 512-bit (or four 256-bit) registers of float32
LANES = 16
VECTOR = ir.VectorType(ir.FloatType(), LANES)
INT64 = ir.IntType(64)
_CONTRACT = ("contract",)  # a * b + c may become one fused instruction; nothing else is reordered


class Lanes:
    """A vector of float32 lanes, or of comparisons of them, in code that is being emitted."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._with(self.builder.fadd, other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._with(self.builder.fsub, other)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._with(self.builder.fmul, other)

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self._with(self.builder.fdiv, other)

    def __rsub__(self, other: float) -> Lanes:
        return Lanes(self.builder, self._operand(other)) - self

    def __gt__(self, other: Lanes | float) -> Lanes:
        """Compare lane by lane; False where a side is NaN."""
        return Lanes(self.builder, self.builder.fcmp_ordered(">", self.value, self._operand(other)))

    def differs(self, other: Lanes | float) -> Lanes:
        """Compare lane by lane; True where a side is NaN."""
        return Lanes(self.builder, self.builder.fcmp_unordered("!=", self.value, self._operand(other)))

    def __or__(self, other: Lanes) -> Lanes:
        return Lanes(self.builder, self.builder.or_(self.value, other.value))

    def at_least(self, least: Lanes | float) -> Lanes:
        """Return the larger of both; NaN stays NaN."""
        least_value = self._operand(least)
        below = self.builder.fcmp_ordered("<", self.value, least_value)
        return Lanes(self.builder, self.builder.select(below, least_value, self.value))

    def at_most(self, most: Lanes) -> Lanes:
        """Return the smaller of both; NaN stays NaN."""
        above = self.builder.fcmp_ordered(">", self.value, most.value)
        return Lanes(self.builder, self.builder.select(above, most.value, self.value))

    def where(self, chosen: Lanes, other: Lanes) -> Lanes:
        """Return the first where this comparison is true, else the second."""
        return Lanes(self.builder, self.builder.select(self.value, chosen.value, other.value))

    def _with(self, operation: Callable[..., Any], other: Lanes | float) -> Lanes:
        return Lanes(self.builder, operation(self.value, self._operand(other), flags=_CONTRACT))

    def _operand(self, other: Lanes | float) -> Any:
        return other.value if isinstance(other, Lanes) else ir.Constant(VECTOR, [float(other)] * LANES)


def groups() -> range:
    """Return where the vectors of a block begin."""
    return range(0, BLOCK, LANES)


def any_lane(comparisons: Iterable[Lanes]) -> Any:
    """Return, as an LLVM boolean, whether a comparison is true in some lane of some vector."""
    either = reduce(or_, comparisons)
    bits = ir.IntType(LANES)
    return either.builder.icmp_unsigned("!=", either.builder.bitcast(either.value, bits), bits(0))


def splat(builder: Any, value: Any) -> Lanes:
    """Return a number in every lane."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    lane = ir.IntType(32)
    first = builder.insert_element(undefined, value, lane(0))
    everywhere = ir.Constant(ir.VectorType(lane, LANES), [0] * LANES)
    return Lanes(builder, builder.shuffle_vector(first, undefined, everywhere))


def load(builder: Any, pointer: Any, group: int) -> Lanes:
    """Read the lanes from `group` on."""
    vector = builder.load(_as_vector(builder, pointer, group))
    vector.align = 4  # NumPy guarantees no more than the alignment of a float
    return Lanes(builder, vector)


def store(builder: Any, lanes: Lanes, pointer: Any, group: int) -> None:
    """Write the lanes from `group` on."""
    builder.store(lanes.value, _as_vector(builder, pointer, group)).align = 4


def pointer_to(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    """Return the address of the first number of the array that is argument k."""
    return context.make_array(signature.args[k])(context, builder, args[k]).data


def row_of(builder: Any, pointer: Any, row: Any) -> Any:
    """Return the address of a row of an array (rows, BLOCK)."""
    return builder.gep(pointer, [builder.mul(row, INT64(BLOCK))])


def _as_vector(builder: Any, pointer: Any, group: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [INT64(group)]), VECTOR.as_pointer())
