"""Batches of texts of similar length, so that little is padded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.neural.text.tokens import Tokens

_POOL = 32  # batches whose texts are sorted by length together: enough to pad little, few enough to keep batches random

Batch = dict[str, torch.Tensor]


class LengthBuckets:
    """Texts in a new order every epoch, those of similar length together.

    A batch is {"points", "tokens", and "mask" if anything is padded}. `rows` are the numbers of the texts to use;
    "points" counts within these, like the rows of the training labels.
    """

    def __init__(self, tokens: Tokens, rows: NDArray[np.intp], batch_size: int, *, pad: int, seed: int) -> None:
        self.tokens, self.rows, self.pad, self.seed = tokens, rows, pad, seed
        self.batch_size = min(batch_size, max(rows.size, 1))
        self.lengths = tokens.lengths[rows]

    def __len__(self) -> int:
        return -(-self.rows.size // self.batch_size)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(self.rows.size)
        pool = _POOL * self.batch_size
        parts: list[NDArray[np.intp]] = []
        for start in range(0, order.size, pool):
            some = order[start : start + pool]
            some = some[np.argsort(self.lengths[some], kind="stable")]
            parts += np.split(some, range(self.batch_size, some.size, self.batch_size))
        for number in rng.permutation(len(parts)):
            yield self.batch(parts[number])

    def batch(self, points: NDArray[np.intp]) -> Batch:
        return padded_batch(self.tokens, self.rows[points], self.pad) | {"points": torch.from_numpy(points)}


def by_length(tokens: Tokens, batch_size: int, pad: int) -> Iterator[tuple[NDArray[np.intp], Batch]]:
    """Yield all texts once, as their numbers and their batch; longest first, so that too little memory shows early."""
    order = np.argsort(-tokens.lengths, kind="stable")
    for start in range(0, order.size, batch_size):
        some = order[start : start + batch_size]
        yield some, padded_batch(tokens, some, pad)


def padded_batch(tokens: Tokens, texts: NDArray[np.intp], pad: int) -> Batch:
    """Return a batch of these texts; without a mask if nothing is padded, because attention is then faster."""
    padded, mask = tokens.padded(texts, pad)
    batch = {"tokens": torch.from_numpy(padded)}
    if not mask.all():
        batch["mask"] = torch.from_numpy(mask)
    return batch
