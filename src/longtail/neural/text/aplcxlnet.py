"""APLC-XLNet: adaptive probabilistic label clusters over any encoder, as an estimator."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import PathLike
from longtail.core.parameters import check_positive, check_whole
from longtail.core.state import State
from longtail.errors import ParameterError
from longtail.neural import losses
from longtail.neural.losses import LabelWeights
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.aplcxlnet_network import AdaptiveClusters, AdaptiveNetwork
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.encoder_model import EncoderModel
from longtail.neural.text.label_head import log_odds
from longtail.neural.text.network import ScoringNetwork, TextNetwork
from longtail.neural.text.tokens import Tokens


class APLCXLNet(EncoderModel):
    """A pretrained encoder below label clusters of falling width (Ye et al., ICML 2020), with weighted losses.

    Labels are sorted by frequency and cut: the frequent ones are scored directly, each tail behind a node that says
    whether any of its labels is wanted, by a layer half as wide as the one before.

    encoder: a folder or a hub name of any Hugging Face encoder; XLNet is what the method was published with. length,
    pooling, layers: as in `XGRank`. width: of the hidden layer. cuts: where the labels are cut, as shares of their
    number; (0.5,) is one tail. dropout: of the hidden layer. weighting: None, "pw", "pw-cb", "unbiased" or an object of
    `longtail.objectives`; the nodes of tails are weighted by the points that they have (Qaraei et al. 2021, section 5).
    learning_rate, hidden_learning_rate, head_learning_rate: of the encoder, the hidden layer, the clusters.
    The other parameters are those of `XGRank`.
    """

    loss = "bce"
    shaped_by = ("width", "cuts")
    memory_by = "width"

    def __init__(
        self,
        *,
        encoder: PathLike = "sentence-transformers/all-mpnet-base-v2",
        length: int = 512,
        pooling: str = "mean",
        layers: int = 1,
        width: int = 768,
        cuts: tuple[float, ...] = (0.5,),
        dropout: float = 0.1,
        weighting: Any = None,
        epochs: int = 8,
        batch_size: int = 32,
        learning_rate: float = 5e-5,
        hidden_learning_rate: float = 1e-4,
        head_learning_rate: float = 2e-3,
        warmup: float = 0.1,
        weight_decay: float = 0.0,
        clip: float | None = 1.0,
        average_from: float | None = None,
        validation: float = 0.0,
        metric: str = "P@1",
        patience: int = 3,
        token_cache: PathLike | None = None,
        quantise: str = "none",
        compile: bool = False,
        device: str = "auto",
        precision: str = "auto",
        n_jobs: int = -1,
        random_state: int = 0,
    ) -> None:
        self.encoder = encoder
        self.length = length
        self.pooling = pooling
        self.layers = layers
        self.width = width
        self.cuts = cuts
        self.dropout = dropout
        self.weighting = weighting
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden_learning_rate = hidden_learning_rate
        self.head_learning_rate = head_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.clip = clip
        self.average_from = average_from
        self.validation = validation
        self.metric = metric
        self.patience = patience
        self.token_cache = token_cache
        self.quantise = quantise
        self.compile = compile
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole("width", self.width, 2)
        check_positive(hidden_learning_rate=self.hidden_learning_rate)
        shares = self.cuts if isinstance(self.cuts, (tuple, list)) else None
        numbers = shares is not None and all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in shares)
        if not numbers or not all(a < b for a, b in pairwise([0, *self.cuts, 1])):
            raise ParameterError(f"cuts is {self.cuts!r}, but must be rising shares between 0 and 1, e.g. (0.5,)")

    def _new_network(
        self, tokens: Tokens, learning: NDArray[np.intp], Y: sparse.csr_matrix, device: torch.device
    ) -> ScoringNetwork:
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        order = np.argsort(-counts, kind="stable")
        bounds = self._bounds(Y.shape[1])
        by_frequency = Y[:, order]
        nodes = np.array([
            np.count_nonzero(np.diff(by_frequency[:, first:end].tocsr().indptr))
            for first, end in pairwise([*bounds, Y.shape[1]])
        ], np.int64)  # fmt: skip
        network = self._made(self._take_encoder(), counts[order], nodes, Y.shape[0], torch.from_numpy(order))
        network.loss = losses.LOSSES[self.loss]
        network.weights = (
            LabelWeights(self.weighting, counts[order], Y.shape[0], device),
            # Without tails there are no nodes, and nothing to weight.
            LabelWeights(self.weighting if nodes.size else None, nodes if nodes.size else [1], Y.shape[0], device),
        )
        return network

    def _bounds(self, n_labels: int) -> list[int]:
        """The label numbers at which tails begin; tails without labels are none."""
        found = sorted({max(round(cut * n_labels), 1) for cut in self.cuts})
        return [bound for bound in found if bound < n_labels]

    def _made(
        self, encoder: TextEncoder, counts: NDArray[np.int64], nodes: NDArray[np.int64], n_points: int,
        order: torch.Tensor,
    ) -> AdaptiveNetwork:  # fmt: skip
        clusters = AdaptiveClusters(
            self.width, self._bounds(counts.size), log_odds(counts, n_points), log_odds(nodes, n_points)
        )
        return AdaptiveNetwork(
            encoder, clusters, order, width=self.width, pad=self.tokeniser_.pad, dropout=self.dropout,
            head_learning_rate=self.head_learning_rate, hidden_learning_rate=self.hidden_learning_rate,
        )  # fmt: skip

    def _network_state(self) -> State:
        network: Any = self.network_
        state = super()._network_state()
        state.arrays["order"] = to_array(network.order)
        return state

    def _empty_network(self, encoder: TextEncoder, heads: dict[str, torch.Tensor], state: State) -> TextNetwork:
        order = from_array(state.arrays["order"])
        nodes = np.zeros(len(self._bounds(order.shape[0])), np.int64)
        return self._made(encoder, np.zeros(order.shape[0], np.int64), nodes, 0, order)
