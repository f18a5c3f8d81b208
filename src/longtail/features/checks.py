"""Checks of the parameters of `TextFeatures`: values that cannot be used, and those that do not go together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.core.inputs import check_path
from longtail.core.parameters import check_choice, check_positive, check_whole
from longtail.core.threads import thread_count
from longtail.errors import ParameterError
from longtail.features.filtering import check_stemmer, check_stop_words
from longtail.features.patterns import may_explode

if TYPE_CHECKING:
    from longtail.features.text import TextFeatures

ANALYZERS = ("word", "char", "char_wb")
_MOST_BUCKETS = 2**31 - 1
_MOST_WEIGHT = 1_000_000  # the squares of weights must not overflow
_LONGEST = 100  # words or characters: time and memory grow with the longest n-gram, and a model says what it is


def check_text_features(features: TextFeatures) -> None:
    """Raise ParameterError for values that cannot be used."""
    _check_range("ngram_range", features.ngram_range)
    for name in ("min_df", "max_df"):
        _check_frequency(name, getattr(features, name))
    thread_count(features.n_jobs)
    check_choice("norm", features.norm, ("l2", "l1", None))
    check_choice("idf", features.idf, (True, False))
    if features.max_features is not None:
        check_whole("max_features", features.max_features, 1)
    bias = features.bias
    if not isinstance(bias, (int, float)) or not 0 <= bias < np.inf:
        raise ParameterError(f"bias is {bias!r}, but must be a number from 0 up (0 adds no column)")
    _check_pattern(features.token_pattern)
    _check_words(features)
    _check_hashing(features)
    _check_parts(features)


def _check_range(name: str, value: Any) -> None:
    try:
        shortest, longest = value
        check_whole(name, shortest, 1)
        check_whole(name, longest, shortest)
        usable = longest <= _LONGEST
    except (TypeError, ValueError, ParameterError):
        usable = False
    if not usable:
        raise ParameterError(
            f"{name} is {value!r:.80}, but must be (shortest, longest), whole numbers with 1 <= shortest <= longest "
            f"<= {_LONGEST}"
        )


def _check_frequency(name: str, value: Any) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1
    share = isinstance(value, (float, np.floating)) and 0 <= value <= 1
    if not whole and not share:
        raise ParameterError(f"{name} is {value!r}, but must be a number of texts (1 or more) or a share (0.0 to 1.0)")


def _check_weight(name: str, value: Any) -> None:
    check_positive(**{name: value})
    if value > _MOST_WEIGHT:
        raise ParameterError(f"{name} is {value!r}, but must be at most {_MOST_WEIGHT:,}")


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except (re.error, TypeError) as error:
        raise ParameterError(f"token_pattern {pattern!r} is not a regular expression: {error}") from error
    if groups > 1:
        raise ParameterError(f"token_pattern {pattern!r} has {groups} capturing groups; at most 1 is allowed")
    if may_explode(pattern):
        raise ParameterError(
            f"token_pattern {pattern!r} may take exponential time: it repeats repetitions, alternatives "
            "or a reference; put a separator between them, as in \\w+(?:-\\w+)*"
        )


def _check_words(features: TextFeatures) -> None:
    check_choice("analyzer", features.analyzer, ANALYZERS)
    if features.analyzer != "word":
        for name in ("stop_words", "stem", "field_weights", "char_ngrams"):
            if getattr(features, name) is not None:
                raise ParameterError(
                    f"{name} is for words, but analyzer is {features.analyzer!r}; for words with n-grams of characters "
                    "beside them, leave the analyzer at 'word' and set char_ngrams"
                )
    check_stop_words(features.stop_words)
    if features.stem is not None:
        check_stemmer(features.stem)
    weights = features.field_weights
    if weights is None:
        return
    if not isinstance(weights, dict) or not weights or not all(isinstance(name, str) for name in weights):
        raise ParameterError(f"field_weights is {weights!r:.80}, but must be weights by field, e.g. {{'title': 2.0}}")
    for name, weight in weights.items():
        _check_weight(f"field_weights of {name!r}", weight)


def _check_hashing(features: TextFeatures) -> None:
    if features.hashing is None:
        return
    check_whole("hashing", features.hashing, 1)
    if features.hashing > _MOST_BUCKETS:
        raise ParameterError(f"hashing is {features.hashing!r}, but must be at most {_MOST_BUCKETS} columns")
    if features.field_weights is not None:
        raise ParameterError("field_weights needs the names of terms, which hashing does not keep; set one of the two")


def _check_parts(features: TextFeatures) -> None:
    for name in ("char_weight", "embedding_weight"):
        _check_weight(name, getattr(features, name))
    if features.char_ngrams is not None:
        _check_range("char_ngrams", features.char_ngrams)
    if features.embeddings is not None:
        check_path("embeddings", features.embeddings, "the folder of an encoder")
    for name in ("char_ngrams", "embeddings"):
        if getattr(features, name) is not None and features.norm != "l2":
            raise ParameterError(f"{name} needs norm='l2', but norm is {features.norm!r}")
