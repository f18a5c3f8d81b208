"""Which fields are read: several texts, paths into objects, ids, weights and relevances."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from longtail.data import read_dataset, write_dataset
from longtail.errors import DataError, ParameterError

RECORDS = [
    {
        "id": "b1", "title": "Cats", "abstract": "Cats sleep.", "meta": {"lang": {"name": "English"}}, "w": 2,
        "subjects": [{"uri": "y:1", "label": "cats", "weight": 0.5}, {"uri": "y:2", "label": "sleep", "weight": None}],
    },
    {
        "id": "b2", "title": "Dogs", "abstract": None, "meta": None, "w": 0.5,
        "subjects": [{"uri": "y:3", "label": "dogs", "weight": 1}, {"uri": "y:1", "label": None, "weight": 0}],
    },
    {"id": "b3", "title": "Empty", "abstract": "", "meta": {"lang": None}, "w": 1, "subjects": None},
]  # fmt: skip
PATHS = {"text": "title,abstract", "labels": "subjects[].uri", "label_texts": "subjects[].label", "ids": "id"}


def sources(folder, records=RECORDS):
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "a.jsonl").write_text(lines)
    (folder / "a.json").write_text(json.dumps(records, indent=2))
    pa.parquet.write_table(pa.Table.from_pylist(records), folder / "a.parquet")
    return [folder / "a.jsonl", folder / "a.json", folder / "a.parquet", records, pa.Table.from_pylist(records)]


def test_paths_ids_weights_and_relevance(tmp_path):
    for source in sources(tmp_path):
        data = read_dataset(source, **PATHS, weights="w")
        assert list(data.texts) == ["Cats Cats sleep.", "Dogs", "Empty"]
        assert list(data.ids) == ["b1", "b2", "b3"]
        assert data.weights.tolist() == [2, 0.5, 1]
        assert data.label_names == ["y:1", "y:2", "y:3"]
        assert data.label_texts == ["cats", "sleep", "dogs"]
        assert data.Y.toarray().tolist() == [[0.5, 1, 0], [0, 0, 1], [0, 0, 0]]
        assert data.label_counts.tolist() == [1, 1, 1]


def test_relevance_can_be_ignored_or_have_another_name(tmp_path):
    for source in sources(tmp_path):
        ignored = read_dataset(source, **PATHS, relevance=None)
        assert ignored.Y.toarray().tolist() == [[1, 1, 0], [1, 0, 1], [0, 0, 0]]
        other = read_dataset(source, **PATHS, relevance="score")
        assert (other.Y != ignored.Y).nnz == 0


def test_relevance_may_be_a_path_beside_the_labels(tmp_path):
    for source in sources(tmp_path):
        data = read_dataset(source, **PATHS, relevance=PATHS["labels"].rpartition(".")[0] + ".weight")
        assert data.Y.toarray().tolist() == [[0.5, 1, 0], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("labels", ["labels", PATHS["labels"], "a.labels"])
def test_relevance_elsewhere_is_refused(labels):
    with pytest.raises(ParameterError, match=r"relevance is 'others\[\]\.weight', but must be a key beside the labels"):
        read_dataset(RECORDS, **PATHS | {"labels": labels}, relevance="others[].weight")


def test_relevances_survive_a_directory_and_can_be_dropped(tmp_path):
    data = read_dataset(RECORDS, **PATHS, weights="w")
    write_dataset(data, tmp_path / "d")
    again = read_dataset(tmp_path / "d")
    assert again.Y.data.tolist() == [0.5, 1, 1]
    assert again.has_relevances
    assert again.binary().Y.data.tolist() == [1, 1, 1]
    assert not again.binary().has_relevances
    assert list(again.ids) == ["b1", "b2", "b3"]


def test_a_path_leads_through_objects_and_lists():
    records = [{"doc": {"parts": [{"t": "one"}, {"t": None}, {"t": "two"}]}, "k": {"labels": ["a"]}}]
    assert list(read_dataset(records, text="doc.parts[].t", labels="k.labels").texts) == ["one two"]
    nested = [{"text": "x", "groups": [{"tags": [{"id": 1}, {"id": 2}]}, {"tags": [{"id": 3}]}, {"tags": None}]}]
    assert read_dataset(nested, labels="groups[].tags[].id").label_names == ["1", "2", "3"]


def test_a_field_that_is_really_called_so_comes_first(tmp_path):
    (tmp_path / "a.csv").write_text('"a,b",dc.title,"s[].u"\nfirst,second,x;y\n')
    path = tmp_path / "a.csv"
    assert list(read_dataset(path, text="a,b", labels="s[].u").texts) == ["first"]
    assert list(read_dataset(path, text='"a,b",dc.title', labels="s[].u").texts) == ["first second"]
    assert list(read_dataset(path, text=["dc.title", "a,b"], labels="s[].u").texts) == ["second first"]
    assert read_dataset(path, text="dc.title", labels="s[].u").label_names == ["x", "y"]
    record = [{"a,b": "first", "labels": []}]
    assert list(read_dataset(record, text="a,b").texts) == ["first"]


def test_separate_fields_have_prefixes(tmp_path):
    for source in sources(tmp_path):
        data = read_dataset(source, text=["title", "abstract"], fields="separate", labels=None)
        assert list(data.texts) == ["title_Cats abstract_Cats abstract_sleep.", "title_Dogs", "title_Empty"]
    from longtail.features import TextFeatures

    features = TextFeatures(min_df=1, max_df=1.0).fit(data.texts)
    assert set(features.vocabulary_) == {"title_cats", "abstract_cats", "abstract_sleep", "title_dogs", "title_empty"}


def test_weights_and_names_in_the_columns_of_a_csv_file(tmp_path):
    (tmp_path / "a.csv").write_text("id,text,uris,names,w\n7,x,u:1;u:2,one;two,0.5\n8,y,,,2\n")
    data = read_dataset(tmp_path / "a.csv", labels="uris", label_texts="names", ids="id", weights="w")
    assert (list(data.ids), data.label_names, data.label_texts) == (["7", "8"], ["u:1", "u:2"], ["one", "two"])
    assert data.weights.tolist() == [0.5, 2]


def test_null_texts_are_empty_and_reported(tmp_path, caplog):
    pa.parquet.write_table(pa.table({"text": ["a", None], "labels": [["x"], None]}), tmp_path / "a.parquet")
    assert list(read_dataset(tmp_path / "a.parquet").texts) == ["a", ""]
    assert "1 of 2 texts are null" in caplog.text


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"labels": "subjects"}, r"objects with uri, label, weight; say which .* e.g. subjects\[\].uri"),
        ({}, {"labels": "subjects[].uri", "label_texts": "title"}, "field 'title': .*must be a list of labels|1 texts"),
        ({"subjects": [{"label": "x"}]}, {}, "non-empty string or a whole number, not null"),
        ({"subjects": {"uri": "x"}}, {}, "'subjects' must be a list"),
        ({}, {"labels": "subjects.uri"}, r"'uri' is looked for in a list; write \[\] after a field .* as in a\[\].uri"),
        ({"subjects": ["x"]}, {}, "'uri' is looked for in 'x', which is not an object"),
        ({"subjects": [{"uri": "x", "weight": 1.5}]}, {}, "relevance of a label must be a number from 0 to 1, not 1.5"),
        ({"subjects": [{"uri": "x", "weight": -1}]}, {}, "must be a number from 0 to 1, not -1"),
        ({"id": None}, {}, "field 'id': .*an id must be"),
        ({"id": 1.5}, {}, "an id must be a non-empty string or a whole number, not 1.5"),
        ({"w": 0}, {"weights": "w"}, "field 'w': .*the weight must be a number greater than 0, not 0"),
        ({"w": None}, {"weights": "w"}, "greater than 0, not null"),
        ({"w": 1e39}, {"weights": "w"}, "greater than 0"),
        ({}, {"text": "title,summary"}, "field 'summary': .*is in no record; fields here: 'id', 'title'"),
        ({}, {"text": "summary"}, "field 'summary': .*is missing; fields here: 'id', 'title'"),
        ({}, {"text": "meta"}, "must be a string, not an object"),
    ],
)
def test_mistakes_are_named(change, options, message):
    records = [RECORDS[0] | change, *RECORDS[1:]]
    with pytest.raises(DataError, match=message):
        read_dataset(records, **(PATHS | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": ""}, "text is '', but must be the name of a field"),
        ({"text": []}, "must be the name of a field, or a list of names"),
        ({"ids": ""}, "ids is '', but must be the name of a field"),
        ({"weights": 3}, "weights is 3"),
        ({"fields": "apart"}, "fields is 'apart', but must be one of 'joined', 'separate'"),
    ],
)
def test_names_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        read_dataset(RECORDS, **options)


def test_relevances_of_matrices_are_kept():
    from longtail.data import Dataset

    data = Dataset(Y=np.array([[0.5, 0], [0, 1]]), texts=["a", "b"])
    assert data.Y.data.tolist() == [0.5, 1]
    for wrong in (1.5, -0.5, np.nan):
        with pytest.raises(DataError, match="from 0 to 1"):
            Dataset(Y=np.array([[wrong]]), texts=["a"])
