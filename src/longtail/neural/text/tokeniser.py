"""Texts to the tokens of a pretrained encoder, by the encoder's own tokenizer."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from longtail.core.inputs import PathLike
from longtail.core.state import State
from longtail.errors import MissingExtraError, ModelError, first_line
from longtail.neural.text.tokens import CHARACTERS_PER_TOKEN, Tokens, tokenised

try:
    from tokenizers import Tokenizer
except ImportError as missing:
    raise MissingExtraError("tokenizers", "deep", "a text model") from missing

logger = logging.getLogger(__name__)

_KNOWN_SHARE = 0.5  # of tokens; below it something is probably wrong


class EncoderTokeniser:
    """A Hugging Face tokenizer that adds the special tokens and cuts a text to `length` tokens in all.

    Tokens that the tokenizer does not know ([UNK]) are left out: training cannot learn anything from them. The
    `tokenizers` library chooses the number of threads (RAYON_NUM_THREADS).
    """

    def __init__(self, definition: str, *, pad: int, unknown: int | None, length: int) -> None:
        try:
            self.tokenizer = Tokenizer.from_str(definition)
            self.tokenizer.no_truncation()
            self.tokenizer.no_padding()
            probe = self.tokenizer.encode("a")
        except BaseException as error:  # the library raises plain Exception, and panics are not even that
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise ModelError(f"the definition of the tokenizer cannot be read ({first_line(error)})") from error
        self.definition, self.pad, self.unknown, self.length = definition, pad, unknown, length
        special = np.asarray(probe.special_tokens_mask, bool)
        first = int(np.argmin(special)) if not special.all() else special.size
        after = special.size - int(np.argmin(special[::-1])) if not special.all() else special.size
        self.before, self.after = probe.ids[:first], probe.ids[after:]

    @classmethod
    def load(cls, encoder: str, length: int) -> EncoderTokeniser:
        """Load the tokenizer from an encoder's folder, or by its name on the hub."""
        from transformers import AutoTokenizer

        try:
            loaded: Any = AutoTokenizer.from_pretrained(encoder)
            definition = loaded.backend_tokenizer.to_str()
        except Exception as error:  # transformers raises errors of many kinds
            raise ModelError(
                f"{encoder}: the tokenizer cannot be read ({first_line(error)}); use the encoder's own tokenizer files"
            ) from error
        if len(loaded) <= len(loaded.all_special_tokens):  # what transformers makes up if it finds no files
            raise ModelError(
                f"{encoder}: no tokenizer; its files (tokenizer.json, or vocab.txt and the like) "
                "belong next to config.json"
            )
        pad = loaded.pad_token_id
        return cls(definition, pad=0 if pad is None else pad, unknown=loaded.unk_token_id, length=length)

    @property
    def n_tokens(self) -> int:
        """One more than the largest token id."""
        known = self.tokenizer.get_vocab(with_added_tokens=True).values()
        return max([*known, *self.before, *self.after, self.pad], default=-1) + 1

    @property
    def n_special(self) -> int:
        """Tokens that every text has, also an empty one."""
        return len(self.before) + len(self.after)

    def tokens(self, texts: Sequence[str], *, cache: PathLike | None = None) -> Tokens:
        """Return the tokens of the texts; see `tokenised` for the cache."""
        return tokenised(texts, self._encode, cache=cache, tokeniser=self._description())

    def check_knows(self, encoder: str, texts: Sequence[str]) -> None:
        """Raise ModelError if the tokenizer knows no token of these texts, and warn if it knows few."""
        ids = [i for encoding in self._encodings([str(text) for text in texts]) for i in encoding.ids]
        share = len(self._known(ids)) / len(ids) if ids else 1.0
        if share == 0:
            raise ModelError(
                f"{encoder}: the tokenizer knows no token of the first {len(texts)} texts; use the encoder's own "
                "tokenizer, and an encoder for the language of the texts"
            )
        if share < _KNOWN_SHARE:
            logger.warning(
                "%s: the tokenizer knows only %.0f %% of the tokens of the first %d texts, the others are left out; is "
                "the encoder for another language?", encoder, 100 * share, len(texts),
            )  # fmt: skip

    def name_tokens(self, names: Iterable[str]) -> Tokens:
        """Return the tokens of label names, without special tokens."""
        return Tokens.of(self._known(encoding.ids) for encoding in self._encodings(list(names)))

    def pieces(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]:
        """Return the token ids of one text as the encoder reads them, and the characters of each (None: special)."""
        encoding = self._encodings([text])[0]
        kept = [(i, span) for i, span in zip(encoding.ids, encoding.offsets, strict=True) if i != self.unknown]
        kept = kept[: self._room()]
        ids = [*self.before, *(i for i, _ in kept), *self.after]
        return ids, [*[None] * len(self.before), *(span for _, span in kept), *[None] * len(self.after)]

    def _room(self) -> int:
        return max(self.length - self.n_special, 0)

    def _encodings(self, texts: list[str]) -> list[Any]:
        cut = [_plain(text[: self.length * CHARACTERS_PER_TOKEN]) for text in texts]
        found: list[Any] = self.tokenizer.encode_batch(cut, add_special_tokens=False)
        return found

    def _encode(self, texts: list[str]) -> list[list[int]]:
        room = self._room()
        return [[*self.before, *self._known(encoding.ids)[:room], *self.after] for encoding in self._encodings(texts)]

    def _known(self, ids: list[int]) -> list[int]:
        return [i for i in ids if i != self.unknown] if self.unknown in ids else ids

    def _description(self) -> str:
        return hashlib.sha256(self.definition.encode()).hexdigest() + json.dumps([self.unknown, self.length])

    def state(self) -> State:
        values = {"pad": self.pad, "unknown": self.unknown, "length": self.length}
        return State(values, {"tokenizer.json": np.frombuffer(self.definition.encode(), np.uint8)})

    @classmethod
    def from_state(cls, state: State) -> EncoderTokeniser:
        definition = state.array("tokenizer.json", np.uint8, (None,)).tobytes().decode()
        unknown = None if state.values.get("unknown") is None else state.whole("unknown")
        return cls(definition, pad=state.whole("pad"), unknown=unknown, length=state.whole("length", 1))


def _plain(text: str) -> str:
    """Remove what UTF-8 cannot encode: halves of surrogate pairs, which some sources contain."""
    return text.encode("utf-8", "ignore").decode() if any(0xD800 <= ord(c) < 0xE000 for c in text) else text
