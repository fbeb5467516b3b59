"""The operator's composition root: reads the settings once, builds, wires.

    kopf run operator/main.py --standalone --quiet -n NAMESPACE [-n NAMESPACE ...]
    kopf run operator/main.py --standalone --quiet -A

kopf lists and watches the three kinds; the handlers below only enqueue. `controllers.runtime` builds, starts and stops
everything else. kopf's flags alone determine the served namespaces. This folder must not contain `__init__.py` or a
file named like a module of the standard library, because `operator` is one itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any, cast

import click
import kopf
import prometheus_client
import structlog

from controllers import namespaces
from controllers import settings as configuration
from controllers.runtime import app, watches
from crds import GROUP, VERSION, errors, phases

runtime: app.Runtime
"""Set at the start. Not in kopf's memo, because kopf copies that for each object (1.8 MiB for 10,000)."""

# -- kopf: life cycle ------------------------------------------------------------------------------------------------


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Build everything inside kopf's event loop."""
    global runtime
    flags = click.get_current_context().params
    try:
        config = configuration.read()
        scope = namespaces.Scope.of(
            config.namespace,
            patterns=flags["namespaces"],
            everywhere=flags["clusterwide"],
            labels=config.namespace_selector,
        )
        prepare(config)
        configure(settings, config, scope)
        runtime = app.Runtime(config, scope)
        await runtime.start()
    except errors.Permanent as error:
        sys.exit(f"{error.message}\n{error.remedy}" if error.remedy else error.message)


@kopf.on.cleanup()
async def cleanup(**_: Any) -> None:
    """SIGTERM: stop writing and release the lease."""
    if "runtime" in globals():
        await runtime.stop()


@kopf.on.login()
async def login(**_: Any) -> kopf.AiohttpSession:
    """The session for kopf's lists and watches. Called again after a 401."""
    server, session = runtime.session()
    return kopf.AiohttpSession(server=server, aiohttp_session=session)


# -- kopf: events ----------------------------------------------------------------------------------------------------


@kopf.on.event(GROUP, VERSION, "pendingtasks")
async def on_task(event: kopf.RawEvent, **_: Any) -> None:
    """Enqueue."""
    runtime.handlers.task(event["type"], cast(dict[str, Any], event["object"]))


@kopf.on.event(GROUP, VERSION, "gpubackends")
async def on_backend(event: kopf.RawEvent, **_: Any) -> None:
    """Enqueue."""
    runtime.handlers.backend(event["type"], cast(dict[str, Any], event["object"]))


@kopf.on.event(GROUP, VERSION, "connections")
async def on_connection(event: kopf.RawEvent, **_: Any) -> None:
    """Enqueue."""
    runtime.handlers.connection(event["type"], cast(dict[str, Any], event["object"]))


# -- settings --------------------------------------------------------------------------------------------------------


class RetryDelays:
    """Delays between kopf's retries, without end: an unavailable apiserver must not end the process."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        while True:
            yield 4.0


class NoEssence(kopf.DiffBaseStorage):
    """What kopf compares to call handlers of changes: nothing, because there are none. Otherwise each event would cost
    two deep copies of the object and their difference."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Of an object: nothing."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Nothing is stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """kopf calls it after a handler of changes."""
        raise NotImplementedError("the operator has no handlers of changes")


def configure(options: kopf.OperatorSettings, config: configuration.Settings, scope: namespaces.Scope) -> None:
    """kopf's documented settings: it only watches. It does not write, post Events or peer."""
    options.posting.enabled = False
    options.peering.standalone = True
    # kopf watches Namespaces and CRDs itself only if a namespace pattern requires it.
    options.scanning.disabled = scope.fixed or scope.everywhere
    options.networking.request_timeout = 15
    options.networking.connect_timeout = 5
    options.networking.error_backoffs = RetryDelays()
    options.watching.chunk_size = 100
    options.watching.field_selectors[GROUP, VERSION, "pendingtasks"] = phases.UNFINISHED
    # A collection without events gets no bookmarks: its watch is renewed before it counts as dead.
    options.watching.server_timeout = min(60, round(config.watch_silence_seconds * watches.DEAD))
    options.watching.inactivity_timeout = config.watch_silence_seconds * watches.DEAD
    # A worker and its queue exist for each object that had an event within this time: it is memory, not delay.
    options.queueing.idle_timeout = 0.05
    options.persistence.diffbase_storage = NoEssence()
    options.process.ultimate_exiting_timeout = 25.0


def prepare(config: configuration.Settings) -> None:
    """Logging, metrics and garbage collection of the process."""
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # ships without annotations
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
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
