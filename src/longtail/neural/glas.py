"""GLaS: the embedding classifier with label regularisation, as an estimator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from longtail.core.estimator import Prepared
from longtail.core.parameters import (
    check_at_least_zero,
    check_choice,
    check_positive,
    check_whole,
)
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ParameterError, TrainingError
from longtail.neural import held_out, losses
from longtail.neural.batches import ShuffledRows
from longtail.neural.device_csr import DeviceCsr
from longtail.neural.embedding import EmbeddingClassifier, EmbeddingTraining
from longtail.neural.estimator import NetworkEstimator
from longtail.neural.mips import KINDS, LabelSearch
from longtail.neural.placement import Placement, place, place_to_predict, seeded, torch_threads
from longtail.neural.regularisers import REGULARISERS, CoOccurrence
from longtail.neural.shape import check_same_shapes, check_shape
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.trainer import History, train
from longtail.objectives import resolve_weighting

_SINGLE = ("softmax", "margin", "negative-mining")
_DECOMPOSABLE = ("bce", "squared-hinge")
_POINTS_AT_ONCE = 4096  # embedded at once in a prediction
_MOST_LABELS_IN_FULL = 16_000  # with more labels, negatives="auto" scores each point against a sample of them
_SAMPLE = 1000
_QUERIES = 1000  # training points on which the recall of the label search is measured


@dataclass(kw_only=True, eq=False, repr=False)
class GLaS(NetworkEstimator):
    """Points and labels as unit vectors in one space, regularised by the co-occurrence of labels.

    A network embeds the sparse features, each label has a vector, and a score is their inner product (Guo et al.,
    NeurIPS 2019).

    Parameters
    ----------
    weighting : None, str or object, default None
        None, "pw", "pw-cb", "unbiased" (with the losses "bce" and "squared-hinge") or an object of
        `longtail.objectives`.
    width : int, default 1024
        Dimension of the space.
    hidden : tuple of int, default ()
        Widths of the hidden ReLU layers; () is a linear map.
    loss : {"softmax", "bce", "squared-hinge", "margin", "negative-mining", "grank"}, default "softmax"
        Loss to minimise.
    margin : float, default 10.0
        Margin of "margin" and "negative-mining", in units of the scores (cosines times a trained scale that starts at
        20).
    negatives : int, "all" or "auto", default "auto"
        Labels drawn at random that each point is scored against, besides those of its batch; they stand for all
        others, so that sums over labels are on average what they are with "all". A sixteenth of the batch shares its
        draws. Fewer are faster and less accurate. "auto" is "all" up to 16,000 labels and 1,000 above.
    labels_per_point : {"auto", "mean", "sum", "one"}, default "auto"
        How the labels of a point count in a step: their mean, their sum, or one of them drawn at random. "auto" is
        "mean" for losses that compare single labels with the others ("softmax", "margin", "negative-mining"), "sum"
        for the rest.
    regulariser : {"glas", "spread-out", "gravity", "none"} or None, default "glas"
        Penalty that keeps label vectors from overfitting.
    strength : float, default 100.0
        Weight of the regulariser.
    keep : float, default 1.0
        Share of the input features that input dropout keeps.
    search : {"auto", "exact", "codes"}, default "auto"
        Label search: exact or approximate (FAISS); "auto" is exact up to 2,048 labels of width 1024, or as many values
        with another width.
    epochs : int, default 5
        Passes over the training points; fewer if training stops early.
    batch_size : int, default 1024
        Points per batch.
    learning_rate : float, default 0.01
        Learning rate of the network.
    accumulate : int, default 1
        Batches per step.
    clip : float or None, default None
        Largest norm of all gradients together; None does not clip.
    weight_decay : float, default 0.0
        Weight decay of AdamW.
    epsilon : float, default 1e-4
        Epsilon of Adam. When it is about the size of a gradient or larger, weights of rare features move less than
        others.
    warmup : float, default 0.0
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
    network_ : EmbeddingClassifier
        The trained network.
    history_ : History
        Loss, seconds and metric per epoch.
    search_recall_ : float
        Share of the true 5 best labels that the label search found on training points; 1.0 for exact search.

    Notes
    -----
    The regulariser pulls the inner products of label vectors towards the mean of the labels' conditional frequencies,
    `strength / B^2 |V'V - (A Z^-1 + Z^-1 A)/2|^2` over the labels of a batch (eq. 3).
    """

    weighting: Any = None
    width: int = 1024
    hidden: tuple[int, ...] = ()
    loss: str = "softmax"
    margin: float = 10.0
    negatives: int | str = "auto"
    labels_per_point: str = "auto"
    regulariser: str | None = "glas"
    strength: float = 100.0
    keep: float = 1.0
    search: str = "auto"
    epochs: int = 5
    batch_size: int = 1024
    learning_rate: float = 0.01
    epsilon: float = 1e-4
    schedule: str = "linear"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("width", self.width, 1)
        if not isinstance(self.hidden, (tuple, list)):
            raise ParameterError(f"hidden is {self.hidden!r}, but must be a list of layer widths; [] for none")
        for width in self.hidden:
            check_whole("hidden", width, 1)
        check_choice("loss", self.loss, list(losses.LOSSES))
        check_choice("labels_per_point", self.labels_per_point, ("auto", "mean", "sum", "one"))
        check_choice("regulariser", self.regulariser, (*REGULARISERS, "none", None))
        check_choice("search", self.search, KINDS)
        check_positive(margin=self.margin, keep=self.keep)
        check_at_least_zero(strength=self.strength)
        if self.keep > 1:
            raise ParameterError(f"keep is {self.keep!r}, but must be a share, above 0 and up to 1")
        if self.negatives not in ("auto", "all"):
            check_whole("negatives", self.negatives, 1)
        if not resolve_weighting(self.weighting).bounded and self.loss not in _DECOMPOSABLE:
            raise ParameterError(
                f"weighting={self.weighting!r} needs a loss that decomposes over labels: 'bce' or 'squared-hinge'"
            )

    # --- training ---------------------------------------------------------------------------------------------------

    def _fit(self, prepared: Prepared, run: Run) -> None:
        X, Y = prepared.X, prepared.Y
        placement = place(self.device, self.precision)
        losses.warn_if_unbounded(self.weighting)
        learning, tested = held_out.split(X.shape[0], self.held_out, self.random_state)
        with seeded(self.random_state), torch_threads(self.n_jobs):
            self.network_ = self._new_network()
        training = self._training(X[learning], Y[learning], placement)
        batches = ShuffledRows(learning.size, self.batch_size, self.random_state)
        validate = self._validation(X[tested], Y[tested]) if tested.size else None
        self.history_: History = train(training, batches, self.plan(), validate=validate, run=run)
        queries = self._embedded(X[:: max(X.shape[0] // _QUERIES, 1)], placement)
        self._set_search(LabelSearch.build(
            self._label_vectors(), queries, kind=self.search, n_jobs=self.n_jobs, among=self.label_counts_ > 0
        ))  # fmt: skip

    def _new_network(self) -> EmbeddingClassifier:
        widths = (*self.hidden, self.width)
        try:
            return EmbeddingClassifier(self.n_features_in_, self.n_labels_, widths, offset=self.loss in _DECOMPOSABLE)
        except (RuntimeError, MemoryError) as error:
            raise TrainingError(
                f"a network of {self.n_features_in_} features, widths {widths} and {self.n_labels_} labels does not "
                "fit into memory; set a smaller width"
            ) from error

    def _training(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, placement: Placement) -> EmbeddingTraining:
        device = placement.device
        unseen = np.bincount(X.indices, minlength=X.shape[1]) == 0
        self.network_.forget_features(torch.from_numpy(unseen))
        loss = losses.LOSSES[self.loss]
        if self.loss in ("margin", "negative-mining"):
            loss = functools.partial(loss, c=self.margin)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        negatives = self.negatives
        if negatives == "auto":
            negatives = "all" if Y.shape[1] <= _MOST_LABELS_IN_FULL else _SAMPLE
        labels_per_point = self.labels_per_point
        if labels_per_point == "auto":
            labels_per_point = "mean" if self.loss in _SINGLE else "sum"
        return EmbeddingTraining(
            self.network_, DeviceCsr(X, device), DeviceCsr(Y, device), loss=loss,
            weights=losses.LabelWeights(self.weighting, counts, Y.shape[0], device),
            co_occurrence=CoOccurrence(Y, device) if self.regulariser == "glas" else None,
            regulariser=None if self.regulariser == "none" else self.regulariser, strength=self.strength,
            keep=self.keep, negatives=0 if negatives == "all" else int(negatives), labels_per_point=labels_per_point,
            sparse=placement.processes == 1,
        )  # fmt: skip

    def _validation(self, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> Callable[[nn.Module], dict[str, float]]:
        def validate(module: nn.Module) -> dict[str, float]:
            self._set_search(LabelSearch(self._label_vectors(), among=self.label_counts_ > 0))
            return {str(self.metric): 100 * score(self, X, Y)}

        score = self._metric_scorer()
        return validate

    # --- prediction -------------------------------------------------------------------------------------------------

    def _set_search(self, search: LabelSearch) -> None:
        self._search, self.search_recall_ = search, 1.0 if search.codes is None else search.codes.recall

    def _label_vectors(self) -> NDArray[np.float32]:
        with torch.no_grad():
            return np.asarray(to_array(self.network_.label_vectors()), np.float32)

    def _embedded(self, X: sparse.csr_matrix, placement: Placement) -> NDArray[np.float32]:
        """Return phi(x) per point, (n, d)."""
        network = self.network_.to(placement.device)
        parts = [np.zeros((0, network.labels.shape[1]), np.float32)]
        with torch.no_grad(), torch_threads(self.n_jobs), placement.autocast():
            for start in range(0, X.shape[0], _POINTS_AT_ONCE):
                block = DeviceCsr(X[start : start + _POINTS_AT_ONCE], placement.device)
                points = torch.arange(block.shape[0], device=placement.device)
                parts.append(to_array(network(block.rows(points))))
        return np.concatenate(parts)

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        placement = place_to_predict(self.device, self.precision)
        found = self._search.top(self._embedded(X, placement), k, device=placement.device, n_jobs=self.n_jobs)
        # From cosines to the scores that the loss was trained on.
        with np.errstate(over="ignore", invalid="ignore"):  # too large is infinite; `Predictions` refuses NaN
            scores = found.scores * np.float32(self.network_.log_scale.exp().item())
        offset = self.network_.offset
        return Predictions(found.labels, scores if offset is None else scores + np.float32(offset.item()))

    def _get_state(self) -> State:
        check_shape(self.network_, self._new_network, ("width", "hidden", "loss"))
        weights = self.network_.state_dict()
        state = State(arrays={name: to_array(weights[name]) for name in weights if name != "labels"})
        state.nest("search", self._search.state())
        state.values["history"] = asdict(self.history_)
        return state

    def _set_state(self, state: State) -> None:
        self.check_parameters()  # they describe the network
        search = LabelSearch.from_state(state.part("search"), self.n_labels_, among=self.label_counts_ > 0)
        weights = {name: array for name, array in state.arrays.items() if not name.startswith("search/")}
        weights["labels"] = search.vectors
        check_same_shapes(self._new_network, weights)
        self._set_search(search)
        self.network_ = self._new_network()
        self.network_.load_state_dict({name: from_array(array) for name, array in weights.items()})
        self.network_.eval()
        self.history_ = History(**state.values["history"])
