"""APLC-XLNet: adaptive probabilistic label clusters over any encoder, as an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.core.inputs import PathLike
from longtail.core.parameters import check_positive, check_whole
from longtail.core.state import State
from longtail.errors import ModelError, ParameterError
from longtail.neural import losses
from longtail.neural.losses import LabelWeights
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.aplcxlnet_network import AdaptiveClusters, AdaptiveNetwork
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.encoder_model import EncoderModel
from longtail.neural.text.label_head import log_odds
from longtail.neural.text.model import TrainingTexts
from longtail.neural.text.network import ScoringNetwork, TextNetwork


@dataclass(kw_only=True, eq=False, repr=False)
class APLCXLNet(EncoderModel):
    """A pretrained encoder with label clusters of decreasing width (Ye et al., ICML 2020), with weighted losses.

    Labels are sorted by frequency and split: the frequent ones are scored directly. Each tail has a node, the
    probability that a point has any of its labels, and a layer half as wide as the one before.

    Parameters
    ----------
    encoder : path or str, default "sentence-transformers/all-mpnet-base-v2"
        Folder or hub name of any Hugging Face encoder; the paper uses XLNet.
    length : int, default 512
        Tokens per text; longer texts are cut. May be changed after fit.
    width : int, default 768
        Width of the hidden layer.
    cuts : tuple of float, default (0.5,)
        Where the sorted labels are split, as shares of their number; (0.5,) gives one tail.
    dropout : float, default 0.1
        Dropout of the hidden layer.
    weighting : None, str or object, default None
        None, "pw", "pw-cb", "unbiased" or an object of `longtail.objectives`; the nodes of tails are weighted by their
        number of points (Qaraei et al. 2021, section 5).
    learning_rate : float, default 5e-5
        Learning rate of the encoder.
    hidden_learning_rate : float, default 1e-4
        Learning rate of the hidden layer.
    head_learning_rate : float, default 2e-3
        Learning rate of the clusters.
    pooling : {"mean", "cls"}, default "mean"
        "mean" suits sentence encoders, "cls" encoders trained with a first token.
    layers : int, default 1
        How many of the encoder's last layers are pooled.
    token_cache : path or None, default None
        Folder for tokens, so that they are computed once and need not fit into memory.
    quantise : {"none", "int8"}, default "none"
        "int8" predicts with 8-bit weights, on a CPU only. May be changed after fit.
    compile : bool, default False
        Whether torch compiles the encoder's layers for training on a GPU; it takes half a minute and pays off for large
        encoders.
    epochs : int, default 8
        Passes over the training points; fewer if training stops early.
    batch_size : int, default 32
        Points per batch.
    accumulate : int, default 1
        Batches per step.
    clip : float or None, default 1.0
        Largest norm of all gradients together; None does not clip.
    weight_decay : float, default 0.0
        Weight decay of AdamW.
    epsilon : float, default 1e-8
        Epsilon of AdamW.
    warmup : float, default 0.1
        Share of all steps in which the learning rate rises from 0.
    schedule : {"linear", "constant", "cosine"}, default "linear"
        Learning rate after the warm-up; "linear" and "cosine" fall to 0.
    held_out : float, default 0.0
        Share of the points held out for early stopping; 0 trains on all points for all epochs.
    metric : str or None, default "P@1"
        Metric on the held-out points, by any name of `longtail.metrics`; the weights of the best epoch are kept.
    patience : int, default 3
        Training stops after this many epochs without a better `metric`.
    average_from : float or None, default None
        Share of the epochs after which weights are averaged, one sample per epoch (SWA); None does not average.
    precision : {"auto", "bf16", "float32"}, default "auto"
        Precision of matrix products; "auto" is bf16 on a GPU. Weights and losses are float32.
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" is a GPU if there is one.
    n_jobs : int, default -1
        CPU threads, -1 for all cores.
    checkpoint_seconds : float, default 60.0
        Least time between two checkpoints, if the run keeps checkpoints.
    random_state : int, default 0
        Seed of everything random.

    Attributes
    ----------
    network_ : AdaptiveNetwork
        The trained network.
    tokeniser_ : EncoderTokeniser
        The tokenizer of the encoder.
    history_ : History
        Loss, seconds and metric per epoch.
    """

    loss: ClassVar[str] = "bce"  # type: ignore[misc]
    shaped_by = ("width", "cuts")
    memory_by = "width"

    encoder: PathLike = "sentence-transformers/all-mpnet-base-v2"
    width: int = 768
    cuts: tuple[float, ...] = (0.5,)
    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 5e-5
    hidden_learning_rate: float = 1e-4

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("width", self.width, 2)
        check_positive(hidden_learning_rate=self.hidden_learning_rate)
        shares = self.cuts if isinstance(self.cuts, (tuple, list)) else None
        numbers = shares is not None and all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in shares)
        if not numbers or not all(a < b for a, b in pairwise([0, *self.cuts, 1])):
            raise ParameterError(f"cuts is {self.cuts!r}, but must be increasing shares between 0 and 1, e.g. (0.5,)")

    def _new_network(self, texts: TrainingTexts) -> ScoringNetwork:
        Y, device = texts.Y, texts.device
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        order = np.argsort(-counts, kind="stable")
        bounds = self._bounds(Y.shape[1])
        by_frequency = Y[:, order]
        nodes = np.array([
            np.count_nonzero(np.diff(by_frequency[:, first:end].tocsr().indptr))
            for first, end in pairwise([*bounds, Y.shape[1]])
        ], np.int64)  # fmt: skip
        network = self._build(texts.source, counts[order], nodes, Y.shape[0], torch.from_numpy(order))
        network.loss = losses.LOSSES[self.loss]
        network.weights = (
            LabelWeights(self.weighting, counts[order], Y.shape[0], device),
            # Without tails there are no nodes to weight.
            LabelWeights(self.weighting if nodes.size else None, nodes if nodes.size else [1], Y.shape[0], device),
        )
        return network

    def _bounds(self, n_labels: int) -> list[int]:
        """Return the label numbers at which tails begin, without empty tails."""
        found = sorted({max(round(cut * n_labels), 1) for cut in self.cuts})
        return [bound for bound in found if bound < n_labels]

    def _build(
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

    def _check_tables(self, encoder: TextEncoder, state: State) -> None:
        order = state.array("order", np.int64, (self.n_labels_,))
        if not np.array_equal(np.sort(order), np.arange(self.n_labels_)):
            raise ModelError("the array order must have every label once")

    def _empty_network(self, encoder: TextEncoder, heads: dict[str, torch.Tensor], state: State) -> TextNetwork:
        order = from_array(state.arrays["order"])
        nodes = np.zeros(len(self._bounds(order.shape[0])), np.int64)
        return self._build(encoder, np.zeros(order.shape[0], np.int64), nodes, 0, order)
