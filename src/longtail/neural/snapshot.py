"""The state of a training as named arrays and back, for checkpoints. No pickle: only numbers and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from longtail.core.state import Array

Tensors = dict[str, torch.Tensor]


def pack(
    tensors: dict[str, Tensors], optimisers: list[dict[int, dict[str, Any]]], counters: dict[str, Any]
) -> dict[str, Array]:
    """Pack named groups of tensors, optimiser states and JSON values into one flat mapping of arrays."""
    arrays = {f"{group}/{name}": to_array(t) for group, named in tensors.items() for name, t in named.items()}
    plain: list[list[Any]] = []  # values of optimisers that are plain numbers
    for i, states in enumerate(optimisers):
        for parameter, values in states.items():
            for key, value in values.items():
                if isinstance(value, torch.Tensor):
                    arrays[f"optimiser/{i}/{parameter}/{key}"] = to_array(value)
                else:
                    plain.append([i, parameter, key, value])
    text = json.dumps({"counters": counters, "optimisers": [len(optimisers), plain]})
    arrays["json"] = np.frombuffer(text.encode(), np.uint8)
    return arrays


def unpack(arrays: dict[str, Array]) -> tuple[dict[str, Tensors], list[dict[int, dict[str, Any]]], dict[str, Any]]:
    """Return what `pack` was given."""
    content = json.loads(arrays["json"].tobytes())
    n_optimisers, plain = content["optimisers"]
    optimisers: list[dict[int, dict[str, Any]]] = [{} for _ in range(n_optimisers)]
    for i, parameter, key, value in plain:
        optimisers[i].setdefault(parameter, {})[key] = value
    tensors: dict[str, Tensors] = {}
    for name, array in arrays.items():
        group, _, rest = name.partition("/")
        if group == "optimiser":
            i, parameter, key = rest.split("/")
            optimisers[int(i)].setdefault(int(parameter), {})[key] = from_array(array)
        elif group != "json":
            tensors.setdefault(group, {})[rest] = from_array(array)
    return tensors, optimisers, content["counters"]


def to_array(tensor: torch.Tensor) -> Array:
    """Return a tensor as a NumPy array; bf16, which NumPy lacks, becomes float32 without loss."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return np.ascontiguousarray(tensor.cpu().numpy())


def from_array(array: Array) -> torch.Tensor:
    """Return a tensor with a copy of the array, which may be a mapped file that must not be written to."""
    return torch.from_numpy(np.array(array))


def random_state(device: torch.device) -> Tensors:
    """Return torch's random state on the CPU and on the device."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(state: Tensors, device: torch.device) -> None:
    """Restore what `random_state` returned."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
