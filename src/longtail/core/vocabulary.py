"""Vocabularies: names, notations and places of labels, e.g. of a thesaurus; readers are in `longtail.data`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from longtail.errors import DataError, ModelError, first_line


@dataclass(frozen=True)
class Concept:
    """What a vocabulary says about one label.

    Parameters
    ----------
    names : dict of str to str
        Preferred name per language, "" where the language is unknown.
    alternatives : list of str, default []
        Other names.
    parents : list of str, default []
        Ids of the direct parents (broader concepts).
    notation : str, default ""
        Code, such as a class mark.
    """

    names: dict[str, str]
    alternatives: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    notation: str = ""


class Vocabulary:
    """Concepts by id, as the ids occur in the data.

    Parameters
    ----------
    concepts : mapping of str to Concept
        Concepts by id or URI.
    language : str or None, default None
        Language of the names to show; None takes English, else the first language of a concept.
    """

    def __init__(self, concepts: Mapping[str, Concept], *, language: str | None = None) -> None:
        self.concepts, self.language = dict(concepts), language
        known = self.languages()
        if language is not None and language not in known:
            shown = ", ".join(name or "(none)" for name in known) or "none"
            raise DataError(f"the vocabulary has no names in the language {language!r}; languages are {shown}")

    def __len__(self) -> int:
        return len(self.concepts)

    def __contains__(self, label: str) -> bool:
        return label in self.concepts

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} concepts, languages: {', '.join(filter(None, self.languages())) or 'unknown'})"

    def languages(self) -> list[str]:
        """Return the languages of the names, "" for names without one."""
        return sorted({language for concept in self.concepts.values() for language in concept.names})

    def name(self, label: str) -> str:
        """Return the name of a label to show: in the chosen language, else in another; its id if it has no name.

        Parameters
        ----------
        label : str
            Id of the label.

        Returns
        -------
        str
        """
        concept = self.concepts.get(label)
        if concept is None or not concept.names:
            return label
        for language in (self.language, "en", ""):
            if language is not None and language in concept.names:
                return concept.names[language]
        return next(iter(concept.names.values()))

    def parents(self) -> dict[str, list[str]]:
        """Return the ids of the direct parents per concept, as `longtail.objectives.hierarchy_counts` takes them."""
        return {label: concept.parents for label, concept in self.concepts.items() if concept.parents}

    def tree(self, labels: Iterable[str]) -> dict[str, str | None]:
        """Return the nearest ancestor of each label among these labels, as the `hierarchy` of Parabel and Bonsai.

        Parameters
        ----------
        labels : iterable of str
            Labels of the data.

        Returns
        -------
        dict of str to str or None
            None for a label without such an ancestor. Of several that are equally near, the first counts.
        """
        wanted = list(labels)
        known = set(wanted)
        return {label: self._nearest(label, known) for label in wanted}

    def _nearest(self, label: str, known: set[str]) -> str | None:
        seen, level = {label}, [label]
        while level:
            above = [p for node in level if node in self.concepts for p in self.concepts[node].parents]
            level = [parent for parent in dict.fromkeys(above) if parent not in seen]
            seen.update(level)
            found = next((parent for parent in level if parent in known), None)
            if found is not None:
                return found
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as JSON values."""
        return {"language": self.language, "concepts": {key: asdict(value) for key, value in self.concepts.items()}}

    @classmethod
    def from_json(cls, value: Any) -> Vocabulary:
        """Return the vocabulary that `to_json` wrote."""
        try:
            concepts = {label: _checked(Concept(**entry)) for label, entry in value["concepts"].items()}
            return cls(concepts, language=value["language"])
        except (TypeError, KeyError, AttributeError, DataError) as error:
            raise ModelError(f"the vocabulary of the model is malformed ({first_line(error)})") from error


def _checked(concept: Concept) -> Concept:
    """Return a concept that anybody may have written, or raise TypeError if it does not consist of texts."""
    kinds = {"names": dict, "alternatives": list, "parents": list, "notation": str}
    for name, kind in kinds.items():
        if not isinstance(getattr(concept, name), kind):
            raise TypeError(f"the {name} of a concept are of the wrong type")
    texts = [*concept.names, *concept.names.values(), *concept.alternatives, *concept.parents]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name of a concept is not a text")
    return concept
