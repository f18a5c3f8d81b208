"""Base of the estimators with a pretrained encoder: loading it, its parameters, saving it."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from longtail.core.inputs import PathLike
from longtail.core.parameters import check_choice, check_positive, check_share, check_whole
from longtail.core.state import State
from longtail.neural.shape import check_same_shapes
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.encoder import POOLINGS, TextEncoder, located
from longtail.neural.text.model import TextModel, Tokeniser
from longtail.neural.text.network import TextNetwork
from longtail.neural.text.tokeniser import EncoderTokeniser

_TEXTS_CHECKED = 200  # for tokens that the tokenizer does not know


@dataclass(kw_only=True, eq=False, repr=False)
class EncoderModel(TextModel):
    """Base of XGRank and APLCXLNet; `XGRank` describes the parameters."""

    free_on_resume: ClassVar[tuple[str, ...]] = (*TextModel.free_on_resume, "compile")

    encoder: PathLike = "sentence-transformers/all-MiniLM-L6-v2"
    pooling: str = "mean"
    layers: int = 1
    dropout: float = 0.1
    head_learning_rate: float = 2e-3
    warmup: float = 0.1
    schedule: str = "linear"
    clip: float | None = 1.0
    compile: bool = False

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("pooling", self.pooling, POOLINGS)
        check_whole("layers", self.layers, 1)
        check_share("dropout", self.dropout)
        check_positive(head_learning_rate=self.head_learning_rate)
        check_choice("compile", self.compile, (True, False))

    def _new_tokeniser(self, texts: Sequence[str]) -> tuple[EncoderTokeniser, TextEncoder]:
        # The encoder first, so that an error in it is reported before the texts are read.
        folder = located(self.encoder)
        pretrained = TextEncoder.load(folder, pooling=self.pooling, layers=self.layers)
        tokeniser = EncoderTokeniser.load(folder, int(self.length))
        pretrained.check_fits(str(self.encoder), tokeniser, self.length)
        tokeniser.check_knows(str(self.encoder), [texts[i] for i in range(min(len(texts), _TEXTS_CHECKED))])
        return tokeniser, pretrained

    def _reader(self) -> Tokeniser:
        network: Any = self.network_
        if self.length != self.tokeniser_.length:
            network.encoder.check_fits(str(self.encoder), self.tokeniser_, self.length)
        return super()._reader()

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
        encoder.check_sizes("the encoder", self.tokeniser_, self.tokeniser_.length)
        self._check_tables(encoder, state)
        arrays = {name.removeprefix("heads/"): a for name, a in state.arrays.items() if name.startswith("heads/")}
        heads = {name: from_array(array) for name, array in arrays.items()}
        weights = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
        of_encoder = {name: tensor.numpy() for name, tensor in weights.items()}
        check_same_shapes(lambda: self._empty_network(encoder, heads, state), arrays | of_encoder)
        network = self._empty_network(encoder, heads, state)
        network.load_state_dict(weights | heads)
        return network

    @abstractmethod
    def _check_tables(self, encoder: TextEncoder, state: State) -> None:
        """Raise ModelError if a table of labels or tokens, which the network looks up, has numbers out of range."""

    def _like_network(self, state: State) -> TextNetwork:
        network: Any = self.network_
        heads = {name: t for name, t in network.state_dict().items() if not name.startswith("encoder.")}
        return self._empty_network(network.encoder, heads, state)

    @abstractmethod
    def _empty_network(self, encoder: TextEncoder, heads: dict[str, torch.Tensor], state: State) -> TextNetwork:
        """Return the network that `_network_state` described; its weights, some of them in `heads`, are set later."""
