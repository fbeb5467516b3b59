"""One process of the knowledge base, put together and served until SIGTERM or SIGINT; `kb.__main__` gives the settings.

What the service stands on may be absent at the start, go away and come back: nothing here waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import prometheus_client
import structlog
from aiohttp import web

from crds import errors, keyring, runtoken, spans
from kb import assembly, metrics, mongo, settings, wire
from kb.access import grants, rates
from kb.content import mongo as content_mongo
from kb.erasure import closed
from kb.graph import sqlite as graph_sqlite
from kb.graph import store as graph
from kb.http import access, app, content, exploring, health, knowledge, memory, rules, upkeep
from kb.memory import procedures, session, task, user
from kb.retrieve import rank, search
from kb.rules import mongo as rules_mongo
from kb.upkeep import check
from kb.vectors import embedding, weaviate
from router import client as router_client

log = structlog.get_logger("kb")


def _now() -> datetime:
    return datetime.now(UTC)


async def serve(config: settings.Settings) -> None:
    """Run until a signal asks to stop. Raises `kb.errors.Misconfigured` or `kb.errors.Away` (own disk) at the start."""
    traced = spans.start(config.tracing, "jervis-kb")
    meters = metrics.Metrics(prometheus_client.CollectorRegistry(), traced)
    for collector in (prometheus_client.ProcessCollector, prometheus_client.GCCollector):
        collector(registry=meters.registry)
    config.data_dir.mkdir(parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, traced.close)
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=router_client.transport(), event_hooks={"request": [spans.pass_on]})
        )
        router = router_client.Client(
            str(config.router_url), http, token=router_client.token_file(config.router_token_file)
        )
        embedder = embedding.Embedder(router, config.embed_model, meters)
        graph_store = _graph(config)
        stack.push_async_callback(graph_store.close)
        await graph_store.prepare()
        vector_store = weaviate.Store(
            str(config.weaviate_url), config.weaviate_grpc_port, config.embed_model, index=config.index
        )
        stack.push_async_callback(vector_store.close)
        content_store = content_mongo.Store(config.mongodb_uri.get_secret_value(), config.mongodb_database)
        stack.push_async_callback(content_store.close)

        database = mongo.Database(config.mongodb_uri.get_secret_value(), config.mongodb_database)
        stack.push_async_callback(database.close)
        book = session.Sessions(
            database,
            _now,
            lambda: uuid.uuid4().hex,
            life=timedelta(days=config.session_days),
            most=config.session_entries,
        )
        more = [
            *rules.Rules(rules_mongo.Rules(database, _now)).routes(),
            *memory.Memory(task.Tasks(database, _now), book, procedures.Procedures(database, _now)).routes(),
        ]
        writing = None
        shut = closed.Closed()
        if config.mode != "read":
            ground = assembly.Ground(
                config, router, embedder, graph_store, vector_store, content_store, database, meters, _now, shut
            )
            writing, served = await assembly.writing(ground, stack)
            more += served
        reading = None
        if config.mode != "write":
            more += memory.Users(user.Users(graph_store, vector_store, meters)).routes()
            weights = rank.Weights(alpha=config.alpha)
            breadth = search.Breadth(hops=config.hops)
            finder = search.Search(graph_store, vector_store, embedder, meters, weights, breadth)
            reading = knowledge.Reading(finder)
            more += exploring.Exploring(finder, graph_store, vector_store).routes()
            if config.mode == "read":
                # What is still being ingested only a process that writes knows.
                checker = check.Checker(graph_store, vector_store, check.nobody)
                more += upkeep.Consistency(checker, None).routes()

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
            more,
        )
        tokens = grants.Book(Path(config.tokens_file)) if config.tokens_file else None
        limits = rates.Rates(config.client_rate, config.client_burst)
        gate = access.Gate(tokens, limits, time.monotonic, shut, _verifier(config))
        application = app.build(faces, meters, max_body=config.max_body_bytes, version=wire.VERSION, gate=gate)
        await _listen(application, config)


def _verifier(config: settings.Settings) -> runtoken.Verifier | None:
    if not config.run_token_keys:
        return None
    keys = keyring.Keyring(Path(config.run_token_keys), time.monotonic)
    return runtoken.Verifier(keys, _now, runtoken.KNOWLEDGE_BASE)


def _graph(config: settings.Settings) -> graph.Store:
    if config.arango_url:
        # Imported where it is chosen: the driver and what it pulls in cost every other start a quarter of a second.
        from kb.graph import arango

        password = config.arango_password.get_secret_value()
        return arango.Store(config.arango_url, config.arango_database, config.arango_username, password)
    return graph_sqlite.Store(config.data_dir / "graph.sqlite")


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
