"""The writing half of a process, put together for `kb.service.serving`: pipeline, queue, aliases."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clients import http as outward
from clients import tls_trust
from codegraph.branch import analyst
from codegraph.extract import budget
from crds import errors
from kb import loops, metrics, mongo, records, settings
from kb.aliases import merge
from kb.aliases import mongo as aliases_mongo
from kb.code import book as code_book
from kb.code import branch_metrics, joern_queries
from kb.content import mongo as content
from kb.content import sweep
from kb.crawl import address, fetch
from kb.erasure import book as erasures
from kb.erasure import closed, eraser, holdings, places, watch
from kb.extract import answers, entity_types
from kb.extract.qualifier import image_reading
from kb.files import inside, pages, reader, tika, vision
from kb.graph import store as graph
from kb.ingest import document, intake, lanes, observers, pipeline, recovery
from kb.links import patterns
from kb.links import reading as links_reading
from kb.outcome import learn
from kb.queue import worker
from kb.reindex import copying, indexes, phase
from kb.rules import mongo as rules_mongo
from kb.service.http import (
    aliases,
    analyze,
    atomic,
    commits,
    documents,
    erasing,
    knowledge,
    learning,
    links,
    observing,
    openapi,
    queueing,
    reindexing,
    structures,
    upkeep,
    uploads,
)
from kb.upkeep import check, history, leader_jobs, purge, reconcile
from kb.vectors import embedding
from kb.vectors import store as vectors
from kb.visual import assembly as visual
from router import client as router_client

_PURGE_SECONDS = 3600.0
_CENSUS = 60.0
_SWEEP = 3600.0
"""Seconds between two looks for contents and versions that are kept no longer: they are kept for days."""


@dataclass(frozen=True)
class Vectors:
    """The vector store and what makes its vectors: of `documents`, and of `questions` after their `instruction`.

    `view` and `indexes` are None while there is one index (`kb.reindex`).
    """

    store: vectors.Store
    documents: embedding.Port
    questions: embedding.Port
    instruction: str | Callable[[], str]
    book: phase.Book
    view: phase.View | None = None
    indexes: indexes.Indexes | None = None


@dataclass(frozen=True)
class Ground:
    """What both halves of a process stand on. `clock` gives the time in UTC."""

    config: settings.Settings
    router: router_client.Client
    vectors: Vectors
    graph: graph.Store
    content: content.Store
    database: mongo.Database
    meters: metrics.Metrics
    clock: Callable[[], datetime]
    shut: closed.Closed
    records: records.Records
    code: code_book.Book
    analysts: analyst.Analyst
    visual: visual.Ground


async def writing(ground: Ground, stack: contextlib.AsyncExitStack) -> tuple[knowledge.Writing, list[openapi.Served]]:
    """Open the files, start the workers and the sweepers; all of it ends with `stack`."""
    config, meters, clock = ground.config, ground.meters, ground.clock
    kept = ground.records
    book, queue = kept.ledger, kept.queue
    registry = aliases_mongo.Registry(ground.database, clock)

    def asking(model: str) -> answers.Answers:
        return answers.Answers(ground.router, model, book, meters, num_ctx=config.window(model))

    asked = asking(config.extract_model)
    fast = asking(config.fast_model) if config.fast_model else None
    drawing = pages.Limits(config.pdf_pages, config.pdf_page_chars)
    seen = visual.writing(ground.visual, ground.content, ground.graph, ground.shut, drawing, meters, clock)
    stores = document.Stores(
        book,
        book,
        ground.graph,
        ground.vectors.store,
        ground.content,
        queue,
        registry,
        ground.shut,
        kept.turns,
        entity_types.Mongo(ground.database, clock),
        rules_mongo.Rules(ground.database, clock),
        seen.pages,
    )
    seeing = _vision(ground, book)
    eyes = image_reading.Eyes(seeing, ground.content, config.max_file_bytes)
    sources = source_limits(config)
    pipe = pipeline.Pipeline(
        stores, asked, ground.vectors.documents, meters, clock, limits(config), eyes, fast, sources
    )
    writers = lanes.Lanes(meters, width=config.lane_width)
    # A call that waits for models holds its slot for minutes: no slot that a call without models needs.
    readers = lanes.Lanes(meters, width=config.lane_width, kind="model")
    known = observers.Observers(ground.database, kept.turns, ground.shut, clock)
    workers = worker.Workers(queue, pipe, meters, clock, general=config.queue_workers)
    merger = merge.Merger(registry, ground.graph, queue, clock, workers.wake, kept.turns)
    patience = timedelta(seconds=config.recovery_patience)
    recoverer = recovery.Recovery(book, pipe, readers, meters, clock, patience=patience)
    judge = address.Judge([str(network) for network in config.crawl_networks])
    tls = tls_trust.context()
    web = await stack.enter_async_context(outward.client(tls=tls, find=judge.find, seconds=fetch.PAGE_SECONDS))
    own = await stack.enter_async_context(outward.client(tls=tls, seconds=tika.SECONDS + 60))
    fetcher = fetch.Fetcher(web)
    parser = tika.Tika(config.tika_url, own, max_chars=config.max_chars) if config.tika_url else None
    reading = reader.Reader(parser, seeing, meters, pages.Renderer(drawing), _inner(config))
    checker = check.Checker(ground.graph, ground.vectors.store, pipe.working)
    reconciler = reconcile.Reconciler(
        checker,
        ground.graph,
        ground.vectors.store,
        ground.content,
        ground.vectors.documents,
        pipe.turn,
        book.working,
        book,
        (book, queue),
        meters,
        clock,
        (ground.code, seen.pages),
    )
    full = timedelta(seconds=config.full_reconcile_interval)
    asked_for = erasures.Book(ground.database, clock)
    others: dict[str, holdings.Holding] = {"pages": seen.pages, "contents": ground.content}
    others |= holdings.of(ground.database)
    # Where the records are shared each process clears them: the last one that had a write under way does it last.
    watching = watch.Watch(asked_for, ground.shut, kept.places, (queue, book), meters, time.monotonic)
    await _first_look(watching, kept.places, meters, stack)
    forgetter = eraser.Eraser(
        asked_for, watching, kept.places, ground.graph, ground.vectors.store, pipe.drop, others, meters
    )
    group = await stack.enter_async_context(asyncio.TaskGroup())

    def kept_on(name: str, run: Callable[[], Awaitable[None]]) -> Coroutine[Any, Any, None]:
        return loops.keep(name, run, meters, pause=config.recovery_interval)

    works = [
        kept_on("recovery", lambda: recoverer.run(interval=config.recovery_interval)),
        kept_on("queue", workers.run),
        kept_on("erasures", lambda: watching.run(interval=config.erasure_interval)),
        kept_on("pages", lambda: seen.maker.run(interval=config.recovery_interval)),
    ]
    leader_works: list[leader_jobs.Work] = [
        lambda turn: kept_on("aliases", lambda: merger.run(interval=config.recovery_interval)),
        lambda turn: kept_on("reconcile", lambda: reconciler.run(interval=config.reconcile_interval, full=full)),
        lambda turn: kept_on("erasing", lambda: forgetter.run(turn, interval=config.erasure_interval)),
    ]
    counting = branch_metrics.BranchMetrics(ground.code, meters, clock)
    leader_works.append(lambda turn: kept_on("branches", lambda: counting.run(interval=_CENSUS)))
    keeping = seen.keeper(pipe.working)
    leader_works.append(
        lambda turn: kept_on("page upkeep", lambda: keeping.run(turn, interval=config.reconcile_interval))
    )
    if config.content_keep_days:
        keep = timedelta(days=config.content_keep_days)
        sweeping = sweep.Sweeper(ground.content, ground.database, [book, queue], meters, clock, keep=keep)
        leader_works.append(lambda turn: kept_on("contents", lambda: sweeping.run(interval=_SWEEP)))
    if ground.vectors.view is not None and ground.vectors.indexes is not None:
        copier = copying.Reindexer(
            ground.vectors.book,
            ground.vectors.view,
            ground.vectors.indexes,
            ground.graph,
            pipe.writing,
            meters,
            drop=config.reindex_drop,
        )
        leader_works.append(lambda turn: kept_on("reindex", lambda: copier.run(turn, interval=config.erasure_interval)))
    # Also where none is kept any more: what was kept before goes.
    keeper = history.Keeper(ground.graph, ground.vectors.store, meters, clock, keep=timedelta(days=config.history_days))
    leader_works.append(lambda turn: kept_on("history", lambda: keeper.run(turn, interval=_SWEEP)))
    if kept.claims is not None:
        works.append(kept_on("turns", kept.claims.run))
        forgotten = purge.Purge(kept.claims, kept.places, ground.graph, known, clock)
        leader_works.append(lambda turn: kept_on("tidy", lambda: forgotten.run(interval=_PURGE_SECONDS)))
    works.append(kept_on("duty", leader_jobs.LeaderJobs(kept.turns, leader_works, meters).run))
    for work in works:
        stack.callback(group.create_task(work).cancel)
    way = intake.Intake(pipe, writers, workers.wake)
    opener = links_reading.Reader(
        patterns.Mongo(ground.database, clock),
        judge,
        fetcher,
        ground.graph,
        ground.content,
        way,
        fast or asked,
        meters,
        stores.rules,
        reading,
        config.max_file_bytes,
        instead=asked if fast else None,
    )
    branches = pipe.structures(ground.code, ground.analysts, sources)
    routes = [
        *upkeep.Consistency(checker, book, book).routes(),
        *upkeep.Upkeep(reconciler).routes(),
        *queueing.Queueing(way, queue, workers, book).routes(),
        *commits.Commits(pipe.commits, writers, known).routes(),
        *structures.Structures(branches, writers, known).routes(),
        *observing.Observing(known).routes(),
        *documents.Documents(ground.graph, book, queue).routes(),
        *aliases.Aliases(merger, registry, ground.graph).routes(),
        *uploads.Uploads(
            way,
            reading,
            fetcher,
            ground.content,
            limit=config.max_file_bytes,
            graph_store=ground.graph,
            vector_store=ground.vectors.store,
            crawls=config.crawl_parallel,
            rules=stores.rules,
            pages=seen.pages,
        ).routes(),
        *links.Reading(opener, width=config.crawl_parallel).routes(),
        *atomic.Storing(way, ground.graph, ground.vectors.store, book, stores.rules, meters).routes(),
        *reindexing.Reindexing(ground.vectors.book).routes(),
        *erasing.Erasing(forgetter, asked_for, kept.places).routes(),
        *analyze.Analyze(
            joern_queries.Queries(ground.database, clock, lambda: uuid.uuid4().hex), allowed=config.code_queries
        ).routes(),
        *learning.Learning(way, learn.Learner(asked, way), clock).routes(),
    ]
    return knowledge.Writing(pipe, writers, readers, known), routes


async def follow(
    view: phase.View, meters: metrics.Metrics, config: settings.Settings, stack: contextlib.AsyncExitStack
) -> None:
    """Know which index serves before the first request comes, if MongoDB answers, and follow the reindex."""
    await view.glance()
    tended("phase", lambda: view.run(interval=config.erasure_interval), meters, config, stack)


def tended(
    name: str,
    run: Callable[[], Awaitable[None]],
    meters: metrics.Metrics,
    config: settings.Settings,
    stack: contextlib.AsyncExitStack,
) -> None:
    """Run a loop until the stack closes; after an error that it does not foresee it begins again."""
    # Of no group: what else fails at the start is shown as it is.
    task = asyncio.create_task(loops.keep(name, run, meters, pause=config.recovery_interval), name=name)

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})

    stack.push_async_callback(end)


def working(kept: records.Records) -> check.Working:
    """Those of some documents that any process works on, as a process sees it that does not write documents."""

    async def ask(document_ids: Collection[str]) -> set[str]:
        return await kept.ledger.working(document_ids) | await kept.turns.owned(document_ids)

    return ask


async def watch_erasures(
    kept: records.Records,
    shut: closed.Closed,
    database: mongo.Database,
    meters: metrics.Metrics,
    clock: Callable[[], datetime],
    config: settings.Settings,
    stack: contextlib.AsyncExitStack,
) -> None:
    """For a process that writes rules, memories and contents, but no documents: it closes scopes as the others do."""
    watching = watch.Watch(erasures.Book(database, clock), shut, kept.places, (), meters, time.monotonic)
    await _first_look(watching, kept.places, meters, stack)
    tended("erasures", lambda: watching.run(interval=config.erasure_interval), meters, config, stack)


async def _first_look(
    watching: watch.Watch, place: places.Places, meters: metrics.Metrics, stack: contextlib.AsyncExitStack
) -> None:
    """Know what is being erased before the first request comes, if MongoDB answers; and leave at the end."""

    async def leave() -> None:
        try:
            await place.leave()
        except errors.Operational:
            pass  # an erasure waits for this place until it is known to be gone
        except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
            loops.failed("erasures", meters)

    stack.push_async_callback(leave)
    try:
        await watching.look()
    except errors.Operational:
        pass  # the loop says so
    except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
        loops.failed("erasures", meters)


def _vision(ground: Ground, shelf: answers.Shelf) -> vision.Models:
    """The models that look at images, by the settings' table."""

    def asking(model: str) -> answers.Answers:
        return answers.Answers(ground.router, model, shelf, ground.meters, num_ctx=ground.config.window(model))

    choices = [vision.Choice(one.images, one.bytes, asking(one.model)) for one in ground.config.vision_models]
    return vision.Models(asking(ground.config.vision_model), choices)


def _inner(config: settings.Settings) -> inside.Limits:
    return inside.Limits(images=config.inside_images)


def source_limits(config: settings.Settings) -> budget.Budget:
    """Those of a branch's source files."""
    return budget.Budget(
        files=config.code_files,
        file_bytes=config.code_file_bytes,
        total_bytes=config.code_total_bytes,
        seconds=config.code_seconds,
    )


def limits(config: settings.Settings) -> document.Limits:
    """Those of documents."""
    return document.Limits(
        chunk_chars=config.chunk_chars,
        chunk_overlap=config.chunk_overlap,
        max_chars=config.max_chars,
        versions=config.history_versions if config.history_days else 0,
        links=config.links_per_document,
        tools=config.qualify_tools,
        images=config.inside_images,
    )
