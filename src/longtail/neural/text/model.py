"""Base of the text models: texts to tokens, training, prediction, explanation, saving."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Prepared
from longtail.core.explanation import Explanation, TokenWeight
from longtail.core.inputs import PathLike, check_path
from longtail.core.parameters import check_choice, check_whole
from longtail.core.predictions import Predictions
from longtail.core.progress import Progress, Silent
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import DataError, ModelError, ParameterError, TrainingError, first_line
from longtail.neural import held_out, losses
from longtail.neural.batches import to_device
from longtail.neural.device_csr import DeviceCsr
from longtail.neural.estimator import NetworkEstimator
from longtail.neural.losses import LabelWeights
from longtail.neural.placement import Placement, place, place_to_predict, seeded, torch_threads
from longtail.neural.shape import check_shape
from longtail.neural.text.batches import LengthBuckets, padded_batch
from longtail.neural.text.network import Objective, ScoringNetwork, TextNetwork, TextTraining, best_labels
from longtail.neural.text.quantise import quantised
from longtail.neural.text.tokens import Tokens
from longtail.neural.trainer import History, Validate, is_out_of_memory, train
from longtail.objectives import resolve_weighting

_PREDICTION_BATCH_FACTOR = 4  # a prediction stores no gradients, so its batches may be larger than those of training
QUANTISATIONS = ("none", "int8")


class Tokeniser(Protocol):
    """Texts to tokens, and back to the characters that the tokens stand for."""

    pad: int
    length: int

    @property
    def n_special(self) -> int: ...

    def tokens(self, texts: Any, *, cache: PathLike | None = None) -> Tokens: ...

    def pieces(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]: ...

    def state(self) -> State: ...


@dataclass(frozen=True, eq=False)
class PreparedTexts(Prepared):
    """The training points, and the label texts if the model reads them."""

    label_texts: list[str] | None

    def job(self) -> dict[str, Any]:
        return {"label_texts": hashlib.sha256(json.dumps(self.label_texts).encode()).hexdigest()}


@dataclass(frozen=True, eq=False)
class TrainingTexts:
    """What a text network is built from and trained on.

    `rows` are the texts of `tokens` to train on, `Y` their labels. `source` is what the network starts from: a
    pretrained encoder or a table of word vectors. `label_texts` are the label texts, if the model reads them.
    """

    tokens: Tokens
    rows: NDArray[np.intp]
    Y: sparse.csr_matrix
    source: Any
    device: torch.device
    label_texts: list[str] | None = None
    progress: Progress = field(default_factory=Silent)  # where long preparations are reported


@dataclass(kw_only=True, eq=False, repr=False)
class TextModel(NetworkEstimator):
    """Base of the text models. A subclass makes, saves and loads the tokeniser and the network."""

    input_kind = "text"
    adjustable: ClassVar[tuple[str, ...]] = ("length", "quantise")
    free_on_resume: ClassVar[tuple[str, ...]] = (*NetworkEstimator.free_on_resume, "token_cache", "quantise")
    not_saved = ("token_cache",)
    shaped_by: ClassVar[tuple[str, ...]]  # parameters that determine the shape of the network
    memory_by: ClassVar[str]  # parameters that determine the memory per label, as text for a message

    length: int = 512
    loss: str = "bce"
    weighting: Any = None
    token_cache: PathLike | None = None
    quantise: str = "none"

    # --- what a subclass defines --------------------------------------------------------------------------------------

    @abstractmethod
    def _new_tokeniser(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """Return the tokeniser for these texts, and what the network starts from (`TrainingTexts.source`)."""

    @abstractmethod
    def _new_network(self, texts: TrainingTexts) -> ScoringNetwork:
        """Return the network for these texts and labels; torch is seeded."""

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("length", self.length, 3)
        check_choice("quantise", self.quantise, QUANTISATIONS)
        self._cache()
        if not resolve_weighting(self.weighting).bounded and self.loss != "bce":
            raise ParameterError(f"weighting={self.weighting!r} needs a loss that decomposes over labels: loss='bce'")

    # --- training -----------------------------------------------------------------------------------------------------

    def _prepare(self, X: Sequence[str], Y: sparse.csr_matrix, **more: Any) -> PreparedTexts:
        super()._prepare(X, Y, **more)
        return PreparedTexts(X, Y, self._texts_of_labels())

    def _texts_of_labels(self) -> list[str] | None:
        """Return the label texts, if the model reads them."""
        return None

    def _fit(self, prepared: Prepared, run: Run) -> None:
        X, Y = prepared.X, prepared.Y
        placement = place(self.device, self.precision)
        losses.warn_if_unbounded(self.weighting)
        self._copies: dict[str, TextNetwork] = {}  # shared by views of the model, see `adjusted`
        self.tokeniser_, source = self._new_tokeniser(X)
        tokens = self.tokeniser_.tokens(X, cache=self._cache())
        learning, tested = held_out.split(len(tokens), self.held_out, self.random_state)
        validate = self._validation(X, Y, tested) if tested.size else None
        assert isinstance(prepared, PreparedTexts)
        texts = TrainingTexts(
            tokens, learning, Y[learning], source, placement.device, prepared.label_texts, run.progress
        )
        try:
            self._train(texts, validate, run)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(
                f"the network for {Y.shape[1]} labels does not fit into memory ({first_line(error)}); "
                f"leave out rare labels, set a smaller {self.memory_by}, or train on a machine with more memory"
            ) from error

    def _train(self, texts: TrainingTexts, validate: Validate | None, run: Run) -> None:
        with seeded(self.random_state), torch_threads(self.n_jobs):
            network = self._new_network(texts)
        self.network_: TextNetwork = network
        training = TextTraining(network, DeviceCsr(texts.Y, texts.device))
        with self._training(network, texts.device):
            self.history_: History = train(training, self._batches(texts), self.plan(), validate=validate, run=run)

    def _training(self, network: Any, device: torch.device) -> contextlib.AbstractContextManager[None]:
        """Return a context for the training of the network."""
        return contextlib.nullcontext()

    def _batches(self, texts: TrainingTexts) -> LengthBuckets:
        pad = self.tokeniser_.pad
        return LengthBuckets(texts.tokens, texts.rows, self.batch_size, pad=pad, seed=self.random_state)

    def _objective(self, Y: sparse.csr_matrix, device: torch.device) -> Objective:
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        return Objective(losses.LOSSES[self.loss], LabelWeights(self.weighting, counts, Y.shape[0], device))

    def _validation(self, X: Sequence[str], Y: sparse.csr_matrix, tested: NDArray[np.intp]) -> Validate:
        score = self._metric_scorer()
        texts, labels = [X[i] for i in tested], Y[tested]
        # Without quantisation: an 8-bit copy would be that of an earlier epoch.
        return lambda module: {str(self.metric): 100 * score(self.adjusted(quantise="none"), texts, labels)}

    def _cache(self) -> Path | None:
        return None if self.token_cache is None else check_path("token_cache", self.token_cache, "a folder or None")

    # --- prediction ---------------------------------------------------------------------------------------------------

    def _predict(self, X: Sequence[str], k: int) -> Predictions:
        placement = place_to_predict(self.device, self.precision)
        tokens = self._reader().tokens(X, cache=self._cache())
        with torch_threads(self.n_jobs):
            network = self._predicting(placement.device)
            found = best_labels(
                network, tokens, k, pad=self.tokeniser_.pad, batch_size=_PREDICTION_BATCH_FACTOR * self.batch_size,
                placement=placement, among=self.label_counts_ > 0,
            )  # fmt: skip
        return found.without(tokens.lengths <= self.tokeniser_.n_special)  # no token of the text itself is known

    def _reader(self) -> Tokeniser:
        """Return the tokeniser; it cuts texts to `length`, which may be changed after fit."""
        reader: Tokeniser = copy.copy(self.tokeniser_)  # other views of this model may read other lengths
        reader.length = int(self.length)  # int: JSON does not take NumPy's integers
        return reader

    def _predicting(self, device: torch.device) -> TextNetwork:
        if self.quantise == "none":
            return self.network_.to(device)
        if device.type != "cpu":
            raise ParameterError("quantise='int8' predicts on a CPU only; set device='cpu' or quantise='none'")
        if "int8" not in self._copies:
            self._copies["int8"] = quantised(self.network_.to(device))
        return self._copies["int8"]

    def _explain(self, X: Sequence[str], label: int) -> Explanation:
        text = X[0]
        ids, spans = self._reader().pieces(text)
        placement = place_to_predict(self.device, "float32")
        tokens = Tokens.of([ids])
        with torch_threads(self.n_jobs):
            batch = to_device(padded_batch(tokens, np.arange(1), self.tokeniser_.pad), placement.device)
            score, weights = self.network_.to(placement.device).token_weights(batch, label)
        values = weights.cpu().numpy().astype(float)[: len(spans)]
        shown = [(span, value) for span, value in zip(spans, values, strict=False) if span is not None]
        total = sum(abs(value) for _, value in shown) or 1.0
        found = [TokenWeight(text[a:b], a, b, float(value / total)) for (a, b), value in shown]
        return Explanation(label, score, found)

    # --- saving and loading -------------------------------------------------------------------------------------------

    def _get_state(self) -> State:
        state = State({"history": asdict(self.history_)})
        state.nest("tokeniser", self.tokeniser_.state())
        network = self._network_state()
        check_shape(self.network_, lambda: self._like_network(network), self.shaped_by)
        state.nest("network", network)
        return state

    def _set_state(self, state: State) -> None:
        self.check_parameters()  # they describe the network
        self._copies = {}
        self.tokeniser_ = self._tokeniser_from(state.part("tokeniser"))
        self.network_ = self._network_from(state.part("network"))
        self.network_.eval()
        self.history_ = History(**state.values["history"])

    def _check_learned(self) -> None:
        """Let the network read a text of one token: settings that do not go together show only there."""
        placement = Placement(torch.device("cpu"), "float32")
        try:
            with torch_threads(1):
                best_labels(
                    self.network_, Tokens.of([[self.tokeniser_.pad]]), 1, pad=self.tokeniser_.pad, batch_size=1,
                    placement=placement,
                )  # fmt: skip
        except DataError as error:
            raise ModelError(str(error)) from error
        except Exception as error:  # torch and transformers raise errors of many kinds
            raise ModelError(f"the network cannot read a text ({type(error).__name__}: {first_line(error)})") from error

    @abstractmethod
    def _tokeniser_from(self, state: State) -> Tokeniser: ...

    @abstractmethod
    def _network_state(self) -> State: ...

    @abstractmethod
    def _network_from(self, state: State) -> TextNetwork: ...

    @abstractmethod
    def _like_network(self, state: State) -> TextNetwork:
        """Return the network as `_network_from` would build it from this state; its weights do not matter."""
