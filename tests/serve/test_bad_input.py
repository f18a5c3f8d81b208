"""Wrong requests: a problem with its reason, and nothing changes."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
import urllib.parse

import pytest

from serve.conftest import PREFIX, words_of
from serve.running import call

SUGGEST, BATCH = "/v1/projects/texts/suggest", "/v1/projects/texts/suggest-batch"
MODEL = "/longtail/v1/models/texts"
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def form(**fields):
    return urllib.parse.urlencode(fields).encode()


def documents(*texts):
    return {"documents": [{"text": text} for text in texts]}


CASES = {
    "no text": (SUGGEST, form(limit=3), FORM, 400, "text: field required"),
    "limit a word": (SUGGEST, form(text="a", limit="many"), FORM, 400, "limit: "),
    "limit below 0": (SUGGEST, form(text="a", limit=-1), FORM, 400, "limit: "),
    "limit a billion": (SUGGEST, form(text="a", limit=10**9), FORM, 400, "less than or equal to 1000"),
    "limit a billion in the query": (f"{BATCH}?limit=1000000000", documents("a"), JSON, 400, "limit (in the query)"),
    "threshold above 1": (SUGGEST, form(text="a", threshold=1.5), FORM, 400, "threshold: "),
    "threshold not a number": (SUGGEST, form(text="a", threshold="nan"), FORM, 400, "threshold: "),
    "exponent above 1": (SUGGEST, form(text="a", exponent=2), FORM, 400, "exponent: "),
    "NUL": (SUGGEST, b"text=a%00b", FORM, 400, "text: has a NUL character (position 1)"),
    "not UTF-8": (SUGGEST, b"text=%ff%fe", FORM, 400, "UTF-8"),
    "raw bytes": (SUGGEST, b"text=\xff\xfe", FORM, 400, "UTF-8"),
    "a lone surrogate, encoded": (SUGGEST, b"text=%ED%A0%80", FORM, 400, "UTF-8"),
    "JSON instead of a form": (SUGGEST, b'{"text": "a"}', JSON, 415, "application/x-www-form-urlencoded"),
    "text too long": (SUGGEST, form(text="a" * 20_001), FORM, 413, "at most 20,000"),
    "many fields": (SUGGEST, b"&".join(b"f%d=1" % i for i in range(2000)), FORM, 400, "too many fields"),
    "no JSON": (BATCH, b"{documents", JSON, 400, "not JSON"),
    "empty": (BATCH, b"", JSON, 400, "body"),
    "wrong type": (BATCH, {"documents": [{"text": 3}]}, JSON, 400, "documents.0.text"),
    "a lone surrogate in JSON": (
        BATCH, b'{"documents": [{"text": "a\\ud800b"}]}', JSON, 400, "documents.0.text: has a lone surrogate",
    ),
    "NUL in JSON": (
        BATCH, b'{"documents": [{"text": "a"}, {"text": "\\u0000"}]}', JSON, 400, "documents.1.text: has a NUL",
    ),
    "NUL in a text of several": (f"{MODEL}/suggest", {"texts": ["a", "b\0"]}, JSON, 400, "texts.1: has a NUL"),
    "NUL learned": (
        "/v1/projects/texts/learn", [{"text": "\0", "subjects": []}], JSON, 400, "0.text: has a NUL character",
    ),
    "a thousand documents": (BATCH, documents(*["a"] * 1000), JSON, 400, "at most 32"),
    "deep JSON": (BATCH, b"[" * 100_000, JSON, 400, ""),
    "unknown project": ("/v1/projects/none/suggest", form(text="a"), FORM, 404, "Project 'none' not found"),
    "path tricks": ("/v1/projects/..%2F..%2Fetc%2Fpasswd/suggest", form(text="a"), FORM, 404, ""),
    "dots": ("/v1/projects/%2e%2e/suggest", form(text="a"), FORM, 404, ""),
    "unknown label explained": (f"{MODEL}/explain", {"text": "a", "label": "c99"}, JSON, 404, "'c99'"),
    "unknown label accepted": (f"{MODEL}/feedback", {"text": "a", "accepted": ["c99"]}, JSON, 404, "'c99'"),
    "right and wrong": (f"{MODEL}/feedback", {"text": "a", "added": ["c1"], "rejected": ["c1"]}, JSON, 400, "both"),
    "a wrong text learned": (
        "/v1/projects/texts/learn", [{"text": "a"}] * 3 + [{"text": 1}] * 9_000, JSON, 400, "3.text (in the body)",
    ),
    "many texts learned": ("/v1/projects/texts/learn", [{"text": "a"}] * 10_001, JSON, 400, "at most 10000 items"),
    "unknown label learned": (
        "/v1/projects/texts/learn", [{"text": "a", "subjects": [{"uri": "x"}]}], JSON, 404, "'x'",
    ),
    "features of a text model": (f"{MODEL}/predict", {"points": []}, JSON, 400, "reads texts"),
    "feature out of range": (
        "/longtail/v1/models/rows/predict", {"points": [{"indices": [10**6], "values": [1.0]}]}, JSON, 400, "too large",
    ),
    "feature twice": (
        "/longtail/v1/models/rows/predict", {"points": [{"indices": [1, 1], "values": [1.0, 1.0]}]}, JSON, 400, "twice",
    ),
    "unequal lengths": (
        "/longtail/v1/models/rows/predict", {"points": [{"indices": [1], "values": []}]}, JSON, 400, "1 indices",
    ),
    "unknown language": ("/v1/detect-language", {"text": "a", "languages": ["xx"]}, JSON, 400, "languages"),
    "unknown address": ("/v2/projects", form(text="a"), FORM, 404, "/docs"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_problem_says_what_is_wrong(case, service):
    path, body, headers, status, said = case
    found, problem, head = call(service.address, path, body, headers)
    assert found == status, problem
    assert head["content-type"] == "application/problem+json"
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["status"] == status
    assert said in problem["detail"]
    assert len(problem["detail"]) <= 500


def test_nothing_was_stored_or_broken(service, folder):
    file = folder / "feedback" / "texts.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    assert all(json.loads(line)["text"] != "a" for line in lines)
    found = call(service.address, SUGGEST, form(text=words_of(3), limit=1))[1]["results"]
    assert found[0]["uri"] == f"{PREFIX}c3"


def test_a_body_of_100_megabytes_is_refused_by_its_length_and_by_counting(service):
    host, port = service.address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.putrequest("POST", SUGGEST)
    connection.putheader("Content-Type", FORM["Content-Type"])
    connection.putheader("Content-Length", str(100_000_000))
    connection.endheaders()
    answer = connection.getresponse()  # before anything of the body was sent
    assert answer.status == 413
    assert "1,000,000 bytes" in json.loads(answer.read())["detail"]
    connection.close()
    chunks = (b"text=" + b"a" * 65536 for _ in range(100))
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.request("POST", SUGGEST, chunks, FORM, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_endless_headers_are_refused_and_large_bodies_are_not(service):
    host, port = service.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):  # it is closed long before all is sent
            connection.sendall(b"a" * 50_000_000)
        with contextlib.suppress(ConnectionError):  # a reset may overtake the answer
            assert connection.recv(100).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
        for _ in range(3):  # in one connection
            connection.request("POST", SUGGEST, form(text=words_of(3), limit=1, unknown="a" * 500_000), FORM)
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)


def sent_raw(service, request):
    """Send bytes, and return all that comes back."""
    host, port = service.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(request)
        with contextlib.suppress(ConnectionError):
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),  # the beginning of TLS
        (b"GET /v1/projects/caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),  # in one piece
    ],
    ids=["another protocol", "raw UTF-8", "negative length", "long address", "long header"],
)
def test_what_is_no_request_is_a_problem_too(request_, status, service):
    head, _, body = sent_raw(service, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Type: application/problem+json" in head
    assert json.loads(body)["status"] == status
    assert call(service.address, "/health/ready")[0] == 200


ASKED = f"POST {SUGGEST} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM['Content-Type']}\r\n".encode()
WHOLE = ASKED + b"Content-Length: 8\r\n\r\ntext=law"
UPGRADE = b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "last"),
    [
        (WHOLE + b"\x16\x03\x01\r\n\r\n", 400),
        (WHOLE * 3 + b"\x16\x03\x01\r\n\r\n", 400),
        (ASKED + b"Transfer-Encoding: chunked\r\n\r\n8\r\ntext=law\r\nno size\r\n", 400),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n\x16\x03\x01\r\n\r\n", 431),
        (ASKED + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n", 400),
        (UPGRADE, 404),
    ],
    ids=["after a request", "after several", "within a body", "after a refusal", "before a body", "another protocol"],
)
def test_faulty_clients_do_not_make_the_log_long(request_, last, service):
    before = service.log.stat().st_size
    statuses = re.findall(rb"HTTP/1.1 (\d+) ", sent_raw(service, request_))
    assert int(statuses[-1]) == last
    assert call(service.address, SUGGEST, form(text=words_of(3)))[0] == 200  # behind all that is in the queue
    said = service.log.read_bytes()[before:].decode()
    assert "Traceback" not in said
    assert "ERROR" not in said
    assert len(said.splitlines()) < 10


def test_connections_that_say_nothing_or_half_a_request_are_closed(service):
    host, port = service.address.removeprefix("http://").split(":")
    head = b"POST /v1/projects/texts/suggest HTTP/1.1\r\nHost: x\r\n"
    silent, half, started = (socket.create_connection((host, int(port)), timeout=20) for _ in range(3))
    half.sendall(head)
    started.sendall(head)
    start = time.monotonic()
    call(service.address, "/health/live")  # others are answered meanwhile
    assert time.monotonic() - start < 1
    for connection in (silent, half):
        assert connection.recv(100) == b""  # closed by the service
        connection.close()
    assert 1 < time.monotonic() - start < 15
    started.close()


def test_slow_clients_and_half_open_connections_starve_nobody(service):
    host, port = service.address.removeprefix("http://").split(":")
    head = f"POST {SUGGEST} HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM['Content-Type']}\r\nContent-Length: 5000\r\n\r\n"
    slow = [socket.create_connection((host, int(port)), timeout=20) for _ in range(60)]
    try:
        for i, connection in enumerate(slow):
            if i % 3:  # the others say nothing at all
                connection.sendall(head.encode() + b"text=")
        seconds = []
        for _ in range(20):
            for connection in slow[1::3]:  # one letter now and then
                connection.sendall(b"a")
            start = time.monotonic()
            assert call(service.address, SUGGEST, form(text=words_of(3), limit=1))[0] == 200
            seconds.append(time.monotonic() - start)
        assert sorted(seconds)[10] < 0.5
    finally:
        for connection in slow:
            connection.close()
    assert call(service.address, "/health/ready")[0] == 200
