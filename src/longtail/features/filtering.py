"""Stop words and stems: which words of a text become terms, and in which form.

Both are looked up by language when features are fitted. Stop words are saved with a model, so it does not depend on
the list of another version; stems are computed by the Snowball stemmer of PyStemmer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longtail.core.fields import split_field
from longtail.core.registry import unknown
from longtail.errors import MissingExtraError, ParameterError

_ENGLISH = "english"


@dataclass(frozen=True)
class WordFilter:
    """Removal of stop words, then stemming.

    Parameters
    ----------
    stop_words : frozenset of str
        Words to leave out.
    stem : str or None
        Language of the stemmer, from `check_stemmer`; None leaves words as they are.
    prefixes : frozenset of str
        Prefixes of fields, with their joint ("title_"); the word behind one is what is looked up and stemmed.
    """

    stop_words: frozenset[str]
    stem: str | None
    prefixes: frozenset[str] = frozenset()

    def __call__(self, words: Sequence[str]) -> list[str | None]:
        """Return the form of each word, None for a stop word."""
        found = [self._split(word) for word in words]
        stems = self._stems([word for _, word in found])
        return [
            None if word in self.stop_words else prefix + stem
            for (prefix, word), stem in zip(found, stems, strict=True)
        ]

    def _split(self, word: str) -> tuple[str, str]:
        prefix, rest = split_field(word)
        return (prefix, rest) if prefix in self.prefixes else ("", word)

    def _stems(self, words: list[str]) -> list[str]:
        if self.stem is None:
            return words
        stems: list[str] = _snowball().Stemmer(self.stem).stemWords(words)  # one each: threads must not share it
        return stems


def check_stemmer(language: Any) -> None:
    """Raise ParameterError if Snowball has no stemmer for a language, such as "english"."""
    known = _snowball().algorithms()
    if not isinstance(language, str):
        raise ParameterError(f"stem is {language!r}, but must be a language, e.g. 'english', or None")
    if language not in known:
        raise ParameterError(f"stem: {unknown('language', language, known)}")


def _snowball() -> Any:
    try:
        import Stemmer
    except ImportError as missing:
        raise MissingExtraError("PyStemmer", "stemming", "stemming") from missing
    return Stemmer


def check_stop_words(value: Any) -> None:
    """Raise ParameterError if `stop_words_of` would; a language is not checked where its package is not installed.

    A model that is loaded has its own list and needs no package, not even scikit-learn, which takes a while to import.
    """
    if isinstance(value, str):
        with contextlib.suppress(MissingExtraError):
            if value != _ENGLISH and value not in (known := _languages()):
                raise ParameterError(f"stop_words: {unknown('language', value, known)}")
    elif value is not None and not (isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value)):
        raise ParameterError(f"stop_words is {value!r:.80}, but must be a language, e.g. 'english', or a list of words")


def stop_words_of(value: Any) -> list[str]:
    """Return stop words for a parameter.

    Parameters
    ----------
    value : str, list or tuple of str, or None
        Language ("english": scikit-learn's list; others: the lists of the package stop-words), words, or None.

    Returns
    -------
    list of str
        Sorted.

    Raises
    ------
    ParameterError
        If there is no list for the language, or the value is something else.
    """
    check_stop_words(value)
    return sorted(set(_of_language(value) if isinstance(value, str) else value or ()))


def _of_language(language: str) -> Sequence[str]:
    if language == _ENGLISH:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return list(ENGLISH_STOP_WORDS)
    words: list[str] = _stop_words().get_stop_words(language)
    return words


def _languages() -> set[str]:
    return {_ENGLISH, *_stop_words().AVAILABLE_LANGUAGES}


def _stop_words() -> Any:
    try:
        import stop_words
    except ImportError as missing:
        raise MissingExtraError("stop-words", "stemming", "stop words of languages other than English") from missing
    return stop_words
