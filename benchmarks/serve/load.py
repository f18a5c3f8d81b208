"""Latency and throughput of `longtail serve` on one machine, client included, and what happens beyond its limits.

    longtail train train.jsonl.xz -m dismec -o MODEL --vocabulary labels.json.xz     # EURLEX57K
    taskset -c 0,1 python -m benchmarks.serve.load MODEL shared/data/eurlex57k/test.jsonl.xz

Texts have 1,000 characters. Writes docs/lab/benchmarks/serve.json. Other processes on the machine falsify wall times:
the share of CPU time that they took is recorded with each figure, and CPU seconds per request do not depend on them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.common import add_out, save
from benchmarks.serve.client import Pool, closed_loop, open_loop, request
from longtail.data import read_dataset

CHARACTERS = 1000
CONNECTIONS = 900  # below the limit of one worker: an open loop must not wait for a free one
TICKS = os.sysconf("SC_CLK_TCK")
FORM, JSON = "application/x-www-form-urlencoded", "application/json"


@contextmanager
def service(*arguments: object) -> Iterator[tuple[int, int]]:
    """Run `longtail serve`; yields its port and process id once it is ready."""
    command = [sys.executable, "-c", "from longtail.app.cli import main; main()", "serve", *map(str, arguments)]
    process = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if line.startswith("serving"))
        port = int(line.split("http://")[1].split("/")[0].rsplit(":", 1)[1])
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def workers_of(supervisor: int) -> list[int]:
    """Return the process ids of the workers."""
    return [int(pid) for pid in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()]


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU seconds that processes have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / TICKS


def memory_mb(pids: list[int]) -> float:
    """Return the resident memory of processes in MB, what they share counted in each."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * os.sysconf("SC_PAGESIZE") / 1e6


def machine_busy() -> tuple[float, float]:
    """Return the CPU seconds of all processes on the machine, and all that there were."""
    fields = [int(one) / TICKS for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


class Usage:
    """CPU time of service, client and others around a measurement."""

    def __init__(self, supervisor: int) -> None:
        self.pids = workers_of(supervisor)
        self.before = cpu_seconds(self.pids), time.process_time(), *machine_busy()

    def figures(self, number: int) -> dict[str, float]:
        """Return CPU milliseconds per request (or text), and the share of the machine that others took."""
        served = cpu_seconds(self.pids) - self.before[0]
        client = time.process_time() - self.before[1]
        busy, every = (now - then for now, then in zip(machine_busy(), self.before[2:], strict=True))
        return {
            "service_cpu_ms": round(1000 * served / max(number, 1), 3),
            "client_cpu_ms": round(1000 * client / max(number, 1), 3),
            "others_share": round(max(0.0, busy - served - client) / every, 3),
            "memory_mb": round(memory_mb(self.pids), 1),
        }


def texts_of(file: Path, number: int) -> list[str]:
    """Return the beginnings of long texts."""
    texts = (text[:CHARACTERS] for text in read_dataset(file).texts if len(text) >= CHARACTERS)
    return list(islice(texts, number))


def suggest_requests(project: str, texts: list[str]) -> tuple[list[bytes], list[bytes]]:
    """Return requests for one text each, and for 32 texts each."""
    path = f"/v1/projects/{project}/suggest"
    single = [request(path, urllib.parse.urlencode({"text": text, "limit": 10}).encode(), FORM) for text in texts]
    documents = [[{"text": text} for text in texts[i : i + 32]] for i in range(0, len(texts) - 31, 32)]
    batches = [request(f"{path}-batch", json.dumps({"documents": one}).encode(), JSON) for one in documents]
    return single, batches


async def measure(port: int, supervisor: int, texts: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    single, batches = suggest_requests("model", texts)
    pool = Pool("127.0.0.1", port, CONNECTIONS)
    await closed_loop(pool, single, 4, 2)  # warm
    found: dict[str, Any] = {"open": []}
    for rate in arguments.rates:
        usage = Usage(supervisor)
        answers = await open_loop(pool, single, rate, arguments.seconds)
        figures = {"rate": rate, **answers.figures(), **usage.figures(len(answers.seconds))}
        print(figures)
        found["open"].append(figures)
    usage = Usage(supervisor)
    answers, took = await closed_loop(pool, single, 32, arguments.seconds)
    most = answers.statuses.count(200) / took
    found["closed"] = {
        "clients": 32, "per_second": round(most, 1), **answers.figures(), **usage.figures(len(answers.seconds))
    }  # fmt: skip
    print(found["closed"])
    usage = Usage(supervisor)
    answers, took = await closed_loop(pool, batches, 4, arguments.seconds)
    done = 32 * answers.statuses.count(200)
    found["batch"] = {
        "clients": 4, "texts_per_second": round(done / took, 1), **answers.figures(), **usage.figures(done)
    }  # fmt: skip
    print(found["batch"])
    usage = Usage(supervisor)
    before = memory_mb(usage.pids)
    answers = await open_loop(pool, single, 2 * most, arguments.seconds)
    found["overload"] = {
        "rate": round(2 * most, 1), **answers.figures(), **usage.figures(len(answers.seconds)),
        "memory_before_mb": round(before, 1),
    }  # fmt: skip
    print(found["overload"])
    pool.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="file with texts")
    parser.add_argument("--rates", type=float, nargs="+", default=[100, 250, 500], help="requests per second")
    parser.add_argument("--seconds", type=float, default=20, help="per measurement")
    parser.add_argument("--workers", type=int, default=1)
    add_out(parser)
    arguments = parser.parse_args()
    texts = texts_of(arguments.data, 3200)
    os.environ["LONGTAIL_SERVE_ACCESS_LOG"] = "false"
    with service(f"model={arguments.model}", "--workers", arguments.workers) as (port, supervisor):
        found = uvloop.run(measure(port, supervisor, texts, arguments))
    command = (
        f"python -m benchmarks.serve.load MODEL DATA --workers {arguments.workers} --seconds {arguments.seconds:g}"
    )
    save("serve", {"cores": len(os.sched_getaffinity(0)), **found}, command, folder=arguments.out)


if __name__ == "__main__":
    main()
