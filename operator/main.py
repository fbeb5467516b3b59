"""The operator's composition root: reads the settings once, builds, wires, runs.

    python operator/main.py

kopf gives the process's life cycle and the registry of what is served; the handlers below only enqueue, and
`controllers.stream` feeds them. Everything else is in `controllers`. This folder has no `__init__.py` and no file with
the name of a module of the standard library, ever: `operator` is one itself.
"""

from __future__ import annotations

import asyncio
import functools
import gc
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

from controllers import events, health, kube, lease, metrics, queue, settings, stream, tracing, watches
from controllers import kopf as bare
from controllers.archive import http as history
from controllers.archive import mongo as archives
from controllers.archive import reconcile as archivist
from controllers.archive import tickets
from controllers.connection import reconcile as connections
from controllers.gpubackend import reconcile as backends
from controllers.memory import mongo
from controllers.outcomes import reconcile as reporter
from controllers.pendingtask import (
    activity,
    effects,
    index,
    order,
    orphans,
    qualification,
    reconcile,
    reservation,
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
DEAD = 0.9
"""Of the silence after which liveness gives a watch up: it is opened anew before that. A quiet one is ended by the
server long before."""
SERVED = bare.Kinds()
"""The handlers of kinds: kopf registers them, `controllers.stream` feeds them."""


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

    def __init__(self, config: settings.Settings, memo: kopf.Memo) -> None:
        wall, monotonic = (lambda: datetime.now(UTC)), time.monotonic
        loop = asyncio.get_running_loop()

        def acquired() -> None:
            loop.call_soon_threadsafe(self._lead)

        place = config.identity or socket.gethostname()
        self.config, self.memo = config, memo
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
        work: queue.WorkQueue[str] = queue.WorkQueue(
            monotonic,
            config.queue_capacity,
            yielding=lambda rank: order.Order(*rank).lane != 0,
            at_once=config.background_workers,
        )
        self.archivist = archivist.Archivist(
            self.api,
            self.archive,
            namespaces=config.namespaces,
            terms=config.terms(),
            pace=config.pace(),
            ran=workloads.ran,
            measured=self.metrics,
            wall=wall,
            busy=lambda: len(work) > 0,
        )
        trusted = httpx.create_ssl_context()  # one for all: reading the authorities takes longer than all else here
        self.kb_http = httpx.AsyncClient(
            verify=trusted,
            event_hooks={"request": [tracing.pass_on, self._fenced]},
            timeout=httpx.Timeout(config.kb_timeout, connect=5.0),
            limits=httpx.Limits(max_connections=config.qualify_at_once + 4),
        )
        self.router_http = httpx.AsyncClient(verify=trusted, trust_env=False)
        self.probe_http = httpx.AsyncClient(verify=trusted, follow_redirects=False)
        self.poster = events.Poster(
            self.api,
            clock=wall,
            monotonic=monotonic,
            dropped=self.metrics.events_dropped.inc,
            merged=self.metrics.events_merged.inc,
            busy=lambda: len(work) > 0,
        )
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
        asked = router.Client(config.router_url, self.router_http, token=router.token_file(config.router_token_file))
        self.users = activity.Users(
            activity.of_router(asked) if config.idle_seconds else None,
            needed=lambda: book.background_waits,
            changed=lambda: self.tasks.call_rooms(),
            heard=self.metrics.router_answers.set,
            wall=wall,
            monotonic=monotonic,
        )
        self.reservation = reservation.Keeper(
            asked,
            owner=f"operator of {config.namespace}",
            model=config.model,
            wanted=lambda: self.lease.leading and tasks.bookings.served() and self.backends.reservable(config.model),
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
            work=work,
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
                epoch=lambda: self.lease.epoch,
            ),
            poster=self.poster,
            measured=self.metrics,
            leadership=self.lease,
            wall=wall,
            monotonic=monotonic,
        )
        knowledge = kb.Client(config.kb_url, self.kb_http, config.kb_token)
        self.qualifier = qualification.Qualifier(
            knowledge,
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
        self.reporter = reporter.Reporter(
            self.archive,
            knowledge.learning.outcome,
            namespaces=config.namespaces,
            pace=config.outcome_pace(),
            measured=self.metrics,
            wall=wall,
        )
        self._streams = [one for namespace in config.namespaces for one in self._opened(namespace, workloads, tasks)]
        self.health = health.Health(
            self.beats,
            self.lease,
            self.metrics,
            expected=[one.path for one in self._streams],
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
        if self.config.outcomes:
            self._hire(self.reporter.work(), "outcomes")
        for number in range(4):
            self._hire(self.backends.work(), f"backends {number}")
        self._hire(self.users.run(), "user activity")
        if self.config.reserve_gpu:
            self._hire(self.reservation.run(), "reservation")
        self._hire(self.orphans.run(), "orphans")
        for one in self._streams:
            self._hire(one.run(), f"watch of {one.path}")
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
        await self.poster.finish()
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

    def _opened(self, namespace: str, workloads: index.Workloads, tasks: index.Tasks) -> Iterator[stream.Stream]:
        """What is watched in a namespace, in the order in which it is read at the start."""

        def nothing(_: str) -> Iterator[kube.Object]:
            """A pod that went away unseen and held a slot is found by `orphans`, and by each look at its task."""
            return iter(())

        ours, unfinished = jobs.UID_LABEL, phases.UNFINISHED
        for resource, labels, fields, known in (
            (kube.BACKENDS, "", "", self.backends.known),
            (kube.CONNECTIONS, "", "", self.connections.known),
            (kube.TASKS, "", unfinished, tasks.known),
            (kube.JOBS, ours, "", workloads.known_jobs),
            (kube.PODS, ours, "", nothing),
        ):
            handler = SERVED.handler(*resource.kind)
            yield stream.Stream(
                self.api,
                stream.Source(resource, namespace, labels, fields),
                heard=functools.partial(self._heard, handler),
                known=functools.partial(known, namespace),
                beats=self.beats,
                silence=DEAD * self.config.watch_silence_seconds,
                failed=self.metrics.failures.inc,
            )

    def _heard(self, handler: bare.Handler, kind: str, raw: kube.Object) -> None:
        """Nothing is written under a lower epoch than the one that an object carries."""
        self.lease.heed((raw.get("status") or {}).get("leaderEpoch") or 0)
        handler(event={"type": kind, "object": raw}, memo=self.memo)

    async def _read(self) -> bool:
        """Take in all that is there, once and in full, before anything acts.

        A worker that has seen one page of the tasks knows neither who comes first nor which slots are taken.
        """
        begun = time.monotonic()
        self.health.starting = "the objects that are there already are being read"
        try:
            for one in self._streams:
                await one.read()
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
        for controller in (self.tasks, self.backends, self.connections, self.archivist, self.reporter):
            controller.may_act.set()

    def _gauges(self) -> None:
        self.metrics.epoch.set(self.lease.epoch)
        self.metrics.events_waiting.set(len(self.poster))
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
    """Build everything inside kopf's loop."""
    configure(settings)
    memo.runtime = Runtime(memo.config, memo)
    await memo.runtime.start()


@kopf.on.cleanup()
async def cleanup(memo: kopf.Memo, **_: Any) -> None:
    """SIGTERM: stop writing and hand the lease over."""
    if "runtime" in memo:
        await memo.runtime.stop()


@kopf.on.login()
async def login(memo: kopf.Memo, **_: Any) -> kopf.AiohttpSession:
    """kopf's own session, for what it asks at the start. Called again after a 401."""
    runtime: Runtime = memo.runtime
    session = kube.session(runtime.loaded, headers=kube.authorization(runtime.loaded))
    return kopf.AiohttpSession(
        server=runtime.loaded.host, aiohttp_session=session, default_namespace=runtime.config.namespace
    )


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
    memo.runtime.tasks.observe_task(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event("batch", "v1", "jobs", registry=SERVED)
def on_job(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue the task that the Job belongs to."""
    memo.runtime.tasks.observe_job(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event("", "v1", "pods", registry=SERVED)
def on_pod(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue the task that the pod belongs to."""
    memo.runtime.tasks.observe_pod(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "gpubackends", registry=SERVED)
def on_backend(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.backends.observe(event["object"], deleted=event["type"] == "DELETED")


@kopf.on.event(GROUP, VERSION, "connections", registry=SERVED)
def on_connection(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Enqueue."""
    memo.runtime.connections.observe(event["object"], deleted=event["type"] == "DELETED")


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
