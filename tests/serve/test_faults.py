"""What must hold when things go wrong: workers killed, models replaced, a full disk, the end of the service."""

from __future__ import annotations

import http.client
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from longtail.serve import feedback
from longtail.serve.feedback import append_durably
from longtail.serve.worker import PlainLines
from serve.conftest import text_model, words_of
from serve.running import call, start

SUGGEST = "/v1/projects/m/suggest"
FEEDBACK = "/longtail/v1/models/m/feedback"
FULL = 2_000_000  # bytes
FORM = f"text={words_of(3).replace(' ', '+')}&limit=1".encode()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults\x1b[31m")  # a name that would colour a terminal
    text_model().save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def running(place):
    # The limit on the size of files stands for a full disk; workers write nothing else that is large.
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({FULL}, {FULL})); "
    running = start(f"m={place / 'model'}", "--workers", 2, "--feedback", place / "feedback", before=limit)
    yield running
    running.stop()


class Load:
    """Clients that send suggestions and feedback until told to stop; every answer is noted."""

    def __init__(self, address: str, clients: int = 3) -> None:
        self.address, self.stop = address, threading.Event()
        self.statuses: list[int] = []
        self.broken: list[BaseException] = []
        self.refused = 0
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._client, args=(i,)) for i in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(30)

    def _client(self, client: int) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            text = f"feedback {client} {number}"
            try:
                self.statuses.append(call(self.address, SUGGEST, FORM)[0])
                status = call(self.address, FEEDBACK, {"text": text, "accepted": ["c1"]})[0]
                self.statuses.append(status)
                if status == 200:
                    self.acknowledged.append(text)
            except (http.client.HTTPException, OSError) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ConnectionRefusedError):
                    self.refused += 1
                    time.sleep(0.05)
                else:
                    self.broken.append(reason)


def stored(place) -> list[str]:
    return [json.loads(line)["text"] for line in (place / "feedback" / "m.jsonl").read_text().splitlines()]


def wait_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_killed_worker_is_replaced_and_no_acknowledged_feedback_is_lost(running, place):
    wait_for(lambda: running.log.read_text().count("loaded from") == 2)
    with Load(running.address) as load:
        wait_for(lambda: len(load.acknowledged) > 5)
        victim = running.workers[0]
        os.kill(victim, signal.SIGKILL)
        seen = len(load.statuses)
        wait_for(lambda: victim not in running.workers and len(running.workers) == 2)
        wait_for(lambda: running.log.read_text().count("loaded from") == 3)
        wait_for(lambda: len(load.statuses) > seen + 10)
    assert set(load.statuses) == {200}
    assert len(load.broken) <= 3  # at most what the killed worker had in hand, one request per client
    assert set(load.acknowledged) <= set(stored(place))
    assert "starting another" in running.log.read_text()


def test_a_replaced_model_answers_without_a_failed_request(running, place):
    before = call(running.address, "/v1/projects/m")[1]["modification_time"]
    changed = text_model(1)
    changed.label_names_ = changed.model_.label_names_ = [f"new{i}" for i in range(6)]
    loads = running.log.read_text().count("loaded from")
    with Load(running.address, clients=2) as load:
        wait_for(lambda: len(load.statuses) > 5)
        changed.vocabulary_ = None
        changed.save(place / "model", overwrite=True)
        running.process.send_signal(signal.SIGHUP)
        wait_for(lambda: running.log.read_text().count("loaded from") == loads + 2)  # by both workers
        found = {call(running.address, SUGGEST, FORM)[1]["results"][0]["uri"] for _ in range(6)}
    assert found == {"new3"}
    assert load.broken == []
    # The clients' feedback names a label of the old model: 404 once it is gone.
    assert set(load.statuses) <= {200, 404}
    assert call(running.address, "/v1/projects/m")[1]["modification_time"] > before


def test_a_model_that_cannot_be_loaded_does_not_take_the_place_of_one_that_can(running, place):
    manifest = place / "model" / "manifest.json"
    good = manifest.read_bytes()
    manifest.write_bytes(good[: len(good) // 2])
    running.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the old one stays" in running.log.read_text())
    assert call(running.address, SUGGEST, FORM)[1]["results"][0]["uri"] == "new3"
    manifest.write_bytes(good)


def test_the_log_is_plain_lines(running):
    """A path in the log cannot steer the terminal, nor look like another line."""
    record = logging.LogRecord("longtail", logging.ERROR, "", 0, "loaded from %s", ("m\x1b[31m\nERROR x: y",), None)
    try:
        raise ValueError("a\x1b[31m\nERROR x: y")
    except ValueError:
        record.exc_info = sys.exc_info()
    first, *more = PlainLines("%(levelname)s %(name)s: %(message)s").format(record).split("\n")
    assert first == r"ERROR longtail: loaded from m\x1b[31m\nERROR x: y"
    assert all(line.startswith("  ") and "\x1b" not in line for line in more)
    log = running.log.read_text()
    assert r"faults\x1b[31m" in log
    assert "\x1b" not in log


def test_a_full_disk_is_said_and_loses_nothing(running, place):
    long = {"text": "word " * 100_000, "accepted": ["new1"]}
    before = stored(place)
    answers = [call(running.address, FEEDBACK, long) for _ in range(5)]
    statuses = [status for status, _, _ in answers]
    assert statuses == [200] * 3 + [507] * 2
    assert "full" in answers[-1][1]["detail"]
    assert stored(place) == before + [long["text"]] * 3
    assert "feedback was not stored" in running.log.read_text()
    assert call(running.address, SUGGEST, FORM)[0] == 200


def test_sigterm_finishes_what_was_accepted(running):
    with Load(running.address) as load:
        wait_for(lambda: len(load.statuses) > 10)
        running.process.send_signal(signal.SIGTERM)
        wait_for(lambda: load.refused > 0)
        assert running.process.wait(30) == 0
    assert load.broken == []
    assert set(load.statuses) <= {200, 404, 507, 503}  # 503: a connection that no worker had accepted
    assert "Traceback" not in running.log.read_text()


# A worker that gets SIGTERM when it has loaded its models and does not serve yet. NumPy's threads would take a signal
# that the first thread blocks.
ENDED_EARLY = """
import os, signal, socket, sys
from longtail.serve.settings import ModelSettings, Settings
from longtail.serve.worker import Worker

listening = socket.create_server(("127.0.0.1", 0))
worker = Worker(Settings(models={"m": ModelSettings(path=sys.argv[1])}, drain=0.1))
worker.remember_sigterm()
os.kill(os.getpid(), signal.SIGTERM)
worker.run([listening])
"""


def test_sigterm_before_a_worker_serves_is_not_lost(place):
    ended = subprocess.run([sys.executable, "-c", ENDED_EARLY, place / "model"], capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr.decode()


@pytest.fixture
def slow_start(tmp_path):
    """A service whose workers wait for a pipe while they load; and the pipe."""
    text_model().save(tmp_path / "model")
    pipe = tmp_path / "metrics.json"
    os.mkfifo(pipe)
    settings = 'drain = 0.2\ntime_limit = 3\n[models.m]\npath = "model"\nmetrics = "metrics.json"\n'
    (tmp_path / "service.toml").write_text(settings)
    threading.Thread(target=pipe.write_text, args=('{"P@1": 50.0}',), daemon=True).start()
    running = start("--config", tmp_path / "service.toml")
    yield running, pipe
    running.stop(signal.SIGKILL)


def wait_for_reader(pipe):
    """Return the end for writing of a pipe, once a process reads from it."""
    until = time.monotonic() + 30
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads
            assert time.monotonic() < until
            time.sleep(0.02)


def test_sighup_does_not_end_a_worker_that_still_loads(slow_start):
    running, pipe = slow_start
    os.kill(running.workers[0], signal.SIGKILL)
    end = wait_for_reader(pipe)
    (loading,) = running.workers
    running.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    os.write(end, b'{"P@1": 60.0}')
    os.close(end)
    evaluations = call(running.address, "/longtail/v1/models/m")[1]["evaluations"]
    assert evaluations[0]["metrics"] == {"P@1": 60.0}
    assert running.workers == [loading]


def test_sigterm_ends_a_worker_that_still_loads(slow_start):
    running, pipe = slow_start
    os.kill(running.workers[0], signal.SIGKILL)
    end = wait_for_reader(pipe)
    start = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - start < 10  # those that do not end are killed after 40 seconds
    os.close(end)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("again", [False, True])
def test_workers_that_load_end_when_the_service_was_killed(slow_start, again):
    running, pipe = slow_start
    if again:
        running.process.send_signal(signal.SIGHUP)
    else:
        os.kill(running.workers[0], signal.SIGKILL)  # another one takes its place
    end = wait_for_reader(pipe)
    (worker,) = running.workers
    running.stop(signal.SIGKILL)
    wait_for(lambda: not is_running(worker))
    os.close(end)


def test_files_beside_a_model_are_loaded_again_and_a_broken_one_is_said_once(tmp_path):
    text_model().save(tmp_path / "model")
    names = tmp_path / "names.json"
    names.write_text('{"c3": "before"}')
    (tmp_path / "service.toml").write_text(
        'watch = 0.1\ndrain = 0\n[models.m]\npath = "model"\nvocabulary = "names.json"\n'
    )
    running = start("--config", tmp_path / "service.toml")

    def name():
        return call(running.address, SUGGEST, FORM)[1]["results"][0]["label"]

    try:
        assert name() == "before"
        names.write_text("no JSON")
        wait_for(lambda: "the old one stays" in running.log.read_text())
        time.sleep(0.5)  # several looks
        assert running.log.read_text().count("the old one stays") == 1
        assert name() == "before"
        names.write_text('{"c3": "after"}')
        wait_for(lambda: name() == "after")
    finally:
        running.stop()


def test_a_full_disk_is_an_error_and_the_file_stays_whole(tmp_path):
    file = tmp_path / "m.jsonl"
    append_durably(file, b'{"a": 1}\n')
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            append_durably(file, b'{"b": 22222222222222222222222222}\n')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_bytes() == b'{"a": 1}\n'
    append_durably(file, b'{"c": 3}\n')
    assert file.read_bytes() == b'{"a": 1}\n{"c": 3}\n'


def test_names_are_on_the_disk_before_the_first_line_is(tmp_path, monkeypatch):
    file, synced = tmp_path / "a" / "b" / "m.jsonl", []

    def sync(folder):
        synced.append((folder, file.exists() and file.read_bytes()))

    monkeypatch.setattr(feedback, "_sync_folder", sync)
    feedback.make_folder(file.parent)
    feedback.make_folder(file.parent)
    assert {folder for folder, _ in synced} == {tmp_path, tmp_path / "a"}
    synced.clear()
    file.touch()  # by another worker, which was killed, or has not written yet
    for line in (b'{"a": 1}\n', b'{"b": 2}\n'):
        append_durably(file, line)
    assert synced == [(file.parent, b"")]


def test_a_line_that_a_kill_cut_short_is_removed(tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_bytes(b'{"a": 1}\n{"b": ')
    append_durably(file, b'{"c": 3}\n')
    assert file.read_bytes() == b'{"a": 1}\n{"c": 3}\n'
