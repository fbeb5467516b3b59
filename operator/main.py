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
import uvloop
from aiohttp import web

from controllers import events, health, kube, lease, metrics, queue, settings, tracing, watches
from controllers import kopf as bare
from controllers.archive import http as history
from controllers.archive import mongo as archives
from controllers.archive import reconcile as archivist
from controllers.archive import tickets
from controllers.connection import reconcile as connections
from controllers.gpubackend import reconcile as backends
from controllers.memory import mongo
from controllers.pendingtask import (
    activity,
    effects,
    index,
    order,
    orphans,
    qualification,
    reconcile,
    rooms,
    surroundings,
)
from controllers.pendingtask import job as jobs
from crds import GROUP, VERSION, errors, phases
from kb import client as kb
from router import client as router

log = structlog.get_logger("operator")

LEASE_LOST = 70
KINDS = {"pendingtasks", "connections", "gpubackends"}
RETRY_SECONDS = 2.0
PAGE = 100
"""Objects per list request. A page is parsed as a whole and dropped at once; larger ones leave more holes in memory."""


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
        self.session = kube.session(self.loaded, fence=self.lease.check)
        self.api = kube.Kube(
            self.loaded,
            self.session,
            fence=self.lease.check,
            counted=self.metrics.call,
            timeout=config.request_timeout,
        )
        self.memory = mongo.Memory(
            config.mongodb_uri, config.mongodb_database, fence=self.lease.check, at_wire=self._still_leading
        )
        self.archive = archives.Archive(
            config.mongodb_uri, config.mongodb_database, fence=self.lease.check, at_wire=self._still_leading
        )
        tasks, workloads = index.Tasks(wall), index.Workloads()
        self.archivist = archivist.Archivist(
            self.api,
            self.archive,
            namespaces=config.namespaces,
            terms=config.terms(),
            pace=config.pace(),
            ran=workloads.ran,
            measured=self.metrics,
            wall=wall,
        )
        self.kb_http = httpx.AsyncClient(
            event_hooks={"request": [tracing.pass_on, self._fenced]},
            timeout=httpx.Timeout(config.kb_timeout, connect=5.0),
            limits=httpx.Limits(max_connections=config.qualify_at_once + 4),
        )
        self.router_http = httpx.AsyncClient(trust_env=False)
        self.probe_http = httpx.AsyncClient(follow_redirects=False)
        self.poster = events.Poster(self.api, clock=wall, dropped=self.metrics.events_dropped.inc)
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
            changed=lambda: self.tasks.backends_changed(),
        )
        self.connections = connections.Connections(
            self.api,
            work=queue.WorkQueue(monotonic),
            measured=self.metrics,
            leadership=self.lease,
            wall=wall,
            monotonic=monotonic,
        )
        self.users = activity.Users(
            activity.of_router(router.Client(config.router_url, self.router_http)) if config.idle_seconds else None,
            needed=lambda: book.background_waits,
            changed=lambda: self.tasks.call_rooms(),
            heard=self.metrics.router_answers.set,
            wall=wall,
            monotonic=monotonic,
        )
        book = rooms.Rooms(
            tasks,
            config.limits(),
            self.backends.offers,
            workloads=workloads,
            users=self.users,
            wall=wall,
            monotonic=monotonic,
        )
        self.tasks = reconcile.Reconciler(
            self.api,
            config.limits(),
            work=queue.WorkQueue(
                monotonic,
                config.queue_capacity,
                yielding=lambda rank: order.Order(*rank).lane != 0,
                at_once=config.background_workers,
            ),
            tasks=tasks,
            workloads=workloads,
            book=book,
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
            kb.Client(config.kb_url, self.kb_http, config.kb_token),
            self.memory,
            known=config.client_terms(),
            fetch=self.tasks.fetch,
            done=self.tasks.observed,
            clock=wall,
        )
        self.tasks.qualifier = self.qualifier
        self.tracer: tracing.Tracer = tracing.Telemetry() if config.tracing else tracing.Off()
        self.tasks.tracer = self.tracer
        self.tasks.backend_gone_in = self.backends.gone_in
        self.orphans = orphans.Orphans(
            self.api, config.namespaces, tasks, workloads, changed=self.tasks.call_rooms, wall=wall
        )
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
        self._runner = web.AppRunner(application, access_log=None)
        door = tickets.Door(self.api.review, config.history_account, clock=monotonic)
        self._history = web.AppRunner(history.History(self.archive, door).application(), access_log=None)
        self._crew: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Answer probes, compete for the lease, and return once the custom resources are there and have been read."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self.config.metrics_host, self.config.metrics_port).start()
        await self._history.setup()
        await web.TCPSite(self._history, self.config.history_host, self.config.history_port).start()
        self._hire(self.health.tick(), "loop lag")
        self.lease.start()
        for step in (self._served, self._read):
            while not await step():  # noqa: ASYNC110  # what is awaited happens in the cluster, not in this loop
                await asyncio.sleep(RETRY_SECONDS)
        for number in range(2):
            self._hire(self.poster.run(), f"events {number}")
        self._hire(self.connections.work(), "connections")
        self._hire(self.archivist.work(), "archive")
        for number in range(4):
            self._hire(self.backends.work(), f"backends {number}")
        self._hire(self.users.run(), "user activity")
        self._hire(self.orphans.run(), "orphans")
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
        clients = (self.kb_http, self.router_http, self.probe_http)
        await asyncio.gather(*(one.aclose() for one in clients), self.session.close())
        await asyncio.to_thread(self.tracer.close)
        self.memory.close()
        self.archive.close()
        await self._history.cleanup()
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

    async def _read(self) -> bool:
        """Take in all that is there, once and in full, before anything acts.

        A worker that has seen one page of the tasks knows neither who comes first nor which slots are taken.
        """
        begun, ours = time.monotonic(), jobs.UID_LABEL
        self.health.starting = "the objects that are there already are being read"
        try:
            for namespace in self.config.namespaces:
                async for raw in self.api.each(kube.BACKENDS, namespace):
                    self.seen(raw)
                    self.backends.observe(raw, deleted=False)
                async for raw in self.api.each(kube.TASKS, namespace, fields=phases.UNFINISHED, page=PAGE):
                    self.seen(raw)
                    self.tasks.observe_task(raw, deleted=False)
                async for raw in self.api.each(kube.JOBS, namespace, ours, page=PAGE):
                    self.tasks.observe_job(raw, deleted=False)
                async for raw in self.api.each(kube.PODS, namespace, ours, page=PAGE):
                    self.tasks.observe_pod(raw, deleted=False)
        except errors.JervisError as error:
            self.health.starting = f"the objects cannot be listed: {error.message}"
            return False
        log.info("objects read", seconds=round(time.monotonic() - begun, 3))
        return True

    async def _fenced(self, _: httpx.Request) -> None:
        """What the knowledge base is told is the leader's to tell."""
        self.lease.check()

    def _still_leading(self) -> None:
        """A write is about to go onto the wire from a thread, where it cannot be refused any more."""
        if not self.lease.leading:
            die("the lease ran out on the way to MongoDB")

    def _lead(self) -> None:
        self.metrics.leader.set(1)
        for controller in (self.tasks, self.backends, self.connections, self.archivist):
            controller.may_act.set()

    def seen(self, raw: dict[str, Any]) -> None:
        """An object of ours as the watch brought it: nothing is written under a lower epoch than the one it carries."""
        self.lease.heed((raw.get("status") or {}).get("leaderEpoch") or 0)

    def _gauges(self) -> None:
        self.metrics.epoch.set(self.lease.epoch)
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
    options.watching.chunk_size = PAGE
    options.watching.server_timeout = 300
    options.watching.connect_timeout = 5
    options.watching.reconnect_backoff = 0.2
    options.watching.field_selectors[GROUP, VERSION, "pendingtasks"] = phases.UNFINISHED
    options.watching.label_selectors["batch", "v1", "jobs"] = jobs.UID_LABEL
    options.watching.label_selectors["", "v1", "pods"] = jobs.UID_LABEL
    options.networking.request_timeout = 15
    options.networking.connect_timeout = 5
    options.networking.error_backoffs = Patience()
    options.queueing.idle_timeout = 0.1
    options.persistence.diffbase_storage = bare.Differences()
    options.process.ultimate_exiting_timeout = 25.0


# -- kopf: events ----------------------------------------------------------------------------------------------------


@kopf.on.event(GROUP, VERSION, "pendingtasks")
async def on_task(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.seen(event["object"])
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
    memo.runtime.seen(event["object"])
    memo.runtime.backends.observe(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "connections")
async def on_connection(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.seen(event["object"])
    memo.runtime.connections.observe(event["object"], deleted=event["type"] == "DELETED")


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
    memo = kopf.Memo(config=config)
    operator = kopf.operator(standalone=True, namespaces=config.namespaces, memo=memo, memories=bare.Memories())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(operator)


if __name__ == "__main__":
    main()
