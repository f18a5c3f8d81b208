"""Vocabularies from tables, JSON and SKOS: names, parents, alternatives, notations."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from data.mutations import check_mutations
from longtail.core.vocabulary import Concept, Vocabulary
from longtail.data import read_vocabulary
from longtail.errors import DataError, MissingExtraError, ParameterError

A, B, C = (f"http://example.org/{x}" for x in "abc")
TURTLE = f"""
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<{A}> a skos:Concept ; skos:prefLabel "animals"@en, "eläimet"@fi ; skos:narrower <{B}> .
<{B}> a skos:Concept ; skos:prefLabel "cats"@en ; skos:altLabel "felines"@en, "kitties"@en ; skos:notation "599.75" .
<{C}> a skos:Concept ; skos:prefLabel "dogs"@en ; skos:broader <{A}> .
<http://example.org/scheme> a skos:ConceptScheme .
"""
CSV = f"""uri;label;language;parents;alternatives;notation
{A};animals;en;;;
{A};eläimet;fi;;;
{B};cats;en;{A};"felines;kitties";599.75
{C};dogs;en;{A};;
"""
OBJECTS = [
    {"id": A, "label": {"en": "animals", "fi": "eläimet"}},
    {
        "id": B,
        "label": "cats",
        "language": "en",
        "parents": [A],
        "alternatives": ["felines", "kitties"],
        "notation": "599.75",
    },
    {"id": C, "label": "dogs", "language": "en", "broader": A},
]  # fmt: skip


def written(folder: Path) -> dict[str, Path]:
    rdflib = pytest.importorskip("rdflib")
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    files = {name: folder / f"v{name}" for name in (".ttl", ".rdf", ".nt", ".csv", ".json", ".nt.xz")}
    files[".ttl"].write_text(TURTLE)
    files[".rdf"].write_bytes(graph.serialize(format="xml", encoding="utf-8"))
    files[".nt"].write_bytes(graph.serialize(format="nt", encoding="utf-8"))
    files[".nt.xz"].write_bytes(lzma.compress(files[".nt"].read_bytes()))
    files[".csv"].write_text(CSV, encoding="utf-8")
    files[".json"].write_text(json.dumps(OBJECTS))
    return files


def test_every_format_says_the_same(tmp_path):
    for path in written(tmp_path).values():
        found = read_vocabulary(path)
        assert found.concepts == {
            A: Concept({"en": "animals", "fi": "eläimet"}),
            B: Concept({"en": "cats"}, ["felines", "kitties"], [A], "599.75"),
            C: Concept({"en": "dogs"}, [], [A]),
        }
        assert [found.name(label) for label in (A, B, "http://example.org/unknown")] == [
            "animals", "cats", "http://example.org/unknown",
        ]  # fmt: skip
        assert found.parents() == {B: [A], C: [A]}
        finnish = read_vocabulary(path, language="fi")
        assert [finnish.name(label) for label in (A, B)] == ["eläimet", "cats"]
        assert Vocabulary.from_json(json.loads(json.dumps(finnish.to_json()))).concepts == found.concepts


def test_a_table_of_names_is_enough(tmp_path):
    (tmp_path / "a.json").write_text('{"1": "one", "2": {"label": "two", "parents": ["1"], "alt_labels": ["zwei"]}}')
    found = read_vocabulary(tmp_path / "a.json")
    assert (found.name("1"), found.concepts["2"]) == ("one", Concept({"": "two"}, ["zwei"], ["1"]))
    (tmp_path / "a.csv").write_text("id,name\n1,one\n")
    assert read_vocabulary(tmp_path / "a.csv").name("1") == "one"


def test_a_tree_joins_labels_by_their_nearest_ancestor_in_the_data():
    above = {"d": ["c"], "c": ["b"], "b": ["a"], "e": ["x", "b"], "x": ["e"], "a": []}
    found = Vocabulary({label: Concept({"": label}, parents=parents) for label, parents in above.items()})
    assert found.tree(["a", "b", "d", "e", "z"]) == {"a": None, "b": "a", "d": "b", "e": "b", "z": None}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", "label\nx\n", "no column 'id' or 'uri'; columns are label"),
        ("v.csv", 'id,"a\nb"\n1,2\n', r"columns are id, a\\nb"),
        ("v.csv", "id,label\n,x\n", "line 2: an id must be a non-empty string"),
        ("v.csv", "id,label\n", "the vocabulary is empty"),
        ("v.csv", "id,label\n1,\n", "line 2: a label must be a name"),
        ("v.json", "{", "is not JSON"),
        ("v.json", "3", "must be an array of objects"),
        ("v.json", "[3]", "entry 1 must be an object"),
        ("v.json", '{"a": 3}', "field 'a': must be a name or an object"),
        ("v.json", '{"a": {"label": 3}}', "a label must be a name, or an object of names by language"),
        ("v.json", '[{"id": "a", "label": "x", "parents": [3]}]', "entry 1: parents must be a list of strings"),
        ("v.json", '[{"id": "a", "label": "x", "notation": [3]}]', "a notation must be a string"),
        ("v.json", '[{"id": "a", "label": "x", "language": [3]}]', "entry 1: a language must be a string"),
        ("v.ttl", "@prefix nothing", "is not RDF .turtle."),
        ("v.rdf", "<rdf", "is not RDF .xml."),
        ("v.nt", "x y z", "is not RDF .nt."),
        ("v.nt", "", "the vocabulary is empty"),
        ("v.docx", "x", "unsupported extension '.docx'; use a table"),
    ],
)
def test_mistakes_are_named(tmp_path, name, content, message):
    if name.endswith(("ttl", "rdf", "nt")):
        pytest.importorskip("rdflib")
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_vocabulary(tmp_path / name)
    assert name in str(caught.value)


def test_languages_encodings_and_missing_files(tmp_path):
    (tmp_path / "v.csv").write_bytes("id,label,language\n1,é,fr\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"v.csv:2: is not UTF-8 .*looks like latin-1"):
        read_vocabulary(tmp_path / "v.csv")
    assert read_vocabulary(tmp_path / "v.csv", encoding="latin-1").name("1") == "é"
    with pytest.raises(DataError, match="no names in the language 'de'; languages are fr"):
        read_vocabulary(tmp_path / "v.csv", encoding="latin-1", language="de")
    with pytest.raises(ParameterError, match="unknown"):
        read_vocabulary(tmp_path / "v.csv", encoding="klingon")
    with pytest.raises(DataError, match="cannot be read"):
        read_vocabulary(tmp_path / "none.csv")


def test_skos_says_which_extra_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    (tmp_path / "v.ttl").write_text(TURTLE)
    with pytest.raises(MissingExtraError, match=r"longtail\[skos\]"):
        read_vocabulary(tmp_path / "v.ttl")


@pytest.mark.parametrize("name", [".ttl", ".rdf", ".nt", ".csv", ".json"])
@pytest.mark.filterwarnings("ignore")  # rdflib warns of odd literals
def test_mutated_vocabularies(tmp_path, name):
    def check(found):
        assert len(found) > 0
        json.dumps(found.to_json())
        assert all(isinstance(found.name(label), str) for label in found.concepts)

    check_mutations(written(tmp_path)[name], read_vocabulary, check, 60)


def test_rdf_that_grows_by_entities_is_refused(tmp_path):
    pytest.importorskip("rdflib")
    start = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>'
    (tmp_path / "v.rdf").write_text(start + "&b;</x>")
    with pytest.raises(DataError, match="an entity that is made of other entities"):
        read_vocabulary(tmp_path / "v.rdf")
    (tmp_path / "v.rdf").write_text("<x>" + "&amp;" * 20_000 + "</x>")
    with pytest.raises(DataError, match="has a text of 100,002 bytes"):
        read_vocabulary(tmp_path / "v.rdf")
