"""`python -m kb`: the composition root. Reads the settings once, builds, wires, serves until SIGTERM or SIGINT.

What the service stands on may be absent at the start, go away and come back: nothing here waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from datetime import UTC, datetime, timedelta

import httpx
import prometheus_client
import pydantic
import structlog
import uvloop
from aiohttp import web

from crds import errors
from kb import metrics, settings, wire
from kb.content import mongo
from kb.graph import sqlite as graph_sqlite
from kb.graph import store as graph
from kb.http import app, content, health, knowledge
from kb.ingest import answers, lanes, pipeline, recovery
from kb.ingest import sqlite as ledger
from kb.retrieve import rank, search
from kb.vectors import embedding, weaviate
from router import client as router_client

log = structlog.get_logger("kb")


def _now() -> datetime:
    return datetime.now(UTC)


async def serve(config: settings.Settings) -> None:
    """Run until a signal asks to stop. Raises `kb.errors.Misconfigured` or `kb.errors.Away` (own disk) at the start."""
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    for collector in (prometheus_client.ProcessCollector, prometheus_client.GCCollector):
        collector(registry=meters.registry)
    config.data_dir.mkdir(parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx.AsyncClient(limits=httpx.Limits(max_connections=None), trust_env=False)
        )
        router = router_client.Client(str(config.router_url), http)
        embedder = embedding.Embedder(router, config.embed_model, meters)
        graph_store = _graph(config)
        stack.push_async_callback(graph_store.close)
        await graph_store.prepare()
        vector_store = weaviate.Store(
            str(config.weaviate_url), config.weaviate_grpc_port, config.embed_model, index=config.index
        )
        stack.push_async_callback(vector_store.close)
        content_store = mongo.Store(config.mongodb_uri.get_secret_value(), config.mongodb_database)
        stack.push_async_callback(content_store.close)

        writing = None
        if config.mode != "read":
            book = ledger.Ledger(config.data_dir / "ingest.sqlite", _now, max_answers=config.max_answers)
            stack.push_async_callback(book.close)
            await book.prepare()
            asked = answers.Answers(router, config.extract_model, book, meters, num_ctx=config.extract_num_ctx)
            stores = pipeline.Stores(book, graph_store, vector_store, content_store)
            pipe = pipeline.Pipeline(stores, asked, embedder, meters, _now, _limits(config))
            writers = lanes.Lanes(meters, width=config.lane_width, waiting=config.lane_waiting)
            writing = knowledge.Writing(pipe, writers)
            patience = timedelta(seconds=config.recovery_patience)
            sweeper = recovery.Recovery(book, pipe, writers, meters, _now, patience=patience)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            # A bug in the sweeper takes the process down: a restart is better than intents that nobody looks at.
            sweeping = group.create_task(sweeper.run(interval=config.recovery_interval))
            stack.callback(sweeping.cancel)
        reading = None
        if config.mode != "write":
            weights = rank.Weights(alpha=config.alpha)
            breadth = search.Breadth(hops=config.hops)
            reading = knowledge.Reading(search.Search(graph_store, vector_store, embedder, meters, weights, breadth))

        async def ask_router() -> None:
            # Whatever it answers, it answers: an Ollama without a router in front has no status page.
            with contextlib.suppress(errors.Permanent):
                await router.status()

        checks = {
            "graph": graph_store.ready,
            "weaviate": vector_store.ready,
            "mongodb": content_store.ready,
            "router": ask_router,
        }
        faces = app.Faces(
            writing,
            reading,
            content.Content(content_store, limit=config.max_content_bytes),
            health.Health(checks, meters),
        )
        application = app.build(faces, meters, max_body=config.max_body_bytes, version=wire.VERSION)
        await _listen(application, config)


def _graph(config: settings.Settings) -> graph.Store:
    if config.arango_url:
        # Imported where it is chosen: the driver and what it pulls in cost every other start a quarter of a second.
        from kb.graph import arango

        password = config.arango_password.get_secret_value()
        return arango.Store(config.arango_url, config.arango_database, config.arango_username, password)
    return graph_sqlite.Store(config.data_dir / "graph.sqlite")


def _limits(config: settings.Settings) -> pipeline.Limits:
    return pipeline.Limits(
        chunk_chars=config.chunk_chars,
        chunk_overlap=config.chunk_overlap,
        max_chars=config.max_chars,
        parallel=config.extract_parallel,
    )


async def _listen(application: web.Application, config: settings.Settings) -> None:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=config.shutdown_seconds)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await runner.setup()
    try:
        await web.TCPSite(runner, config.host, config.port).start()
        log.info("listening", addresses=[str(address) for address in runner.addresses], mode=config.mode)
        await stop.wait()
        log.info("stopping")
    finally:
        # Requests that run get shutdown_seconds; an ingest that is cut off stays open and is resumed.
        await runner.cleanup()


def main() -> int:
    """Exit status: 0 after a signal, 2 when the settings or the data on disk cannot work."""
    try:
        config = settings.Settings()
    except pydantic.ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = "_".join(["JERVIS_KB", *(str(part).upper() for part in problem["loc"])])
            sys.stderr.write(f"{name}: {problem['msg']}\n")
        return 2
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    status = 0
    try:
        uvloop.run(serve(config))
    except* (errors.JervisError, OSError) as group:
        # A taken port, a disk that cannot be written, data of another version: a sentence says more than a traceback.
        sys.stderr.writelines(f"the knowledge base cannot start: {error}\n" for error in group.exceptions)
        status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
