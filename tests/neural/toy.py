"""A small network with a known answer, and with what makes resuming hard: dropout and sparse gradients."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

N, WIDTH, WORDS = 60, 4, 10


def points(seed: int = 0) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, WIDTH)).astype(np.float32)
    words = rng.integers(WORDS, size=N)
    y = X @ np.array([1.0, -2.0, 0.5, 3.0], np.float32) + 0.1 * words
    return {"x": torch.from_numpy(X), "word": torch.from_numpy(words), "y": torch.from_numpy(y.astype(np.float32))}


class ToyBatches:
    """Shuffled batches; at `stop_at` = (epoch, batch) they raise KeyboardInterrupt, as Ctrl-C would."""

    def __init__(self, batch_size: int = 16, stop_at: tuple[int, int] | None = None) -> None:
        self.data, self.batch_size, self.stop_at = points(), batch_size, stop_at

    def __len__(self) -> int:
        return -(-N // self.batch_size)

    def epoch(self, epoch: int):
        order = torch.from_numpy(np.random.default_rng(epoch).permutation(N))
        for i, rows in enumerate(order.split(self.batch_size)):
            if (epoch, i) == self.stop_at:
                raise KeyboardInterrupt
            yield {name: tensor[rows] for name, tensor in self.data.items()}


class Toy(nn.Module):
    def __init__(self, dropout: float = 0.0, sparse: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.linear = nn.Linear(WIDTH, 1)
            self.word = nn.Embedding(WORDS, 1, sparse=sparse)
        self.dropout = nn.Dropout(dropout)
        self.sparse = sparse
        self.seen: list[int] = []

    def forward(self, batch):
        return (self.linear(self.dropout(batch["x"])) + self.word(batch["word"]))[:, 0]

    def training_step(self, batch):
        self.seen.append(len(batch["y"]))
        return (self(batch) - batch["y"]).square().mean()

    def parameter_groups(self, plan):
        return [
            {"params": self.linear.parameters(), "lr": plan.learning_rate},
            {"params": self.word.parameters(), "lr": 2 * plan.learning_rate, "sparse": self.sparse},
        ]


def loss_of(module: Toy) -> float:
    data = points()
    with torch.no_grad():
        return float((module(data) - data["y"]).square().mean())


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().copy() for name, tensor in module.state_dict().items()}
