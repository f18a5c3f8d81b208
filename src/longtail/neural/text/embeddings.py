"""Vectors of texts by a pretrained encoder that is not trained further: dense features beside TF-IDF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.inputs import PathLike
from longtail.core.state import State
from longtail.errors import ModelError, first_line
from longtail.neural.placement import place_to_predict, torch_threads
from longtail.neural.text.encoder import TextEncoder, located
from longtail.neural.text.label_head import encoded
from longtail.neural.text.tokeniser import EncoderTokeniser

_LENGTH = 256  # tokens read per text where the folder does not say; most sentence encoders were trained on fewer
_TEXTS_AT_ONCE = 64


class TextEmbeddings:
    """Unit vectors of texts.

    Parameters
    ----------
    encoder : TextEncoder
        Encoder.
    tokeniser : EncoderTokeniser
        Its tokenizer, which cuts texts to the length that the encoder reads.
    n_jobs : int or None
        Number of CPU threads.
    """

    def __init__(self, encoder: TextEncoder, tokeniser: EncoderTokeniser, n_jobs: int | None) -> None:
        self.encoder, self.tokeniser, self.n_jobs = encoder, tokeniser, n_jobs
        self.width = encoder.width

    @classmethod
    def load(cls, folder: PathLike, *, n_jobs: int | None) -> TextEmbeddings:
        """Load an encoder with the pooling and the length that a sentence-transformers folder gives.

        Parameters
        ----------
        folder : path-like
            Folder with config.json, weights and tokenizer; without the files of sentence-transformers, vectors are
            means over tokens, of up to 256 tokens.
        n_jobs : int or None
            Number of CPU threads.

        Returns
        -------
        TextEmbeddings

        Raises
        ------
        ModelError
            If there is no encoder, or it pools in another way than by the mean or the first token.
        """
        place = located(folder)
        encoder = TextEncoder.load(place, pooling=_pooling(Path(place)), layers=1)
        length = _length(Path(place), encoder)
        tokeniser = EncoderTokeniser.load(place, length)
        encoder.check_fits(place, tokeniser, length)
        return cls(encoder, tokeniser, n_jobs)

    def vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return a vector of length 1 per text; zeros for a text in which the tokenizer knows nothing."""
        tokens = self.tokeniser.tokens(texts)
        device = place_to_predict("auto", "float32").device
        with torch_threads(self.n_jobs):
            found = encoded(self.encoder, tokens, self.tokeniser.pad, device, texts_at_once=_TEXTS_AT_ONCE)
        vectors: NDArray[np.float32] = found.numpy()
        vectors[tokens.lengths <= self.tokeniser.n_special] = 0
        return vectors

    def state(self) -> State:
        """Return encoder and tokenizer as values and arrays."""
        state = State()
        state.nest("encoder", self.encoder.state())
        state.nest("tokeniser", self.tokeniser.state())
        return state

    @classmethod
    def from_state(cls, state: State, *, n_jobs: int | None) -> TextEmbeddings:
        """Undo `state`; raise ModelError if the parts do not belong together."""
        encoder = TextEncoder.from_state(state.part("encoder"))
        tokeniser = EncoderTokeniser.from_state(state.part("tokeniser"))
        encoder.check_sizes("the encoder", tokeniser, tokeniser.length)
        encoder.check_fits("the encoder", tokeniser, 1)
        return cls(encoder, tokeniser, n_jobs)


def _pooling(folder: Path) -> str:
    settings = _settings(folder / "1_Pooling" / "config.json")
    on = [
        key.removeprefix("pooling_mode_")
        for key, value in settings.items()
        if key.startswith("pooling_mode_") and value is True
    ]
    known = {"mean_tokens": "mean", "cls_token": "cls"}
    if not on:
        return "mean"
    if len(on) > 1 or on[0] not in known:
        raise ModelError(f"the encoder {folder} pools by {', '.join(on)}; only mean_tokens or cls_token can be used")
    return known[on[0]]


def _length(folder: Path, encoder: TextEncoder) -> int:
    length = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    wanted = length if isinstance(length, int) and length >= 1 else _LENGTH
    return min(wanted, encoder.most_tokens or wanted)


def _settings(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file, nothing if there is no such file."""
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read as JSON ({first_line(error)})") from error
    return found if isinstance(found, dict) else {}
