"""The application with every route that writes, over a test's world; the memories where there is a database."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

from clients import http as outward
from kb import api, client, metrics, mongo
from kb.crawl import address, fetch
from kb.erasure import book as erasures
from kb.erasure import eraser, places
from kb.extract import answers
from kb.extract import entity_types as registry_of_types
from kb.files import pages, reader, tika, vision
from kb.ingest import lanes
from kb.links import patterns
from kb.links import reading as links_reading
from kb.memory import procedures, session, task, user
from kb.outcome import learn
from kb.retrieve import search
from kb.rules import enforce
from kb.rules import mongo as rules_mongo
from kb.service.access import rates
from kb.service.http import (
    access,
    aliases,
    app,
    atomic,
    commits,
    content,
    documents,
    entitytypes,
    erasing,
    health,
    knowledge,
    learning,
    links,
    memory,
    openapi,
    queueing,
    rules,
    uploads,
)
from kb.visual import pages as visual_pages
from tests import httpserver, waiting
from tests.clients import servers
from tests.kb import clock as clocks
from tests.kb import world


@asynccontextmanager
async def over(
    made: world.ObservedState,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    *,
    database: mongo.Database | None = None,
    parser: tika.Tika | None = None,
    judge: address.Judge | None = None,
    gate: access.Gate | None = None,
    works: eraser.Eraser | None = None,
    registry: places.Places | None = None,
    limit: int = 500_000,
    transport: httpx.AsyncBaseTransport | None = None,
    ingests: bool = False,
    kept_rules: enforce.Port | None = None,
    drawing: pages.Limits | None = None,
    asked: answers.Answers | None = None,
    more: Sequence[openapi.Served] = (),
    seen: visual_pages.Pages | None = None,
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    """The typed client and a raw one, both at the service's root; pages are fetched through `transport`.

    `ingests`: with `/ingest/full`, too. `asked` is asked about links, the usual model where it is not there.
    """
    judge = judge or address.Judge([])
    async with (
        httpx.AsyncClient(transport=transport)
        if transport is not None
        else outward.client(tls=servers.TLS, find=judge.find)
    ) as web:
        numbers = itertools.count()
        fetcher = fetch.Fetcher(web, max_bytes=100_000, seconds=waiting.PATIENCE)
        renderer = pages.Renderer(drawing or pages.Limits())
        reading = reader.Reader(parser, vision.Models(made.answers), meters, renderer)
        served: Sequence[openapi.Served] = [
            *queueing.Queueing(made.intake, made.queue, made.workers, made.ledger).routes(),
            *commits.Commits(made.pipeline.commits, lanes.Lanes(meters)).routes(),
            *more,
            *documents.Documents(made.graph, made.ledger, made.queue).routes(),
            *aliases.Aliases(made.merger, made.aliases, made.graph).routes(),
            *uploads.Uploads(
                made.intake,
                reading,
                fetcher,
                made.content,
                limit=limit,
                graph_store=made.graph,
                vector_store=made.vectors,
                rules=kept_rules,
                pages=seen,
            ).routes(),
            *atomic.Storing(
                made.intake, made.graph, made.vectors, made.ledger, kept_rules or enforce.Nothing(), meters
            ).routes(),
            *learning.Learning(made.intake, learn.Learner(made.answers, made.intake), clock).routes(),
            *memory.Users(user.Users(made.graph, made.vectors, meters)).routes(),
        ]
        if database is not None:
            book = session.Sessions(database, clock, lambda: f"entry-{next(numbers)}")
            ways = procedures.Procedures(database, clock)
            called = patterns.Mongo(database, clock)
            opener = links_reading.Reader(
                called,
                judge,
                fetcher,
                made.graph,
                made.content,
                made.intake,
                asked or made.answers,
                meters,
                kept_rules or rules_mongo.Rules(database, clock),
                reading,
                limit,
                instead=made.answers,
            )
            served = [
                *served,
                *links.Reading(opener).routes(),
                *links.Patterns(called).routes(),
                *entitytypes.EntityTypes(registry_of_types.Mongo(database, clock)).routes(),
                *rules.Rules(rules_mongo.Rules(database, clock)).routes(),
                *memory.Memory(task.Tasks(database, clock), book, ways).routes(),
            ]
            if works is not None:
                registry = registry or places.Places(database, "files", "Files", "here", clock, lambda: 0.0)
                served = [*served, *erasing.Erasing(works, erasures.Book(database, clock), registry).routes()]
        asking = knowledge.Reading(made.finder(search.Breadth()))
        writing = knowledge.Writing(made.pipeline, lanes.Lanes(meters)) if ingests else None
        faces = app.Faces(
            writing, asking, content.Content(made.content, limit=100_000), health.Health({}, meters), served
        )
        gate = gate or access.Gate(None, rates.Rates(0, 1), lambda: 0.0, made.shut)
        most = max(limit, 500_000)
        built = app.build(faces, meters, max_body=most, version=api.VERSION, gate=gate)
        async with (
            httpserver.serving(built, shutdown_seconds=60, handler_cancellation=True) as base,
            httpx.AsyncClient(base_url=base, trust_env=False, timeout=60, verify=False) as http,
        ):
            yield client.Client(base, http, attempts=1), http
