"""The tokens of many texts as one flat array, in memory or in mapped files."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longtail.core.inputs import PathLike
from longtail.core.unfinished import remove_dead, unfinished
from longtail.errors import DataError, OutputError

Ints = NDArray[np.int32]
Encode = Callable[[list[str]], list[list[int]]]

_WIDTH = 16  # padded texts are a multiple of it wide
_UNFINISHED = ".unfinished"
CHUNK = 2048  # texts tokenised at once
# A text is cut to this many characters per token before it is tokenised, so that a text of many megabytes costs no more
# than one that fills the length. No ordinary text has tokens or words that long on average.
CHARACTERS_PER_TOKEN = 64


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens of many texts: text i is `ids[offsets[i] : offsets[i + 1]]`; `ids` int32, `offsets` (texts + 1,) int64."""

    ids: Ints
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Iterable[Sequence[int] | Ints]) -> Tokens:
        rows = [np.asarray(row, np.int32) for row in lists]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([row.size for row in rows], out=offsets[1:])
        return cls(np.concatenate([np.zeros(0, np.int32), *rows]), offsets)

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def subset(self, texts: NDArray[np.intp]) -> Tokens:
        return Tokens.of(self.ids[self.offsets[i] : self.offsets[i + 1]] for i in texts)

    def padded(self, texts: NDArray[np.intp], pad: int) -> tuple[Ints, NDArray[np.bool_]]:
        """Return some texts as (n, width) int32, and a mask of their tokens.

        A text without tokens has one unmasked pad, so that no softmax over its tokens is empty. The width is a multiple
        of 16: tensor cores need one, and on a CPU the last digits of attention over other widths depend on the number
        of threads.
        """
        starts = self.offsets[texts]
        lengths = self.offsets[texts + 1] - starts
        places = np.arange(-(-max(int(lengths.max(initial=0)), 1) // _WIDTH) * _WIDTH)
        filled = places < lengths[:, None]
        padded = np.full(filled.shape, pad, np.int32)
        padded[filled] = self.ids[(starts[:, None] + places)[filled]]
        return padded, filled | ((lengths == 0)[:, None] & (places == 0))


def tokenised(texts: Sequence[str], encode: Encode, *, cache: PathLike | None, tokeniser: str) -> Tokens:
    """Tokenise all texts, a chunk at a time.

    Parameters
    ----------
    texts : sequence of str
        Texts.
    encode : callable
        Returns the tokens of a list of texts.
    cache : path or None
        Folder for the tokens: they are written to a file there chunk by chunk and mapped, so that memory does not grow
        with the corpus, and read back the next time for the same texts and tokeniser. Fewer texts than a chunk are not
        cached.
    tokeniser : str
        Description of the tokeniser, part of the cache key.

    Returns
    -------
    Tokens
    """
    if cache is None or len(texts) < CHUNK:
        return Tokens.of(row for chunk in _chunks(texts) for row in encode(chunk))
    folder = Path(cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stem = _digest(texts, tokeniser)
        files = folder / f"{stem}.ids.i4", folder / f"{stem}.offsets.npy"
        kept = _read(*files, len(texts))
        if kept is None:
            _write(texts, encode, *files)
            kept = _read(*files, len(texts))
            assert kept is not None
        return kept
    except OSError as error:
        raise OutputError(
            f"{folder}: tokens cannot be written there ({error.strerror or error}); choose another token_cache"
        ) from error


def _read(ids: Path, offsets: Path, n_texts: int) -> Tokens | None:
    """Return what was written before, or None if it is absent or damaged and must be written again."""
    if not (ids.is_file() and offsets.is_file()):
        return None
    try:
        ends = np.load(offsets)
    except (ValueError, EOFError):
        return None
    whole = ends.dtype == np.int64 and ends.shape == (n_texts + 1,) and ends[0] == 0 and (np.diff(ends) >= 0).all()
    if not whole or ids.stat().st_size != 4 * int(ends[-1]):
        return None
    return Tokens(np.memmap(ids, np.int32, "r") if ends[-1] else np.zeros(0, np.int32), ends)


def _write(texts: Iterable[str], encode: Encode, ids: Path, offsets: Path) -> None:
    """Write both files under other names and rename them, the offsets last: if they exist, both are complete."""
    remove_dead(ids.parent.glob(f"*{_UNFINISHED}"))
    ends = [0]
    with _unfinished(ids) as new_ids, _unfinished(offsets) as new_offsets:
        with open(new_ids, "wb") as file:
            for chunk in _chunks(texts):
                for row in encode(chunk):
                    file.write(np.asarray(row, np.int32).tobytes())
                    ends.append(ends[-1] + len(row))
        with open(new_offsets, "wb") as file:
            np.save(file, np.asarray(ends, np.int64))
        os.replace(new_ids, ids)
        os.replace(new_offsets, offsets)


@contextlib.contextmanager
def _unfinished(file: Path) -> Iterator[Path]:
    """Make a file under another name, which is removed if it was not renamed."""
    with unfinished(lambda token: file.with_name(f"{file.name}.{token}{_UNFINISHED}")) as new:
        try:
            yield new
        finally:
            new.unlink(missing_ok=True)


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts; raise DataError for one that is not a string."""
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {row} is {type(text).__name__} ({str(text)[:40]!r}), but must be a string")
        yield str(text)  # str: tokenizers does not take NumPy's strings


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    checked = checked_texts(texts)
    while chunk := list(islice(checked, CHUNK)):
        yield chunk


def _digest(texts: Iterable[str], tokeniser: str) -> str:
    digest = hashlib.sha256(tokeniser.encode())
    for chunk in _chunks(texts):
        for text in chunk:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(encoded)
    return digest.hexdigest()[:32]
