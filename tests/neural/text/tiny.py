"""Tiny random encoders, written to a folder like real ones, so that nothing is downloaded."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from contract.planted import N_FEATURES, word
from longtail.neural.placement import seeded

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PLANTED_WORDS = [word(j) for j in range(N_FEATURES)]


def write_encoder(folder: Path, words: Sequence[str] = PLANTED_WORDS, *, hidden: int = 16, layers: int = 1) -> str:
    """Write a BERT with random weights and a WordPiece tokenizer that knows these words."""
    with seeded(0):
        config = BertConfig(
            vocab_size=len(SPECIAL) + len(words), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=2,
            intermediate_size=2 * hidden, max_position_embeddings=64, initializer_range=0.3,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        BertModel(config).save_pretrained(folder)
    write_tokenizer(folder, words)
    return str(folder)


def write_tokenizer(folder: Path, words: Sequence[str]) -> None:
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)


@functools.cache
def planted_encoder() -> str:
    """Return an encoder for the words of the contract suite's planted data; its folder lives as long as the process."""
    _FOLDERS.append(tempfile.TemporaryDirectory())
    return write_encoder(Path(_FOLDERS[-1].name) / "encoder")


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
