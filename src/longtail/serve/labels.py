"""Labels of a served model as clients see them: URIs, names by language, notations, bands; and search among them."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.core.vocabulary import Concept, Vocabulary
from longtail.features.pipeline import model_behind
from longtail.metrics.labelwise import BAND_NAMES, frequency_bands
from longtail.objectives.propensity import PropensityModel

UNKNOWN = "und"  # the language code of what has no known language


class Labels:
    """The labels of one model.

    Parameters
    ----------
    model : Estimator
        Fitted model.
    vocabulary : Vocabulary or None
        Names, notations and parents.
    prefix : str
        Put before the id of a label to make its URI.
    language : str
        Language of the texts, "" if the settings name none.
    """

    def __init__(self, model: Any, vocabulary: Vocabulary | None, prefix: str, language: str) -> None:
        self.ids: list[str] = model.label_names_ or [str(label) for label in range(model.n_labels_)]
        self.prefix, self.vocabulary = prefix, vocabulary
        self.counts: NDArray[np.int64] = model.label_counts_
        self.inverse_propensities = _inverse_propensities(model)
        self.log_inverse = np.log(self.inverse_propensities)
        known = [] if vocabulary is None else [name for name in vocabulary.languages() if name]
        chosen = language or (vocabulary.language if vocabulary is not None else None)
        self.language = chosen or ("en" if "en" in known or not known else known[0]) if known else language or UNKNOWN
        self.languages = known or [self.language]
        self._starts: dict[str, dict[int, str]] = {name: {} for name in self.languages}
        self._number = {name: number for number, name in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def number(self, label: str) -> int | None:
        """Return the number of a label by its URI or its id in the data; None if the model does not know it."""
        found = self._number.get(label)
        if found is None and self.prefix and label.startswith(self.prefix):
            found = self._number.get(label[len(self.prefix) :])
        return found

    def id_of(self, label: str) -> str | None:
        """Return the id of a label in the data, given its URI or id: one of the model or of the vocabulary."""
        number = self.number(label)
        if number is not None:
            return self.ids[number]
        if self.vocabulary is not None:
            for name in (label, label.removeprefix(self.prefix)):
                if name in self.vocabulary:
                    return name
        return None

    def uri(self, number: int) -> str:
        """Return the URI of a label."""
        return self.prefix + self.ids[number]

    def name(self, number: int, language: str) -> str:
        """Return the name of a label in a language, else in another, else its id."""
        concept = self._concept(number)
        if concept is not None and language in concept.names:
            return concept.names[language]
        return self.ids[number] if self.vocabulary is None else self.vocabulary.name(self.ids[number])

    def start_of_result(self, number: int, language: str) -> str:
        """Return the JSON of one of Annif's results up to its score; most labels occur in many results."""
        starts = self._starts[language]
        if number not in starts:
            concept = self._concept(number)
            fields = {
                "uri": self.uri(number),
                "label": self.name(number, language),
                "notation": (concept.notation if concept else "") or None,
            }
            starts[number] = f'{json.dumps(fields)[:-1]}, "score": '
        return starts[number]

    def described(self, number: int, language: str) -> dict[str, Any]:
        """Return all that is known about a label."""
        concept = self._concept(number)
        return {
            "uri": self.uri(number),
            "label": self.name(number, language),
            "notation": (concept.notation if concept else "") or None,
            "count": int(self.counts[number]),
            "band": self.bands[number],
            "propensity": 1 / float(self.inverse_propensities[number]),
            "parents": [self._parent(parent, language) for parent in (concept.parents if concept else [])],
        }

    def search(self, query: str, language: str, limit: int, offset: int) -> tuple[int, list[int]]:
        """Return how many labels have the words of a query in a name, notation or id, and some of them, best first.

        Names that begin with the query come first, then names with a word that does, each by falling frequency.
        """
        wanted = query.casefold().split()
        if not wanted:
            return len(self), self._by_count[offset : offset + limit].tolist()
        names = self._searched(language)
        whole = " ".join(wanted)
        found = [number for number in self._by_count.tolist() if all(word in names[number] for word in wanted)]
        ranks = {number: _rank(names[number], whole) for number in found}
        return len(found), sorted(found, key=ranks.__getitem__)[offset : offset + limit]

    @cached_property
    def bands(self) -> list[str]:
        """Head, torso or tail per label, as the metrics have them; "unseen" without training points."""
        bands = frequency_bands(self.counts).tolist()
        return [
            BAND_NAMES[band] if count else "unseen" for band, count in zip(bands, self.counts.tolist(), strict=True)
        ]

    @cached_property
    def _by_count(self) -> NDArray[np.intp]:
        return np.lexsort((np.arange(len(self)), -self.counts))

    def _searched(self, language: str) -> list[str]:
        """Return the searched text per label: name, other names, notation and id, casefolded, separated by newlines."""
        cache = self.__dict__.setdefault("_searched_texts", {})
        if language not in cache:
            cache[language] = [self._search_text(number, language) for number in range(len(self))]
        texts: list[str] = cache[language]
        return texts

    def _search_text(self, number: int, language: str) -> str:
        concept = self._concept(number)
        more = [*concept.alternatives, concept.notation] if concept else []
        return "\n".join([self.name(number, language), *more, self.ids[number]]).casefold()

    def _parent(self, label: str, language: str) -> dict[str, Any]:
        number = self._number.get(label)
        assert self.vocabulary is not None  # there are parents
        concept = self.vocabulary.concepts.get(label)
        known = concept is not None and language in concept.names
        name = concept.names[language] if concept is not None and known else self.vocabulary.name(label)
        return {"uri": self.prefix + label, "label": name, "known": number is not None}

    def _concept(self, number: int) -> Concept | None:
        return None if self.vocabulary is None else self.vocabulary.concepts.get(self.ids[number])


def _inverse_propensities(model: Any) -> NDArray[np.float64]:
    """Return those of a re-ranker, which may have propensities of its own, or the default ones by label counts."""
    own = getattr(model_behind(model), "inverse_propensities_", None)
    return PropensityModel().inverse(model.label_counts_, model.n_points_) if own is None else np.asarray(own)


def _rank(text: str, query: str) -> int:
    name = text.partition("\n")[0]
    if name == query:
        return 0
    return 1 if name.startswith(query) else 2 if f" {query}" in name else 3
