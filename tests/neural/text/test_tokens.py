"""Tokens as flat arrays, their cache, batches of similar length, the tokenizer and the words."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from longtail.core.unfinished import unfinished
from longtail.errors import DataError, ModelError, OutputError
from longtail.neural.text import tokens as tokens_module
from longtail.neural.text.batches import LengthBuckets, by_length
from longtail.neural.text.tokeniser import EncoderTokeniser
from longtail.neural.text.tokens import Tokens, tokenised
from longtail.neural.text.vocabulary import WordTokeniser, word_vectors
from neural.text.tiny import PLANTED_WORDS, SPECIAL, planted_encoder

TOKENS = Tokens.of([[5, 6, 7], [], [8], list(range(1, 41))])


def as_lists(tokens: Tokens) -> list[list[int]]:
    return [tokens.ids[a:b].tolist() for a, b in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)]


def test_padding_keeps_the_tokens_and_says_where_they_are():
    padded, mask = TOKENS.padded(np.array([2, 0, 1]), pad=9)
    assert padded.shape == (3, 16)
    assert padded[1].tolist() == [5, 6, 7] + [9] * 13
    assert mask.sum(1).tolist() == [1, 3, 1], "a text without tokens keeps one place, so that no softmax is empty"
    assert TOKENS.padded(np.array([3]), pad=0)[0].shape == (1, 48)


def test_every_text_is_in_one_batch_of_an_epoch_with_others_of_its_length():
    rng = np.random.default_rng(0)
    tokens = Tokens.of([[1] * int(n) for n in rng.integers(1, 200, 500)])
    rows = np.arange(0, 500, 2)
    buckets = LengthBuckets(tokens, rows, 16, pad=0, seed=3)
    first, again, second = (list(buckets.epoch(e)) for e in (0, 0, 1))
    assert len(first) == len(buckets) == 16
    points = np.concatenate([batch["points"].numpy() for batch in first])
    assert sorted(points.tolist()) == list(range(250))
    for batch, same in zip(first, again, strict=True):
        assert (batch["points"] == same["points"]).all()
        lengths = tokens.lengths[rows[batch["points"].numpy()]]
        assert batch["tokens"].sum(1).tolist() == lengths.tolist()
    assert any((a["points"] != b["points"]).any() for a, b in zip(first[:5], second[:5], strict=True))
    padded = sum(batch["tokens"].numel() for batch in first) / tokens.lengths[rows].sum()
    assert padded < 1.25, "without buckets it would be about 1.9"


def test_texts_are_predicted_longest_first_and_all_of_them():
    seen = [(rows.tolist(), batch["tokens"].shape[1]) for rows, batch in by_length(TOKENS, 2, 0)]
    assert seen == [([3, 0], 48), ([2, 1], 16)]


# --- the cache -------------------------------------------------------------------------------------------------------


def test_the_cache_gives_the_same_tokens_without_tokenising_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens_module, "CHUNK", 3)
    calls = []

    def encode(texts: list[str]) -> list[list[int]]:
        calls.append(len(texts))
        return [[len(word) for word in text.split()] for text in texts]

    texts = ["a bb", "", "ccc", "dddd e", "f"]
    plain = tokenised(texts, encode, cache=None, tokeniser="t")
    kept = tokenised(texts, encode, cache=str(tmp_path / "c"), tokeniser="t")
    assert as_lists(plain) == as_lists(kept) == [[1, 2], [], [3], [4, 1], [1]]
    assert isinstance(kept.ids, np.memmap)
    n_calls = len(calls)
    assert as_lists(tokenised(texts, encode, cache=str(tmp_path / "c"), tokeniser="t")) == as_lists(plain)
    assert len(calls) == n_calls
    tokenised(["a b", "b", "ccc", "dddd e", "f"], encode, cache=str(tmp_path / "c"), tokeniser="t")
    tokenised(texts, encode, cache=str(tmp_path / "c"), tokeniser="another")
    assert len(calls) == n_calls + 4, "other texts or another tokeniser must be tokenised again"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("ids.i4", b"1234"), ("ids.i4", b""), ("ids.i4", b"123"), ("ids.i4", None),
        ("offsets.npy", b""), ("offsets.npy", b"\x93NUMPY"), ("offsets.npy", None),
    ],
)  # fmt: skip
def test_a_damaged_cache_is_written_again(tmp_path, monkeypatch, file, content):
    monkeypatch.setattr(tokens_module, "CHUNK", 3)
    texts = ["a bb", "", "ccc", "dddd e", "f"]

    def kept() -> list[list[int]]:
        return as_lists(
            tokenised(
                texts, lambda some: [[len(w) for w in t.split()] for t in some], cache=str(tmp_path), tokeniser=""
            )
        )

    before = kept()
    (damaged,) = tmp_path.glob(f"*.{file}")
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    assert kept() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_what_killed_processes_left_in_the_cache_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens_module, "CHUNK", 1)
    (tmp_path / "1.ids.i4.01234567.unfinished").write_bytes(b"left")
    with unfinished(lambda token: tmp_path / f"2.ids.i4.{token}.unfinished") as at_work:
        tokenised(["c"], lambda some: [[1]], cache=tmp_path, tokeniser="t")
        assert sorted(file.suffix for file in tmp_path.iterdir()) == [".i4", ".npy", ".unfinished"]
        assert at_work.exists()


def test_a_cache_that_cannot_be_written_and_a_text_that_is_not_a_string_are_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens_module, "CHUNK", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"tokens cannot be written there .*; choose another token_cache"):
        tokenised(["a"], lambda texts: [[1]], cache=str(tmp_path / "file"), tokeniser="t")
    with pytest.raises(DataError, match="text 1 is int"):
        tokenised(["a", 5], lambda texts: [[1]] * len(texts), cache=None, tokeniser="t")


# --- tokenizers and words --------------------------------------------------------------------------------------------


def test_texts_are_cut_to_the_length_with_their_special_tokens_and_unknown_words_are_left_out():
    tokeniser = EncoderTokeniser.load(planted_encoder(), 5)
    number = {word: len(SPECIAL) + i for i, word in enumerate(PLANTED_WORDS)}
    cls, sep = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    a, b = number["w00"], number["w01"]
    assert as_lists(tokeniser.tokens(["w00 zebra w01", "w00 w00 w00 w01", "", "\ud800 w01"])) == [
        [cls, a, b, sep], [cls, a, a, a, sep], [cls, sep], [cls, b, sep],
    ]  # fmt: skip
    again = EncoderTokeniser.from_state(tokeniser.state())
    assert as_lists(again.tokens(["w00 zebra w01"])) == [[cls, a, b, sep]]
    ids, spans = tokeniser.pieces("w00 zebra w01")
    assert (ids, spans) == ([cls, a, b, sep], [None, (0, 3), (10, 13), None])
    assert as_lists(tokeniser.name_tokens(["w01 w00", "zebra"])) == [[b, a], []]


def test_a_text_of_many_megabytes_costs_no_more_than_its_length():
    tokeniser = EncoderTokeniser.load(planted_encoder(), 32)
    huge = "w00 " * 2_000_000
    assert tokeniser.tokens([huge]).lengths.tolist() == [32]
    words = WordTokeniser(["w00"], length=32)
    assert words.tokens([huge]).lengths.tolist() == [32]


def test_the_most_frequent_words_are_known():
    words = WordTokeniser.learn(["B b a", "a-B c", "d_e"], size=3, length=10)
    assert words.words == ["b", "a", "c"]
    assert as_lists(words.tokens(["C x b", "zz"])) == [[3, 1], []]
    assert words.pieces("C x b") == ([3, 1], [(0, 1), (4, 5)])
    again = WordTokeniser.from_state(words.state())
    assert (again.words, again.length) == (words.words, 10)


@pytest.mark.parametrize("kind", ["txt", "gz", "npz", "word2vec"])
def test_word_vectors_are_read_from_every_format(tmp_path, kind):
    lines = "a 1 2\nb 3 4.5\nunused 7 8\n"
    file = tmp_path / f"v.{kind if kind != 'word2vec' else 'txt'}"
    if kind == "npz":
        np.savez(file, words=np.array(["a", "b", "unused"]), vectors=np.array([[1, 2], [3, 4.5], [7, 8]], np.float16))
    elif kind == "gz":
        file.write_bytes(gzip.compress(lines.encode()))
    else:
        file.write_text(("3 2\n" if kind == "word2vec" else "") + lines)
    table = word_vectors(str(file), ["b", "none", "a"], np.random.default_rng(0))
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table[[0, 1, 3]], [[0, 0], [3, 4.5], [1, 2]])
    assert (table[2] != 0).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 3\n", ":2: 1 numbers"),
        ("a 1 2\nb x y\n", ":2: .*not a word followed by numbers"),
        ("q 1 2\n", "no vector for any of the 2 words"),
    ],
)
def test_word_vectors_that_cannot_be_used_are_refused(tmp_path, content, message):
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(ModelError, match=message):
        word_vectors(str(tmp_path / "v.txt"), ["a", "b"], np.random.default_rng(0))
    with pytest.raises(ModelError, match="does not exist"):
        word_vectors(str(tmp_path / "none"), ["a"], np.random.default_rng(0))
    (tmp_path / "v.npz").write_text("x")
    with pytest.raises(ModelError, match=r"not an \.npz file with the arrays words and vectors"):
        word_vectors(str(tmp_path / "v.npz"), ["a"], np.random.default_rng(0))


def test_word_vectors_that_are_broken_are_refused(tmp_path, recwarn):
    for broken in ("nan", "1e99"):
        (tmp_path / "v.txt").write_text(f"a 1 2\nb 1 {broken}\n")
        with pytest.raises(ModelError, match="the vector of 'b' has numbers that are not finite"):
            word_vectors(str(tmp_path / "v.txt"), ["a", "b"], np.random.default_rng(0))
    assert not recwarn.list
    (tmp_path / "v.gz").write_bytes(gzip.compress(b"a 1 2\n" * 1000)[:-20])
    with pytest.raises(DataError, match="damaged or truncated"):
        word_vectors(str(tmp_path / "v.gz"), ["b"], np.random.default_rng(0))
    (tmp_path / "w.gz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="damaged or truncated"):
        word_vectors(str(tmp_path / "w.gz"), ["b"], np.random.default_rng(0))


def test_words_that_are_no_characters_are_refused(tmp_path):
    words = np.array([0x110000], np.uint32).view("<U1")
    np.savez(tmp_path / "w.npz", words=words, vectors=np.ones((1, 2), np.float32))
    with pytest.raises(ModelError, match="numbers that are no characters"):
        word_vectors(tmp_path / "w.npz", ["a"], np.random.default_rng(0))
