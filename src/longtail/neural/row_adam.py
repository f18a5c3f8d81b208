"""Adam for large tables of which a step needs few rows: it costs as much as the rows that have a gradient.

Adam with momentum moves every weight in every step, also those without a gradient. Without momentum (beta1 = 0) a row
without a gradient stays where it is, and all that happens to its mean squared gradient is a decay by beta2 per step,
which is made up for when the row has its next gradient. So the table ends up as if every step had gone through all of
it, which a test holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

Tensor = torch.Tensor

_AT_ONCE = 1 << 17  # weights updated at once on a CPU: half a megabyte per array, so that they stay in its cache


class RowAdam(torch.optim.Optimizer):
    """Adam with beta1 = 0, for sparse gradients (whole rows) and for dense ones, with the same result.

    Parameters
    ----------
    params : iterable
        Parameters or groups of parameters; the first dimension of each is its rows.
    lr : float
        Learning rate.
    eps : float, default 1e-8
        Added to the root of the mean squared gradient.
    weight_decay : float, default 0.0
        Weight decay as in AdamW. It moves every row in every step, so the cost grows with the table.
    beta2 : float, default 0.999
        Decay per step of the mean squared gradient.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, eps: float = 1e-8, weight_decay: float = 0.0, beta2: float = 0.999
    ) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay, "beta2": beta2})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weights]
        if not state:
            state["steps"] = 0
            state["squares"] = torch.zeros_like(weights)
            state["updated"] = torch.zeros(weights.shape[:1], device=weights.device)  # the last step of each row
        state["steps"] += 1
        steps, squares, updated, beta2 = state["steps"], state["squares"], state["updated"], group["beta2"]
        rows = None
        if gradient.is_sparse:
            rows, gradient = _distinct_rows(gradient)
        if group["weight_decay"]:
            weights.mul_(1 - group["lr"] * group["weight_decay"])
        at_once = max(_AT_ONCE // max(weights[:1].numel(), 1), 1) if weights.device.type == "cpu" else len(weights)
        for start in range(0, len(gradient), max(at_once, 1)):
            g = gradient[start : start + at_once]
            some: Any = slice(start, start + len(g)) if rows is None else rows[start : start + len(g)]
            weight, square = weights[some], squares[some]  # views of the tables, or copies of single rows
            decay = beta2 ** (steps - updated[some])
            square.mul_(decay.view(-1, *[1] * (g.dim() - 1))).addcmul_(g, g, value=1 - beta2)
            root = (square / (1 - beta2**steps)).sqrt_().add_(group["eps"])
            weight.addcdiv_(g, root, value=-group["lr"])
            updated[some] = steps
            if rows is not None:
                weights[some], squares[some] = weight, square


def _distinct_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of a sparse gradient and their values, each row once.

    Coalescing copies all values, so it is left out where no row occurs twice, which torch does not know.
    """
    rows = gradient._indices()[0]
    if not gradient.is_coalesced() and torch.unique(rows).shape[0] < rows.shape[0]:
        gradient = gradient.coalesce()
    return gradient._indices()[0], gradient._values()
