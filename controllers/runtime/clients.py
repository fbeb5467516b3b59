"""The clients of the process: the Kubernetes API, the Lease, MongoDB, the knowledge base, the router."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import NoReturn

import httpx
import prometheus_client
import structlog

import kube
from clients import http, mongo, tls_trust
from controllers import metrics, settings, tracing
from controllers.archive import mongo as archives
from controllers.delegations import store as delegations
from controllers.gpubackend import probe
from controllers.memory import mongo as memories
from controllers.notices import mongo as notices
from controllers.notices import sender
from controllers.sandbox import store as sandbox_store
from kb import client as kb
from kube import lease
from router import client as router
from sources.core import assignments
from sources.providers.meetings import store as meetings

log = structlog.get_logger("operator")

LEASE_LOST = 70
"""Exit code of a process that must not write any more."""
MONGODB_ABSENT_SECONDS = 2.0
"""For the search for a server of MongoDB: a client may wait for the 503 of the history."""
KB_SECONDS = 900.0
"""Of one call to the knowledge base that runs no model. One that does is given up by its priority, after the time for
which the router lets that wait (`crds.priority.SILENCE`), or it would join the router's queue again at its end."""


def die(reason: str) -> NoReturn:
    """End the process at once, without any further write."""
    log.critical("operator ends", reason=reason)
    sys.stdout.flush()
    os._exit(LEASE_LOST)


def wall() -> datetime:
    """The wall clock of the process."""
    return datetime.now(UTC)


class Clients:
    """All clients, not yet connected; `acquired` is set once the Lease is held."""

    def __init__(self, config: settings.Settings) -> None:
        self._loop, place = asyncio.get_running_loop(), config.identity or socket.gethostname()

        self.acquired = asyncio.Event()
        self.loaded = kube.configuration(config.kubeconfig)
        self.metrics = metrics.Metrics(prometheus_client.CollectorRegistry())
        terms = lease.Terms(duration=config.lease_seconds)
        self.lease = lease.Lease(
            kube.LeaseStore(self.loaded, config.namespace, config.lease_name, timeout=terms.timeout),
            f"{place}_{uuid.uuid4().hex[:8]}",
            terms,
            monotonic=time.monotonic,
            lost=die,
            acquired=self._lease_acquired,
            predecessor=lambda holder: bool(config.identity) and holder.rpartition("_")[0] == config.identity,
        )
        fence = self.lease.check
        self.session = kube.session(self.loaded, fence=fence)
        self.api = kube.Kube(
            self.loaded, self.session, fence=fence, counted=self.metrics.call, timeout=config.request_timeout
        )
        self._mongo = mongo.client(
            config.mongodb_uri,
            absent=MONGODB_ABSENT_SECONDS,
            app_name="jervis-operator",
            listeners=[memories.AtWire(self._still_leading)],
        )
        database = self._mongo[config.mongodb_database]
        self.memory = memories.Memory(database, leads=self.lease)
        self.archive = archives.Archive(database, fence=fence)
        self.outbox = notices.Outbox(database, fence=fence)
        self.assignments = assignments.Assignments(database, fence=fence, release=config.release)
        self.meetings = meetings.Meetings(database)
        self.delegations = delegations.Store(database, fence=fence, release=config.release)
        self.commands = sandbox_store.Commands(database)
        trusted = tls_trust.context()  # shared: loading the CA certificates is the slowest step here
        self._kb_http = httpx.AsyncClient(
            transport=router.transport(
                connections=config.qualify_at_once + 4, verify=trusted, request_class=kube.fenced(fence)
            ),
            event_hooks={"request": [tracing.pass_on, self._fenced]},
            timeout=httpx.Timeout(KB_SECONDS, connect=5.0),
        )
        self._router_http = httpx.AsyncClient(transport=router.transport(verify=trusted))
        self.probe_http = http.client(tls=trusted, find=probe.Judge(loopback=config.probe_loopback).find)
        self.webhooks = http.client(
            tls=trusted, find=sender.Judge(config.notice_networks).find, event_hooks={"request": [self._fenced]}
        )
        self.knowledge = kb.Client(config.kb_url, self._kb_http, config.kb_token, patient=True, attempts=1)
        # Not fenced: the history is answered by replicas that stand by as well.
        self._reading_http = httpx.AsyncClient(verify=trusted, trust_env=False, timeout=config.request_timeout)
        reading = kb.Client(config.kb_read_url or config.kb_url, self._reading_http, config.kb_token, attempts=1)
        self.contents = reading.fetch
        self.router = router.Client(
            config.router_url, self._router_http, token=router.token_file(config.router_token_file)
        )
        self.tracer: tracing.Tracer = tracing.Telemetry() if config.tracing else tracing.Off()

    def _lease_acquired(self) -> None:
        """Called in the Lease's thread."""
        self._loop.call_soon_threadsafe(self.acquired.set)

    async def close(self) -> None:
        """Release the Lease first, so that the next leader does not wait for the rest."""
        await asyncio.to_thread(self.lease.release)
        clients = (self._kb_http, self._reading_http, self._router_http, self.probe_http, self.webhooks)
        await asyncio.gather(*(one.aclose() for one in clients), self.session.close())
        await asyncio.to_thread(self.tracer.close)
        self._mongo.close()

    async def _fenced(self, _: httpx.Request) -> None:
        """Only the leader may write to the knowledge base, and call webhooks."""
        self.lease.check()

    def _still_leading(self) -> None:
        """Last check, in a thread that is about to send a write: it cannot be cancelled any more."""
        if not self.lease.leading:
            die("the lease expired before a write to MongoDB")
