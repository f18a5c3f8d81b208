"""Data at addresses: memory:// and, where moto's server is at hand, s3:// from a real object store on this machine."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from scipy import sparse

from longtail.app.reading import data_name
from longtail.core.store import check_free
from longtail.core.urls import UrlPath, is_url, path_or_url, shown
from longtail.data import Dataset, read_dataset, write_dataset
from longtail.data.files import check_free as check_file_free
from longtail.engine.transport import pack
from longtail.errors import DataError, MissingExtraError, ModelError, OutputError

fsspec = pytest.importorskip("fsspec")

TEXTS = ["one red fish", "two blue fish", "a red hat"]
LABELS = [["fish", "red"], ["fish", "blue"], ["red"]]


def of_texts() -> Dataset:
    names = ["blue", "fish", "red"]
    return Dataset([[names.index(name) for name in row] for row in LABELS], texts=TEXTS, label_names=names)


def of_features() -> Dataset:
    X = sparse.random(50, 30, 0.2, format="csr", random_state=0, dtype=np.float32)
    return Dataset(sparse.random(50, 7, 0.2, format="csr", random_state=1).ceil(), X=X)


class Store:
    """A place for files with addresses."""

    def __init__(self, base: str, put) -> None:
        self.base, self.put = base, put

    def upload(self, path: Path, name: str | None = None) -> str:
        """Store a file or a folder; return its address."""
        name = name or path.name
        if path.is_dir():
            for file in path.iterdir():
                self.put(f"{name}/{file.name}", file.read_bytes())
        else:
            self.put(name, path.read_bytes())
        return f"{self.base}/{name}"


@pytest.fixture(scope="module")
def memory():
    system = fsspec.filesystem("memory")

    def put(name: str, content: bytes) -> None:
        system.pipe_file(f"/store/{name}", content)

    yield Store("memory://store", put)
    system.rm("/store", recursive=True)


@pytest.fixture(scope="module")
def s3():
    """Start moto's server (scripts/test-remote installs it) as a process; every request really goes over HTTP."""
    server = os.environ.get("LONGTAIL_MOTO_SERVER") or shutil.which("moto_server")
    if server is None:
        pytest.skip("no moto_server here; bash scripts/test-remote runs this test")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([server, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)

        def put(name: str, content: bytes) -> None:
            place, kind = f"http://127.0.0.1:{port}/bucket/{quote(name)}", {"Content-Type": "application/octet-stream"}
            request = urllib.request.Request(place, content, kind, method="PUT")
            urllib.request.urlopen(request, timeout=20).close()

        try:
            for _ in range(100):
                try:
                    put("", b"")
                    break
                except OSError:
                    time.sleep(0.2)
            yield Store("s3://bucket", put)
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(params=["memory", "s3"])
def store(request) -> Store:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.csv.xz", "a.parquet", "a.tsv"])
def test_texts_are_those_of_the_local_file(store, tmp_path, name):
    write_dataset(of_texts(), tmp_path / name)
    found = read_dataset(store.upload(tmp_path / name))
    assert list(found.texts) == TEXTS
    assert found.label_names == ["blue", "fish", "red"]
    assert (found.Y != of_texts().Y).nnz == 0


@pytest.mark.parametrize("name", ["b.txt", "b.txt.gz", "directory", "a b+c.txt"])
def test_features_are_those_of_the_local_file(store, tmp_path, name):
    write_dataset(of_features(), tmp_path / name)
    found, local = read_dataset(store.upload(tmp_path / name)), read_dataset(tmp_path / name)
    assert (found.X != local.X).nnz == 0
    assert (found.Y != local.Y).nnz == 0


def test_folders_patterns_and_pairs(store, tmp_path):
    for number in (1, 2):
        write_dataset(of_texts(), tmp_path / f"part-{number}.jsonl")
        store.upload(tmp_path / f"part-{number}.jsonl", f"shards/part-{number}.jsonl")
    for address in ("shards", "shards/", "shards/part-*.jsonl", "sh*s/part-[12].jsonl"):
        assert read_dataset(f"{store.base}/{address}").n_points == 6
    (tmp_path / "train_texts.txt").write_text("one\ntwo\n")
    (tmp_path / "train_labels.txt.gz").write_bytes(gzip.compress(b"a b\nb\n"))
    store.upload(tmp_path / "train_labels.txt.gz")
    assert read_dataset(store.upload(tmp_path / "train_texts.txt")).label_names == ["a", "b"]


def test_a_mapped_copy_outlives_its_folder_and_is_sent_to_workers(store, tmp_path):
    big = sparse.csr_matrix(np.ones((600, 600), np.float32))
    write_dataset(Dataset([[0]] * 600, X=big), tmp_path / "big")
    X = read_dataset(store.upload(tmp_path / "big")).X
    sent = []
    pack(X.data, lambda array: sent.append(array), pickle._Pickler)
    assert len(sent) == 1  # workers could not map a file that has no name
    assert (big != X).nnz == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.jsonl", "does not exist"),
        ("none/x*.jsonl", "no file matches this pattern|does not exist"),
        ("none/../odd.xyz", "does not exist|unsupported extension"),
    ],
)
def test_what_is_missing_is_named_by_its_address(store, name, said):
    with pytest.raises(DataError, match=said) as caught:
        read_dataset(f"{store.base}/{name}")
    assert str(caught.value).startswith(f"{store.base}/{name}: ")
    assert "\n" not in str(caught.value)


def test_damage_is_named_by_the_address_with_line_and_field(store, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"text": "a", "labels": ["x"]}\n{"text": 3, "labels": []}\n')
    with pytest.raises(DataError) as caught:
        read_dataset(store.upload(tmp_path / "bad.jsonl"))
    assert str(caught.value).startswith(f"{store.base}/bad.jsonl:2, field 'text'")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 1000)[:-9])
    with pytest.raises(DataError, match=r"cut.jsonl.gz: is damaged or truncated"):
        read_dataset(store.upload(tmp_path / "cut.jsonl.gz"), labels=None)
    write_dataset(of_features(), tmp_path / "altered")
    with open(next((tmp_path / "altered").glob("arrays-*")), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with pytest.raises(ModelError, match=r"altered/arrays-.* was altered") as altered:
        read_dataset(store.upload(tmp_path / "altered"))
    assert str(altered.value).startswith(f"{store.base}/altered")
    assert "longtail-" not in str(altered.value)


def test_limits_hold_for_copies_too(store, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGTAIL_MAX_CONTENT_BYTES", "1000")
    monkeypatch.setenv("LONGTAIL_MAX_GROWTH", "2")
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a", "labels": []}\n' * 10_000))
    with pytest.raises(DataError, match=r"bomb.jsonl.gz: is compressed more than 2-fold"):
        read_dataset(store.upload(tmp_path / "bomb.jsonl.gz"))


def test_unknown_protocols_and_missing_packages_say_what_to_do(monkeypatch):
    with pytest.raises(DataError, match="unknown protocol gopher://; known are s3, gs"):
        read_dataset("gopher://x/y.jsonl")
    with pytest.raises(DataError, match=r"fsspec needs another package for adl://|unknown protocol adl"):
        read_dataset("adl://x/y.jsonl")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        MissingExtraError, match=r"reading from memory:// needs fsspec: pip install 'longtail\[remote\]'"
    ):
        read_dataset("memory://x/y.jsonl")


def test_no_store_at_the_address_is_one_line(monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with pytest.raises(DataError) as caught:
        read_dataset("s3://user:secret@bucket/y.jsonl?endpoint_override=127.0.0.1:9&scheme=http&region=x")
    assert str(caught.value).startswith("s3://bucket/y.jsonl: cannot be read (")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_results_are_not_written_to_addresses():
    for check in (lambda path: check_free(path, kind="model"), lambda path: check_file_free(path, overwrite=False)):
        with pytest.raises(OutputError, match="results are written to local folders only"):
            check(Path("s3://bucket/model"))


def test_addresses_on_the_command_line_keep_their_slashes_and_hide_secrets():
    url = "s3://key:secret@bucket/folder//data.jsonl?region=x"
    path = path_or_url(url)
    assert isinstance(path, UrlPath)
    assert (os.fspath(path), str(path)) == (url, "s3://bucket/folder//data.jsonl")
    assert data_name(path) == "folder/data.jsonl"
    assert shown("hdfs:///a/b@c.txt") == "hdfs:///a/b@c.txt"
    assert path_or_url("C:/data") == Path("C:/data")
    assert [is_url(value) for value in ("a/b", "s3:/a", "xy://z", Path("s3://a"), 3)] == [
        False,
        False,
        True,
        False,
        False,
    ]


def test_commands_read_addresses(store, tmp_path, cli):
    write_dataset(of_features(), tmp_path / "data.txt")
    address = store.upload(tmp_path / "data.txt")
    assert cli("train", address, "--model", "popularity", "--out", tmp_path / "model")[0] == 0
    assert cli("predict", tmp_path / "model", address, "--out", tmp_path / "found.csv")[0] == 0
    assert json.loads(cli("info", address, "--json")[1])["points"] == 50
    code, _, said = cli("train", f"{store.base}/none.txt", "-m", "popularity", "-o", tmp_path / "other")
    assert (code, said.strip()) == (2, f"error: {store.base}/none.txt: does not exist")
