"""The router's composition root: `python -m router`."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import sys
import time
import uuid
from collections.abc import Callable

import pydantic
import structlog
import uvloop
from prometheus_client import CollectorRegistry

from crds import errors
from router import dispatch, documents, health, lifetime, metrics, report, scheduler
from router.backends import book, circuit, environment
from router.proxy import forward, stall
from router.proxy.budget import Budget
from router.proxy.pool import Pool, Pools
from router.proxy.server import Bounds, Server
from router.settings import Settings

_log = structlog.get_logger("router")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FIRST_ROUND = 3.0
_SWEEP = 1.0


def main() -> int:
    """Run until a signal. Exit code 2 for settings that cannot be used."""
    try:
        settings = Settings()
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
                structlog.processors.JSONRenderer(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.log_level]),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            cache_logger_on_first_use=True,
        )
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
    loop = asyncio.get_running_loop()
    now = loop.time
    signals = lifetime.Signals()
    signals.listen()
    backends = book.Book(
        now=now,
        breakers=lambda: circuit.Breaker(threshold=settings.circuit_failures, pause=settings.circuit_pause_seconds),
    )
    plan = scheduler.Scheduler(max_waiting=settings.max_waiting)
    dispatcher = dispatch.Dispatcher(plan)
    state = report.Report(backends, plan, now=now)
    registry = CollectorRegistry()
    counters = metrics.Metrics(registry)
    registry.register(metrics.Gauges(state.document))
    pools = Pools(lambda url: Pool(url, connect_timeout=settings.connect_seconds))
    watch = stall.Watch(now=now)
    prober = health.Prober(
        backends,
        pools,
        health.Pace(interval=settings.probe_interval_seconds, timeout=settings.probe_timeout_seconds),
        chance=random.Random(),  # noqa: S311  # jitter
    )
    backends.listen(lambda: dispatcher.reconfigure(backends.views(), backends.table))
    backends.listen(prober.follow)
    server = Server(
        forward.Forwarder(
            forward.Parts(
                book=backends,
                dispatcher=dispatcher,
                pools=pools,
                watch=watch,
                metrics=counters,
                limits=stall.Limits(
                    first=settings.first_byte_seconds,
                    whole=settings.whole_answer_seconds,
                    between=settings.between_chunks_seconds,
                    write=settings.client_stall_seconds,
                ),
                budget=Budget(),
                numbers=itertools.count(1),
                now=now,
                draining=lambda: state.draining,
            )
        ),
        backends,
        state,
        counters,
        own=documents.routes(state, registry),
        bounds=Bounds(body=settings.max_body_bytes, buffered=settings.max_buffered_bytes),
        ids=_ids(uuid.uuid4().hex),
        now=now,
    )
    stop_source = _follow(settings, backends, loop)
    await prober.first_round(_FIRST_ROUND)
    # What exists now stays; requests leave no cycles behind, so looking for them often is wasted.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sweeps = [loop.create_task(watch.run(_SWEEP)), loop.create_task(_sweep(pools))]
    try:
        await lifetime.serve(
            server,
            dispatcher,
            watch,
            state,
            signals,
            host=settings.host,
            port=settings.port,
            drain_delay=settings.drain_delay_seconds,
            drain=settings.drain_seconds,
            started=lambda host, port: _log.info("serving", host=host, port=port, backends=len(backends.entries())),
        )
    finally:
        for sweep in sweeps:
            sweep.cancel()
        await prober.close()
        stop_source()


def _follow(settings: Settings, backends: book.Book, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Fill the book from where the settings say; returns what stops doing so."""
    if settings.gpu_backends is not None:
        backends.replace(environment.read(settings.gpu_backends))
        return lambda: None
    # Imported here: the client costs 30 MiB that a router without Kubernetes does not need.
    from router.backends import kube

    def changed(specs: kube.Specs) -> None:
        loop.call_soon_threadsafe(backends.replace, specs)

    source = kube.Source(
        kube.connect(settings.kubeconfig),
        settings.namespace,
        changed,
        chance=random.Random(time.monotonic_ns()),  # noqa: S311  # jitter
    )
    source.start()
    return source.stop


def _ids(process: str) -> Callable[[], str]:
    """Request ids: one random part per process and a count, because randomness costs a system call per request."""
    numbers = itertools.count(1)
    return lambda: f"{process}-{next(numbers)}"


async def _sweep(pools: Pools) -> None:
    """Close connections that have been idle for long."""
    while True:
        await asyncio.sleep(10 * _SWEEP)
        pools.sweep(asyncio.get_running_loop().time())


if __name__ == "__main__":
    sys.exit(main())
