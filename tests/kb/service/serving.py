"""The HTTP application over a test's world, on a real loopback socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import httpx

from contracts import browsers, problems
from kb import api, client, metrics
from kb.ingest import lanes
from kb.retrieve import search
from kb.rules import enforce
from kb.service.access import audit
from kb.service.http import access, app, atomic, content, exploring, health, knowledge, queueing, upkeep
from kb.upkeep import check, reconcile
from tests import httpserver
from tests.kb import world


@asynccontextmanager
async def over(
    made: world.ObservedState,
    meters: metrics.Metrics,
    *,
    width: int = 5,
    waiting: int = 200,
    gate: access.Gate | None = None,
    trail: audit.Trail | None = None,
    origins: Collection[str] = (),
    tool_seconds: float = 60.0,
    kept_rules: enforce.Port | None = None,
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    """The typed client and a raw one, both at the service's root."""
    finder = made.finder(search.Breadth())
    checker = check.Checker(made.graph, made.vectors, made.ledger.working)
    turn = made.pipeline.turn
    reconciler = reconcile.Reconciler(
        checker,
        made.graph,
        made.vectors,
        made.content,
        made.embedder,
        turn,
        made.ledger.working,
        made.ledger,
        (made.ledger, made.queue),
        meters,
        made.clock,
    )
    looking = exploring.Exploring(finder, made.graph, made.vectors, made.aliases)
    more = [
        *looking.routes(),
        *atomic.Searching(looking, kept_rules or enforce.Nothing(), meters).routes(),
        *upkeep.Consistency(checker, made.ledger, made.ledger).routes(),
        *upkeep.Upkeep(reconciler).routes(),
        *queueing.Queueing(made.intake, made.queue, made.workers, made.ledger).routes(),
    ]
    faces = app.Faces(
        knowledge.Writing(
            made.pipeline,
            lanes.Lanes(meters, width=width, waiting=waiting),
            lanes.Lanes(meters, width=width, waiting=waiting, kind="model"),
        ),
        knowledge.Reading(finder),
        content.Content(made.content, limit=100_000),
        health.Health({"weaviate": made.vectors.ready, "mongodb": made.content.ready}, meters),
        more,
    )
    built = app.build(
        faces,
        meters,
        max_body=50_000,
        version=api.VERSION,
        gate=gate,
        trail=trail,
        pages=problems.Pages(browsers.Hosts(), browsers.Origins(origins), "JERVIS_KB"),
        tool_seconds=tool_seconds,
    )
    async with (
        httpserver.serving(built, shutdown_seconds=60) as base,
        httpx.AsyncClient(base_url=base, trust_env=False, timeout=300, verify=False) as http,
    ):
        yield client.Client(base, http, attempts=1), http
