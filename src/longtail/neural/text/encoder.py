"""A pretrained encoder and the vector that it gives a text."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from longtail.core.inputs import check_path
from longtail.core.state import State
from longtail.errors import MissingExtraError, ModelError, ParameterError, first_line
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.steady_norm import with_steady_norms
from longtail.neural.text.tokeniser import EncoderTokeniser

try:
    import transformers
except ImportError as missing:
    raise MissingExtraError("transformers", "deep", "a text model with an encoder") from missing
from longtail.neural.text.fused_attention import with_fused_attention  # after it: it needs transformers too

Tensor = torch.Tensor
POOLINGS = ("cls", "mean")


class TextEncoder(nn.Module):
    """The last `layers` hidden states of a transformer, each pooled to one vector, side by side.

    pooling: "cls" takes the first token's, "mean" the mean over the tokens (for encoders that were trained so).
    """

    def __init__(self, model: nn.Module, *, pooling: str, layers: int) -> None:
        super().__init__()
        self.model, self.pooling = with_fused_attention(with_steady_norms(model)), pooling
        config: Any = model.config
        self.layers = min(layers, int(config.num_hidden_layers))
        self.width = self.layers * int(config.hidden_size)

    @property
    def word_vectors(self) -> Tensor:
        found: Tensor = self.model.get_input_embeddings().weight  # type: ignore[operator]
        return found

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """(n, width) of tokens (n, T) and mask (n, T), None where nothing is padded."""
        return self.embedded(self.model.get_input_embeddings()(tokens), mask)  # type: ignore[operator]

    def embedded(self, vectors: Tensor, mask: Tensor | None) -> Tensor:
        """The same from the vectors of the tokens (n, T, d), which gradients can reach."""
        given = None if mask is None else mask.long()
        states = self.model(inputs_embeds=vectors, attention_mask=given, output_hidden_states=True).hidden_states
        kept = states[-self.layers :]
        if self.pooling == "cls":
            return torch.cat([state[:, 0] for state in kept], 1)
        if mask is None:
            return torch.cat([state.mean(1) for state in kept], 1)
        share = (mask / mask.sum(1, keepdim=True)).unsqueeze(2)  # (n, T, 1)
        return torch.cat([(state * share).sum(1) for state in kept], 1)

    @contextlib.contextmanager
    def compiled(self, backend: str = "inductor") -> Iterator[None]:
        """For the time of a training torch.compile fuses what a layer does; all layers share one program, for whatever
        length texts have."""
        size = self.model.config.num_hidden_layers  # type: ignore[union-attr]
        stacks = [m for m in self.model.modules() if isinstance(m, nn.ModuleList) and len(m) == size]
        layers = list(stacks[0]) if stacks else []
        for layer in layers:
            layer.forward = torch.compile(layer.forward, dynamic=True, backend=backend)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward

    # --- where encoders come from, and how they are kept --------------------------------------------------------------

    @classmethod
    def load(cls, name: str, *, pooling: str, layers: int) -> TextEncoder:
        """From a folder (config.json and weights) or a name at the Hugging Face hub."""
        shown: Any = transformers.utils.logging
        bars, level = shown.is_progress_bar_enabled(), shown.get_verbosity()
        shown.disable_progress_bar()
        shown.set_verbosity_error()  # it reports at length that a layer which we do not use has no weights
        try:
            model, report = transformers.AutoModel.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
        except Exception as error:  # transformers raises whatever its parts raise
            known = "" if os.path.isdir(name) else "there is no folder of that name; "
            raise ModelError(
                f"the encoder {name!r} cannot be loaded ({first_line(error)}); {known}give a folder with config.json "
                "and model.safetensors, or the name of an encoder at the Hugging Face hub that can be reached from here"
            ) from error
        finally:
            shown.set_verbosity(level)
            if bars:
                shown.enable_progress_bar()
        missing = [key for key in report["missing_keys"] if "pooler" not in key and "position_ids" not in key]
        if missing:
            raise ModelError(f"the encoder {name!r} lacks weights, e.g. {sorted(missing)[0]!r}; its files are broken")
        return cls(_bare(model), pooling=pooling, layers=layers)

    def check_fits(self, name: str, tokeniser: EncoderTokeniser, length: int) -> None:
        """That this encoder, called `name`, reads texts, and what the tokeniser makes of them."""
        try:
            rows = self.word_vectors.shape[0]
        except AttributeError as error:
            raise ModelError(f"{name} is no encoder of texts: it has no word vectors") from error
        if tokeniser.n_tokens > rows:
            raise ParameterError(
                f"the tokenizer has {tokeniser.n_tokens} tokens, but the encoder has vectors for {rows}: they do not "
                "belong together; use the tokenizer files that came with the encoder"
            )
        most = _most_tokens(self.model.config)
        if most is not None and length > most:
            raise ParameterError(f"length is {length}, but this encoder reads at most {most} tokens; set length={most}")
        training = self.training
        try:
            with torch.no_grad():
                self.eval()(torch.zeros(1, length, dtype=torch.long, device=self.word_vectors.device), None)
        except Exception as error:  # whatever the code of a model raises that is made for something else
            raise ModelError(
                f"{name} cannot read a text of {length} tokens ({first_line(error)}); give an encoder of texts, "
                "e.g. a BERT, RoBERTa or MPNet, or a smaller length"
            ) from error
        finally:
            self.train(training)

    def state(self) -> State:
        config: Any = self.model.config
        values = {"config": json.loads(config.to_json_string(use_diff=False)), "pooling": self.pooling}
        arrays = {name: to_array(t) for name, t in self.model.state_dict().items()}
        return State(values | {"layers": self.layers}, arrays)

    @classmethod
    def from_state(cls, state: State) -> TextEncoder:
        config = dict(state.values["config"])
        made: Any = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
        auto: Any = transformers.AutoModel
        model = _bare(auto.from_config(made))
        model.load_state_dict({name: from_array(np.asarray(array)) for name, array in state.arrays.items()})
        return cls(model, pooling=state.values["pooling"], layers=state.values["layers"])


def _bare(model: Any) -> nn.Module:
    """Without the layer that some encoders put above the first token: we pool ourselves."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    found: nn.Module = model
    return found


def _most_tokens(config: Any) -> int | None:
    most = getattr(config, "max_position_embeddings", None)
    if most is None or most <= 0:
        return None
    # RoBERTa and its kin count positions from the pad id on, so some rows are never a token's.
    offset = config.pad_token_id + 1 if config.model_type in ("roberta", "mpnet", "xlm-roberta", "camembert") else 0
    return int(most) - offset


def located(name: Any) -> str:
    """The folder, its ~ expanded, or the name at the hub; an error where it is a folder without an encoder."""
    folder = check_path("encoder", name, "a folder or the name of an encoder at the hub")
    given_as_path, name = not isinstance(name, str), os.fspath(name)
    looks_local = given_as_path or folder.is_absolute() or name.startswith(".") or name.count("/") > 1
    if looks_local and not folder.is_dir():
        raise ModelError(f"the encoder folder {name} does not exist")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(f"the encoder folder {name} has no config.json; it is not that of a Hugging Face encoder")
    return str(folder) if folder.is_dir() else name
