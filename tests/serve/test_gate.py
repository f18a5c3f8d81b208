"""The gate and the queue in this process: token, origins, time limit, a full queue."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import httpx
import pytest

from longtail.serve.app import create_app
from longtail.serve.batching import BatchQueue
from longtail.serve.problems import Problem
from longtail.serve.settings import ModelSettings, Settings


def settings(**more) -> Settings:
    return Settings(models={"m": ModelSettings(path=Path("nowhere"))}, access_log=False, **more)


async def answers(app, *requests):
    """Send requests to an application whose models are not loaded."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        return [await client.request(method, path, headers=headers) for method, path, headers in requests]


def test_a_token_is_needed_for_all_but_health_and_the_page():
    app, _ = create_app(settings(token="secret"))
    right, wrong = {"Authorization": "Bearer secret"}, {"Authorization": "Bearer secre"}
    requests = [("GET", path, {}) for path in ("/v1/projects", "/longtail/v1/models", "/metrics", "/openapi.json")]
    others = [{"Authorization": "Basic secret"}, {"Authorization": "secret"}, {"Authorization": "Bearer"}]
    for answer in asyncio.run(answers(app, *requests, *(("GET", "/v1/projects", one) for one in (wrong, *others)))):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
    in_small = {"Authorization": "bearer secret"}
    asked = [("/v1/projects", right), ("/v1/projects", in_small), ("/health/live", {}), ("/", {})]
    ok = asyncio.run(answers(app, *(("GET", path, headers) for path, headers in asked)))
    assert [answer.status_code for answer in ok] == [200] * 4


def test_scripts_of_other_sites_are_refused_unless_configured():
    asked = {"Origin": "https://catalogue.example", "Access-Control-Request-Method": "POST"}
    (refused,) = asyncio.run(answers(create_app(settings())[0], ("GET", "/v1/projects", asked)))
    assert "access-control-allow-origin" not in refused.headers
    app, _ = create_app(settings(cors_origins=["https://catalogue.example"], token="secret"))
    allowed, other = asyncio.run(
        answers(
            app,
            ("OPTIONS", "/v1/projects/m/suggest", asked),
            ("OPTIONS", "/v1/projects/m/suggest", {**asked, "Origin": "https://other.example"}),
        )
    )
    assert allowed.headers["access-control-allow-origin"] == "https://catalogue.example"
    assert "access-control-allow-origin" not in other.headers


def test_scripts_of_allowed_sites_may_read_refusals_too():
    def broken(_):
        raise RuntimeError

    origin, token = {"Origin": "https://catalogue.example"}, {"Authorization": "Bearer secret"}
    app, service = create_app(settings(cors_origins=[origin["Origin"]], token="secret", max_body=10))
    service.models.get = broken
    app.too_long = lambda: 1.0
    found = asyncio.run(
        answers(
            app,
            ("GET", "/v1/projects", origin),
            ("POST", "/v1/projects/m/suggest", {**origin, **token}),
            ("POST", "/v1/projects/m/learn", {**origin, **token, "Content-Length": "11"}),
            ("GET", "/v1/projects/m", {**origin, **token}),
        )
    )
    assert [answer.status_code for answer in found] == [401, 503, 413, 500]
    assert {answer.headers["access-control-allow-origin"] for answer in found} == {origin["Origin"]}
    head = [(b"authorization", b"Bearer secret")]
    assert app.early_refusal(None, b"/v1/projects/m/suggest", head, close=False) == b""


def test_not_ready_while_loading_and_while_draining():
    app, service = create_app(settings())
    ready, project = asyncio.run(answers(app, ("GET", "/health/ready", {}), ("GET", "/v1/projects/m", {})))
    assert (ready.status_code, project.status_code) == (503, 503)
    assert ready.headers["retry-after"] == project.headers["retry-after"] == "1"
    service.draining = True
    (ready,) = asyncio.run(answers(app, ("GET", "/health/ready", {})))
    assert ready.json()["detail"] == "draining"
    assert ready.headers["connection"] == "close"


def test_an_answer_that_takes_too_long_is_a_504():
    app, service = create_app(settings(time_limit=0.05))

    async def forever():
        await asyncio.sleep(10)

    app.app.app.get("/slow")(forever)
    app.app.app.post("/slow")(forever)
    empty, coming = {"Content-Length": "0"}, {"Transfer-Encoding": "chunked"}
    asked = [("GET", "/slow", {}), ("POST", "/slow", empty), ("POST", "/slow", coming)]
    late, without_body, unread = asyncio.run(answers(app, *asked))
    assert (late.status_code, without_body.status_code) == (504, 504)
    assert unread.status_code == 408  # nobody has seen the end of the request
    assert {answer.headers["content-type"] for answer in (late, unread)} == {"application/problem+json"}
    assert service.queue.waiting == 0


def test_a_fault_is_a_500_that_tells_nothing():
    app, _ = create_app(settings())

    def fail():
        raise RuntimeError("the text was: secret")

    app.app.app.get("/fault")(fail)
    (answer,) = asyncio.run(answers(app, ("GET", "/fault", {})))
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("length", "status"), [("9", 404), ("11", 413), ("9" * 5000, 413), ("-1", 413), ("1e1", 413)])
@pytest.mark.parametrize("zeros", [0, 5000])
def test_a_length_of_any_number_of_digits_is_read(length, status, zeros):
    app, _ = create_app(settings(max_body=10))
    asked = {"Content-Length": "0" * zeros + length}
    (answer,) = asyncio.run(answers(app, ("POST", "/nothing", asked)))
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_waits_becomes_one_batch_and_what_does_not_fit_is_refused_at_once():
    gate, batches = threading.Event(), []

    def work(inputs):
        batches.append(list(inputs))
        assert gate.wait(10)
        return [one * 2 for one in inputs]

    async def run():
        queue = BatchQueue(most=4, seconds=1.0, batch=3)
        first = asyncio.create_task(queue.submit(("m",), work, [1]))
        await asyncio.sleep(0.05)  # it is being predicted
        others = [asyncio.create_task(queue.submit(("m",), work, [i])) for i in (2, 3, 4, 5)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as full:
            await queue.submit(("m",), work, [6])
        assert full.value.status_code == 503
        assert int(full.value.headers["Retry-After"]) >= 1
        others[0].cancel()  # a client that has gone
        gate.set()
        found = [await first, *[await one for one in others[1:]]]
        await queue.close()
        return found, queue.waiting

    found, waiting = asyncio.run(run())
    assert found == [[2], [6], [8], [10]]
    assert batches == [[1], [3, 4, 5]]
    assert waiting == 0


def test_a_few_batches_wait_for_a_slow_model_unless_their_time_would_be_over():
    def work(inputs):
        time.sleep(0.1)
        return inputs

    async def run(longest):
        queue = BatchQueue(most=512, seconds=0.045, batch=32, longest=longest)
        tasks = [asyncio.create_task(queue.submit(("m",), work, [i] * 32)) for i in range(4)]  # 0.25 s are expected
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await queue.close()
        return found

    assert [one[0] for one in asyncio.run(run(longest=15.0))] == [0, 1, 2, 3]
    refused = [one for one in asyncio.run(run(longest=0.1)) if isinstance(one, Problem)]
    assert [one.status_code for one in refused] == [503, 503]


def test_one_bad_input_fails_alone():
    def work(inputs):
        if "bad" in inputs:
            raise ValueError("bad")
        return [one.upper() for one in inputs]

    async def run():
        queue = BatchQueue(most=10, seconds=1.0, batch=10)
        tasks = [asyncio.create_task(queue.submit(("m",), work, [one])) for one in ("a", "bad", "b")]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await queue.close()
        return found

    first, bad, last = asyncio.run(run())
    assert (first, last) == (["A"], ["B"])
    assert isinstance(bad, ValueError)


def test_clients_that_were_answered_together_are_waited_for_but_not_for_long():
    batches = []

    def work(inputs):
        batches.append(len(inputs))
        time.sleep(0.005)
        return inputs

    async def client(queue, rounds):
        for _ in range(rounds):
            await queue.submit(("m",), work, [0])
            await asyncio.sleep(0)

    async def run():
        queue = BatchQueue(most=512, seconds=1.0, batch=32)
        await asyncio.gather(*(client(queue, 30) for _ in range(4)))
        together = list(batches)
        batches.clear()
        start = time.perf_counter()
        await client(queue, 1)  # the other three do not come back
        alone = time.perf_counter() - start
        await queue.close()
        return together, alone

    together, alone = asyncio.run(run())
    assert sum(together) == 120
    assert len(together) <= 36, together  # 30 of four, but for the first ones; 60 if each found the thread idle
    assert alone < 1.0


def test_a_late_event_loop_has_no_room_while_requests_wait(monkeypatch):
    gate = threading.Event()

    async def run():
        queue = BatchQueue(most=512, seconds=0.045, batch=4)
        watching = asyncio.create_task(queue.watch_lag())
        await asyncio.sleep(0.05)
        tasks = [asyncio.create_task(queue.submit(("m", i), lambda x: gate.wait(10) and x, [0])) for i in range(4)]
        await asyncio.sleep(0.05)
        assert queue.too_long() is None, "three wait, and the loop is in time"
        time.sleep(0.2)  # whatever is read next may have waited as long
        late = queue.too_long()
        await asyncio.sleep(0.05)
        again = queue.too_long()
        gate.set()
        await asyncio.gather(*tasks)
        watching.cancel()
        await queue.close()
        return late, again

    late, again = asyncio.run(run())
    assert late > 0.1
    assert again is None
