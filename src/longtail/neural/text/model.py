"""What the text models have in common as estimators: texts to tokens, training, prediction, explanation."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import codec, registry
from longtail.core.estimator import Estimator
from longtail.core.inputs import PathLike, check_path
from longtail.core.parameters import check_choice, check_share, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.threads import thread_count
from longtail.errors import DataError, ParameterError, TrainingError, first_line
from longtail.neural import held_out, losses
from longtail.neural.batches import to_device
from longtail.neural.device_csr import DeviceCsr
from longtail.neural.losses import LabelWeights
from longtail.neural.placement import place, place_to_predict, seeded, torch_threads
from longtail.neural.plan import TrainingPlan
from longtail.neural.shape import check_shape
from longtail.neural.text.batches import LengthBuckets, padded_batch
from longtail.neural.text.network import Objective, ScoringNetwork, TextNetwork, TextTraining, best_labels
from longtail.neural.text.quantise import quantised
from longtail.neural.text.tokens import Tokens
from longtail.neural.trainer import History, Validate, is_out_of_memory, train
from longtail.objectives import resolve_weighting

# Parameters that may differ when an unfinished training goes on: where it runs, and what helps after a bad step.
_FREE = ("n_jobs", "device", "precision", "learning_rate", "clip", "token_cache", "quantise", "compile")
_BATCHES_AHEAD = 4  # a prediction keeps no gradients, so its batches may be this much larger
QUANTISATIONS = ("none", "int8")


class Tokeniser(Protocol):
    """Texts to tokens and back to the characters that they stand for."""

    pad: int
    length: int

    def tokens(self, texts: Any, *, cache: PathLike | None = None) -> Tokens: ...

    def pieces(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]: ...

    def state(self) -> State: ...


@dataclass(frozen=True)
class TokenWeight:
    """How much one token, `text[start:end]`, spoke for a label; weights of a text add up to 1 in absolute value."""

    token: str
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Explanation:
    """What a model looked at: the label's score and the weights of the text's tokens, in their order."""

    label: int
    score: float
    tokens: list[TokenWeight]


class TextModel(Estimator):
    """Base of the models that read texts. A subclass makes the tokeniser and the network, and writes them down."""

    input_kind = "text"
    shaped_by: tuple[str, ...]  # parameters that say of which shape the network is
    memory_by: str  # parameters that say how much memory a label takes, in words

    length: int
    loss: str
    weighting: Any
    epochs: int
    batch_size: int
    learning_rate: float
    validation: float
    metric: str
    patience: int
    token_cache: PathLike | None
    quantise: str
    device: str
    precision: str
    n_jobs: int
    random_state: int
    tokeniser_: Any
    network_: TextNetwork

    # --- what a subclass says -----------------------------------------------------------------------------------------

    @abstractmethod
    def _plan(self) -> TrainingPlan: ...

    @abstractmethod
    def _new_tokeniser(self, texts: Sequence[str]) -> Tokeniser: ...

    @abstractmethod
    def _new_network(
        self, tokens: Tokens, learning: NDArray[np.intp], Y: sparse.csr_matrix, device: torch.device
    ) -> ScoringNetwork:
        """For the training points `learning` of these texts, with labels Y; whatever is random in it is seeded."""

    def _check_parameters(self) -> None:
        self._plan().check()
        check_whole("length", self.length, 3)
        check_choice("quantise", self.quantise, QUANTISATIONS)
        check_share("validation", self.validation)
        self._cache()
        if self.validation:
            held_out.metric_scorer(self.metric)
        thread_count(self.n_jobs)
        if not resolve_weighting(self.weighting).bounded and self.loss != "bce":
            raise ParameterError(f"weighting={self.weighting!r} needs a loss that decomposes over labels: loss='bce'")

    # --- training -----------------------------------------------------------------------------------------------------

    def _fit(self, X: Sequence[str], Y: sparse.csr_matrix, run: Run) -> None:
        placement = place(self.device, self.precision)
        losses.warn_where_unbounded(self.weighting)
        if run.checkpoint:
            run.checkpoint.open(self._job())
        self._quantised: TextNetwork | None = None
        self.tokeniser_ = self._new_tokeniser(X)
        tokens = self.tokeniser_.tokens(X, cache=self._cache())
        learning, tested = held_out.split(len(tokens), self.validation, self.random_state)
        validate = self._validation(X, Y, tested) if tested.size else None
        self._fitting = True
        try:
            self._train(tokens, learning, Y[learning], placement.device, validate, run)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(
                f"the network for {Y.shape[1]} labels does not fit into memory ({first_line(error)}); "
                f"leave rare labels out, set a smaller {self.memory_by}, or train where there is more memory"
            ) from error
        finally:
            self._fitting = False

    def _train(
        self, tokens: Tokens, learning: NDArray[np.intp], Y: sparse.csr_matrix, device: torch.device,
        validate: Validate | None, run: Run,
    ) -> None:  # fmt: skip
        """Train on the points `learning` of these texts, whose labels are Y."""
        with seeded(self.random_state), torch_threads(self.n_jobs):
            network = self._new_network(tokens, learning, Y, device)
        self.network_ = network
        training = TextTraining(network, DeviceCsr(Y, device))
        with self._training(network, device):
            self.history_: History = train(
                training, self._batches(tokens, learning), self._plan(), validate=validate, run=run
            )

    def _training(self, network: Any, device: torch.device) -> contextlib.AbstractContextManager[None]:
        """What holds of a network only while it is trained."""
        return contextlib.nullcontext()

    def _batches(self, tokens: Tokens, learning: NDArray[np.intp]) -> LengthBuckets:
        return LengthBuckets(tokens, learning, self.batch_size, pad=self.tokeniser_.pad, seed=self.random_state)

    def _objective(self, Y: sparse.csr_matrix, device: torch.device) -> Objective:
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        return Objective(losses.LOSSES[self.loss], LabelWeights(self.weighting, counts, Y.shape[0], device))

    def _validation(self, X: Sequence[str], Y: sparse.csr_matrix, tested: NDArray[np.intp]) -> Validate:
        score = held_out.metric_scorer(self.metric)
        texts, labels = [X[i] for i in tested], Y[tested]
        return lambda module: {self.metric: 100 * score(self, texts, labels)}

    def _cache(self) -> Path | None:
        return None if self.token_cache is None else check_path("token_cache", self.token_cache, "a folder or None")

    def _job(self) -> dict[str, Any]:
        parameters = {k: codec.encode(v) for k, v in self.get_params(deep=False).items() if k not in _FREE}
        return {"model": registry.name_of(type(self)), "parameters": parameters, "data": self.fingerprint_}

    # --- prediction ---------------------------------------------------------------------------------------------------

    def _predict(self, X: Sequence[str], k: int) -> Predictions:
        placement = place_to_predict(self.device, self.precision)
        tokens = self._reader().tokens(X, cache=self._cache())
        with torch_threads(self.n_jobs):
            network = self._predicting(placement.device)
            return best_labels(
                network, tokens, k, pad=self.tokeniser_.pad, batch_size=_BATCHES_AHEAD * self.batch_size,
                placement=placement,
            )  # fmt: skip

    def _reader(self) -> Tokeniser:
        """The tokeniser; it cuts to `length`, which may be set anew after training."""
        self.tokeniser_.length = int(self.length)  # NumPy has whole numbers that JSON does not know
        found: Tokeniser = self.tokeniser_
        return found

    def _predicting(self, device: torch.device) -> TextNetwork:
        # While it is trained, a network is validated as it is: an 8-bit copy would be that of an earlier epoch.
        if self.quantise == "none" or getattr(self, "_fitting", False):
            return self.network_.to(device)
        if device.type != "cpu":
            raise ParameterError("quantise='int8' is for prediction on a CPU; set device='cpu', or quantise='none'")
        if getattr(self, "_quantised", None) is None:
            self._quantised = quantised(self.network_.to(device))
        assert self._quantised is not None
        return self._quantised

    def explain(self, text: str, label: int | str) -> Explanation:
        """How much each token of the text spoke for a label (its id, or its name where the model has names)."""
        self._check_fitted()
        self._check_parameters()
        if not isinstance(text, str):
            raise DataError(f"explain takes one text, not {type(text).__name__}")
        number = self._label_number(label)
        ids, spans = self._reader().pieces(text)
        placement = place_to_predict(self.device, "float32")
        tokens = Tokens.of([ids])
        with torch_threads(self.n_jobs):
            batch = to_device(padded_batch(tokens, np.arange(1), self.tokeniser_.pad), placement.device)
            score, weights = self.network_.to(placement.device).token_weights(batch, number)
        values = weights.cpu().numpy().astype(float)[: len(spans)]
        shown = [(span, value) for span, value in zip(spans, values, strict=False) if span is not None]
        total = sum(abs(value) for _, value in shown) or 1.0
        found = [TokenWeight(text[a:b], a, b, float(value / total)) for (a, b), value in shown]
        return Explanation(number, score, found)

    def _label_number(self, label: int | str) -> int:
        if isinstance(label, str):
            if self.label_names_ is None:
                raise ParameterError(f"the model has no label names; give the id of {label!r}")
            if label not in self.label_names_:
                raise ParameterError(registry.unknown("label", label, self.label_names_))
            return self.label_names_.index(label)
        check_whole("label", label, 0)
        if label >= self.n_labels_:
            raise ParameterError(f"label is {label}, but the model has {self.n_labels_} labels")
        return int(label)

    # --- how it is kept -----------------------------------------------------------------------------------------------

    def _get_state(self) -> State:
        state = State({"history": asdict(self.history_)})
        state.nest("tokeniser", self.tokeniser_.state())
        network = self._network_state()
        check_shape(self.network_, lambda: self._like_network(network), self.shaped_by)
        state.nest("network", network)
        return state

    def _set_state(self, state: State) -> None:
        self._quantised = None
        self.token_cache = None  # a folder of where the model was trained
        self.tokeniser_ = self._tokeniser_from(state.part("tokeniser"))
        self.network_ = self._network_from(state.part("network"))
        self.network_.eval()
        self.history_ = History(**state.values["history"])

    @abstractmethod
    def _tokeniser_from(self, state: State) -> Tokeniser: ...

    @abstractmethod
    def _network_state(self) -> State: ...

    @abstractmethod
    def _network_from(self, state: State) -> TextNetwork: ...

    @abstractmethod
    def _like_network(self, state: State) -> TextNetwork:
        """As `_network_from` would make it from `network_`'s state, its weights aside."""
