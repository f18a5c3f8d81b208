"""AttentionXML: one attention over the words of a text per label, as an estimator."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from longtail.core.check_arrays import check_table
from longtail.core.inputs import PathLike, check_path
from longtail.core.parameters import check_share, check_whole
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ModelError, ParameterError
from longtail.neural.device_csr import DeviceCsr
from longtail.neural.placement import place, seeded, torch_threads
from longtail.neural.shape import check_same_shapes
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.attention_tree import AttentionTree, LevelTraining
from longtail.neural.text.attentionxml_network import AttentionNetwork
from longtail.neural.text.clusters import label_clusters, points_of_clusters, token_features
from longtail.neural.text.label_head import log_odds
from longtail.neural.text.model import TextModel, TrainingTexts
from longtail.neural.text.network import TextNetwork, TextTraining, best_labels
from longtail.neural.text.tokens import Tokens
from longtail.neural.text.vocabulary import WordTokeniser, word_vectors
from longtail.neural.trainer import Validate, train


@dataclass(kw_only=True, eq=False, repr=False)
class AttentionXML(TextModel):
    """Word vectors, a bidirectional LSTM, and one attention per label (You et al., NeurIPS 2019).

    On a CPU it runs in one thread.

    Parameters
    ----------
    vectors : path or None, default None
        File of pretrained word vectors (GloVe's text format, .gz, or .npz with `words` and `vectors`); None starts
        with random vectors of width `word_width`.
    word_width : int, default 100
        Width of random word vectors.
    vocabulary : int, default 500,000
        Size of the vocabulary: the most frequent words of the training texts; others are left out.
    length : int, default 500
        Words per text; longer texts are cut. May be changed after fit.
    hidden : int, default 256
        Width of the LSTM, per direction.
    widths : tuple of int, default (256,)
        Widths of the layers above the attention, which all labels share.
    word_dropout : float, default 0.2
        Dropout of the word vectors.
    dropout : float, default 0.5
        Dropout of the LSTM's states.
    clusters_above : int, default 50,000
        With more labels than this, a label tree is built until its top level has at most this many nodes. Each level
        has its own network, trained after that of the level above.
    cluster_size : int, default 8
        Labels or nodes per node of the tree.
    beam : int, default 160
        Nodes per level whose children are scored in the next level; may be changed after fit.
    weighting : None, str or object, default None
        None, "pw", "pw-cb", "unbiased" or an object of `longtail.objectives`.
    average_from : float or None, default 0.5
        Share of the epochs after which the weights are averaged (SWA).
    token_cache : path or None, default None
        Folder for tokens, so that they are computed once and need not fit into memory.
    quantise : {"none", "int8"}, default "none"
        "int8" predicts with 8-bit weights, on a CPU only. May be changed after fit.
    epochs : int, default 12
        Passes over the training points; fewer if training stops early.
    batch_size : int, default 64
        Points per batch.
    learning_rate : float, default 1e-3
        Learning rate of the network.
    accumulate : int, default 1
        Batches per step.
    clip : float or None, default 5.0
        Largest norm of all gradients together; None does not clip.
    weight_decay : float, default 0.0
        Weight decay of AdamW.
    epsilon : float, default 1e-8
        Epsilon of AdamW.
    warmup : float, default 0.0
        Share of all steps in which the learning rate rises from 0.
    schedule : {"constant", "linear", "cosine"}, default "constant"
        Learning rate after the warm-up; "linear" and "cosine" fall to 0.
    held_out : float, default 0.0
        Share of the points held out for early stopping; 0 trains on all points for all epochs.
    metric : str or None, default "P@1"
        Metric on the held-out points, by any name of `longtail.metrics`; the weights of the best epoch are kept.
    patience : int, default 3
        Training stops after this many epochs without a better `metric`.
    precision : {"auto", "bf16", "float32"}, default "auto"
        Precision of matrix products; "auto" is bf16 on a GPU. Weights and losses are float32.
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" is a GPU if there is one.
    checkpoint_seconds : float, default 60.0
        Least time between two checkpoints, if the run keeps checkpoints.
    random_state : int, default 0
        Seed of everything random.

    Attributes
    ----------
    network_ : AttentionNetwork or AttentionTree
        The trained network.
    tokeniser_ : WordTokeniser
        The vocabulary.
    history_ : History
        Loss, seconds and metric per epoch; with a tree those of its last level.
    """

    loss: ClassVar[str] = "bce"  # type: ignore[misc]
    # The steps of an LSTM are too small for several CPU threads, and several threads would change the last digits.
    n_jobs: ClassVar[int] = 1  # type: ignore[misc]
    adjustable: ClassVar[tuple[str, ...]] = (*TextModel.adjustable, "beam")
    shaped_by = ("hidden", "widths")
    memory_by = "hidden or clusters_above"

    vectors: PathLike | None = None
    word_width: int = 100
    vocabulary: int = 500_000
    length: int = 500
    hidden: int = 256
    widths: tuple[int, ...] = (256,)
    word_dropout: float = 0.2
    dropout: float = 0.5
    clusters_above: int = 50_000
    cluster_size: int = 8
    beam: int = 160
    epochs: int = 12
    batch_size: int = 64
    clip: float | None = 5.0
    average_from: float | None = 0.5

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("word_width", "vocabulary", "hidden", "clusters_above", "beam"):
            check_whole(name, getattr(self, name), 1)
        check_whole("cluster_size", self.cluster_size, 2)
        if not isinstance(self.widths, (tuple, list)):
            raise ParameterError(f"widths is {self.widths!r}, but must be a list of layer widths; [] for none")
        for width in self.widths:
            check_whole("widths", width, 1)
        check_share("word_dropout", self.word_dropout)
        check_share("dropout", self.dropout)
        if self.vectors is not None:
            check_path("vectors", self.vectors, "a file or None")

    def _new_tokeniser(self, texts: Sequence[str]) -> tuple[WordTokeniser, NDArray[np.float32]]:
        tokeniser = WordTokeniser.learn(texts, size=self.vocabulary, length=int(self.length))
        rng = np.random.default_rng(self.random_state)
        if self.vectors is None:
            return tokeniser, rng.normal(0, 0.1, (len(tokeniser.words) + 1, self.word_width)).astype(np.float32)
        return tokeniser, word_vectors(self.vectors, tokeniser.words, rng)

    def _train(self, texts: TrainingTexts, validate: Validate | None, run: Run) -> None:
        if texts.Y.shape[1] <= self.clusters_above:
            super()._train(texts, validate, run)
        else:
            self._train_tree(texts, validate, run)

    def _train_tree(self, texts: TrainingTexts, validate: Validate | None, run: Run) -> None:
        features, device = token_features(texts.tokens)[texts.rows], texts.device
        tables: list[torch.Tensor] = []
        labels_of_level = [texts.Y]
        while labels_of_level[0].shape[1] > self.clusters_above:
            tables.insert(0, label_clusters(features, labels_of_level[0], self.cluster_size, seed=self.random_state))
            labels_of_level.insert(0, points_of_clusters(labels_of_level[0], tables[0]))
        read = texts.tokens.subset(texts.rows)
        levels: list[AttentionNetwork] = []
        for level, targets in enumerate(labels_of_level):
            with seeded(self.random_state + level), torch_threads(self.n_jobs):
                network = self._new_network(replace(texts, Y=targets))
            observed = DeviceCsr(targets, device)
            training: nn.Module = TextTraining(network, observed)
            if level > 0:
                assert network.objective is not None
                nodes = self._candidates(read, labels_of_level[level - 1]).to(device)
                training = LevelTraining(network, tables[level - 1].to(device), nodes, observed, network.objective)
            levels.append(network)
            self.network_ = AttentionTree(levels, tables[:level], self.beam).to(device)
            last, plan = level == len(tables), self.plan()
            self.history_ = train(
                training, self._batches(texts), plan if last else replace(plan, metric=None),
                validate=validate if last else None, run=run, part=f"level-{level}",
            )  # fmt: skip
        self.network_.eval()  # the trainer only had its levels

    def _candidates(self, texts: Tokens, observed: sparse.csr_matrix) -> torch.Tensor:
        """Return the nodes (points, beam) whose children a point is trained on: its observed nodes, then the best."""
        placement = place(self.device, self.precision)
        k = min(self.beam, observed.shape[1])
        with torch_threads(self.n_jobs):
            best = best_labels(
                self.network_, texts, k, pad=self.tokeniser_.pad, batch_size=self.batch_size, placement=placement
            ).labels
        chosen = np.full((len(texts), k), -1, np.int64)
        for row, found in enumerate(best):
            own = observed.indices[observed.indptr[row] : observed.indptr[row + 1]]
            others = found[(found >= 0) & ~np.isin(found, own)]
            kept = np.concatenate([own, others])[:k]
            chosen[row, : kept.size] = kept
        return torch.from_numpy(chosen)

    def _new_network(self, texts: TrainingTexts) -> AttentionNetwork:
        Y = texts.Y
        prior = log_odds(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0])
        network = self._build(torch.from_numpy(texts.source), prior)
        network.objective = self._objective(Y, texts.device)
        return network

    def _build(self, vectors: torch.Tensor, prior: torch.Tensor) -> AttentionNetwork:
        return AttentionNetwork(
            vectors, prior, hidden=self.hidden, widths=tuple(self.widths), word_dropout=self.word_dropout,
            dropout=self.dropout,
        )  # fmt: skip

    def _tokeniser_from(self, state: State) -> WordTokeniser:
        return WordTokeniser.from_state(state)

    def _predicting(self, device: torch.device) -> TextNetwork:
        network = super()._predicting(device)
        if isinstance(network, AttentionTree) and network.beam != self.beam:
            network = copy.copy(network)  # shares the weights; other views of this model may have other beams
            network.beam = self.beam
        return network

    def _network_state(self) -> State:
        network = self.network_
        state = State(arrays={name: to_array(t) for name, t in network.state_dict().items()})
        if isinstance(network, AttentionTree):
            state.values["levels"] = len(network.levels)
            state.arrays |= {f"children.{j}": to_array(network.members(j)) for j in range(network.n_tables)}
        return state

    def _network_from(self, state: State) -> TextNetwork:
        levels = [""] if "levels" not in state.values else [f"levels.{j}." for j in range(state.count("levels", 2))]
        n_nodes = [state.array(f"{level}bias", np.float32, (None,)).size for level in levels]
        if n_nodes[-1] != self.n_labels_:
            raise ModelError(f"the network has {n_nodes[-1]} labels, but the model has {self.n_labels_}")
        for level in levels:
            state.array(f"{level}words", np.float32, (len(self.tokeniser_.words) + 1, None))
        for j, (n, below) in enumerate(pairwise(n_nodes)):
            check_table(f"children.{j}", state.array(f"children.{j}", np.int64, (n, None)), below)
        arrays = {name: array for name, array in state.arrays.items() if not name.startswith("children.")}
        weights = {name: from_array(array) for name, array in arrays.items()}
        check_same_shapes(lambda: self._empty_network(weights, state), arrays)
        network = self._empty_network(weights, state)
        network.load_state_dict(weights)
        return network

    def _like_network(self, state: State) -> TextNetwork:
        return self._empty_network(self.network_.state_dict(), state)

    def _empty_network(self, weights: dict[str, torch.Tensor], state: State) -> TextNetwork:
        if "levels" not in state.values:
            return self._build(weights["words"], weights["bias"])
        starts = [f"levels.{j}." for j in range(state.values["levels"])]
        levels = [self._build(weights[f"{start}words"], weights[f"{start}bias"]) for start in starts]
        tables = [from_array(state.arrays[f"children.{j}"]) for j in range(len(levels) - 1)]
        return AttentionTree(levels, tables, self.beam)
