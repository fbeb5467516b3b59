"""`python -m sources`: poll the sources of Connections until SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import prometheus_client
import pydantic
import structlog
from aiohttp import web
from prometheus_client import exposition

import kube
from clients import liveruns, mongo, tls_trust
from contracts.tokens import runtoken, token_file
from crds import connection, errors
from kb import client as kb
from router import client as router
from sources import metrics, settings
from sources.api import app, gate
from sources.ci import serving as ci
from sources.core import (
    assignments,
    cleanup,
    hosts,
    idle_listener,
    indexer,
    item_listing,
    items,
    missing_items,
    poller,
    redact,
    secrets,
    sweep,
)
from sources.effects import effect_runner, ledger, listing, targets, tools
from sources.effects import serving as effects
from sources.oauth import exchange, tokens, vault
from sources.providers import table as providers
from sources.providers.git import cleanup as git_cleanup
from sources.providers.git import clone, pushes, quarantine, reading
from sources.providers.git import polling as git
from sources.providers.meetings import audio, expiry, worker
from sources.providers.meetings import metrics as meeting_metrics
from sources.providers.meetings import reading as meeting
from sources.providers.meetings import serving as meeting_serving
from sources.providers.meetings import store as meetings

log = structlog.get_logger("sources")
AWAY_SECONDS = 2.0
LAG_SECONDS = 30.0
SPARE_THREADS = 8
KB_SECONDS = 60.0
"""Of a call to the knowledge base: commits are embedded while it waits."""
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
    hidden = redact.Secrets()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
            hidden.processor,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[config.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        asyncio.run(_run(config, hidden))
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


async def _run(config: settings.Settings, hidden: redact.Secrets) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    # Clones last minutes in threads; names of hosts are looked up in threads of the same pool.
    threads = ThreadPoolExecutor(config.at_once + reading.AT_ONCE + SPARE_THREADS, "sources")
    asyncio.get_running_loop().set_default_executor(threads)
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    health = Health(measured.registry)
    loaded = kube.configuration(config.kubeconfig)
    session = kube.session(loaded, fence=_free)
    tls = tls_trust.context()
    http = httpx.AsyncClient(verify=tls, timeout=httpx.Timeout(KB_SECONDS, connect=5.0), trust_env=False)
    store = mongo.client(config.mongodb_uri)
    runners = [await _listen(health.application(), config.metrics_host, config.metrics_port)]
    api = kube.Kube(loaded, session, fence=_free)
    database = store[config.mongodb_database]
    assigned = assignments.Assignments(database, lasts=config.claim_seconds, release=config.release)
    stored = items.Items(database)
    # Patient: commits are embedded while they are answered.
    knowledge = kb.Client(config.kb_url, http, token=config.kb_token, patient=True)
    workspace = clone.Workspace(Path(config.workspace), config.git_clone_bytes, config.git_workspace_bytes)
    owner = f"{config.identity or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    wall = partial(datetime.now, UTC)
    kept = meetings.Meetings(database)
    recordings = audio.Audio(database, wall=wall, quota=config.recording_namespace_bytes)
    expires = expiry.Expiry(
        database,
        uploads=timedelta(days=config.upload_days),
        orphaned=timedelta(days=config.orphaned_days),
        wall=wall,
    )
    of_meetings = meeting_metrics.Metrics(measured.registry)
    models = httpx.AsyncClient(transport=router.transport(verify=tls))
    route = router.Client(
        config.router_url, models, mode="Background", token=router.token_file(config.router_token_file)
    )
    corrects = worker.Worker(
        kept, knowledge, route, config.correction_model, of_meetings, wall=wall, num_ctx=config.correction_num_ctx
    )
    reached = hosts.Hosts(config.allowed_hosts, loopback=config.loopback)
    kept_tokens = vault.Vault(database)
    access = tokens.Tokens(
        kept_tokens,
        exchange.Exchange(reached, tls, wall=wall),
        plain=config.plaintext,
        wall=wall,
        monotonic=time.monotonic,
    )
    read = secrets.Reader(api, access, hidden)
    # SSL_CERT_FILE where it is set (`caBundle` of the chart).
    trusted = ssl.get_default_verify_paths().cafile or ""
    clones = git.opened(
        workspace,
        assigned,
        plain=config.plaintext,
        authorities=trusted,
        seconds=config.git_seconds,
        monotonic=time.monotonic,
        reached=reached,
    )
    polls = poller.Poller(
        api,
        knowledge,
        assigned,
        stored,
        indexer.Indexer(api, stored, measured, wall=wall),
        sweep.Sweeper(
            knowledge,
            assigned,
            missing_items.MissingItems(database),
            measured,
            every=config.sweep_seconds,
            wall=wall,
            monotonic=time.monotonic,
        ),
        providers.table(plain=config.plaintext, tls=tls, monotonic=time.monotonic, wall=wall, reached=reached),
        measured,
        owner=owner,
        width=config.at_once,
        renew=config.claim_seconds / 3,
        wall=wall,
        monotonic=time.monotonic,
        stored_here={connection.Type.MEETING: partial(meeting.Meetings, kept)},
        clones={connection.Type.GIT: clones},
        read=read,
    )

    async def repository(claim: assignments.Claim) -> git.Repository:
        return clones(claim, *await polls.access(claim))

    reads = reading.Reading(
        assigned,
        workspace,
        repository,
        measured,
        wall=wall,
        hidden=hidden.hidden,
    )
    entries = ledger.Ledger(database, lasts=2 * config.effect_seconds)
    pushed = pushes.Pushes(
        reads.copy,
        plain=config.plaintext,
        authorities=trusted,
        reached=reached,
        monotonic=time.monotonic,
        bounds=quarantine.Bounds(bundle=config.push_bundle_bytes, seconds=config.effect_seconds),
    )
    means = tools.Means(
        load=knowledge.fetch,
        tls=tls,
        plain=config.plaintext,
        wall=wall,
        monotonic=time.monotonic,
        reached=reached,
    )
    found = targets.Targets(api, read)
    does = effect_runner.EffectRunner(
        entries, found, providers.effects(pushed), means, seconds=config.effect_seconds, wall=wall
    )
    checks = ci.Means(tls, config.plaintext, wall, time.monotonic, reached)

    def write(line: str) -> None:
        print(hidden.hidden(line), flush=True)  # noqa: T201  # the audit is standard output

    corrected = bool(config.correction_model)
    served = [
        *effects.Effects(does, entries, measured, write=write, wall=wall).served(),
        *listing.Listing(found).served,
        *item_listing.ItemListing(database, assigned).served,
        *meeting_serving.Serving(kept, recordings, of_meetings, correct=corrected, wall=wall).served(),
        *reads.served,
        *ci.Ci(found, providers.CHECKS, checks, measured).served,
    ]
    runs = _runs(config)
    book = token_file.Book(Path(config.tokens_file)) if config.tokens_file else None
    admits = gate.Gate(None if runs is None else runs.verifier, book)
    calls = app.build(served, admits)
    runners.append(await _listen(calls, config.api_host, config.api_port))
    prepared = (
        assigned.prepare, stored.prepare, entries.prepare, kept.prepare, recordings.prepare, kept_tokens.prepare
    )  # fmt: skip
    watches = idle_listener.IdleListener(
        assigned, polls.source, measured, most=config.idle_connections, owner=owner, wall=wall
    )
    steps: dict[str, cleanup.Step] = {
        "clones": git_cleanup.clones(assigned, workspace),
        "pushes": git_cleanup.pushes(Path(config.workspace)),
        "items": stored.left_over,
        "versions": cleanup.versions(stored, wall),
        "uploads": expires.uploads,
        "meetings": expires.meetings,
        "recordings": expires.recordings,
        "transcripts": expires.transcripts,
    }
    tidies = cleanup.Cleanup(steps, measured)
    work = _work(prepared, (polls.run, watches.run, corrects.run), health)
    loops = (health.tick(), work, tidies.run(), ended.wait())
    jobs = [asyncio.create_task(one) for one in loops]
    if runs is not None and runs.follow is not None:
        jobs.append(asyncio.create_task(runs.follow()))
    try:
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in jobs:
            one.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        for runner in runners:
            await runner.cleanup()
        await session.close()
        await http.aclose()
        await models.aclose()
        store.close()
        log.info("sources stopped")


async def _listen(application: web.Application, host: str, port: int) -> web.AppRunner:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _runs(config: settings.Settings) -> liveruns.Runs | None:
    """None: no run may call the API. Raises `crds.errors.Permanent` for keys that cannot be used."""
    if not config.run_token_keys:
        return None
    wall = partial(datetime.now, UTC)
    return liveruns.opened(
        config.run_token_keys, config.live_runs_url, runtoken.SOURCES, monotonic=time.monotonic, wall=wall
    )


async def _work(
    prepared: Sequence[Callable[[], Awaitable[None]]], loops: Sequence[Callable[[], Awaitable[None]]], health: Health
) -> None:
    while True:
        try:
            for prepare in prepared:
                await prepare()
            break
        except mongo.Unavailable as error:
            log.warning("not started yet", reason=error.message)
            await asyncio.sleep(AWAY_SECONDS)
    health.ready = True
    log.info("sources started")
    await asyncio.gather(*(loop() for loop in loops))


def _free() -> None:
    """A claim fences what is written to MongoDB; two creations of a task meet in its name."""


if __name__ == "__main__":
    sys.exit(main())
