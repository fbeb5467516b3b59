"""The operator's composition root: reads the settings once, builds, wires, runs.

    python operator/main.py

kopf gives the process's life cycle and the registry of what is served; the handlers below only enqueue, and
`controllers.stream` feeds them. What is built from the settings, and how it starts and stops, is `controllers.runtime`.
This folder has no `__init__.py` and no file with the name of a module of the standard library, ever: `operator` is one
itself.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Iterator
from typing import Any

import kopf
import prometheus_client
import structlog
import uvloop

from controllers import kopf as bare
from controllers import kube, settings, stream
from controllers.runtime import collections, life
from crds import GROUP, VERSION

SERVED = bare.Kinds()
"""The handlers of kinds: kopf registers them, `controllers.stream` feeds them."""


class Patience:
    """Waits between kopf's own requests: for ever. An apiserver that is away must not end the process."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        while True:
            yield 4.0


# -- kopf: life cycle ------------------------------------------------------------------------------------------------


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def startup(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Build everything inside kopf's loop."""
    configure(settings)

    def hearer(kind: collections.Kind) -> stream.Heard:
        handler = SERVED.handler(*kind)
        return lambda event, raw: handler(event={"type": event, "object": raw}, memo=memo)

    memo.runtime = life.Runtime(memo.config, hearer)
    await memo.runtime.start()


@kopf.on.cleanup()
async def cleanup(memo: kopf.Memo, **_: Any) -> None:
    """SIGTERM: stop writing and hand the lease over."""
    if "runtime" in memo:
        await memo.runtime.stop()


@kopf.on.login()
async def login(memo: kopf.Memo, **_: Any) -> kopf.AiohttpSession:
    """kopf's own session, for what it asks at the start. Called again after a 401."""
    runtime: life.Runtime = memo.runtime
    loaded = runtime.outside.loaded
    session = kube.session(loaded, headers=kube.authorization(loaded))
    return kopf.AiohttpSession(server=loaded.host, aiohttp_session=session, default_namespace=runtime.config.namespace)


def configure(options: kopf.OperatorSettings) -> None:
    """kopf as a life cycle and nothing else: no Events, no scanning, no peering, and nothing for it to watch."""
    options.posting.enabled = False
    options.scanning.disabled = True
    options.peering.standalone = True
    options.networking.request_timeout = 15
    options.networking.connect_timeout = 5
    options.networking.error_backoffs = Patience()
    options.process.ultimate_exiting_timeout = 25.0


# -- kopf: events ----------------------------------------------------------------------------------------------------


@kopf.on.event(GROUP, VERSION, "pendingtasks", registry=SERVED)
def on_task(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.parts.tasks.inbox.observe_task(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event("batch", "v1", "jobs", registry=SERVED)
def on_job(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue the task that the Job belongs to."""
    memo.runtime.parts.tasks.inbox.observe_job(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event("", "v1", "pods", registry=SERVED)
def on_pod(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue the task that the pod belongs to."""
    memo.runtime.parts.tasks.inbox.observe_pod(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "gpubackends", registry=SERVED)
def on_backend(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.parts.backends.observe(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "connections", registry=SERVED)
def on_connection(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.parts.connections.observe(event["object"], deleted=event["type"] == "DELETED")


def tidy_rarely() -> None:
    """Nearly all that a request or an event makes is freed by its last reference; looking for cycles finds little.

    What the imports have left is never looked through again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def main() -> None:
    """Run until SIGTERM."""
    try:
        config = settings.read()
    except settings.Invalid as error:
        sys.exit(error.message)
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # ships without annotations
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    logging.basicConfig(level=max(level, logging.WARNING), format="%(levelname)s %(name)s %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    tidy_rarely()
    memo = kopf.Memo(config=config)
    operator = kopf.operator(standalone=True, namespaces=config.namespaces, memo=memo)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(operator)


if __name__ == "__main__":
    main()
