"""The writing half of a process, put together for `kb.service`: pipeline, queue, aliases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx

from kb import metrics, mongo, settings
from kb.aliases import merge
from kb.aliases import mongo as aliases_mongo
from kb.content import mongo as content
from kb.content import sweep
from kb.crawl import address, fetch
from kb.erasure import book as erasures
from kb.erasure import closed, eraser, holdings
from kb.files import reader, tika
from kb.graph import store as graph
from kb.http import aliases, erasing, knowledge, learning, openapi, queueing, upkeep, uploads
from kb.ingest import answers, intake, lanes, pipeline, recovery
from kb.ingest import sqlite as ledger
from kb.outcome import learn
from kb.queue import sqlite as queue_sqlite
from kb.queue import worker
from kb.upkeep import check, reconcile
from kb.vectors import embedding
from kb.vectors import store as vectors
from router import client as router_client


@dataclass(frozen=True)
class Ground:
    """What both halves of a process stand on. `clock` gives the time in UTC."""

    config: settings.Settings
    router: router_client.Client
    embedder: embedding.Embedder
    graph: graph.Store
    vectors: vectors.Store
    content: content.Store
    database: mongo.Database
    meters: metrics.Metrics
    clock: Callable[[], datetime]
    shut: closed.Closed


async def writing(ground: Ground, stack: contextlib.AsyncExitStack) -> tuple[knowledge.Writing, list[openapi.Served]]:
    """Open the files, start the workers and the sweepers; all of it ends with `stack`."""
    config, meters, clock = ground.config, ground.meters, ground.clock
    book = ledger.Ledger(config.data_dir / "ingest.sqlite", clock, max_answers=config.max_answers)
    stack.push_async_callback(book.close)
    await book.prepare()
    queue = queue_sqlite.Queue(
        config.data_dir / "queue.sqlite", clock, limit=config.queue_limit, per_client=config.queue_client_limit
    )
    stack.push_async_callback(queue.close)
    await queue.prepare()
    registry = aliases_mongo.Registry(ground.database, clock)
    asked = answers.Answers(ground.router, config.extract_model, book, meters, num_ctx=config.extract_num_ctx)
    stores = pipeline.Stores(book, ground.graph, ground.vectors, ground.content, queue, registry, ground.shut)
    pipe = pipeline.Pipeline(stores, asked, ground.embedder, meters, clock, _limits(config))
    writers = lanes.Lanes(meters, width=config.lane_width, waiting=config.lane_waiting)
    workers = worker.Workers(
        queue, pipe, meters, clock, general=config.queue_workers, urgent=config.queue_urgent_workers
    )
    merger = merge.Merger(registry, ground.graph, queue, clock, workers.wake)
    patience = timedelta(seconds=config.recovery_patience)
    recoverer = recovery.Recovery(book, pipe, writers, meters, clock, patience=patience)
    # No redirects, no proxy, no cookies kept: the fetcher judges every address itself.
    web = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, follow_redirects=False, verify=True))
    judge = address.Judge([str(network) for network in config.crawl_networks], address.resolve)
    fetcher = fetch.Fetcher(web, judge, max_bytes=config.crawl_page_bytes, seconds=config.crawl_page_seconds)
    parser = (
        tika.Tika(config.tika_url, web, seconds=config.tika_seconds, max_chars=config.max_chars)
        if config.tika_url
        else None
    )
    seeing = answers.Answers(ground.router, config.vision_model, book, meters)
    reading = reader.Reader(parser, seeing, meters)
    checker = check.Checker(ground.graph, ground.vectors, book.working)
    reconciler = reconcile.Reconciler(checker, ground.graph, ground.vectors, pipe.turn, book.working, meters)
    records = erasures.Book(ground.database, clock)
    others: dict[str, holdings.Holding] = {"contents": ground.content, **holdings.of(ground.database)}
    settle = timedelta(seconds=2 * config.erasure_interval)
    forgetter = eraser.Eraser(
        records,
        ground.shut,
        ground.graph,
        ground.vectors,
        pipe.drop,
        (queue, book),
        others,
        meters,
        clock,
        settle=settle,
    )
    group = await stack.enter_async_context(asyncio.TaskGroup())
    # A bug in one of these takes the process down: a restart is better than documents that nobody looks at.
    works = [
        recoverer.run(interval=config.recovery_interval),
        workers.run(),
        merger.run(interval=config.recovery_interval),
        reconciler.run(interval=config.reconcile_interval),
        forgetter.run(interval=config.erasure_interval),
    ]
    if config.content_keep_days:
        keep = timedelta(days=config.content_keep_days)
        sweeping = sweep.Sweeper(ground.content, ground.database, [book, queue], meters, clock, keep=keep)
        works.append(sweeping.run(interval=config.sweep_interval))
    for work in works:
        stack.callback(group.create_task(work).cancel)
    way = intake.Intake(pipe, writers, workers.wake)
    routes = [
        *upkeep.Consistency(checker, book).routes(),
        *upkeep.Upkeep(reconciler).routes(),
        *queueing.Queueing(way, queue, workers, book).routes(),
        *aliases.Aliases(merger, registry, ground.graph).routes(),
        *uploads.Uploads(way, reading, fetcher, ground.content, limit=config.max_file_bytes).routes(),
        *erasing.Erasing(forgetter, records).routes(),
        *learning.Learning(way, learn.Learner(asked, way), clock).routes(),
    ]
    return knowledge.Writing(pipe, writers), routes


def _limits(config: settings.Settings) -> pipeline.Limits:
    return pipeline.Limits(
        chunk_chars=config.chunk_chars,
        chunk_overlap=config.chunk_overlap,
        max_chars=config.max_chars,
        parallel=config.extract_parallel,
    )
