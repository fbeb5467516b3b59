"""Prometheus metrics of the router. Labels are bounded: levels, backends and models that a backend serves.

Nothing is labelled by client, path or prompt. The registry is an argument.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from router import status

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Exchange:
    """Counts of one (priority, model, backend), as plain numbers: a scrape is rare, a request is not."""

    __slots__ = ("first_byte", "first_byte_sum", "queue", "queue_sum", "requests", "sent")

    def __init__(self) -> None:
        self.requests = 0
        self.sent = 0
        self.queue = [0] * (len(_SECONDS) + 1)
        self.queue_sum = 0.0
        self.first_byte = [0] * (len(_SECONDS) + 1)
        self.first_byte_sum = 0.0

    def began(self, queue: float, first_byte: float) -> None:
        """An answer began after `queue` seconds in line and `first_byte` seconds at the backend."""
        self.requests += 1
        self.queue[bisect_left(_SECONDS, queue)] += 1
        self.queue_sum += queue
        self.first_byte[bisect_left(_SECONDS, first_byte)] += 1
        self.first_byte_sum += first_byte


class _Exchanges(Collector):
    """Turns the plain numbers into metric families."""

    _LABELS = ("priority", "model", "backend")

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, str, str], Exchange] = {}

    def describe(self) -> Iterable[Metric]:
        """The names are fixed; the samples come with the requests."""
        return self._families()

    def collect(self) -> Iterator[Metric]:
        """All families with their samples."""
        requests, sent, queue, first_byte = families = self._families()
        for key, exchange in self.by_key.items():
            requests.add_metric(key, exchange.requests)
            sent.add_metric(key, exchange.sent)
            queue.add_metric(key, _buckets(exchange.queue), exchange.queue_sum)
            first_byte.add_metric(key, _buckets(exchange.first_byte), exchange.first_byte_sum)
        yield from families

    def _families(
        self,
    ) -> tuple[CounterMetricFamily, CounterMetricFamily, HistogramMetricFamily, HistogramMetricFamily]:
        names = self._LABELS
        return (
            CounterMetricFamily("jervis_router_requests", "Requests that a backend answered.", labels=names),
            CounterMetricFamily("jervis_router_answer_bytes", "Body bytes relayed to clients.", labels=names),
            HistogramMetricFamily("jervis_router_queue_seconds", "Wait for a slot.", labels=names),
            HistogramMetricFamily(
                "jervis_router_first_byte_seconds",
                "From sending a request to a backend to the first byte of its answer's body.",
                labels=names,
            ),
        )


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in _SECONDS), "+Inf"]
    return [(bound, float(total)) for bound, total in zip(bounds, accumulate(counts), strict=True)]


class Metrics:
    """All counters; `registry` is what `/metrics` prints."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._exchanges = _Exchanges()
        registry.register(self._exchanges)
        count = partial(Counter, namespace="jervis_router", registry=registry)
        self._responses = count("responses", "Answers by who gave them and class of status code.", ("by", "code"))
        self._by_class: dict[tuple[str, int], Counter] = {}
        self.refused = count("refused", "Requests without a slot.", ("reason",))
        self.hangups = count("client_hangups", "Clients that hung up.", ("phase",))
        self.broken = count("backend_failures", "Exchanges that a backend spoiled.", ("backend", "phase"))
        self.retries = count("retries", "Attempts after the first.", ("reason",))
        self.stalled = count("client_stalls", "Clients cut off because they took nothing.")
        self.unknown_priority = count("unknown_priority", "Priority headers that nobody defined.")
        self.asked = count("priority_header", "Requests by the level their header asked for.", ("priority",))

    def exchange(self, level: str, model: str, backend: str) -> Exchange:
        """Counts for a request; `model` must be one that the backend serves, or empty."""
        key = (level, model, backend)
        found = self._exchanges.by_key.get(key)
        if found is None:
            found = self._exchanges.by_key[key] = Exchange()
        return found

    def answered(self, by: str, status: int) -> None:
        """An answer began: `by` is "backend" or "router"."""
        key = (by, status // 100)
        counter = self._by_class.get(key)
        if counter is None:
            counter = self._by_class[key] = self._responses.labels(by, f"{key[1]}xx")
        counter.inc()


class Gauges(Collector):
    """Values of the moment, read from the status document when somebody scrapes."""

    def __init__(self, document: Callable[[], status.Status]) -> None:
        self._document = document

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: the document needs the running parts."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One pass over the document."""
        document = self._document()
        waiting = GaugeMetricFamily("jervis_router_waiting", "Requests that wait for a slot.", labels=["priority"])
        for level, count in document.queue.by_priority.items():
            waiting.add_metric([level], count)
        yield waiting
        running = GaugeMetricFamily("jervis_router_in_flight", "Requests that run.", labels=["backend"])
        healthy = GaugeMetricFamily(
            "jervis_router_backend_healthy", "1 when requests may go there.", labels=["backend"]
        )
        for backend in document.backends:
            running.add_metric([backend.name], backend.in_flight)
            healthy.add_metric([backend.name], int(backend.healthy))
        yield running
        yield healthy
        yield GaugeMetricFamily(
            "jervis_router_oldest_wait_seconds", "Age of the longest wait.", value=document.queue.oldest_seconds
        )
