"""The last layer: a vector for every label, made of its identity and, where it has a name, of the words of its name."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from longtail.errors import TrainingError
from longtail.neural.text.tokens import Tokens

Tensor = torch.Tensor
_NAME_TOKENS = 16  # of a label's name that are looked at


class LabelHead(nn.Module):
    """Scores `h . v_l + (P h) . t_l + b_l`: v_l is the label's identity, t_l the mean of the encoder's word vectors of
    its name (X-GRank, section III-E: the two concatenated, so that P brings h to the width of the second).

    width: of h. label_width: of v_l; None takes the width of h, and h needs no map to it. names: (labels, tokens) ids
    of the names, -1 pads, or None. prior: (labels,) the score of each label before anything is known. sparse: gradients
    of v_l are sparse, for many labels of which a step sees few.
    """

    names: Tensor | None

    def __init__(
        self, width: int, prior: Tensor, *, label_width: int | None = None, names: Tensor | None = None,
        name_width: int = 0, sparse: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        n_labels, own = prior.shape[0], label_width or width
        try:
            self.identity = nn.Parameter(torch.randn(n_labels, own) * 0.02)
            self.bias = nn.Parameter(prior.clone())
        except (RuntimeError, MemoryError) as error:
            raise TrainingError(
                f"{n_labels} labels of width {own} need {4 * n_labels * own / 1e9:.1f} GB, which this machine does not "
                "have; leave rare labels out, set a smaller label_width, or train where there is more memory"
            ) from error
        self.map = nn.Linear(width, own) if label_width else nn.Identity()
        self.name_map = nn.Linear(width, name_width) if names is not None else None
        self.register_buffer("names", names, persistent=False)
        self.sparse = sparse

    def forward(self, h: Tensor, word_vectors: Tensor, labels: Tensor | None = None) -> Tensor:
        """(n, labels) of all labels, or (n, C) of the candidates `labels` (n, C) of each point."""
        if labels is None:
            return self._scores(h, self.identity, self.bias, word_vectors, self.names)
        # Points share candidates: each label is looked up once, and not for every point that asks for it.
        distinct, place = torch.unique(labels, return_inverse=True)
        identity = F.embedding(distinct, self.identity, sparse=self.sparse)
        names = None if self.names is None else self.names[distinct]
        return self._scores(h, identity, self.bias[distinct], word_vectors, names).gather(1, place)

    def _scores(self, h: Tensor, identity: Tensor, bias: Tensor, word_vectors: Tensor, names: Tensor | None) -> Tensor:
        scores: Tensor = F.linear(self.map(h), identity, bias)
        if self.name_map is None:
            return scores
        assert names is not None
        of_names: Tensor = self.name_map(h) @ _of_names(word_vectors, names).T
        return scores + of_names

    def sparse_parameters(self) -> list[nn.Parameter]:
        return [self.identity] if self.sparse else []


def _of_names(word_vectors: Tensor, names: Tensor) -> Tensor:
    """t_l, (labels, d); a label without any known word has 0."""
    shares = (names >= 0) / (names >= 0).sum(1, keepdim=True).clamp(min=1)
    return F.embedding_bag(names.clamp(min=0), word_vectors, per_sample_weights=shares, mode="sum")


def name_table(tokens: Tokens) -> Tensor:
    """(labels, tokens) int64, -1 where a name has ended."""
    padded, _ = tokens.padded(np.arange(len(tokens)), -1)
    return torch.from_numpy(padded[:, :_NAME_TOKENS].astype(np.int64))


def log_odds(counts: NDArray[np.int64], n_points: int) -> Tensor:
    """The score that says how frequent each label is, log(n_l / (N - n_l)), with half a point added to both."""
    return torch.from_numpy(np.log((counts + 0.5) / (n_points - counts + 0.5)).astype(np.float32))
