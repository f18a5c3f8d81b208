"""X-GRank: a pretrained encoder trained with a loss over groups of labels, as an estimator."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.inputs import PathLike, check_path
from longtail.core.parameters import check_choice, check_whole
from longtail.core.run import Run
from longtail.core.state import State
from longtail.data.labels import read_label_table
from longtail.errors import DataError, ParameterError
from longtail.neural import losses
from longtail.neural.losses import LabelWeights
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.clusters import label_clusters, points_of_clusters, token_features
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.encoder_model import EncoderModel
from longtail.neural.text.label_head import LabelHead, encoded, log_odds, name_table
from longtail.neural.text.network import ScoringNetwork, TextNetwork
from longtail.neural.text.tokens import Tokens
from longtail.neural.text.xgrank_network import ClusterNetwork, FlatNetwork

logger = logging.getLogger(__name__)

_FEATURES = ("names", "text_vectors")  # of labels, as `LabelHead` takes them


class XGRank(EncoderModel):
    """A pretrained encoder whose label scores are trained as one group of noted labels above one group of others.

    The text is read by a transformer; its last five layers, pooled and side by side, meet a vector for every label.
    Up to `clusters_above` labels all are scored; above, clusters of labels are retrieved first and trained end to end
    with the ranking of their labels, `(1 - l) L_retrieve + l L_rank` with l rising from 0 to 0.5 (eq. 9).

    encoder: a folder or a hub name of a Hugging Face encoder. length: tokens of a text that are read. pooling: "cls",
    or "mean" for sentence encoders, over the last `layers` layers. dropout: of the document's vector.
    loss: "grank" (log(1 + sum exp(negatives) sum exp(-positives)), eq. 4) or "bce".
    label_text: the words of labels take part in their vectors. True: those of the label names, where `fit` is given
    any; a file of JSON, plain or compressed, for names that are ids: `{name: text}` or `{name: {"label": text}}`.
    label_features: what becomes of these words: "encoder", what the encoder made of the whole text before training, or
    "words", the mean of the encoder's word vectors, as in the paper.
    prior: the score of a label begins at how frequent it is. False: at 0, as in the paper; "bce" then takes epochs to
    learn that labels are rare.
    cluster_size, n_retrieved, label_width: labels of a cluster, clusters whose labels are ranked, width of a label's
    own vector; with clusters only.
    weighting: None, "pw", "pw-cb", "unbiased" (with "bce") or an object of `longtail.objectives`.
    learning_rate: of the encoder; head_learning_rate: of everything above it. warmup, clip, weight_decay, epochs,
    batch_size, average_from: see `TrainingPlan`. validation, metric, patience: a share of the points to hold out, and
    when to stop by them. token_cache: a folder for tokens, so that they are made once and need not fit into memory.
    quantise: "int8" predicts with 8-bit weights (CPU). compile: torch compiles the encoder's layers for training on a
    GPU, which takes half a minute and pays for large encoders. device, precision, n_jobs: as in `TrainingPlan`.
    """

    shaped_by = ("label_width",)
    memory_by = "label_width or clusters_above"

    def __init__(
        self,
        *,
        encoder: PathLike = "sentence-transformers/all-MiniLM-L6-v2",
        length: int = 512,
        pooling: str = "mean",
        layers: int = 5,
        dropout: float = 0.5,
        loss: str = "grank",
        weighting: Any = None,
        label_text: bool | PathLike = True,
        label_features: str = "encoder",
        prior: bool = True,
        clusters_above: int = 50_000,
        cluster_size: int = 32,
        n_retrieved: int = 60,
        label_width: int = 512,
        epochs: int = 12,
        batch_size: int = 32,
        learning_rate: float = 1e-4,
        head_learning_rate: float = 1e-3,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
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
        self.dropout = dropout
        self.loss = loss
        self.weighting = weighting
        self.label_text = label_text
        self.label_features = label_features
        self.prior = prior
        self.clusters_above = clusters_above
        self.cluster_size = cluster_size
        self.n_retrieved = n_retrieved
        self.label_width = label_width
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
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
        check_choice("loss", self.loss, ("grank", "bce"))
        if not isinstance(self.label_text, bool):
            self._label_file()
        check_choice("label_features", self.label_features, ("words", "encoder"))
        check_choice("prior", self.prior, (True, False))
        for name in ("cluster_size", "n_retrieved", "label_width"):
            check_whole(name, getattr(self, name), 1)
        check_whole("clusters_above", self.clusters_above, 0)

    def _fit(self, X: Sequence[str], Y: sparse.csr_matrix, run: Run) -> None:
        self._label_texts = self._texts_of_labels()  # first: what is wrong with them is said before any work
        super()._fit(X, Y, run)

    def _texts_of_labels(self) -> list[str] | None:
        names = self.label_names_
        if isinstance(self.label_text, bool):
            return names if self.label_text else None
        if names is None:
            raise ParameterError(
                f"label_text is a file ({self.label_text}), but fit was given no label_names to look up"
            )
        text_of = read_label_table(self._label_file()).names
        if not any(name in text_of for name in names):
            raise DataError(
                f"has none of the {len(names)} labels of the data, e.g. {names[0]!r}; it must map label names to texts",
                path=self.label_text,
            )
        missing = [name for name in names if name not in text_of]
        if missing:
            logger.warning(
                "%s has no text for %d of the %d labels, e.g. %r; their names are taken",
                self.label_text, len(missing), len(names), missing[0],
            )  # fmt: skip
        return [text_of.get(name, name) for name in names]

    def _label_file(self) -> Path:
        return check_path("label_text", self.label_text, "true, false or a file of label texts")

    def _job(self) -> dict[str, Any]:
        texts = json.dumps(self._label_texts).encode()
        return super()._job() | {"label_texts": hashlib.sha256(texts).hexdigest()}

    def _new_network(
        self, tokens: Tokens, learning: NDArray[np.intp], Y: sparse.csr_matrix, device: torch.device
    ) -> ScoringNetwork:
        encoder = self._take_encoder()
        features = self._features_of_labels(encoder, device)
        prior = self._first_scores(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0])
        if Y.shape[1] <= self.clusters_above:
            flat = self._flat(encoder, prior, features)
            flat.objective = self._objective(Y, device)
            return flat
        members = label_clusters(token_features(tokens)[learning], Y, self.cluster_size, seed=self.random_state)
        of_clusters = points_of_clusters(Y, members)
        counts = np.bincount(of_clusters.indices, minlength=of_clusters.shape[1])
        network = self._clustered(encoder, self._first_scores(counts, Y.shape[0]), prior, features, members)
        network.loss = losses.LOSSES[self.loss]
        network.weights = (
            LabelWeights(self.weighting, counts, Y.shape[0], device),
            self._objective(Y, device).weights,
        )
        return network

    def _first_scores(self, counts: NDArray[np.int64], n_points: int) -> torch.Tensor:
        """Of labels or clusters, before anything is known of a text."""
        return log_odds(counts, n_points) if self.prior else torch.zeros(counts.size)

    def _features_of_labels(self, encoder: TextEncoder, device: torch.device) -> dict[str, Any]:
        """What `LabelHead` is to know of the labels' texts."""
        texts = self._label_texts
        del self._label_texts
        if texts is None:
            return {}
        if self.label_features == "words":
            return {"names": name_table(self.tokeniser_.name_tokens(texts))}
        return {"text_vectors": encoded(encoder, self.tokeniser_.tokens(texts), self.tokeniser_.pad, device)}

    def _flat(self, encoder: TextEncoder, prior: torch.Tensor, features: dict[str, Any]) -> FlatNetwork:
        head = LabelHead(encoder.width, prior, name_width=encoder.word_vectors.shape[1], **features)
        return FlatNetwork(
            encoder, head, pad=self.tokeniser_.pad, dropout=self.dropout, head_learning_rate=self.head_learning_rate
        )

    def _clustered(
        self, encoder: TextEncoder, cluster_prior: torch.Tensor, prior: torch.Tensor,
        features: dict[str, Any], members: torch.Tensor,
    ) -> ClusterNetwork:  # fmt: skip
        head = LabelHead(
            encoder.width, prior, label_width=self.label_width, name_width=encoder.word_vectors.shape[1], sparse=True,
            **features,
        )  # fmt: skip
        return ClusterNetwork(
            encoder, LabelHead(encoder.width, cluster_prior), head, members, n_retrieved=self.n_retrieved,
            pad=self.tokeniser_.pad, dropout=self.dropout, head_learning_rate=self.head_learning_rate,
        )  # fmt: skip

    def _predicting(self, device: torch.device) -> TextNetwork:
        network = super()._predicting(device)
        if isinstance(network, ClusterNetwork):
            network.n_retrieved = self.n_retrieved  # may be set anew after training
        return network

    def _network_state(self) -> State:
        network: Any = self.network_
        state = super()._network_state()
        for name in _FEATURES:
            if getattr(network.head, name) is not None:
                state.arrays[name] = to_array(getattr(network.head, name))
        if isinstance(network, ClusterNetwork):
            state.arrays["members"] = to_array(network.members)
        return state

    def _empty_network(self, encoder: TextEncoder, heads: dict[str, torch.Tensor], state: State) -> TextNetwork:
        features = {name: from_array(state.arrays[name]) for name in _FEATURES if name in state.arrays}
        if "members" not in state.arrays:
            return self._flat(encoder, heads["head.bias"], features)
        members = from_array(state.arrays["members"])
        return self._clustered(encoder, heads["clusters.bias"], heads["head.bias"], features, members)
