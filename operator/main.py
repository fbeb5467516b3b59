"""The operator's composition root: reads the settings once, builds, wires, runs.

    python operator/main.py

kopf gives the watches and the process's life cycle; its handlers below only enqueue. Everything else is in
`controllers`. This folder has no `__init__.py` and no file with the name of a module of the standard library, ever:
`operator` is one itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NoReturn

import httpx
import kopf
import prometheus_client
import structlog
from aiohttp import web

from controllers import events, health, kube, lease, metrics, queue, settings, watches
from controllers.archive import http as history
from controllers.archive import mongo as archives
from controllers.archive import reconcile as archivist
from controllers.connection import reconcile as connections
from controllers.gpubackend import reconcile as backends
from controllers.memory import mongo
from controllers.pendingtask import effects, index, qualification, reconcile, rooms, surroundings
from controllers.pendingtask import job as jobs
from crds import GROUP, VERSION, errors, pendingtask
from kb import client as kb

log = structlog.get_logger("operator")

LEASE_LOST = 70
KINDS = {"pendingtasks", "connections", "gpubackends"}
RETRY_SECONDS = 2.0


class Patience:
    """Waits between kopf's own requests: for ever. An apiserver that is away must not end the process."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        while True:
            yield 4.0


def die(reason: str) -> NoReturn:
    """End the process at once: nothing may be written any more, not even on the way out."""
    log.critical("operator ends", reason=reason)
    sys.stdout.flush()
    os._exit(LEASE_LOST)


class Runtime:
    """Everything that lives as long as the process; built inside the event loop."""

    def __init__(self, config: settings.Settings) -> None:
        wall, monotonic = (lambda: datetime.now(UTC)), time.monotonic
        loop = asyncio.get_running_loop()

        def acquired() -> None:
            loop.call_soon_threadsafe(self._lead)

        place = config.identity or socket.gethostname()
        self.config = config
        self.loaded = kube.configuration(config.kubeconfig)
        self.beats = watches.Beats(monotonic)
        self.metrics = metrics.Metrics(prometheus_client.CollectorRegistry())
        self.lease = lease.Lease(
            kube.LeaseStore(self.loaded, config.namespace, config.lease_name),
            f"{place}_{uuid.uuid4().hex[:8]}",
            lease.Terms(duration=config.lease_seconds),
            monotonic=monotonic,
            die=die,
            acquired=acquired,
            predecessor=lambda holder: bool(config.identity) and holder.rpartition("_")[0] == config.identity,
        )
        self.session = kube.session(self.loaded)
        self.api = kube.Kube(
            self.loaded,
            self.session,
            fence=self.lease.check,
            counted=self.metrics.call,
            timeout=config.request_timeout,
        )
        self.memory = mongo.Memory(config.mongodb_uri, config.mongodb_database, fence=self.lease.check)
        self.archive = archives.Archive(config.mongodb_uri, config.mongodb_database, fence=self.lease.check)
        self.archivist = archivist.Archivist(
            self.api,
            self.archive,
            namespaces=config.namespaces,
            terms=config.terms(),
            pace=config.pace(),
            measured=self.metrics,
            wall=wall,
        )
        self.kb_http = httpx.AsyncClient(
            timeout=httpx.Timeout(config.kb_timeout, connect=5.0),
            limits=httpx.Limits(max_connections=config.qualify_at_once + 4),
        )
        self.probe_http = httpx.AsyncClient(follow_redirects=False)
        self.poster = events.Poster(self.api, clock=wall, dropped=self.metrics.events_dropped.inc)
        tasks, workloads = index.Tasks(wall), index.Workloads()
        self.backends = backends.Backends(
            self.api,
            self.probe_http,
            work=queue.WorkQueue(monotonic),
            poster=self.poster,
            measured=self.metrics,
            leadership=self.lease,
            interval=config.probe_seconds,
            wall=wall,
            monotonic=monotonic,
            changed=lambda: self.tasks.call_rooms(),
        )
        self.connections = connections.Connections(
            self.api,
            work=queue.WorkQueue(monotonic),
            measured=self.metrics,
            leadership=self.lease,
            wall=wall,
            monotonic=monotonic,
        )
        self.tasks = reconcile.Reconciler(
            self.api,
            config.limits(),
            work=queue.WorkQueue(monotonic, config.queue_capacity),
            tasks=tasks,
            workloads=workloads,
            book=rooms.Rooms(tasks, config.limits(), self.backends.offers, wall=wall, monotonic=monotonic),
            around=surroundings.Surroundings(self.api, self.memory, workloads),
            performer=effects.Effects(
                self.api,
                self.memory,
                workloads,
                config.template(),
                clock=wall,
                created=self.metrics.jobs_created.inc,
            ),
            poster=self.poster,
            measured=self.metrics,
            leadership=self.lease,
            wall=wall,
            monotonic=monotonic,
        )
        self.qualifier = qualification.Qualifier(
            kb.Client(config.kb_url, self.kb_http),
            self.memory,
            team=config.team,
            fetch=self.tasks.fetch,
            done=self.tasks.observed,
            clock=wall,
        )
        self.tasks.qualifier = self.qualifier
        watched = (kube.TASKS, kube.CONNECTIONS, kube.BACKENDS, kube.JOBS, kube.PODS)
        self.health = health.Health(
            self.beats,
            self.lease,
            self.metrics,
            expected=[kind.path(namespace) for namespace in config.namespaces for kind in watched],
            silence=config.watch_silence_seconds,
            monotonic=monotonic,
            gauges=self._gauges,
        )
        application = self.health.application()
        history.History(self.archive).serve(application)
        self._runner = web.AppRunner(application, access_log=None)
        self._crew: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Answer probes, compete for the lease, and return once the custom resources are there."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self.config.metrics_host, self.config.metrics_port).start()
        self._hire(self.health.tick(), "loop lag")
        self.lease.start()
        while not await self._served():  # noqa: ASYNC110  # what is awaited happens in the cluster, not in this loop
            await asyncio.sleep(RETRY_SECONDS)
        for number in range(4):
            self._hire(self.poster.run(), f"events {number}")
        self._hire(self.connections.work(), "connections")
        self._hire(self.archivist.work(), "archive")
        for number in range(4):
            self._hire(self.backends.work(), f"backends {number}")
        for number in range(self.config.workers):
            self._hire(self.tasks.work(), f"tasks {number}")
        self.health.begun()
        log.info("operator started", namespaces=self.config.namespaces)

    async def stop(self) -> None:
        """Stop writing, hand the lease over, close. What was under way is taken up again by the next leader."""
        crew, self._crew = self._crew, []
        for one in crew:
            one.cancel()
        await asyncio.gather(*crew, return_exceptions=True)
        await self.qualifier.close()
        await asyncio.to_thread(self.lease.release)
        await asyncio.gather(self.kb_http.aclose(), self.probe_http.aclose(), self.session.close())
        self.memory.close()
        self.archive.close()
        await self._runner.cleanup()
        log.info("operator stopped")

    async def _served(self) -> bool:
        """Are our kinds served? Says what is missing otherwise."""
        try:
            absent = KINDS - await self.api.discover(kube.TASKS)
        except errors.JervisError as error:
            self.health.starting = error.message
            return False
        if absent:
            self.health.starting = f"no custom resource definitions for {', '.join(sorted(absent))}; apply crds/*.yaml"
        return not absent

    def _lead(self) -> None:
        self.metrics.leader.set(1)
        self.metrics.epoch.set(self.lease.epoch)
        for controller in (self.tasks, self.backends, self.connections, self.archivist):
            controller.may_act.set()

    def _gauges(self) -> None:
        self.tasks.gauges()
        self.backends.gauges()

    def _hire(self, work: Any, name: str) -> None:
        """Run `work` for ever; when it ends by itself the process is not whole any more."""
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._crew.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task in self._crew:
            die(f"{task.get_name()} ended: {task.exception()!r}")


# -- kopf: life cycle ------------------------------------------------------------------------------------------------


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def startup(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Build everything inside kopf's loop; kopf begins to watch when this returns."""
    configure(settings)
    memo.runtime = Runtime(memo.config)
    await memo.runtime.start()


@kopf.on.cleanup()
async def cleanup(memo: kopf.Memo, **_: Any) -> None:
    """SIGTERM: stop writing and hand the lease over."""
    if "runtime" in memo:
        await memo.runtime.stop()


@kopf.on.login()
async def login(memo: kopf.Memo, **_: Any) -> kopf.AiohttpSession:
    """kopf's own session, with a response class that hears the watches. Called again after a 401."""
    runtime: Runtime = memo.runtime
    heard = watches.response_class(runtime.beats)
    session = kube.session(runtime.loaded, heard, kube.authorization(runtime.loaded))
    return kopf.AiohttpSession(
        server=runtime.loaded.host, aiohttp_session=session, default_namespace=runtime.config.namespace
    )


def configure(options: kopf.OperatorSettings) -> None:
    """kopf as a source of events and nothing else (operator.md point 1)."""
    options.posting.enabled = False
    options.scanning.disabled = True
    options.peering.standalone = True
    options.watching.chunk_size = 500
    options.watching.server_timeout = 300
    options.watching.connect_timeout = 5
    options.watching.reconnect_backoff = 0.2
    options.watching.label_selectors[GROUP, VERSION, "pendingtasks"] = f"{pendingtask.FINISHED_LABEL}!=true"
    options.watching.label_selectors["batch", "v1", "jobs"] = jobs.UID_LABEL
    options.watching.label_selectors["", "v1", "pods"] = jobs.UID_LABEL
    options.networking.request_timeout = 15
    options.networking.connect_timeout = 5
    options.networking.error_backoffs = Patience()
    options.queueing.idle_timeout = 1.0
    options.process.ultimate_exiting_timeout = 25.0


# -- kopf: events ----------------------------------------------------------------------------------------------------


@kopf.on.event(GROUP, VERSION, "pendingtasks")
async def on_task(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.tasks.observe_task(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event("batch", "v1", "jobs")
async def on_job(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue the task that the Job belongs to."""
    memo.runtime.tasks.observe_job(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event("", "v1", "pods")
async def on_pod(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue the task that the pod belongs to."""
    memo.runtime.tasks.observe_pod(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "gpubackends")
async def on_backend(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.backends.observe(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "connections")
async def on_connection(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.connections.observe(event["object"], deleted=event["type"] == "DELETED")


def main() -> None:
    """Run until SIGTERM."""
    config = settings.Settings()
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
    memo = kopf.Memo(config=config)
    kopf.run(standalone=True, namespaces=config.namespaces, memo=memo)


if __name__ == "__main__":
    main()
