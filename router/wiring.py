"""The router's parts, made from the settings and wired to each other; `__main__` runs them.

    Cluster   what files and the apiserver give: the gate, the Lease, the watch, the store of usage
    Backends  the book of backends, the connections to them, the probes
    Slots     the scheduler and what carries out its effects
    Records   what is counted and written down of requests
    Front     what clients connect to

Each stands on those above it, and nothing acts before `Wiring.connect` has said who hears of which change.
"""

from __future__ import annotations

import itertools
import random
import sys
import uuid
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry

from contracts import browsers, otel_spans
from crds import modelroles
from router import (
    affinity,
    aliases,
    announce,
    auth,
    dispatch,
    documents,
    explain,
    health,
    history,
    lines,
    memory,
    metrics,
    observer,
    page,
    report,
    scheduler,
    takeover,
    usage,
    usagepage,
    warmup,
)
from router.backends import book, circuit, environment, secrets, statuses
from router.outside import Outside
from router.proxy import admission, connections, forward, relay, server, signs, stall
from router.proxy.budget import Budget
from router.proxy.message import Own
from router.proxy.parts import Parts, no_successor
from router.proxy.pool import Pool, Pools
from router.proxy.quarantine import Quarantine
from router.settings import Settings

if TYPE_CHECKING:
    from router import ha
    from router.backends import objects


class MemoryBounds(NamedTuple):
    """What clients may fill of the process's memory."""

    queue: scheduler.QueueBounds
    bodies: admission.BodyBounds
    connections: connections.ConnectionBounds


class Cluster(NamedTuple):
    """What files and the apiserver give. None stands for what these settings do without."""

    gate: auth.Gate
    store: usage.Store | None
    candidate: ha.Candidate | None
    source: objects.Source | None
    follow_runs: Callable[[], Coroutine[Any, Any, None]] | None


class Backends(NamedTuple):
    """What is known of the backends, and the ways to them."""

    book: book.Book
    pools: Pools
    prober: health.Prober
    secrets: secrets.Secrets


class Slots(NamedTuple):
    """The scheduler of the backends' slots, and what carries out its effects."""

    plan: scheduler.Scheduler
    dispatcher: dispatch.Dispatcher
    warmer: warmup.Warmer
    takeover: takeover.Takeover
    writer: statuses.Writer | None
    state: report.Report


class Records(NamedTuple):
    """What is counted, kept and written down of requests."""

    registry: CollectorRegistry
    metrics: metrics.Metrics
    history: history.Recorder
    usage: usage.Usage
    sync: usage.Sync | None
    lines: lines.Lines
    observer: observer.Observer
    telemetry: otel_spans.Telemetry | None


class Front(NamedTuple):
    """What clients connect to. It does not listen yet."""

    server: server.Server
    connections: connections.Connections
    watch: stall.Watch
    signs: signs.Signs


class Wiring:
    """All parts of one process. `now` is monotonic seconds, the clock of the event loop. Raises crds.errors.Permanent
    for settings that cannot be used."""

    def __init__(self, settings: Settings, outside: Outside, *, now: Callable[[], float]) -> None:
        self._settings, self._now = settings, now
        self.bounds = bounds(settings)
        gate = outside.gate()
        parts = (outside.usage_store(), outside.candidate(), outside.source())
        self.cluster = Cluster(gate, *parts, follow_runs=outside.follow_runs)
        self.names = aliases.Aliases(settings.aliases)
        self.limits = _limits(settings)
        self.quarantine = Quarantine(seconds=settings.quarantine_seconds, now=now)
        self.backends = self._backends(outside)
        self.slots = self._slots()
        self.records = self._records()
        self.front = self._front()

    def connect(self) -> None:
        """Who hears of which change; then the backends of the settings come into the book."""
        candidate, source = self.cluster.candidate, self.cluster.source
        known, follower, writer = self.backends.book, self.slots.takeover, self.slots.writer
        self.slots.dispatcher.performed_by(self.slots.warmer.perform)
        known.listen(follower.changed)
        known.listen(self.backends.prober.follow)
        known.listen_for_silence(self.front.watch.lose)
        known.listen(self.backends.secrets.notice)
        if self.names:
            served = aliases.Shadows(self.names, lambda: {m for entry in known.entries() for m in entry.served or ()})
            known.listen(served.look)
        if candidate is not None:
            candidate.listen(follower.turned)
        if source is not None:
            source.listen(follower.listed)
        else:
            known.replace(environment.read(self._settings.gpu_backends or "[]"))
        if writer is not None:
            self.slots.dispatcher.performed_by(writer.perform)
            known.listen(writer.notice)

    def _backends(self, outside: Outside) -> Backends:
        settings = self._settings
        known = book.Book(
            now=self._now,
            breakers=lambda: circuit.Breaker(threshold=settings.circuit_failures, pause=settings.circuit_pause_seconds),
        )
        # In a cluster a URL is what the author of a GpuBackend wrote; loopback is the router's own pod there.
        local = settings.gpu_backends is not None or settings.backend_loopback
        pools = Pools(lambda url: Pool(url, loopback=local))
        prober = health.Prober(
            known,
            pools,
            health.Rounds(interval=settings.probe_interval_seconds, timeout=settings.probe_timeout_seconds),
            chance=random.Random(),  # noqa: S311  # jitter
            used=frozenset(self.names.resolve(one.model) for one in settings.roles),
        )
        return Backends(known, pools, prober, outside.secrets(known, pools.authorize))

    def _slots(self) -> Slots:
        settings, now, candidate, source = self._settings, self._now, self.cluster.candidate, self.cluster.source
        known, leader = self.backends.book, report.ALONE if candidate is None else candidate
        plan = scheduler.Scheduler(
            bounds=self.bounds.queue,
            grace=settings.restart_grace_seconds,
            affinity=affinity.Affinity(settings.affinity_requests),
        )
        dispatcher = dispatch.Dispatcher(plan, now=now, deciding=None if candidate is None else lambda: leader.active)
        warmer = warmup.Warmer(
            known,
            self.backends.pools,
            loaded=dispatcher.loaded,
            unloaded=dispatcher.unloaded,
            patience=settings.load_seconds,
            counts=dispatcher.counts,
            windows={self.names.resolve(name): size for name, size in modelroles.windows(settings.roles).items()},
        )
        follower = takeover.Takeover(
            known,
            dispatcher,
            decides=candidate is None,
            active=lambda: leader.active,
            statuses=None if source is None else source.statuses,
            now=now,
            wall=today,
        )
        writer = None
        if source is not None:
            writer = statuses.Writer(known, source.patch, wall=today, now=now, active=follower.may_write)
        state = report.Report(
            known,
            plan,
            now=now,
            leader=leader,
            owners=self.cluster.gate.required,
            roles=settings.roles,
            names=self.names,
        )
        return Slots(plan, dispatcher, warmer, follower, writer, state)

    def _records(self) -> Records:
        settings, now, slots = self._settings, self._now, self.slots
        registry = CollectorRegistry()
        counters = metrics.Metrics(registry, now=now)
        used = usage.Usage(wall=today)
        registry.register(used)
        registry.register(metrics.Gauges(slots.state.document, slots.dispatcher.counts, slots.plan.affinity.counts))
        written = lines.Lines(sys.stdout.buffer, counters.log_dropped.inc)
        log = observer.log(
            settings.request_log, written.put, rate=settings.request_log_rate, chance=random.random, wall=today
        )
        telemetry = otel_spans.Telemetry("jervis-router") if settings.tracing else None
        return Records(
            registry=registry,
            metrics=counters,
            history=history.Recorder(counters, slots.plan, now=now, wall=today),
            usage=used,
            sync=None if self.cluster.store is None else usage.Sync(used, self.cluster.store),
            lines=written,
            observer=observer.Observer(used, log=log, telemetry=telemetry, outside=relay.SUCCESSOR, now=now),
            telemetry=telemetry,
        )

    def _front(self) -> Front:
        settings, gate, plan = self._settings, self.cluster.gate, self.slots.plan
        watch = stall.Watch(now=self._now)
        telling = signs.Signs(
            plan,
            self.records.metrics,
            every=settings.progress_seconds,
            for_all=settings.progress_for_all,
            now=self._now,
            today=today,
        )
        serving = server.Server(
            forward.Forwarder(self._parts(watch, telling)),
            self.backends.book,
            self.slots.state,
            self.records.metrics,
            own=self._documents(),
            gate=gate,
            bounds=self.bounds.bodies,
            ids=_ids(str(uuid.uuid4())),
            now=self._now,
            # A caller who must show a token is no page that a name was made to lead here.
            hosts=browsers.Hosts(settings.allowed_hosts) if settings.allowed_hosts or not gate.required else None,
            origins=browsers.Origins(settings.origins),
            extra=settings.extra_paths,
            conversations=plan.affinity,
            aliases=self.names,
            observer=self.records.observer,
        )
        accepted = connections.Connections(self.bounds.connections, self.records.metrics, now=self._now)
        return Front(serving, accepted, watch, telling)

    def _parts(self, watch: stall.Watch, telling: signs.Signs) -> Parts:
        settings, state, candidate = self._settings, self.slots.state, self.cluster.candidate
        return Parts(
            book=self.backends.book,
            dispatcher=self.slots.dispatcher,
            pools=self.backends.pools,
            watch=watch,
            metrics=self.records.metrics,
            limits=self.limits,
            budget=Budget(),
            quarantine=self.quarantine,
            numbers=itertools.count(1),
            now=self._now,
            draining=lambda: state.draining,
            successor=no_successor if candidate is None else candidate.successor,
            deciding=lambda: state.leader.active,
            own_parameters=settings.own_parameters,
            placed=lambda backend: state.placed(backend, today()),
            signs=telling,
            guarded=self.cluster.gate.closed,
        )

    def _documents(self) -> Mapping[str, Own]:
        """The router's own documents by path."""
        state, plan, known = self.slots.state, self.slots.plan, self.backends.book
        return {
            **documents.routes(state, self.records.registry),
            **page.Page(state).routes(),
            **self.records.history.routes(),
            **explain.routes(
                plan,
                known,
                now=self._now,
                aliases=self.names,
                owners=self.cluster.gate.required,
                held=self.limits.held,
                quarantined=self.quarantine.count,
            ),
            **usagepage.routes(self.records.usage, self.cluster.gate.limits),
            **announce.routes(
                self.slots.dispatcher,
                ids=lambda: uuid.uuid4().hex,
                now=self._now,
                wall=today,
                patience=self._settings.load_seconds,
                ceilings=lambda: known.ceilings,
                aliases=self.names,
            ),
        }


def bounds(settings: Settings) -> MemoryBounds:
    """By the limit of the container, unless the settings have numbers of their own."""
    shares = memory.shares(settings.memory_limit_bytes or memory.limit())
    buffered = shares.buffered if settings.max_buffered_bytes is None else settings.max_buffered_bytes
    return MemoryBounds(
        queue=scheduler.QueueBounds(
            count=settings.max_waiting,
            # The rest is for bodies that arrive or run: the queue is full first, and it knows who is less urgent.
            size=buffered * 3 // 4,
            per_client=settings.max_waiting_per_client,
            deadlines=settings.deadlines,
        ),
        bodies=admission.BodyBounds(body=min(settings.max_body_bytes, shares.buffered), buffered=buffered),
        connections=connections.ConnectionBounds(
            most=settings.max_connections or shares.connections,
            unsent=shares.unsent,
            reading=settings.client_read_seconds,
            rate=settings.client_bytes_per_second,
        ),
    )


def _limits(settings: Settings) -> stall.Limits:
    """Seconds of silence, and of a GPU."""
    return stall.Limits(
        first=settings.first_byte_seconds,
        whole=settings.whole_answer_seconds,
        embedding=settings.embedding_seconds,
        between=settings.between_chunks_seconds,
        write=settings.client_stall_seconds,
        cpu_first=settings.cpu_first_byte_seconds,
        hold=settings.hold_seconds or stall.NEVER,
        foreign_hold=settings.foreign_hold_seconds or stall.NEVER,
    )


def today() -> datetime:
    """The time of day, UTC."""
    return datetime.now(UTC)


def _ids(process: str) -> Callable[[], str]:
    """Request ids: one random part per process and a count, because randomness costs a system call per request. They
    are UUIDs, for llama-cpp-python's server answers 400 to any other."""
    numbers, first = itertools.count(1), process[:24]
    return lambda: f"{first}{next(numbers):012x}"
