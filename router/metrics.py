"""Prometheus metrics of the router. Labels are bounded: levels, backends and models that a backend serves.

Nothing here is labelled by client, path or prompt; `router.usage` counts by identity. The registry is an argument.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import add
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from crds.gpubackend import Circuit
from router import status
from router.affinity import Outcome

SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Totals(NamedTuple):
    """Sums over all exchanges. `queue` are the counts of the wait's buckets by level."""

    prompt: int
    tokens: int
    queue: dict[str, list[int]]


class Exchange:
    """Counts of one (priority, model, backend), as plain numbers: a scrape is rare, a request is not."""

    __slots__ = ("first_byte", "first_byte_sum", "prompt_tokens", "queue", "queue_sum", "requests", "sent", "tokens")

    def __init__(self) -> None:
        self.requests = 0
        self.sent = 0
        self.prompt_tokens = 0
        self.tokens = 0
        self.queue = [0] * (len(SECONDS) + 1)
        self.queue_sum = 0.0
        self.first_byte = [0] * (len(SECONDS) + 1)
        self.first_byte_sum = 0.0

    def began(self, queue: float, first_byte: float) -> None:
        """An answer began after `queue` seconds in line and `first_byte` seconds at the backend."""
        self.requests += 1
        self.queue[bisect_left(SECONDS, queue)] += 1
        self.queue_sum += queue
        self.first_byte[bisect_left(SECONDS, first_byte)] += 1
        self.first_byte_sum += first_byte


class Busy:
    """How long at least one request ran on a backend, in seconds."""

    __slots__ = ("_running", "_since", "total")

    def __init__(self) -> None:
        self._running = 0
        self._since = 0.0
        self.total = 0.0

    def begin(self, now: float) -> None:
        """A request was sent."""
        if not self._running:
            self._since = now
        self._running += 1

    def end(self, now: float) -> None:
        """It is over."""
        self._running -= 1
        if not self._running:
            self.total += now - self._since

    def until(self, now: float) -> float:
        """The total with what is going on."""
        return self.total + (now - self._since if self._running else 0.0)


class _Exchanges(Collector):
    """Turns the plain numbers into metric families."""

    _LABELS = ("priority", "model", "backend")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.busy: dict[str, Busy] = {}
        self.by_key: dict[tuple[str, str, str], Exchange] = {}
        self.asked: dict[str, int] = {}
        self.responses: dict[tuple[str, int], int] = {}
        """Answers by who gave them and the first digit of the status."""

    def describe(self) -> Iterable[Metric]:
        """The names are fixed; the samples come with the requests."""
        return self._families()

    def collect(self) -> Iterator[Metric]:
        """All families with their samples."""
        requests, sent, tokens, queue, first_byte = families = self._families()
        for key, exchange in self.by_key.items():
            requests.add_metric(key, exchange.requests)
            sent.add_metric(key, exchange.sent)
            tokens.add_metric((*key, "prompt"), exchange.prompt_tokens)
            tokens.add_metric((*key, "answer"), exchange.tokens)
            queue.add_metric(key, _buckets(exchange.queue), exchange.queue_sum)
            first_byte.add_metric(key, _buckets(exchange.first_byte), exchange.first_byte_sum)
        yield from families
        responses = CounterMetricFamily(
            "jervis_router_responses", "Answers by who gave them and class of status code.", labels=("by", "code")
        )
        for (by, digit), times in self.responses.items():
            responses.add_metric((by, f"{digit}xx"), times)
        yield responses
        asked = CounterMetricFamily(
            "jervis_router_priority_header", "Requests by the level their header asked for.", labels=("priority",)
        )
        for level, times in self.asked.items():
            asked.add_metric((level,), times)
        yield asked
        busy = CounterMetricFamily(
            "jervis_router_backend_busy_seconds", "Time in which at least one request ran.", labels=("backend",)
        )
        for backend, meter in self.busy.items():
            busy.add_metric((backend,), meter.until(self._now()))
        yield busy

    def _families(
        self,
    ) -> tuple[
        CounterMetricFamily, CounterMetricFamily, CounterMetricFamily, HistogramMetricFamily, HistogramMetricFamily
    ]:
        names = self._LABELS
        return (
            CounterMetricFamily("jervis_router_requests", "Requests that a backend answered.", labels=names),
            CounterMetricFamily("jervis_router_answer_bytes", "Body bytes relayed to clients.", labels=names),
            CounterMetricFamily("jervis_router_tokens", "Tokens as the backends counted them.", labels=(*names, "of")),
            HistogramMetricFamily("jervis_router_queue_seconds", "Wait for a slot.", labels=names),
            HistogramMetricFamily(
                "jervis_router_first_byte_seconds",
                "From sending a request to a backend to the first byte of its answer's body.",
                labels=names,
            ),
        )


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in SECONDS), "+Inf"]
    return [(bound, float(total)) for bound, total in zip(bounds, accumulate(counts), strict=True)]


class Metrics:
    """All counters; `registry` is what `/metrics` prints."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], float]) -> None:
        self._exchanges = _Exchanges(now)
        registry.register(self._exchanges)
        count = partial(Counter, namespace="jervis_router", registry=registry)
        self.refused = count("refused", "Requests without a slot.", ("reason",))
        self.log_dropped = count("request_log_dropped", "Lines of the request log that were not written.")
        self.hangups = count("client_hangups", "Clients that hung up.", ("phase",))
        self.broken = count("backend_failures", "Exchanges that a backend spoiled.", ("backend", "phase"))
        self.crashes = count(
            "runner_crashes", "Runners that ended under a request, by whether it was alone there.", ("backend", "alone")
        )
        self.quarantined = count("quarantine_refusals", "Requests refused because they ended runners.")
        self.retries = count("retries", "Attempts after the first.", ("reason",))
        self.rewritten = count("parameters_owned", "Requests whose keep_alive or runner options the router set.")
        self.dropped = count("runner_options_dropped", "Clients' options that would load a model anew.", ("option",))
        self.context_unset = count(
            "context_unset", "Requests by /v1, which cannot state the context, for models whose GpuBackend states one."
        )
        self.stalled = count("client_stalls", "Clients cut off because they took nothing.")
        self.exceeded = count("holds_ended", "Answers ended because they held a GPU for too long.", ("caller",))
        self.connections_refused = count("connections_refused", "Connections above the bound.")
        self.signs = count("signs_of_life", "Signs sent to clients whose streams wait.", ("phase",))
        self.clamped = count(
            "priority_clamped", "Requests whose level was lowered to their client's ceiling.", ("asked", "given")
        )
        self.unauthorized = count("unauthorized", "Requests without a token that is good for them.", ("status",))
        self.unknown_priority = count("unknown_priority", "Priority headers with an undefined value.")

    def exchange(self, level: str, model: str, backend: str) -> Exchange:
        """Counts for a request; `model` must be one that the backend serves, or empty."""
        key = (level, model, backend)
        found = self._exchanges.by_key.get(key)
        if found is None:
            found = self._exchanges.by_key[key] = Exchange()
        return found

    def totals(self) -> Totals:
        """What was counted until now."""
        prompt = tokens = 0
        queue: dict[str, list[int]] = {}
        for (level, _, _), exchange in self._exchanges.by_key.items():
            prompt += exchange.prompt_tokens
            tokens += exchange.tokens
            before = queue.get(level)
            queue[level] = [*exchange.queue] if before is None else [*map(add, before, exchange.queue)]
        return Totals(prompt, tokens, queue)

    def busy(self, backend: str) -> Busy:
        """The meter of a backend."""
        found = self._exchanges.busy.get(backend)
        if found is None:
            found = self._exchanges.busy[backend] = Busy()
        return found

    def asked_for(self, level: str) -> None:
        """A request named a level in its header."""
        self._exchanges.asked[level] = self._exchanges.asked.get(level, 0) + 1

    def answered(self, by: str, status: int) -> None:
        """An answer began: `by` is "backend" or "router"."""
        counts, key = self._exchanges.responses, (by, status // 100)
        counts[key] = counts.get(key, 0) + 1


_EFFECTS = (
    ("Load", "loads", "Models that the router had loaded."),
    ("Unload", "unloads", "Models that the router had unloaded."),
    ("Spilled", "spilled_loads", "Loads after which a part of the model lay outside the GPU's memory."),
    ("Preempted", "preemptions_moved", "Requests that gave way before their first byte and went on elsewhere."),
    ("PreemptedVisibly", "preemptions_ended", "Answers that were ended for a more urgent request."),
)


class Gauges(Collector):
    """Values of the moment, read from the status document at each scrape. `counts` are the scheduler's effects
    by name (`dispatch.Dispatcher.counts`), `conversations` turns by what became of them (`affinity.Outcome`)."""

    def __init__(
        self, document: Callable[[], status.Status], counts: Mapping[str, int], conversations: Mapping[Outcome, int]
    ) -> None:
        self._conversations = conversations
        self._document = document
        self._counts = counts

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
        circuit = GaugeMetricFamily(
            "jervis_router_circuit",
            "State of the circuit breaker: 1 for the one that holds.",
            labels=["backend", "state"],
        )
        failing = GaugeMetricFamily(
            "jervis_router_models_failing", "Models whose own circuit is open.", labels=["backend"]
        )
        reserved = GaugeMetricFamily(
            "jervis_router_reserved_seconds", "What is left of a reservation, 0 without one.", labels=["backend"]
        )
        memory = GaugeMetricFamily(
            "jervis_router_model_vram_bytes", "GPU memory of the models that are loaded.", labels=["backend", "model"]
        )
        loaded = GaugeMetricFamily(
            "jervis_router_model_set_loaded",
            "1 when all models of the set are loaded.",
            labels=["backend", "model_set"],
        )
        swaps = CounterMetricFamily("jervis_router_swaps", "Changes of model sets.", labels=["backend"])
        for backend in document.backends:
            name = backend.name
            running.add_metric([name], backend.in_flight)
            healthy.add_metric([name], int(backend.healthy))
            for state in Circuit:
                circuit.add_metric([name, state.value], int(backend.circuit == state.value))
            failing.add_metric([name], len(backend.models_failing))
            left = 0.0 if backend.reservation is None else backend.reservation.seconds_left
            reserved.add_metric([name], left)
            for model in backend.memory:
                memory.add_metric([name, model.name], model.vram_bytes)
            for one in backend.model_sets:
                loaded.add_metric([name, one.name], int(one.state == "Loaded"))
            swaps.add_metric([name], backend.swaps)
        yield from (running, healthy, circuit, failing, reserved, memory, loaded, swaps)
        for effect, family, text in _EFFECTS:
            yield CounterMetricFamily(f"jervis_router_{family}", text, value=self._counts.get(effect, 0))
        turns = CounterMetricFamily(
            "jervis_router_affinity",
            "Turns of conversations whose model more than one backend serves: new, kept where the last one ran, moved.",
            labels=["outcome"],
        )
        for outcome in Outcome:
            turns.add_metric([outcome.value], self._conversations.get(outcome, 0))
        yield turns
        yield GaugeMetricFamily("jervis_router_active", "0 while standing by for another router.", int(document.active))
        yield GaugeMetricFamily(
            "jervis_router_oldest_wait_seconds", "Age of the longest wait.", value=document.queue.oldest_seconds
        )
