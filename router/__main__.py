"""The router's process: `python -m router`. Its parts are made in `wiring`; here they start, run and end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import pydantic
import structlog
import uvloop

from crds import errors
from router import lifetime, wiring
from router.outside import Outside
from router.proxy.pool import Pools
from router.settings import Settings

_log = structlog.get_logger("router")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FIRST_ROUND = 3.0
_SWEEP = 1.0
_TICK = 0.25
_LAST_LINES = 1.0
"""Seconds for the last lines of the request log."""


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
    now = asyncio.get_running_loop().time
    signals = lifetime.Signals()
    signals.listen()
    async with contextlib.aclosing(Outside(settings, now=now, wall=wiring.today)) as outside:
        parts = wiring.Wiring(settings, outside, now=now)
        parts.connect()
        await _serve(settings, parts, signals)


async def _serve(settings: Settings, parts: wiring.Wiring, signals: lifetime.Signals) -> None:
    candidate, source = parts.cluster.candidate, parts.cluster.source
    # The watch brings the backends that the first round of probes asks.
    jobs = [] if source is None else [_start(source.run(), signals)]
    await parts.backends.prober.first_round(_FIRST_ROUND)
    # What exists now stays: a full collection would look at all of it, and each stream would wait.
    gc.collect()
    gc.freeze()
    jobs += [_start(job, signals) for job in _jobs(parts)]
    sync = parts.records.sync
    storing = None if sync is None else asyncio.create_task(sync.run())
    try:
        await lifetime.serve(
            parts.front.server,
            parts.front.connections,
            parts.slots.dispatcher,
            parts.front.watch,
            parts.slots.state,
            signals,
            host=settings.host,
            port=settings.port,
            drain=settings.drain_seconds,
            leave=candidate.leave if candidate is not None else None,
            started=lambda host, port: _log.info(
                "serving", host=host, port=port, backends=len(parts.backends.book.entries())
            ),
        )
    finally:
        for job in jobs:
            job.cancel()
        await parts.slots.warmer.close()
        await parts.backends.prober.close()
        if sync is not None and storing is not None:
            sync.leave()
            await storing
        await asyncio.to_thread(parts.records.lines.close, _LAST_LINES)
        if parts.records.telemetry is not None:
            await asyncio.to_thread(parts.records.telemetry.close)


def _jobs(parts: wiring.Wiring) -> Iterator[Coroutine[Any, Any, None]]:
    """What runs for as long as the process serves."""
    yield parts.front.watch.run(_SWEEP)
    yield parts.front.connections.sweep(_SWEEP)
    yield _sweep(parts.backends.pools)
    yield parts.slots.dispatcher.run(_TICK)
    yield parts.cluster.gate.watch()
    if parts.cluster.follow_runs is not None:
        yield parts.cluster.follow_runs()
    yield parts.backends.secrets.run()
    yield parts.front.signs.run()
    yield parts.records.history.run()
    if parts.slots.writer is not None:
        yield parts.slots.writer.run()
    if parts.cluster.candidate is not None:
        yield parts.cluster.candidate.run()


def _start(job: Coroutine[Any, Any, None], signals: lifetime.Signals) -> asyncio.Task[None]:
    task = asyncio.create_task(job)
    task.add_done_callback(lambda ended: _ended(ended, signals))
    return task


def _ended(task: asyncio.Task[None], signals: lifetime.Signals) -> None:
    """A job that runs for ever ended: without it the router would go on with its eyes shut, so it leaves instead."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a job of the router broke", job=task.get_name(), exc_info=error)
        signals.receive()


async def _sweep(pools: Pools) -> None:
    """Close connections that have been idle for long."""
    while True:
        await asyncio.sleep(10 * _SWEEP)
        pools.sweep(asyncio.get_running_loop().time())


if __name__ == "__main__":
    sys.exit(main())
