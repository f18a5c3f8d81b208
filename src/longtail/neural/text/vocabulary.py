"""Words and their pretrained vectors, which AttentionXML reads instead of an encoder's tokens."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longtail.core.inputs import PathLike, check_path
from longtail.core.state import State, as_bytes, from_bytes
from longtail.data import files
from longtail.data.limits import FIELDS
from longtail.data.npz import check_members
from longtail.errors import LongtailError, ModelError, first_line
from longtail.neural.text.tokens import CHARACTERS_PER_TOKEN, Tokens, checked_texts, tokenised

Floats = NDArray[np.float32]

_WORD = re.compile(r"[^\W_]+")
_PAD = 0


class WordTokeniser:
    """Lower-case words as numbers 1, 2, ... in the order of `words`; 0 pads.

    Unknown words are left out. A text is cut to its first `length` known words.
    """

    pad = _PAD
    n_special = 0  # tokens that every text has

    def __init__(self, words: list[str], *, length: int) -> None:
        self.words, self.length = words, length
        self.number = {word: i for i, word in enumerate(words, 1)}

    @classmethod
    def learn(cls, texts: Iterable[str], *, size: int, length: int) -> WordTokeniser:
        """Return a tokeniser that knows the most frequent words of these texts, at most `size`."""
        counts: Counter[str] = Counter()
        for text in checked_texts(texts):
            counts.update(_words(text, length))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([word for word, _ in ranked[:size]], length=length)

    def tokens(self, texts: Sequence[str], *, cache: PathLike | None = None) -> Tokens:
        """Return the tokens of the texts; see `tokenised` for the cache."""
        described = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass")).hexdigest()
        return tokenised(texts, self._encode, cache=cache, tokeniser=f"{described}{self.length}")

    def pieces(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]:
        """Return the numbers of a text's known words, and the characters of each."""
        found = [
            (self.number[match.group().lower()], match.span())
            for match in _WORD.finditer(text[: self.length * CHARACTERS_PER_TOKEN])
            if match.group().lower() in self.number
        ][: self.length]
        return [i for i, _ in found], [span for _, span in found]

    def _encode(self, texts: list[str]) -> list[list[int]]:
        number = self.number
        return [[number[w] for w in _words(text, self.length) if w in number][: self.length] for text in texts]

    def state(self) -> State:
        buffer, offsets = as_bytes(self.words)
        return State({"length": self.length}, {"words": buffer, "offsets": offsets})

    @classmethod
    def from_state(cls, state: State) -> WordTokeniser:
        words = from_bytes(state.array("words", np.uint8, (None,)), state.array("offsets", np.int64, (None,)))
        return cls(words, length=state.whole("length", 1))


def _words(text: str, length: int) -> list[str]:
    return [word.lower() for word in _WORD.findall(text[: length * CHARACTERS_PER_TOKEN])]


def word_vectors(file: PathLike, words: list[str], rng: np.random.Generator) -> Floats:
    """Read the vectors of these words from a file.

    Parameters
    ----------
    file : path
        GloVe's text format (per line a word and its numbers; also .gz, .xz, .zst), word2vec's (the same with a first
        line of two numbers), or .npz with `words` and `vectors`.
    words : list of str
        Words.
    rng : numpy.random.Generator
        Source of the random vectors of words that the file lacks; they have the file's standard deviation.

    Returns
    -------
    array of shape (1 + words, width)
        Row 0 is the pad's, zero.
    """
    path = check_path("vectors", file, "a file or None")
    if not path.is_file():
        raise ModelError(f"{file}: the file of word vectors does not exist")
    wanted = {word: i for i, word in enumerate(words, 1)}
    found: dict[int, Floats] = {}
    width = 0
    for word, vector in _from_npz(path) if path.suffix == ".npz" else _from_text(path):
        width = vector.size
        if word in wanted:
            found.setdefault(wanted[word], vector)
    if not found:
        raise ModelError(
            f"{file}: no vector for any of the {len(words)} words of the texts; is it for another language?"
        )
    known = np.stack(list(found.values()))
    if not np.isfinite(known).all():
        broken = words[list(found)[int(np.flatnonzero(~np.isfinite(known).all(1))[0])] - 1]
        raise ModelError(f"{file}: the vector of {broken!r} has numbers that are not finite")
    table = rng.normal(0.0, float(known.std(dtype=np.float64)), (len(words) + 1, width)).astype(np.float32)
    table[list(found)] = known
    table[_PAD] = 0
    return table


def _from_npz(path: Path) -> Iterator[tuple[str, Floats]]:
    with files.reading(path) as stream:
        try:
            check_members(stream)
            with np.load(stream, allow_pickle=False) as content:
                # NumPy returns the bytes of a member that is not an array.
                words, vectors = np.asarray(content["words"]), np.asarray(content["vectors"]).astype(np.float32)
        except LongtailError:
            raise
        except Exception as error:  # whatever a damaged archive makes zipfile, zlib and NumPy raise
            said = f"not an .npz file with the arrays words and vectors ({first_line(error)})"
            raise ModelError(f"{path}: {said}") from error
    if vectors.ndim != 2 or words.shape != vectors.shape[:1] or words.dtype.kind != "U":
        raise ModelError(
            f"{path}: needs as many words (strings) as vectors; words are {words.dtype} of shape {words.shape}, "
            f"vectors have shape {vectors.shape}"
        )
    try:
        texts = words.tolist()
    except (SystemError, ValueError) as error:  # what Python raises for numbers that are no characters
        raise ModelError(f"{path}: words have numbers that are no characters") from error
    yield from zip(texts, vectors, strict=True)


def _from_text(path: Path) -> Iterator[tuple[str, Floats]]:
    width = None
    with files.reading(path) as stream:
        for number, content in enumerate(files.lines(stream, path), 1):
            FIELDS.check(content.count(b" "), "numbers in one line", path=path, line=number)
            line = content.decode("utf-8", errors="replace")
            word, *values = line.rstrip().split(" ")
            if number == 1 and len(values) == 1:
                continue  # word2vec's first line: number of words and width
            width = width or len(values)
            try:
                with np.errstate(over="ignore"):  # the vectors that are used must be finite
                    vector = np.array(values, np.float32)
            except ValueError as error:
                raise ModelError(f"{path}:{number}: {line[:60]!r} is not a word followed by numbers") from error
            if vector.size != width or width < 2:
                raise ModelError(f"{path}:{number}: {vector.size} numbers, but the lines before have {width}")
            yield word, vector
