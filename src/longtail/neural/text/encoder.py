"""A pretrained encoder, and the vector that it computes for a text."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from longtail.core.inputs import check_path
from longtail.core.parameters import check_choice
from longtail.core.state import State
from longtail.errors import MissingExtraError, ModelError, ParameterError, first_line
from longtail.neural.shape import check_same_shapes
from longtail.neural.snapshot import from_array, to_array
from longtail.neural.text.steady_norm import with_steady_norms
from longtail.neural.text.tokeniser import EncoderTokeniser

try:
    import transformers
    from transformers.models.auto import modeling_auto
except ImportError as missing:
    raise MissingExtraError("transformers", "deep", "a text model with an encoder") from missing
from longtail.neural.text.fused_attention import with_fused_attention  # after the check, because it needs transformers

Tensor = torch.Tensor
POOLINGS = ("cls", "mean")
# Settings by which a configuration could ask for code from elsewhere; longtail saves none that matters.
_CODE = ("attn_implementation", "auto_map", "quantization_config", "experts_implementation", "custom_pipelines")


class TextEncoder(nn.Module):
    """The last hidden states of a transformer, each pooled to one vector and concatenated.

    Parameters
    ----------
    model : nn.Module
        Model of `transformers`.
    pooling : {"cls", "mean"}
        "cls" takes the state of the first token, "mean" the mean over tokens; it should be what the encoder was trained
        with.
    layers : int
        How many of the last layers are pooled.
    """

    def __init__(self, model: nn.Module, *, pooling: str, layers: int) -> None:
        super().__init__()
        self.model, self.pooling = with_fused_attention(with_steady_norms(model)), pooling
        config: Any = model.config
        self.layers = min(layers, int(config.num_hidden_layers))
        self.width = self.layers * int(config.hidden_size)

    @property
    def word_vectors(self) -> Tensor:
        """The embedding table of the tokens, (tokens, d)."""
        found: Tensor = self.model.get_input_embeddings().weight  # type: ignore[operator]
        return found

    @property
    def most_tokens(self) -> int | None:
        """The longest text that the encoder can read, in tokens; None for any."""
        return _most_tokens(self.model.config)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return vectors (n, width) for tokens (n, T) and mask (n, T), which is None if nothing is padded."""
        return self.embedded(self.model.get_input_embeddings()(tokens), mask)  # type: ignore[operator]

    def embedded(self, vectors: Tensor, mask: Tensor | None) -> Tensor:
        """Return the same from the vectors of the tokens (n, T, d), for gradients with respect to them."""
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
        """Run the layers through torch.compile inside the block; all layers and text lengths share one program."""
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

    # --- loading and saving -------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, name: str, *, pooling: str, layers: int) -> TextEncoder:
        """Load an encoder from a folder (config.json and weights) or by its name on the Hugging Face hub."""
        messages: Any = transformers.utils.logging
        bars, level = messages.is_progress_bar_enabled(), messages.get_verbosity()
        messages.disable_progress_bar()
        messages.set_verbosity_error()  # otherwise a long report that a layer which is not used has no weights
        try:
            model, report = transformers.AutoModel.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
        except Exception as error:  # transformers raises errors of many kinds
            known = "" if os.path.isdir(name) else "no such folder; "
            raise ModelError(
                f"the encoder {name!r} cannot be loaded ({first_line(error)}); {known}use a folder with config.json "
                "and model.safetensors, or the name of an encoder on the Hugging Face hub that this machine can reach"
            ) from error
        finally:
            messages.set_verbosity(level)
            if bars:
                messages.enable_progress_bar()
        missing = [key for key in report["missing_keys"] if "pooler" not in key and "position_ids" not in key]
        if missing:
            raise ModelError(
                f"the encoder {name!r} lacks weights, e.g. {sorted(missing)[0]!r}; its files are incomplete, "
                "get them again"
            )
        check_type(f"the encoder {name!r}", model.config.model_type)
        return cls(_bare(model), pooling=pooling, layers=layers)

    def check_fits(self, name: str, tokeniser: EncoderTokeniser, length: int) -> None:
        """Raise an error unless this encoder, called `name`, can read texts of this length and the tokeniser's ids."""
        self.check_sizes(name, tokeniser, length)
        training = self.training
        try:
            with torch.no_grad():
                self.eval()(torch.zeros(1, length, dtype=torch.long, device=self.word_vectors.device), None)
        except Exception as error:  # a model for another purpose may raise anything
            raise ModelError(
                f"{name} cannot read a text of {length} tokens ({first_line(error)}); use a text encoder such as BERT, "
                "RoBERTa or MPNet, or set a smaller length"
            ) from error
        finally:
            self.train(training)

    def check_sizes(self, name: str, tokeniser: EncoderTokeniser, length: int) -> None:
        """Raise an error if the encoder has too few word vectors for the tokeniser, or positions for the length."""
        try:
            rows = self.word_vectors.shape[0]
        except AttributeError as error:
            raise ModelError(f"{name} is not a text encoder: it has no word vectors") from error
        if tokeniser.n_tokens > rows:
            raise ParameterError(
                f"the tokenizer of {name} has {tokeniser.n_tokens} tokens, but the encoder has vectors for {rows}; "
                "use the tokenizer files that came with the encoder"
            )
        most = self.most_tokens
        if most is not None and length > most:
            raise ParameterError(f"length is {length}, but this encoder reads at most {most} tokens; set length={most}")

    def state(self) -> State:
        config: Any = self.model.config
        values = {"config": json.loads(config.to_json_string(use_diff=False)), "pooling": self.pooling}
        arrays = {name: to_array(t) for name, t in self.model.state_dict().items()}
        return State(values | {"layers": self.layers}, arrays)

    @classmethod
    def from_state(cls, state: State) -> TextEncoder:
        """Undo `state`: the saved configuration may choose among encoders that transformers contains, nothing else."""
        config = dict(state.values["config"])
        check_type("the encoder", config.pop("model_type"))
        config = {key: value for key, value in config.items() if key not in _CODE and not key.startswith("_")}
        for key, value in config.items():
            if "layer" in key and isinstance(value, int) and value > len(state.arrays):
                raise ModelError(
                    f"{key} of the encoder is {value}, but there are {len(state.arrays)} arrays of weights"
                )
        check_choice("pooling", state.values["pooling"], POOLINGS)
        layers = state.whole("layers", 1)
        made: Any = transformers.AutoConfig.for_model(state.values["config"]["model_type"], **config)
        auto: Any = transformers.AutoModel
        check_same_shapes(lambda: _bare(auto.from_config(made)), state.arrays)
        model = _bare(auto.from_config(made))
        model.load_state_dict({name: from_array(array) for name, array in state.arrays.items()})
        return cls(model, pooling=state.values["pooling"], layers=layers)


def check_type(name: str, model_type: Any) -> None:
    """Raise ModelError unless transformers has a text model of this type: others might fetch parts from elsewhere."""
    known = {
        *modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        *modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    }
    if not isinstance(model_type, str) or model_type not in known:
        raise ModelError(f"{name} is of the type {str(model_type)[:80]!r}, which is not a text encoder")


def _bare(model: Any) -> nn.Module:
    """Remove the pooling layer that some encoders have, because `TextEncoder` pools itself."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    found: nn.Module = model
    return found


def _most_tokens(config: Any) -> int | None:
    most = getattr(config, "max_position_embeddings", None)
    if most is None or most <= 0:
        return None
    # RoBERTa and its relatives count positions from the pad id, so the first rows belong to no token.
    offset = config.pad_token_id + 1 if config.model_type in ("roberta", "mpnet", "xlm-roberta", "camembert") else 0
    return int(most) - offset


def located(name: Any) -> str:
    """Return the folder with ~ expanded, or the name on the hub; raise ModelError for a folder without an encoder."""
    folder = check_path("encoder", name, "a folder or the name of an encoder on the hub")
    given_as_path, name = not isinstance(name, str), os.fspath(name)
    looks_local = given_as_path or folder.is_absolute() or name.startswith(".") or name.count("/") > 1
    if looks_local and not folder.is_dir():
        raise ModelError(f"the encoder folder {name} does not exist")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(f"the encoder folder {name} has no config.json; use the folder of a Hugging Face encoder")
    return str(folder) if folder.is_dir() else name
