"""CSV files as programs write them: delimiters, quotes and encodings are found, or named in the message."""

from __future__ import annotations

import codecs
import csv
import io

import pytest

from longtail.data import read_dataset
from longtail.data.dialects import find_dialect
from longtail.errors import DataError, ParameterError

ROWS = [["id", "text", "labels"], ["1", 'one, "two"; three\nfour', "law;art"], ["2", "ärger", ""], ["3", "", "law"]]


def written(delimiter: str, **how) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, **how).writerows(ROWS)
    return out.getvalue()


def read(folder, content: bytes, name: str = "data.csv", **options):
    (folder / name).write_bytes(content)
    return read_dataset(folder / name, **options)


def assert_rows(data, separator: str = ";") -> None:
    assert list(data.texts) == [row[1] for row in ROWS[1:]]
    assert data.label_names == ["art", "law"]
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [0, 1]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["data.csv", "data.tsv"])
@pytest.mark.parametrize(
    "how", [{}, {"quoting": csv.QUOTE_ALL}, {"quotechar": "'"}, {"doublequote": False, "escapechar": "\\"}]
)
def test_delimiter_and_quotes_are_found(tmp_path, delimiter, name, how):
    assert_rows(read(tmp_path, written(delimiter, **how).encode(), name))


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + written(";").encode(),  # Excel, "CSV UTF-8" in countries that write 1,5
        ("sep=;\r\n" + written(";")).encode(),
        codecs.BOM_UTF16_LE + written("\t").encode("utf-16-le"),  # Excel, "Unicode text"
        codecs.BOM_UTF16_BE + written(",").encode("utf-16-be"),
        codecs.BOM_UTF32_LE + written(",").encode("utf-32-le"),
    ],
)
def test_what_excel_writes_is_read(tmp_path, content):
    assert_rows(read(tmp_path, content))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "UTF-8", "mac-roman"])
def test_an_encoding_is_honoured(tmp_path, encoding):
    assert_rows(read(tmp_path, written(",").encode(encoding), encoding=encoding))
    line = '{"text": "ärger", "labels": ["é"]}\n'
    data = read(tmp_path, line.encode(encoding), "data.jsonl", encoding=encoding)
    assert (list(data.texts), data.label_names) == (["ärger"], ["é"])


@pytest.mark.parametrize("name", ["data.csv", "data.jsonl", "data.json"])
@pytest.mark.parametrize(
    ("encoding", "text", "named"),
    [("latin-1", "ärger", "latin-1"), ("cp1252", "“ärger”", "cp1252"), ("utf-16-le", "abc", "utf-16-le"),
     ("utf-16-be", "abc", "utf-16-be")],
)  # fmt: skip
def test_the_likely_encoding_is_named(tmp_path, name, encoding, text, named):
    content = f'text,labels\n"{text}",x\n'
    if name == "data.jsonl":
        content = f'{{"text": "{text}", "labels": ["x"]}}\n'
    elif name == "data.json":
        content = f'[{{"text": "{text}", "labels": ["x"]}}]'
        if encoding.startswith("utf-16"):
            pytest.skip("the first bytes do not look like an array")
    with pytest.raises(DataError, match=rf"not UTF-8 .*looks like {named}; use encoding='{named}', --encoding {named}"):
        read(tmp_path, content.encode(encoding), name)
    assert list(read(tmp_path, content.encode(encoding), name, encoding=named).texts) == [text]


def test_bytes_that_the_encoding_does_not_have_are_refused(tmp_path):
    for name, content in (("data.csv", b"text,labels\n\x81,x\n"), ("data.jsonl", b'{"text": "\x81", "labels": []}')):
        with pytest.raises(DataError, match="is not cp1252"):
            read(tmp_path, content, name, encoding="cp1252")
    with pytest.raises(DataError, match=r"is not utf-16 \(truncated data\)"):
        read(tmp_path, written(",").encode("utf-16")[:-1], encoding="utf-16")


def test_a_given_delimiter_is_used(tmp_path):
    content = b"text:labels\na;b,c|d:law\n"
    data = read(tmp_path, content, delimiter=":")
    assert (list(data.texts), data.label_names) == (["a;b,c|d"], ["law"])
    assert list(read(tmp_path, b"text\tlabels\na,b\tx\n", delimiter="tab").texts) == ["a,b"]
    with pytest.raises(DataError, match=r"no column 'text'; columns are text:labels .* another one\? use --delimiter"):
        read(tmp_path, content, delimiter=";")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ",,"}, "delimiter is ',,', but must be one character"),
        ({"delimiter": ""}, "must be one character"),
        ({"delimiter": "a"}, "must be one character"),
        ({"encoding": "utf8000"}, "encoding is 'utf8000', which is unknown"),
        ({"encoding": "rot13"}, "encoding is 'rot13', which is unknown"),
        ({"separator": ""}, "separator is '', but must be the string between two labels"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, message):
    with pytest.raises(ParameterError, match=message):
        read(tmp_path, b"text,labels\na,b\n", **options)


def test_wanted_columns_decide_where_rows_fit_several_delimiters():
    sample = "a;b,text\n1;2,x\n3;4,y\n"
    assert find_dialect(sample, {"text"}).delimiter == ","
    assert find_dialect(sample, {"a"}).delimiter == ";"
    assert find_dialect("text\nhello, you\n", {"text"}).delimiter != ","
    assert find_dialect("", {"text"}).delimiter == ","


def test_a_row_that_the_sample_cuts_does_not_matter(tmp_path):
    rows = "".join(f'{i};"text, with ""quotes"" {i}\n{"x " * 50}";law\n' for i in range(3000))
    data = read(tmp_path, ("id;text;labels\n" + rows).encode())
    assert data.n_points == 3000
    assert data.texts[2999].startswith('text, with "quotes" 2999\nx ')
