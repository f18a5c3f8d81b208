"""Steps of coordinate descent for all lanes of a block at once, written as vector instructions.

For one point, with z = w.x, label y and cost c per lane (`linear/kernels.py` has the formulas), each of these adds the
primal loss and the dual value f(a) to sums[0] and sums[1]:

    squared_hinge_step, hinge_step   move the dual variables of live lanes, set `step` to what is to be added along x,
                                     add the change of |w|^2 that follows to sums[2],
                                     return whether any lane changed and whether any live lane has a > 0
    squared_hinge_look, hinge_look   return whether any live lane is not settled: a > 0, or a margin on the wrong side

`duals` is (points, BLOCK), of which row i is the point's; `live` is 1 or 0 per lane. The tests compare them with plain
NumPy. With the logistic loss, exp and log take most of the time, and a plain loop serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from longtail.linear.vectors import BLOCK, Lanes, any_lane, groups, load, pointer_to, row_of, splat, store

_TINY = 1e-30

_Move = Callable[[Lanes, Lanes, Lanes, Lanes], Lanes]  # slack, a, cost, |x|^2 -> the new a
_Terms = Callable[[Lanes, Lanes, Lanes], tuple[Lanes, Lanes]]  # slack, a, cost -> primal loss, f(a)


def _squared_hinge_move(slack: Lanes, a: Lanes, cost: Lanes, norm: Lanes) -> Lanes:
    twice = cost + cost  # 1 / d of the formula, by which numerator and denominator are multiplied
    return (a + (twice * slack - a) / (twice * norm + 1.0)).at_least(0.0)


def _squared_hinge_terms(slack: Lanes, a: Lanes, cost: Lanes) -> tuple[Lanes, Lanes]:
    lost = slack.at_least(0.0)
    return cost * lost * lost, a - a * a * 0.25 / cost


def _hinge_move(slack: Lanes, a: Lanes, cost: Lanes, norm: Lanes) -> Lanes:
    return (a + slack / norm.at_least(_TINY)).at_least(0.0).at_most(cost)  # an empty row without bias has norm 0


def _hinge_terms(slack: Lanes, a: Lanes, cost: Lanes) -> tuple[Lanes, Lanes]:
    return cost * slack.at_least(0.0), a


def _step(move: _Move, terms: _Terms) -> Any:
    def step_of_lanes(typing_context, z, y, c, norm, weight, duals, i, live, step, sums):
        """Take the step of point i in every live lane."""
        both = types.UniTuple(types.boolean, 2)
        signature = both(z, y, c, types.float32, types.float32, duals, types.int64, live, step, sums)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            z, y, c, duals, live, step, sums = (
                pointer_to(context, builder, signature, args, k) for k in (0, 1, 2, 5, 7, 8, 9)
            )
            norm, weight, dual = splat(builder, args[3]), splat(builder, args[4]), row_of(builder, duals, args[6])
            changed, held = [], []
            for group in groups():
                a, sign, lives = (load(builder, row, group) for row in (dual, y, live))
                cost = load(builder, c, group) * weight
                score = load(builder, z, group)
                slack = 1.0 - sign * score
                new = (lives > 0.0).where(move(slack, a, cost, norm), a)
                store(builder, new, dual, group)
                along = (new - a) * sign
                store(builder, along, step, group)
                grown = along * (score + score + along * norm)
                _add(builder, (*terms(slack, new, cost), grown), sums, group)
                changed.append(new.differs(a))
                held.append(new * lives > 0.0)
            return cgutils.pack_array(builder, [any_lane(changed), any_lane(held)])

        return signature, generate

    return intrinsic(step_of_lanes)


def _look(terms: _Terms) -> Any:
    def look_at_lanes(typing_context, z, y, c, weight, duals, i, live, sums):
        """Measure point i in every lane, without moving anything."""
        signature = types.boolean(z, y, c, types.float32, duals, types.int64, live, sums)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            z, y, c, duals, live, sums = (pointer_to(context, builder, signature, args, k) for k in (0, 1, 2, 4, 6, 7))
            weight, dual = splat(builder, args[3]), row_of(builder, duals, args[5])
            unsettled = []
            for group in groups():
                a, lives = load(builder, dual, group), load(builder, live, group)
                slack = 1.0 - load(builder, y, group) * load(builder, z, group)
                _add(builder, terms(slack, a, load(builder, c, group) * weight), sums, group)
                unsettled.append(slack.at_least(a) * lives > 0.0)
            return any_lane(unsettled)

        return signature, generate

    return intrinsic(look_at_lanes)


def _add(builder: Any, terms: tuple[Lanes, ...], sums: Any, group: int) -> None:
    for row, term in enumerate(terms):
        place = row * BLOCK + group
        store(builder, load(builder, sums, place) + term, sums, place)


squared_hinge_step = _step(_squared_hinge_move, _squared_hinge_terms)
hinge_step = _step(_hinge_move, _hinge_terms)
squared_hinge_look = _look(_squared_hinge_terms)
hinge_look = _look(_hinge_terms)
