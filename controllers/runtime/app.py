"""Start and stop. Order of the start: probes, Lease, kopf's lists, resync of what they brought, workers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import structlog
from aiohttp import web

import kube
from contracts.tokens import keyring, runtoken
from controllers import health, liveruns, namespaces, queue_http, reconnect, resync, settings
from controllers.archive import http as history
from controllers.archive import tickets
from controllers.clusterstate import http as clusterstate_http
from controllers.clusterstate import reading as clusterstate
from controllers.pendingtask.slots import wait_reasons
from controllers.runtime import clients, handlers, loops, supervisor, watches, wiring
from crds import errors
from kube import beats

log = structlog.get_logger("operator")

KINDS = set(reconnect.PLURALS)
RETRY_SECONDS = 2.0


async def _listen(runner: web.AppRunner, host: str, port: int, setting: str) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        # uvloop and asyncio say the address in words of their own; the kernel's are enough beside it.
        reason = os.strerror(error.errno) if error.errno else str(error)
        message = f"{settings.PREFIX}{setting}: cannot listen on {host}:{port}: {reason}"
        raise settings.Invalid(message, field=setting, remedy="Set it to a free port.") from error


class Runtime:
    """All objects that live as long as the process; built inside the event loop."""

    def __init__(self, config: settings.Settings, scope: namespaces.Scope) -> None:
        self.config = config
        self._clients = to = clients.Clients(config)
        self._members = namespaces.Namespaces(scope)
        self._wiring = wiring.Wiring(config, to, self._members)
        self._beats = beats.Beats(time.monotonic)
        self.handlers = handlers.Handlers(to, self._wiring, self._members)
        self._resync = resync.Resync(
            to.api,
            self._members,
            watches.kinds(self._wiring, self.handlers),
            corrected=to.metrics.corrected,
            report=self._wiring.report_namespace,
            limits_changed=self._wiring.limits_changed,
            every=config.resync_seconds,
        )
        watches.expect(self._beats, self._members)
        self._runs = watches.runs(config, to, self.handlers, self._wiring, self._beats)
        self._namespace_watch = watches.namespace_watch(
            config,
            to,
            watches.NamespaceWatch(self._members, self._resync, self._beats, self._wiring.limits_changed),
            self._beats,
        )
        self._health = health.Health(
            self._beats,
            to.lease,
            to.metrics,
            namespaces=self._members.described,
            silence=config.watch_silence_seconds,
            monotonic=time.monotonic,
            gauges=self._wiring.gauges,
        )
        self._probes = web.AppRunner(self._health.application(), access_log=None)
        access = tickets.Tickets(to.api.review, config.history_account, clock=time.monotonic)
        application = history.History(to.archive, access, to.contents).application()
        state = queue_http.QueueState(
            self._observed,
            breaker=lambda: self._wiring.cache.scheduler.breaker.state(time.monotonic()).value,
            leading=lambda: to.lease.leading,
            monotonic=time.monotonic,
        )
        queue_http.QueueHttp(state, access, monotonic=time.monotonic).serve(application)
        if config.run_token_keys:
            self._show_runs(application)
        self._wiring.handover.serve(application)
        self._history = web.AppRunner(application, access_log=None)
        self._known = False
        self._supervisor = supervisor.Supervisor(clients.die)

    def _show_runs(self, application: web.Application) -> None:
        """Serve which runs there are and, where the settings say of which, the state of namespaces to runs."""
        api, config = self._clients.api, self.config
        keys = keyring.Keyring(Path(config.run_token_keys), time.monotonic)
        analyzed = liveruns.analyses(api, config.namespace, time.monotonic)
        live = liveruns.LiveRuns(
            self._attempts,
            analyzed if config.code_analysis() is not None else liveruns.none,
            keys,
            leading=lambda: self._clients.lease.leading,
            silent_for=self._clients.lease.silent_for,
            wall=clients.wall,
            monotonic=time.monotonic,
        )
        live.serve(application)
        allowed = config.cluster_state()
        if allowed is None:
            return
        verifier = runtoken.Verifier(keys, clients.wall, runtoken.OPERATOR, live.check)
        reads = clusterstate.Reading(self._clients.api, allowed)
        served = clusterstate_http.ClusterStateHttp(reads, verifier, self._clients.metrics, monotonic=time.monotonic)
        served.serve(application)

    async def start(self) -> None:
        """Answer probes, compete for the lease, and return once the custom resources exist: then kopf may list."""
        config, begin = self.config, self._supervisor.start
        await self._probes.setup()
        await _listen(self._probes, config.metrics_host, config.metrics_port, "METRICS_PORT")
        await self._history.setup()
        await _listen(self._history, config.history_host, config.history_port, "HISTORY_PORT")
        begin(self._health.tick(), "loop lag")
        self._clients.lease.start()
        await self._until(self._served)
        begin(self._work(), "start")

    async def stop(self) -> None:
        """Stop writing, release the lease, close. The next leader resumes unfinished work."""
        await self._supervisor.stop()
        await self._wiring.readings.close()
        await self._wiring.recorder.finish()
        await self._clients.close()
        await self._history.cleanup()
        await self._probes.cleanup()
        log.info("operator stopped")

    def session(self) -> tuple[str, aiohttp.ClientSession]:
        """The apiserver's URL and a session for kopf that handles refused requests; kopf closes it."""
        loaded = self._clients.loaded
        guard = reconnect.Reconnect(
            self._resync, self._beats, lambda: kube.authorization(loaded), counted=self._clients.metrics.call
        )
        return loaded.host, kube.session(loaded, middlewares=(guard,))

    async def _work(self) -> None:
        """Read all existing objects completely before any worker acts; then start the workers."""
        begun = time.monotonic()
        self._health.starting = "existing objects are being read"
        await self._until(self._read)
        log.info("objects read", seconds=round(time.monotonic() - begun, 3))
        self._known = True
        self._start_workers()
        self._health.begun()
        log.info("operator started", namespaces=self._members.described())
        await self._clients.acquired.wait()
        self._wiring.lead()
        await asyncio.Event().wait()

    def _start_workers(self) -> None:
        start, leading = self._supervisor.start, self._wiring.leading
        for number in range(2):
            start(self._wiring.recorder.run(), f"events {number}")
        for loop in loops.loops(self._wiring):
            start(loop.run(leading), loop.name)
        start(self._resync.run(), "resync")
        for stream in (*self._runs, *((self._namespace_watch,) if self._namespace_watch else ())):
            start(stream.run(), f"watch of {stream.path}")
        for queue in loops.workers(self._wiring):
            for number in range(queue.number):
                start(self._once_leading(queue.work), f"{queue.name} {number}")

    async def _once_leading(self, work: Callable[[], Awaitable[None]]) -> None:
        await self._wiring.leading.wait()
        await work()

    def _observed(self) -> wait_reasons.Observed:
        self._check_known()
        return self._wiring.cache.scheduler.observed()

    def _attempts(self) -> liveruns.Attempts:
        self._check_known()
        seen = {name for name, state in self._members.states().items() if self._sees_tasks(name, state)}
        return liveruns.attempts(self._wiring.index.bookings, self._wiring.workloads, seen)

    def _sees_tasks(self, name: str, state: namespaces.State) -> bool:
        """Whether what is not known of that member's tasks does not exist."""
        if state is namespaces.State.PARTIAL:
            return kube.TASKS.plural not in self._members.refused(name)
        return state in (namespaces.State.SERVED, namespaces.State.ABSENT)

    def _check_known(self) -> None:
        if not self._known:
            raise errors.Operational("the operator is starting; existing objects are being read")

    @staticmethod
    async def _until(step: Callable[[], Awaitable[bool]]) -> None:
        while not await step():  # noqa: ASYNC110  # the awaited change happens in the cluster, not in this loop
            await asyncio.sleep(RETRY_SECONDS)

    async def _served(self) -> bool:
        """Whether the custom resources are served; the readiness probe reports what is missing."""
        try:
            absent = KINDS - await self._clients.api.discover(kube.TASKS)
        except errors.JervisError as error:
            self._health.starting = error.message
            return False
        if absent:
            self._health.starting = f"no custom resource definitions for {', '.join(sorted(absent))}; apply crds/*.yaml"
        return not absent

    async def _read(self) -> bool:
        """Read everything: a page of the tasks alone shows neither their order nor which slots are taken."""
        try:
            if self._namespace_watch is not None:
                await self._namespace_watch.read()
            for one in self._runs:
                try:
                    await one.read()
                except (kube.Forbidden, kube.NotFound) as error:
                    log.warning("runs not listed", watch=one.path, reason=error.message)
            await self._resync.first()
        except errors.JervisError as error:
            self._health.starting = f"the objects cannot be listed: {error.message}"
            return False
        return True
