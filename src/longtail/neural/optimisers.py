"""AdamW for dense gradients, SparseAdam and RowAdam for sparse ones, behind one interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from longtail.neural.plan import TrainingPlan
from longtail.neural.row_adam import RowAdam


class Optimisers:
    """The optimisers of one network.

    Groups come from `module.parameter_groups(plan)` if it exists: dicts with "params" and optionally "lr",
    "weight_decay" and either "sparse": True (SparseAdam, for embeddings with sparse=True) or "rows": True (RowAdam, for
    large tables with gradients of either kind), with "sampled": True where steps draw the rows. Otherwise all
    parameters form one group.
    """

    def __init__(self, module: nn.Module, plan: TrainingPlan) -> None:
        make = getattr(module, "parameter_groups", None)
        groups = make(plan) if make else [{"params": [p for p in module.parameters() if p.requires_grad]}]
        dense, sparse, rows = [], [], []
        for group in groups:
            settings = {"params": list(group["params"]), "lr": group.get("lr", plan.learning_rate)}
            decay = {"weight_decay": group.get("weight_decay", plan.weight_decay)}
            if group.get("sparse"):
                sparse.append(settings)
            elif group.get("rows"):
                rows.append(settings | decay | {"sampled": group.get("sampled", False)})
            else:
                dense.append(settings | decay)
        self.parts: list[torch.optim.Optimizer] = []
        if dense:
            # Fused: one pass over the weights instead of a dozen, on 2 CPU cores half of a small network's step.
            self.parts.append(torch.optim.AdamW(dense, lr=plan.learning_rate, eps=plan.epsilon, fused=True))
        if sparse:
            self.parts.append(torch.optim.SparseAdam(sparse, lr=plan.learning_rate))
        if rows:
            self.parts.append(RowAdam(rows, lr=plan.learning_rate, eps=plan.epsilon))
        self._rates = [[group["lr"] for group in part.param_groups] for part in self.parts]

    def step(self, factor: float) -> None:
        """Update the parameters, with the learning rate of each group times `factor`."""
        for part, rates in zip(self.parts, self._rates, strict=True):
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            part.step()

    def clear_gradients(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def clip_gradients(self, largest: float) -> torch.Tensor:
        """Scale all gradients together so that their norm is at most `largest`; return the norm before."""
        values = [
            _values(p) for part in self.parts for g in part.param_groups for p in g["params"] if p.grad is not None
        ]
        at_once = any(v.is_cuda for v in values)  # hundreds of small calls are slow on a GPU, but faster on a CPU
        norm = torch.nn.utils.get_total_norm(values, foreach=at_once)
        scale = (largest / (norm + 1e-6)).clamp(max=1.0)
        if at_once:
            torch._foreach_mul_(values, scale)
        else:
            for v in values:
                v.mul_(scale)
        return norm

    def state(self) -> list[dict[int, dict[str, Any]]]:
        return [part.state_dict()["state"] for part in self.parts]

    def restore(self, states: list[dict[int, dict[str, Any]]]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict({"state": state, "param_groups": part.state_dict()["param_groups"]})


def _values(parameter: torch.Tensor) -> torch.Tensor:
    """Return the values of a parameter's gradient; a sparse one is coalesced first, so that no row occurs twice."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()
