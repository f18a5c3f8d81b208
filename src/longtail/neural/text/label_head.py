"""The last layer: one vector per label, from its identity and, if it has a name, from the words of its name."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from longtail.core.progress import Progress, Silent, reported
from longtail.neural.batches import to_device
from longtail.neural.text.batches import by_length
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.tokens import Tokens

Tensor = torch.Tensor
_NAME_TOKENS = 16  # tokens per label name, at most
_TEXTS_AT_ONCE = 256  # label texts that the encoder reads at once


class LabelHead(nn.Module):
    """Scores `h . v_l + (P h) . t_l + b_l`, where v_l is the label's identity and t_l comes from its name.

    X-GRank, section III-E, concatenates the two; P maps h to the width of the second.

    Parameters
    ----------
    width : int
        Width of h.
    prior : Tensor of shape (labels,)
        Initial b_l.
    label_width : int or None, default None
        Width of v_l, with a trained map of h to it; None takes the width of h, without a map.
    names : Tensor of shape (labels, tokens) or None, default None
        Token ids of the names, -1 pads; t_l is then the mean of the encoder's word vectors, which are trained too.
    name_width : int, default 0
        Width of the encoder's word vectors.
    text_vectors : Tensor of shape (labels, d) or None, default None
        Fixed t_l, from `encoded`. P initially compares it with the encoder's last layer, the last d numbers of h.
    sparse : bool, default False
        Whether gradients of v_l are sparse, for many labels of which a step uses few.
    """

    names: Tensor | None
    text_vectors: Tensor | None

    def __init__(
        self, width: int, prior: Tensor, *, label_width: int | None = None, names: Tensor | None = None,
        name_width: int = 0, text_vectors: Tensor | None = None, sparse: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        n_labels, own = prior.shape[0], label_width or width
        self.identity = nn.Parameter(torch.randn(n_labels, own) * 0.02)
        self.bias = nn.Parameter(prior.clone())
        self.map = nn.Linear(width, own) if label_width else nn.Identity()
        self.name_map: nn.Linear | None = None
        if text_vectors is not None:
            self.name_map = _last_of(width, text_vectors.shape[1])
        elif names is not None:
            self.name_map = nn.Linear(width, name_width)
        self.register_buffer("names", names, persistent=False)
        self.register_buffer("text_vectors", text_vectors, persistent=False)
        self.sparse = sparse

    def forward(self, h: Tensor, word_vectors: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the scores (n, labels) of all labels, or (n, C) of the candidates `labels` (n, C) per point."""
        if labels is None:
            return self._scores(h, self.identity, self.bias, self._texts(word_vectors))
        # Points share candidates, so each label is looked up once, not once per point.
        distinct, place = torch.unique(labels, return_inverse=True)
        identity = F.embedding(distinct, self.identity, sparse=self.sparse)
        return self._scores(h, identity, self.bias[distinct], self._texts(word_vectors, distinct)).gather(1, place)

    def _scores(self, h: Tensor, identity: Tensor, bias: Tensor, texts: Tensor | None) -> Tensor:
        scores: Tensor = F.linear(self.map(h), identity, bias)
        if self.name_map is None:
            return scores
        assert texts is not None
        of_texts: Tensor = self.name_map(h) @ texts.T
        return scores + of_texts

    def _texts(self, word_vectors: Tensor, labels: Tensor | None = None) -> Tensor | None:
        """Return t_l of all labels, or of these."""
        if self.text_vectors is not None:
            return self.text_vectors if labels is None else self.text_vectors[labels]
        if self.names is not None:
            return _of_names(word_vectors, self.names if labels is None else self.names[labels])
        return None

    def sparse_parameters(self) -> list[nn.Parameter]:
        return [self.identity] if self.sparse else []


def _of_names(word_vectors: Tensor, names: Tensor) -> Tensor:
    """Return t_l, (labels, d); it is 0 for a label without any known word."""
    shares = (names >= 0) / (names >= 0).sum(1, keepdim=True).clamp(min=1)
    return F.embedding_bag(names.clamp(min=0), word_vectors, per_sample_weights=shares, mode="sum")


def _last_of(width: int, d: int) -> nn.Linear:
    """Return a linear layer that is initialised to return the last d numbers of its input."""
    made = nn.Linear(width, d)
    with torch.no_grad():
        made.weight.copy_(torch.eye(width)[-d:])
        made.bias.zero_()
    return made


def encoded(
    encoder: TextEncoder,
    tokens: Tokens,
    pad: int,
    device: torch.device,
    *,
    texts_at_once: int = _TEXTS_AT_ONCE,
    progress: Progress | None = None,
) -> Tensor:
    """Return the encoder's vectors of texts, (texts, d): its last layer, pooled and of unit length."""
    training = encoder.training
    encoder.to(device).eval()
    d = encoder.width // encoder.layers
    found = torch.empty(len(tokens), d)
    # Thousands of labels take minutes on a CPU, so this is a task of its own.
    task = reported(progress or Silent(), "reading label texts", len(tokens))
    with torch.no_grad(), task as advance:
        for rows, batch in by_length(tokens, texts_at_once, pad):
            own = to_device(batch, device)
            found[rows] = F.normalize(encoder(own["tokens"], own.get("mask"))[:, -d:]).cpu()
            advance(len(rows))
    encoder.train(training)
    return found


def name_table(tokens: Tokens) -> Tensor:
    """Return the tokens of the label names, (labels, tokens) int64, -1 pads."""
    starts = tokens.offsets[:-1]
    first = Tokens.of(tokens.ids[a : a + n] for a, n in zip(starts, tokens.lengths.clip(max=_NAME_TOKENS), strict=True))
    padded, _ = first.padded(np.arange(len(first)), -1)  # after the cut, because one long text would widen all rows
    return torch.from_numpy(padded.astype(np.int64))


def log_odds(counts: NDArray[np.int64], n_points: int) -> Tensor:
    """Return the log-odds of each label's frequency, log(n_l / (N - n_l)), with half a point added to both."""
    return torch.from_numpy(np.log((counts + 0.5) / (n_points - counts + 0.5)).astype(np.float32))
