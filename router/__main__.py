"""The router's composition root: `python -m router`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import random
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pydantic
import structlog
import uvloop
from prometheus_client import CollectorRegistry

from crds import errors, gpubackend, spans
from router import (
    affinity,
    aliases,
    announce,
    dispatch,
    documents,
    explain,
    health,
    history,
    lifetime,
    lines,
    memory,
    metrics,
    observer,
    page,
    report,
    scheduler,
    usage,
    usagepage,
    warmup,
)
from router.backends import book, circuit, environment, statuses
from router.outside import Outside
from router.proxy import connections, forward, signs, stall
from router.proxy.budget import Budget
from router.proxy.hosts import Hosts
from router.proxy.parts import Parts, no_successor
from router.proxy.pool import Pool, Pools
from router.proxy.server import Bounds, Server
from router.settings import Settings

_log = structlog.get_logger("router")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FIRST_ROUND = 3.0
_SWEEP = 1.0
_TICK = 0.25


def log_to_stderr(level: str) -> None:
    """One JSON object a line, tracebacks included."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def main() -> int:
    """Run until a signal. Exit code 2 for settings that cannot be used."""
    try:
        settings = Settings()
        log_to_stderr(settings.log_level)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings))
    except pydantic.ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False):
            path = ".".join(str(part) for part in problem["loc"])
            print(f"router: setting {path}: {problem['msg']}", file=sys.stderr)  # noqa: T201  # no logger yet
        return 2
    except errors.Permanent as error:
        print(f"router: {error.message} {error.remedy or ''}", file=sys.stderr)  # noqa: T201  # for the person who starts it
        return 2
    except OSError as error:
        print(f"router: cannot serve: {error}", file=sys.stderr)  # noqa: T201  # for the person who starts it
        return 1
    return 0


async def _run(settings: Settings) -> None:
    outside = Outside(settings, now=asyncio.get_running_loop().time, wall=_today)
    async with contextlib.aclosing(outside):
        await _serve(settings, outside)


async def _serve(settings: Settings, outside: Outside) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time
    shares = memory.shares(settings.memory_limit_bytes or memory.limit())
    whole = shares.buffered
    if settings.max_buffered_bytes is not None:
        shares = shares._replace(buffered=settings.max_buffered_bytes)
    signals = lifetime.Signals()
    signals.listen()
    backends = book.Book(
        now=now,
        breakers=lambda: circuit.Breaker(threshold=settings.circuit_failures, pause=settings.circuit_pause_seconds),
    )
    plan = scheduler.Scheduler(
        ageing=scheduler.Ageing(limits=settings.ageing, every=settings.ageing_every),
        bounds=scheduler.Bounds(
            count=settings.max_waiting,
            # The rest is for bodies that arrive or run: the queue is full first, and it knows who is less urgent.
            size=shares.buffered * 3 // 4,
            per_client=settings.max_waiting_per_client,
            deadlines=settings.deadlines,
        ),
        pace=scheduler.Pace(residence=settings.set_residence_seconds),
        grace=settings.restart_grace_seconds,
        affinity=affinity.Affinity(settings.affinity_requests),
    )
    gate = outside.gate()
    state = report.Report(backends, plan, now=now, owners=gate.required)
    dispatcher = dispatch.Dispatcher(
        plan,
        now=now,
        deciding=(lambda: state.leader.active) if settings.lease else None,
    )
    registry = CollectorRegistry()
    counters = metrics.Metrics(registry, now=now)
    told = lines.Lines(sys.stdout.buffer, counters.log_dropped.inc)
    used = usage.Usage(wall=_today)
    registry.register(used)
    store = outside.usage_store()
    sync = None if store is None else usage.Sync(used, store)
    telemetry = spans.Telemetry("jervis-router") if settings.tracing else None
    names = aliases.Aliases(settings.aliases)
    registry.register(metrics.Gauges(state.document, dispatcher.counts, plan.affinity.counts))
    # In a cluster a URL is what the author of a GpuBackend wrote; loopback is the router's own pod there.
    local = settings.gpu_backends is not None or settings.backend_loopback
    pools = Pools(lambda url: Pool(url, connect_timeout=settings.connect_seconds, loopback=local))
    watch = stall.Watch(now=now)
    past = history.History(counters, plan, now=now, wall=_today)
    telling = signs.Signs(
        plan,
        counters,
        every=settings.progress_seconds,
        for_all=settings.progress_for_all,
        now=now,
        today=_today,
    )
    prober = health.Prober(
        backends,
        pools,
        health.Rounds(interval=settings.probe_interval_seconds, timeout=settings.probe_timeout_seconds),
        chance=random.Random(),  # noqa: S311  # jitter
    )
    warmer = warmup.Warmer(
        backends,
        pools,
        loaded=dispatcher.loaded,
        unloaded=dispatcher.unloaded,
        patience=settings.load_seconds,
        counts=dispatcher.counts,
    )
    dispatcher.performed_by(warmer.perform)

    def schedule() -> None:
        # A standby knows its backends and decides nothing about them.
        dispatcher.reconfigure(backends.views() if state.leader.active else (), backends.table)

    def turned(active: bool) -> None:
        if active:
            recall()
        else:
            dispatcher.turn_away()
        schedule()

    def recall() -> None:
        # Reservations of the router before this one.
        for name, status in (source.statuses() if source is not None else {}).items():
            held = statuses.restored(status, wall=_today(), now=now())
            if held is not None:
                dispatcher.restore(name, held)

    known = False

    def listed(specs: Mapping[str, gpubackend.Spec]) -> None:
        nonlocal known
        if not known:
            known = True
            recall()
        backends.replace(specs)

    candidate = outside.candidate(turned)
    if candidate is not None:
        state.leader = candidate
    secrets = outside.secrets(backends, pools.authorize)
    backends.listen(schedule)
    backends.listen(prober.follow)
    backends.listen_for_silence(watch.lose)
    backends.listen(secrets.notice)
    if names:
        served = aliases.Shadows(names, lambda: {m for entry in backends.entries() for m in entry.served or ()})
        backends.listen(served.look)
    server = Server(
        forward.Forwarder(
            Parts(
                book=backends,
                dispatcher=dispatcher,
                pools=pools,
                watch=watch,
                metrics=counters,
                limits=stall.Limits(
                    first=settings.first_byte_seconds,
                    whole=settings.whole_answer_seconds,
                    embedding=settings.embedding_seconds,
                    between=settings.between_chunks_seconds,
                    write=settings.client_stall_seconds,
                    cpu_first=settings.cpu_first_byte_seconds,
                    cpu_between=settings.cpu_between_chunks_seconds,
                ),
                budget=Budget(),
                numbers=itertools.count(1),
                now=now,
                draining=lambda: state.draining,
                successor=no_successor if candidate is None else candidate.successor,
                deciding=lambda: state.leader.active,
                own_parameters=settings.own_parameters,
                placed=lambda backend: state.placed(backend, _today()),
                signs=telling,
                guarded=gate.closed,
            )
        ),
        backends,
        state,
        counters,
        own={
            **documents.routes(state, registry),
            **page.Page(state).routes(),
            **past.routes(),
            **explain.routes(plan, backends, now=now, aliases=names),
            **usagepage.routes(used, gate.limits),
            **announce.routes(
                dispatcher,
                ids=lambda: uuid.uuid4().hex,
                now=now,
                wall=_today,
                patience=settings.load_seconds,
                ceilings=lambda: backends.ceilings,
                aliases=names,
            ),
        },
        gate=gate,
        bounds=Bounds(body=min(settings.max_body_bytes, whole), buffered=shares.buffered),
        ids=_ids(str(uuid.uuid4())),
        now=now,
        # A caller who must show a token is no page that a name was made to lead here.
        hosts=Hosts(settings.allowed_hosts) if settings.allowed_hosts or not gate.required else None,
        extra=settings.extra_paths,
        conversations=plan.affinity,
        aliases=names,
        observer=observer.Observer(
            used,
            log=observer.log(
                settings.request_log, told.put, rate=settings.request_log_rate, chance=random.random, wall=_today
            ),
            telemetry=telemetry,
            outside=forward.SUCCESSOR,
            now=now,
        ),
    )
    clients = connections.Connections(
        connections.Bounds(
            most=settings.max_connections or shares.connections,
            unsent=shares.unsent,
            reading=settings.client_read_seconds,
            rate=settings.client_bytes_per_second,
            idle=settings.client_idle_seconds,
        ),
        counters,
        now=now,
    )
    source = outside.source(listed)
    sweeps: list[asyncio.Task[None]] = []
    if source is None:
        backends.replace(environment.read(settings.gpu_backends or "[]"))
    else:
        writer = statuses.Writer(
            backends, source.patch, wall=_today, now=now, active=lambda: state.leader.active and known
        )
        dispatcher.performed_by(writer.perform)
        backends.listen(writer.notice)
        sweeps.append(loop.create_task(source.run()))
    await prober.first_round(_FIRST_ROUND)
    # What exists now stays: a full collection would look at all of it, and each stream would wait.
    gc.collect()
    gc.freeze()
    jobs = [
        watch.run(_SWEEP),
        clients.sweep(_SWEEP),
        _sweep(pools),
        dispatcher.run(_TICK),
        gate.watch(),
        secrets.run(),
        telling.run(),
        past.run(),
    ]
    sweeps += [loop.create_task(job) for job in jobs]
    if source is not None:
        sweeps.append(loop.create_task(writer.run()))
    if candidate is not None:
        sweeps.append(loop.create_task(candidate.run()))
    storing = None if sync is None else loop.create_task(sync.run(settings.usage_every_seconds))
    for sweep in sweeps:
        sweep.add_done_callback(lambda task: _ended(task, signals))
    try:
        await lifetime.serve(
            server,
            clients,
            dispatcher,
            watch,
            state,
            signals,
            host=settings.host,
            port=settings.port,
            drain_delay=settings.drain_delay_seconds,
            drain=settings.drain_seconds,
            leave=candidate.leave if candidate is not None else None,
            started=lambda host, port: _log.info("serving", host=host, port=port, backends=len(backends.entries())),
        )
    finally:
        for sweep in sweeps:
            sweep.cancel()
        await warmer.close()
        await prober.close()
        if sync is not None and storing is not None:
            sync.leave()
            await storing
        await asyncio.to_thread(told.close, _LAST_LINES)
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close)


_LAST_LINES = 1.0
"""Seconds for the last lines of the request log."""


def _ids(process: str) -> Callable[[], str]:
    """Request ids: one random part per process and a count, because randomness costs a system call per request. They
    are UUIDs, for llama-cpp-python's server answers 400 to any other."""
    numbers, first = itertools.count(1), process[:24]
    return lambda: f"{first}{next(numbers):012x}"


def _ended(task: asyncio.Task[None], signals: lifetime.Signals) -> None:
    """A job that runs for ever ended: without it the router would go on with its eyes shut, so it leaves instead."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a job of the router broke", job=task.get_name(), exc_info=error)
        signals.receive()


def _today() -> datetime:
    return datetime.now(UTC)


async def _sweep(pools: Pools) -> None:
    """Close connections that have been idle for long."""
    while True:
        await asyncio.sleep(10 * _SWEEP)
        pools.sweep(asyncio.get_running_loop().time())


if __name__ == "__main__":
    sys.exit(main())
