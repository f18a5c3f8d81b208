"""What the service counts, in Prometheus' form; with several workers the numbers are those of all together."""

from __future__ import annotations

import os

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set for workers, who keep their numbers in files there
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)

requests = Counter("longtail_requests", "Requests by address and status.", ["route", "status"])
seconds = Histogram("longtail_request_seconds", "Seconds per request.", ["route"], buckets=_SECONDS)
rejected = Counter("longtail_rejected", "Requests that were refused, by reason.", ["reason"])
texts = Counter("longtail_texts", "Texts or rows that were predicted.", ["model"])
batch_size = Histogram("longtail_batch_size", "Inputs predicted together.", buckets=(1, 2, 4, 8, 16, 32, 64, 128))
waiting = Gauge("longtail_waiting", "Inputs in the queue.", multiprocess_mode="livesum")
connections = Gauge("longtail_connections", "Open connections.", multiprocess_mode="livesum")
reloads = Counter("longtail_model_loads", "Models loaded, by result.", ["model", "result"])
feedback = Counter("longtail_feedback", "Texts with feedback that were stored.", ["model"])


def exposition() -> bytes:
    """Return all numbers in Prometheus' text format."""
    if FOLDER not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
