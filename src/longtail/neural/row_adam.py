"""Adam for large tables of which a step needs few rows: it costs as much as the rows that have a gradient.

Plain Adam moves every weight in every step: without a gradient, by the rest of its momentum, m beta1 + m beta1^2 + ...
Here a row waits until its next gradient and then moves by the sum of these steps at once, and the means of its
gradients and squared gradients decay by as many steps. With a gradient in every step this is Adam. Otherwise it differs
in two ways only: the sum is divided by the root of the mean of the squares as it is then, not as it was in each of the
steps, and after the last gradient the rest of the momentum is left out. A test compares it with AdamW over the whole
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

Tensor = torch.Tensor

_MOST_STEPS = 4  # that the gradient of a row that was not drawn before may stand for
_AT_ONCE = 1 << 17  # weights updated at once on a CPU: half a megabyte per array, so that they stay in its cache


class RowAdam(torch.optim.Optimizer):
    """Adam for sparse gradients (whole rows) and for dense ones, with the same result.

    A row whose gradient is 0 counts as a row without one.

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
    betas : tuple of two floats, default (0.9, 0.999)
        Decay per step of the mean gradient and of the mean squared gradient.
    sampled : bool, default False
        Whether rows wait because they were not drawn: the gradient after s steps then stands for s gradients of its
        s-th part, whose squares add up to an s-th of its square (s up to 4, so that a row drawn rarely does not jump).
        Otherwise a table learns more slowly the fewer of its rows are drawn: Adam divides by the root mean square.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, eps: float = 1e-8, weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999), sampled: bool = False,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "eps": eps, "weight_decay": weight_decay, "betas": betas, "sampled": sampled}
        super().__init__(params, settings)

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
            state["means"], state["squares"] = torch.zeros_like(weights), torch.zeros_like(weights)
            state["updated"] = torch.zeros(weights.shape[:1], device=weights.device)  # the last step of each row
        state["steps"] += 1
        steps, means, squares, updated = state["steps"], state["means"], state["squares"], state["updated"]
        beta1, beta2 = group["betas"]
        start_up = 1 / (1 - beta1**steps)
        rows, gradient = _rows_of(gradient)
        if group["weight_decay"]:
            weights.mul_(1 - group["lr"] * group["weight_decay"])
        at_once = max(_AT_ONCE // max(weights[:1].numel(), 1), 1) if weights.device.type == "cpu" else len(weights)
        for start in range(0, len(gradient), max(at_once, 1)):
            g = gradient[start : start + at_once]
            some: Any = slice(start, start + len(g)) if rows is None else rows[start : start + len(g)]
            weight, mean, square = weights[some], means[some], squares[some]  # views, or copies of single rows
            since = (steps - updated[some]).view(-1, *[1] * (g.dim() - 1))  # the last gradient of each row
            decay = beta1**since
            waited = beta1 * (1 - decay) / (1 - beta1)  # beta1 + ... + beta1^since
            move = (mean * (start_up * waited)).add_(g, alpha=start_up * (1 - beta1))
            mean.mul_(decay).add_(g, alpha=1 - beta1)
            share = g / since.clamp(max=_MOST_STEPS) if group["sampled"] else g
            square.mul_(beta2**since).addcmul_(g, share, value=1 - beta2)
            weight.addcdiv_(move, (square / (1 - beta2**steps)).sqrt_().add_(group["eps"]), value=-group["lr"])
            updated[some] = steps
            if rows is not None:
                weights[some], means[some], squares[some] = weight, mean, square


def _rows_of(gradient: Tensor) -> tuple[Tensor | None, Tensor]:
    """Return the rows in which a gradient is not 0, each once, and their values; None for all rows.

    Coalescing copies all values, so it is left out where no row occurs twice, which torch does not know.
    """
    rows = None
    if gradient.is_sparse:
        rows = gradient._indices()[0]
        if not gradient.is_coalesced() and torch.unique(rows).shape[0] < rows.shape[0]:
            gradient = gradient.coalesce()
            rows = gradient._indices()[0]
        gradient = gradient._values()
    some = gradient.flatten(1).any(1) if gradient.dim() > 1 else gradient != 0
    if some.all():
        return rows, gradient
    return some.nonzero()[:, 0] if rows is None else rows[some], gradient[some]
