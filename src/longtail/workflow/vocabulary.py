"""What a vocabulary gives to a training: hierarchies, propensities and texts of labels."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from longtail.core.inputs import PathLike
from longtail.core.vocabulary import Concept, Vocabulary
from longtail.data import Dataset
from longtail.errors import DataError, ParameterError
from longtail.objectives import fit_propensities, hierarchy_counts

logger = logging.getLogger(__name__)

WORD = "vocabulary"  # as the value of a setting: taken from the vocabulary


def vocabulary_of(dataset: Dataset) -> Vocabulary | None:
    """Return the vocabulary of the label texts in a dataset; None if it has none."""
    if dataset.label_names is None or dataset.label_texts is None:
        return None
    named = zip(dataset.label_names, dataset.label_texts, strict=True)
    return Vocabulary({label: Concept({"": text}) for label, text in named})


def check_overlap(vocabulary: Vocabulary, dataset: Dataset, path: PathLike) -> None:
    """Raise DataError if a vocabulary names no label of the data, and warn if it lacks some."""
    names = dataset.label_names
    if names is None:
        raise DataError("the labels of the data have no names, so a vocabulary cannot describe them", path=path)
    missing = [name for name in names if name not in vocabulary]
    if len(missing) == len(names):
        one = next(iter(vocabulary.concepts))
        said = f"none of the {len(names)} labels of the data, e.g. {names[0]!r}, is in the vocabulary, e.g. {one!r}"
        raise DataError(said, path=path)
    if missing:
        logger.warning("%s: %d of the %d labels are not in it, e.g. %r", path, len(missing), len(names), missing[0])


def without_vocabulary(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that can be checked before the data is read."""
    return {key: value for key, value in settings.items() if value != WORD}


def with_vocabulary(settings: Mapping[str, Any], vocabulary: Vocabulary | None, dataset: Dataset) -> dict[str, Any]:
    """Return the settings with what the word "vocabulary" stands for.

    Parameters
    ----------
    settings : mapping
        Settings; `hierarchy` (of label trees) and `propensity` (of weightings) may be "vocabulary".
    vocabulary : Vocabulary or None
        Vocabulary with parents.
    dataset : Dataset
        Training data.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError
        If there is no vocabulary, or another setting is "vocabulary".
    DataError
        If the vocabulary has no parents, or too few to fit propensities.
    """
    done: dict[str, Any] = {}
    for key, value in settings.items():
        if value != WORD:
            done[key] = value
            continue
        if vocabulary is None:
            raise ParameterError(f"{key} is {WORD!r}, but there is no vocabulary (use --vocabulary FILE)")
        what = key.split(".")[-1]
        if what not in ("hierarchy", "propensity"):
            raise ParameterError(f"{key} is {WORD!r}, but only hierarchy and propensity can come from a vocabulary")
        parents = vocabulary.parents()
        if not parents:
            raise DataError(f"{key} is {WORD!r}, but the vocabulary has no parents of labels")
        assert dataset.label_names is not None  # check_overlap
        if what == "hierarchy":
            done[key] = vocabulary.tree(dataset.label_names)
        else:
            counts = hierarchy_counts(dataset.binary().Y, dataset.label_names, parents)
            fitted = fit_propensities(counts.counts, counts.complete_counts, dataset.n_points).model
            done[key] = [fitted.A, fitted.B]
    return done
