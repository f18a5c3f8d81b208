"""Read vocabularies: tables of labels from CSV or JSON, thesauri in SKOS."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from longtail.core.inputs import PathLike
from longtail.core.plain import plain
from longtail.core.vocabulary import Concept, Vocabulary
from longtail.data import files
from longtail.data.dialects import SAMPLE_BYTES, find_dialect
from longtail.data.encodings import as_utf8, check_encoding, not_utf8
from longtail.data.labels import SEPARATOR
from longtail.errors import DataError, MissingExtraError, first_line

_RDF = {".rdf": "xml", ".xml": "xml", ".ttl": "turtle", ".nt": "nt"}
# What a column or a key may be called; the first name is the one in the documentation.
_CALLED = {
    "id": ("id", "uri"),
    "label": ("label", "name", "prefLabel"),
    "language": ("language", "lang"),
    "notation": ("notation",),
    "parents": ("parents", "parent", "broader"),
    "alternatives": ("alternatives", "alt_labels", "altLabel"),
}
_NESTED_ENTITY = re.compile(rb"<!ENTITY[^>]*&")
_TEXT_BYTES = 1 << 16
_SUPPORTED = "a table (.csv, .tsv), JSON (.json) or SKOS (.rdf, .xml, .ttl, .nt), also .gz, .xz, .zst"


def read_vocabulary(path: PathLike, *, language: str | None = None, encoding: str | None = None) -> Vocabulary:
    """Read a vocabulary; the file name chooses the format.

    Parameters
    ----------
    path : str or path-like
        Table (.csv, .tsv) with the columns `id` (or `uri`) and `label`, and perhaps `language`, `notation`, `parents`
        and `alternatives`, the last two separated by `;`, one row per label and language. JSON (.json): an array of
        objects with these keys, or one object that maps ids to names or to such objects. SKOS: RDF/XML (.rdf, .xml),
        Turtle (.ttl) or N-Triples (.nt), by rdflib (extra `skos`). Any may be compressed (.gz, .xz, .zst).
    language : str or None, default None
        Language of the names to show; None takes English, else the first language of a concept.
    encoding : str or None, default None
        Encoding of CSV and JSON files; None means UTF-8, or what a byte order mark says.

    Returns
    -------
    Vocabulary

    Raises
    ------
    DataError
        If the file is missing, damaged or of another shape, or has no names in the language.
    MissingExtraError
        If rdflib is needed and not installed.
    """
    check_encoding(encoding)
    suffix, compression = files.suffixes(path)
    if suffix not in (".csv", ".tsv", ".json", *_RDF):
        raise DataError(f"unsupported extension {suffix + compression!r}; use {_SUPPORTED}", path=path)
    with files.reading(path) as stream:
        content = stream.read() if suffix in _RDF else as_utf8(stream, encoding, path).read()
    if suffix in _RDF:
        concepts = _read_skos(content, _RDF[suffix], path)
    else:
        text = _decoded(content, path)
        concepts = _merged(_json_rows(text, path) if suffix == ".json" else _csv_rows(text, suffix, path), path)
    if not concepts:
        raise DataError("the vocabulary is empty: it has no label", path=path)
    try:
        return Vocabulary(concepts, language=language)
    except DataError as error:
        raise DataError(error.message, path=path) from error


def _decoded(content: bytes, path: PathLike) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise not_utf8(content, path, line, f"{error.reason} at byte {error.start}") from error


def _csv_rows(text: str, suffix: str, path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    usual = "\t" if suffix == ".tsv" else ","
    sample = text[:SAMPLE_BYTES]
    every = {name for names in _CALLED.values() for name in names}
    dialect = find_dialect(sample, every, cut=len(sample) < len(text), usual=usual)
    body = text.split("\n", dialect.skipped)[-1]
    rows = csv.DictReader(
        io.StringIO(body, newline=""), delimiter=dialect.delimiter, quotechar=dialect.quote,
        escapechar=dialect.escape, doublequote=dialect.escape is None,
    )  # fmt: skip
    try:
        columns = list(rows.fieldnames or [])
        for wanted in ("id", "label"):
            if not any(name in columns for name in _CALLED[wanted]):
                said = (
                    f"no column {' or '.join(map(repr, _CALLED[wanted]))}; columns are {plain(', '.join(columns), 500)}"
                )
                raise DataError(said, path=path)
        for row in rows:
            yield f"line {rows.line_num + dialect.skipped}", {key: value for key, value in row.items() if value}
    except csv.Error as error:
        raise DataError(f"is not a table ({first_line(error)})", path=path, line=rows.line_num) from error


def _json_rows(text: str, path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({first_line(error)})", path=path) from error
    if isinstance(entries, list):
        for number, entry in enumerate(entries, start=1):
            if not isinstance(entry, dict):
                raise DataError(f"entry {number} must be an object", path=path)
            yield f"entry {number}", entry
    elif isinstance(entries, dict):
        for label, entry in entries.items():
            if not isinstance(entry, (str, dict)):
                raise DataError('must be a name or an object with a string "label"', path=path, field=label)
            yield (
                f"entry {label!r}",
                {"label": entry, "id": label} if isinstance(entry, str) else {**entry, "id": label},
            )
    else:
        raise DataError("must be an array of objects, or one object that maps ids to names or objects", path=path)


def _merged(rows: Iterable[tuple[str, Mapping[str, Any]]], path: PathLike) -> dict[str, Concept]:
    """Return the concepts of all rows; rows of the same id, in several languages, are one concept."""
    concepts: dict[str, Concept] = {}
    for place, row in rows:
        found = {what: next((row[name] for name in names if name in row), None) for what, names in _CALLED.items()}
        label = found["id"]
        if isinstance(label, int) and not isinstance(label, bool):
            label = str(label)
        if not isinstance(label, str) or not label:
            raise DataError(f"{place}: an id must be a non-empty string", path=path)
        names, language = found["label"], found["language"]
        if language is not None and not isinstance(language, str):
            raise DataError(f"{place}: a language must be a string", path=path)
        if isinstance(names, str):
            names = {language or "": names}
        if not isinstance(names, dict) or not all(isinstance(part, str) for pair in names.items() for part in pair):
            raise DataError(f"{place}: a label must be a name, or an object of names by language", path=path)
        notation = found["notation"]
        if notation is not None and not isinstance(notation, (str, int)):
            raise DataError(f"{place}: a notation must be a string", path=path)
        concept = concepts.setdefault(label, Concept({}))
        concept.names.update(names)
        for what in ("parents", "alternatives"):
            values = getattr(concept, what)
            values += [item for item in _list(found[what], what, place, path) if item not in values]
        if notation is not None and not concept.notation:
            concepts[label] = Concept(concept.names, concept.alternatives, concept.parents, str(notation))
    return concepts


def _list(value: Any, what: str, place: str, path: PathLike) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [part for part in (part.strip() for part in value.split(SEPARATOR)) if part]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataError(f"{place}: {what} must be a list of strings", path=path)
    return value


def _check_xml(content: bytes, path: PathLike) -> None:
    """Refuse what takes rdflib's parser hours: entities made of entities, and texts that come in many small pieces."""
    seen = content.replace(b"\0", b"")  # UTF-16
    if _NESTED_ENTITY.search(seen):
        raise DataError("has an entity that is made of other entities; write it out", path=path)
    longest = max(map(len, seen.split(b"<")))
    if longest > _TEXT_BYTES:
        said = f"has a text of {longest:,} bytes, but a text in RDF/XML may have {_TEXT_BYTES:,}; use Turtle (.ttl)"
        raise DataError(said, path=path)


def _read_skos(content: bytes, form: str, path: PathLike) -> dict[str, Concept]:
    try:
        from rdflib import Graph, URIRef
        from rdflib.namespace import SKOS
    except ImportError as error:
        raise MissingExtraError("rdflib", "skos", f"reading {path}") from error

    if form == "xml":
        _check_xml(content, path)
    graph = Graph()
    try:
        graph.parse(data=content, format=form)
    except Exception as error:  # rdflib, its parsers and its literals raise errors of many kinds
        raise DataError(f"is not RDF ({form}): {first_line(error)}", path=path) from error
    concepts: dict[str, Concept] = {}

    def concept(node: Any) -> Concept:
        return concepts.setdefault(str(node), Concept({}))

    for node, name in graph.subject_objects(SKOS.prefLabel):
        if isinstance(node, URIRef):
            concept(node).names.setdefault(getattr(name, "language", None) or "", str(name))
    for node, name in graph.subject_objects(SKOS.altLabel):
        if str(node) in concepts:
            concept(node).alternatives.append(str(name))
    edges = [*graph.subject_objects(SKOS.broader), *((b, a) for a, b in graph.subject_objects(SKOS.narrower))]
    for child, parent in edges:
        if str(child) in concepts and str(parent) not in concept(child).parents:
            concept(child).parents.append(str(parent))
    for node, notation in graph.subject_objects(SKOS.notation):
        if str(node) in concepts:
            found = concept(node)
            concepts[str(node)] = Concept(found.names, found.alternatives, found.parents, str(notation))
    for found in concepts.values():  # a graph has no order, but the same file must give the same model
        found.alternatives.sort()
        found.parents.sort()
    return dict(sorted(concepts.items()))
