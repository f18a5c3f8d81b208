"""X-GRank: a pretrained encoder with a vector per label and retrieval by label clusters, as an estimator."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.core.check_arrays import check_table, check_within
from longtail.core.inputs import PathLike, check_path
from longtail.core.parameters import check_choice, check_whole
from longtail.core.state import State
from longtail.data.vocabularies import read_vocabulary
from longtail.errors import DataError, ParameterError
from longtail.neural import losses
from longtail.neural.losses import LabelWeights
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.clusters import label_clusters, points_of_clusters, token_features
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.encoder_model import EncoderModel
from longtail.neural.text.label_head import LabelHead, encoded, log_odds, name_table
from longtail.neural.text.model import TrainingTexts
from longtail.neural.text.network import ScoringNetwork, TextNetwork
from longtail.neural.text.xgrank_network import ClusterNetwork, FlatNetwork

logger = logging.getLogger(__name__)

_FEATURES = ("names", "text_vectors")  # of labels: arguments of `LabelHead`


@dataclass(kw_only=True, eq=False, repr=False)
class XGRank(EncoderModel):
    """A pretrained encoder and one vector per label, after X-GRank.

    The last layers of a transformer, pooled and concatenated, are scored against the label vectors. Up to
    `clusters_above` labels, all labels are scored; above, label clusters are retrieved first.

    Parameters
    ----------
    encoder : path or str, default "sentence-transformers/all-MiniLM-L6-v2"
        Folder or hub name of a Hugging Face encoder.
    length : int, default 256
        Tokens per text; longer texts are cut. May be changed after fit.
    pooling : {"mean", "cls"}, default "mean"
        "mean" suits sentence encoders, "cls" encoders trained with a first token.
    layers : int, default 5
        How many of the encoder's last layers are pooled.
    dropout : float, default 0.3
        Dropout of the text's vector.
    loss : {"bce", "grank"}, default "bce"
        "grank" is the loss of the paper, which ranks the group of observed labels above the group of others:
        log(1 + sum exp(negatives) sum exp(-positives)), eq. 4. On our data "bce" is as good or better after a few
        epochs, see the guide on text models.
    weighting : None, str or object, default None
        None, "pw", "pw-cb", "unbiased" (with "bce") or an object of `longtail.objectives`.
    label_text : bool or path, default True
        Texts of the labels, from which part of their vectors is computed. True takes the label names, if `fit` is given
        any; False uses no texts. For names that are ids: a JSON file, plain or compressed, of `{name: text}` or
        `{name: {"label": text}}`.
    label_features : {"encoder", "words"}, default "encoder"
        How these texts become vectors: by the encoder as it is before training, or as the mean of the encoder's word
        vectors, as in the paper.
    prior : bool, default True
        Whether the score of a label starts at the log-odds of its frequency. False starts at 0, as in the paper; "bce"
        then takes epochs to learn that labels are rare.
    clusters_above : int, default 50,000
        With more labels than this, label clusters are retrieved first.
    cluster_size : int, default 32
        Labels per cluster.
    n_retrieved : int, default 60
        Clusters per point whose labels are ranked; may be changed after fit.
    label_width : int, default 512
        Width of a label's own vector; only with clusters.
    learning_rate : float, default 3e-4
        Learning rate of the encoder.
    head_learning_rate : float, default 2e-3
        Learning rate of everything above the encoder.
    token_cache : path or None, default None
        Folder for tokens, so that they are computed once and need not fit into memory.
    quantise : {"none", "int8"}, default "none"
        "int8" predicts with 8-bit weights, on a CPU only. May be changed after fit.
    compile : bool, default False
        Whether torch compiles the encoder's layers for training on a GPU; it takes half a minute and pays off for large
        encoders.
    epochs : int, default 6
        Passes over the training points; fewer if training stops early.
    batch_size : int, default 128
        Points per batch.
    accumulate : int, default 1
        Batches per step.
    clip : float or None, default 1.0
        Largest norm of all gradients together; None does not clip.
    weight_decay : float, default 0.01
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
    network_ : FlatNetwork or ClusterNetwork
        The trained network.
    tokeniser_ : EncoderTokeniser
        The tokenizer of the encoder.
    history_ : History
        Loss, seconds and metric per epoch.

    Notes
    -----
    Retrieval of the clusters and ranking of their labels are trained end to end: the loss is
    `(1 - l) L_retrieve + l L_rank` with l rising from 0 to 0.5 (eq. 9).
    """

    shaped_by = ("label_width",)
    memory_by = "label_width or clusters_above"

    adjustable: ClassVar[tuple[str, ...]] = (*EncoderModel.adjustable, "n_retrieved")

    length: int = 256
    layers: int = 5
    dropout: float = 0.3
    label_text: bool | PathLike = True
    label_features: str = "encoder"
    prior: bool = True
    clusters_above: int = 50_000
    cluster_size: int = 32
    n_retrieved: int = 60
    label_width: int = 512
    epochs: int = 6
    batch_size: int = 128
    learning_rate: float = 3e-4
    weight_decay: float = 0.01

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("loss", self.loss, ("grank", "bce"))
        if not isinstance(self.label_text, bool):
            self._label_file()
        check_choice("label_features", self.label_features, ("words", "encoder"))
        check_choice("prior", self.prior, (True, False))
        for name in ("cluster_size", "n_retrieved", "label_width"):
            check_whole(name, getattr(self, name), 1)
        check_whole("clusters_above", self.clusters_above, 0)

    def _texts_of_labels(self) -> list[str] | None:
        names = self.label_names_
        if isinstance(self.label_text, bool):
            return names if self.label_text else None
        if names is None:
            raise ParameterError(
                f"label_text is the file {self.label_text}, but there are no label names to look up in it; "
                "pass label_names to fit"
            )
        vocabulary = read_vocabulary(self._label_file())
        text_of = {label: vocabulary.name(label) for label in vocabulary.concepts}
        if not any(name in text_of for name in names):
            raise DataError(
                f"no text for any of the {len(names)} labels of the data, e.g. {names[0]!r}; "
                "the file must map label names to texts",
                path=self.label_text,
            )
        missing = [name for name in names if name not in text_of]
        if missing:
            logger.warning(
                "%s: no text for %d of the %d labels, e.g. %r; their names are used instead",
                self.label_text, len(missing), len(names), missing[0],
            )  # fmt: skip
        return [text_of.get(name, name) for name in names]

    def _label_file(self) -> Path:
        return check_path("label_text", self.label_text, "true, false or a file of label texts")

    def _new_network(self, texts: TrainingTexts) -> ScoringNetwork:
        encoder, Y, device = texts.source, texts.Y, texts.device
        features = self._features_of_labels(texts)
        prior = self._first_scores(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0])
        if Y.shape[1] <= self.clusters_above:
            flat = self._flat(encoder, prior, features)
            flat.objective = self._objective(Y, device)
            return flat
        seen = token_features(texts.tokens)[texts.rows]
        members = label_clusters(seen, Y, self.cluster_size, seed=self.random_state)
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
        """Return the initial scores of labels or clusters."""
        return log_odds(counts, n_points) if self.prior else torch.zeros(counts.size)

    def _features_of_labels(self, texts: TrainingTexts) -> dict[str, Any]:
        """Return the arguments of `LabelHead` for the label texts."""
        if texts.label_texts is None:
            return {}
        if self.label_features == "words":
            return {"names": name_table(self.tokeniser_.name_tokens(texts.label_texts))}
        tokens = self.tokeniser_.tokens(texts.label_texts)
        pad, device = self.tokeniser_.pad, texts.device
        return {"text_vectors": encoded(texts.source, tokens, pad, device, progress=texts.progress)}

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
        if isinstance(network, ClusterNetwork) and network.n_retrieved != self.n_retrieved:
            network = copy.copy(network)  # shares the weights; other views of this model may retrieve more or fewer
            network.n_retrieved = self.n_retrieved
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

    def _check_tables(self, encoder: TextEncoder, state: State) -> None:
        n_labels = self.n_labels_
        state.array("heads/head.bias", np.float32, (n_labels,))
        if "names" in state.arrays:
            names = state.array("names", np.int64, (n_labels, None))
            check_within("names", names, -1, encoder.word_vectors.shape[0])
        if "text_vectors" in state.arrays:
            state.array("text_vectors", np.float32, (n_labels, None))
        if "members" in state.arrays:
            n_clusters = state.array("heads/clusters.bias", np.float32, (None,)).size
            check_table("members", state.array("members", np.int64, (n_clusters, None)), n_labels)

    def _empty_network(self, encoder: TextEncoder, heads: dict[str, torch.Tensor], state: State) -> TextNetwork:
        features = {name: from_array(state.arrays[name]) for name in _FEATURES if name in state.arrays}
        if "members" not in state.arrays:
            return self._flat(encoder, heads["head.bias"], features)
        members = from_array(state.arrays["members"])
        return self._clustered(encoder, heads["clusters.bias"], heads["head.bias"], features, members)
