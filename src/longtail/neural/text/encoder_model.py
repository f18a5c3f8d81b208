"""What the estimators over a pretrained encoder share: loading it, its parameters, how it is kept."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from longtail.core.inputs import PathLike
from longtail.core.parameters import check_choice, check_positive, check_share, check_whole
from longtail.core.state import State
from longtail.neural.plan import TrainingPlan
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.encoder import POOLINGS, TextEncoder, located
from longtail.neural.text.model import TextModel, Tokeniser
from longtail.neural.text.network import TextNetwork
from longtail.neural.text.tokeniser import EncoderTokeniser

_LOOKED_AT = 200  # texts, to see whether the tokenizer knows what they are made of


class EncoderModel(TextModel):
    """Base of XGRank and APLCXLNet."""

    encoder: PathLike
    pooling: str
    layers: int
    dropout: float
    head_learning_rate: float
    warmup: float
    weight_decay: float
    clip: float | None
    average_from: float | None
    compile: bool

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("pooling", self.pooling, POOLINGS)
        check_whole("layers", self.layers, 1)
        check_share("dropout", self.dropout)
        check_positive(head_learning_rate=self.head_learning_rate)
        check_choice("compile", self.compile, (True, False))

    def _plan(self) -> TrainingPlan:
        return TrainingPlan(
            epochs=self.epochs, learning_rate=self.learning_rate, batch_size=self.batch_size, clip=self.clip,
            warmup=self.warmup, schedule="linear", weight_decay=self.weight_decay, average_from=self.average_from,
            metric=self.metric if self.validation else None, patience=self.patience, precision=self.precision,
            device=self.device, seed=self.random_state, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _new_tokeniser(self, texts: Sequence[str]) -> EncoderTokeniser:
        # The encoder comes first: what is wrong with it is said before the texts are read.
        source = located(self.encoder)
        self._pretrained = TextEncoder.load(source, pooling=self.pooling, layers=self.layers)
        tokeniser = EncoderTokeniser.load(source, int(self.length))
        self._pretrained.check_fits(str(self.encoder), tokeniser, self.length)
        tokeniser.check_knows(str(self.encoder), [texts[i] for i in range(min(len(texts), _LOOKED_AT))])
        return tokeniser

    def _reader(self) -> Tokeniser:
        network: Any = self.network_
        if self.length != self.tokeniser_.length:
            network.encoder.check_fits(str(self.encoder), self.tokeniser_, self.length)
        return super()._reader()

    def _take_encoder(self) -> TextEncoder:
        encoder = self._pretrained
        del self._pretrained
        return encoder

    def _training(self, network: Any, device: torch.device) -> contextlib.AbstractContextManager[None]:
        return network.encoder.compiled() if self.compile and device.type == "cuda" else contextlib.nullcontext()

    def _tokeniser_from(self, state: State) -> EncoderTokeniser:
        return EncoderTokeniser.from_state(state)

    def _network_state(self) -> State:
        network: Any = self.network_
        state = State()
        state.nest("encoder", network.encoder.state())
        for name, tensor in network.state_dict().items():
            if not name.startswith("encoder."):
                state.arrays[f"heads/{name}"] = to_array(tensor)
        return state

    def _network_from(self, state: State) -> TextNetwork:
        encoder = TextEncoder.from_state(state.part("encoder"))
        heads = {
            name.removeprefix("heads/"): from_array(a) for name, a in state.arrays.items() if name.startswith("heads/")
        }
        network = self._empty_network(encoder, heads, state)
        weights = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
        network.load_state_dict(weights | heads)
        return network

    def _like_network(self, state: State) -> TextNetwork:
        network: Any = self.network_
        heads = {name: t for name, t in network.state_dict().items() if not name.startswith("encoder.")}
        return self._empty_network(network.encoder, heads, state)

    @abstractmethod
    def _empty_network(self, encoder: TextEncoder, heads: dict[str, torch.Tensor], state: State) -> TextNetwork:
        """The network that `_network_state` described; its weights, of which `heads` are some, are set afterwards."""
