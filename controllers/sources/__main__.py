"""`python -m controllers.sources`: poll the sources of Connections until SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
import uuid
from datetime import UTC, datetime
from functools import partial

import httpx
import prometheus_client
import pydantic
import structlog
from aiohttp import web
from prometheus_client import exposition

import kube
from controllers.sources import assignments, gone, indexer, items, metrics, mongo, poller, settings, sweep
from controllers.sources.protocols import atlassian, confluence, imap, jira
from crds import authorities, connection, errors
from kb import client as kb

log = structlog.get_logger("sources")
AWAY_SECONDS = 2.0
LAG_SECONDS = 30.0
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def main() -> int:
    """Exit code 2 for settings that cannot be used."""
    try:
        config = settings.Settings()
    except pydantic.ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            name = ".".join(str(part) for part in problem["loc"]).upper()
            print(f"sources: setting {settings.PREFIX}{name}: {problem['msg']}", file=sys.stderr)  # noqa: T201
        return 2
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[config.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        asyncio.run(_run(config))
    except errors.Permanent as error:
        print(f"sources: {error.message} {error.remedy or ''}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


class Health:
    """/healthz: the loop is on time. /readyz: MongoDB was there. /metrics: Prometheus text."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._registry, self._tick = registry, time.monotonic()
        self.ready = False

    async def tick(self) -> None:
        """Note that the loop runs, until cancelled."""
        while True:
            self._tick = time.monotonic()
            await asyncio.sleep(1)

    def application(self) -> web.Application:
        """The three endpoints."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._scrape)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        late = time.monotonic() - self._tick
        return web.json_response({"ok": late < LAG_SECONDS, "lag": late}, status=200 if late < LAG_SECONDS else 503)

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.json_response({"ok": self.ready}, status=200 if self.ready else 503)

    async def _scrape(self, _: web.Request) -> web.Response:
        body = exposition.generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE_LATEST})


async def _run(config: settings.Settings) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    health = Health(measured.registry)
    loaded = kube.configuration(config.kubeconfig)
    session = kube.session(loaded, fence=_free)
    tls = authorities.context()
    http = httpx.AsyncClient(verify=tls, timeout=httpx.Timeout(config.kb_timeout, connect=5.0), trust_env=False)
    store = mongo.client(config.mongodb_uri)
    runner = web.AppRunner(health.application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, config.metrics_host, config.metrics_port).start()
    api = kube.Kube(loaded, session, fence=_free, timeout=config.request_timeout)
    database = store[config.mongodb_database]
    assigned, stored = assignments.Assignments(database, lasts=config.claim_seconds), items.Items(database)
    knowledge = kb.Client(config.kb_url, http, token=config.kb_token)
    owner = f"{config.identity or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    wall = partial(datetime.now, UTC)
    polls = poller.Poller(
        api,
        knowledge,
        assigned,
        stored,
        indexer.Indexer(api, stored, measured, wall=wall),
        sweep.Sweeper(
            knowledge,
            assigned,
            gone.Gone(database),
            measured,
            every=config.sweep_seconds,
            wall=wall,
            monotonic=time.monotonic,
        ),
        {
            connection.Type.EMAIL: imap.opened(config.plaintext, tls, time.monotonic),
            connection.Type.JIRA: jira.opened(atlassian.opened(tls, time.monotonic, wall)),
            connection.Type.CONFLUENCE: confluence.opened(atlassian.opened(tls, time.monotonic, wall)),
        },
        measured,
        owner=owner,
        width=config.at_once,
        renew=config.claim_seconds / 3,
        wall=wall,
        monotonic=time.monotonic,
    )
    jobs = [asyncio.create_task(one) for one in (health.tick(), _work(assigned, stored, polls, health), ended.wait())]
    try:
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in jobs:
            one.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await runner.cleanup()
        await session.close()
        await http.aclose()
        store.close()
        log.info("sources stopped")


async def _work(assigned: assignments.Assignments, stored: items.Items, polls: poller.Poller, health: Health) -> None:
    while True:
        try:
            await assigned.prepare()
            await stored.prepare()
            break
        except mongo.Unavailable as error:
            log.warning("not started yet", reason=error.message)
            await asyncio.sleep(AWAY_SECONDS)
    health.ready = True
    log.info("sources started")
    await polls.run()


def _free() -> None:
    """A claim fences what is written to MongoDB; two creations of a task meet in its name."""


if __name__ == "__main__":
    sys.exit(main())
