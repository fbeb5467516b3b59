"""One process of the knowledge base, put together and served until SIGTERM or SIGINT; `kb.__main__` gives the settings.

What the service stands on may be absent at the start, go away and come back: nothing here waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import prometheus_client
import structlog
from aiohttp import web

from clients import http as outward
from clients import liveruns, tls_trust
from codegraph.branch import analyst
from contracts import browsers, otel_spans
from contracts import problems as shared
from contracts.tokens import runtoken, token_file
from crds import errors
from kb import api, metrics, mongo, records, settings, sqlite
from kb import errors as kb_errors
from kb.agent import answering, decision_model, graph_tool, orchestrator, page_tools, retrieving, running, servers, tree
from kb.agent import store as agent_store
from kb.aliases import mongo as aliases_mongo
from kb.code import book as code_book
from kb.code import history as code_history
from kb.code import service
from kb.content import mongo as content_mongo
from kb.erasure import closed
from kb.extract import entity_types as registry
from kb.files import vision
from kb.graph import sqlite as graph_sqlite
from kb.graph import store as graph
from kb.links import patterns
from kb.memory import procedures, session, task, user
from kb.reindex import indexes, phase
from kb.retrieve import rank, rerank, search
from kb.rules import mongo as rules_mongo
from kb.service import assembly, workers
from kb.service.access import audit, rates
from kb.service.http import (
    access,
    agentic,
    app,
    atomic,
    code,
    content,
    entitytypes,
    exploring,
    health,
    knowledge,
    links,
    memory,
    pages,
    rules,
    starting,
    upkeep,
)
from kb.upkeep import check
from kb.vectors import dimensions, embedding, weaviate
from kb.vectors import store as vectors
from kb.vectors.weaviate import schema as weaviate_schema
from kb.visual import assembly as visual
from kb.visual import search as pages_search
from kb.visual import served as visual_served
from router import client as router_client

log = structlog.get_logger("kb")


def _now() -> datetime:
    return datetime.now(UTC)


async def serve(config: settings.Settings, worker: workers.Worker | None = None) -> None:
    """Run until a signal asks to stop, be it as one of several workers.

    Raises `kb.errors.Misconfigured`, `contracts.tokens.token_file.Unusable` or `kb.errors.Away` (own disk) at the
    start, OSError when the port is taken.
    """
    listening = workers.listening(config.host, config.port) if worker is None else worker.listening
    traced = otel_spans.start(config.tracing, "jervis-kb")
    meters = metrics.Metrics(prometheus_client.CollectorRegistry(), traced)
    for collector in (prometheus_client.ProcessCollector, prometheus_client.GCCollector):
        collector(registry=meters.registry)
    stop = asyncio.Event()
    opening = asyncio.current_task()

    def ask_to_stop() -> None:
        nonlocal opening
        stop.set()
        if opening is not None:
            # Nothing is served yet that would have to end in order.
            opening.cancel()
            opening = None

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
    if worker is not None:
        loop.add_reader(worker.parent, ask_to_stop)
    port = starting.Port(listening, config.shutdown_seconds)
    begun, moved = time.monotonic(), "its data is opened, or migrated to this version's form"

    def migrated(done: int, total: int) -> None:
        nonlocal moved
        moved = f"its data is migrated to this version's form: migrating {done} of {total} rows"

    def reason() -> kb_errors.Away:
        return kb_errors.Away("graph", f"{moved}, for {int(time.monotonic() - begun)} s now")

    try:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, traced.close)
            try:
                await port.serve(starting.application(reason, meters))
                addresses = await port.serve(await build(config, worker, meters, stack, migrated))
                opening = None
                # What exists now stays: a full collection would look at all of it, and every question would wait.
                gc.collect()
                gc.freeze()
                log.info("listening", addresses=addresses, mode=config.mode)
                await stop.wait()
                log.info("stopping")
            finally:
                # Requests that run get shutdown_seconds; an ingest that is cut off stays open and is resumed.
                await port.close()
    except asyncio.CancelledError:
        if not stop.is_set():
            raise


async def build(
    config: settings.Settings,
    worker: workers.Worker | None,
    meters: metrics.Metrics,
    stack: contextlib.AsyncExitStack,
    migrated: Callable[[int, int], None],
) -> web.Application:
    """Everything behind the port; it ends with `stack`. `migrated` receives (rows done, rows in all) of the graph."""
    config.data_dir.mkdir(parents=True, exist_ok=True)
    http = await stack.enter_async_context(
        httpx.AsyncClient(transport=router_client.transport(), event_hooks={"request": [otel_spans.pass_on]})
    )
    router = router_client.Client(
        str(config.router_url), http, token=router_client.token_file(config.router_token_file)
    )
    if config.mode != "read":
        stack.enter_context(sqlite.alone(config.data_dir))
    graph_store = _graph(config, migrated)
    stack.push_async_callback(graph_store.close)
    await graph_store.prepare()
    database = mongo.Database(config.mongodb_uri.get_secret_value(), config.mongodb_database)
    stack.push_async_callback(database.close)
    content_store = content_mongo.Store(database)
    book = session.Sessions(
        database,
        _now,
        lambda: uuid.uuid4().hex,
        life=timedelta(days=config.session_days),
    )
    more = [
        *rules.Rules(rules_mongo.Rules(database, _now)).routes(),
        *entitytypes.EntityTypes(registry.Mongo(database, _now)).routes(),
        *links.Patterns(patterns.Mongo(database, _now)).routes(),
        *memory.Memory(task.Tasks(database, _now), book, procedures.Procedures(database, _now)).routes(),
    ]
    others = await stack.enter_async_context(
        outward.client(tls=tls_trust.context(), seconds=visual_served.PAGE_SECONDS + 60)
    )
    seen = visual.ground(config, database, others, _now)
    stack.push_async_callback(seen.index.close)
    more += pages.Choosing(seen.choices, seen.book).routes()
    writing = None
    shut, kept = records.shut(config), await records.opened(config, database, _now, stack)
    made = _vectors(config, router, database, kept, meters)
    vector_store = made.store
    stack.push_async_callback(vector_store.close)
    if made.view is not None:
        await assembly.follow(made.view, meters, config, stack)
    known_code, analysts = code_book.Book(database, _now), analyst.Analyst(memory=config.code_memory_bytes)
    stack.callback(analysts.close)
    if config.mode != "read":
        ground = assembly.Ground(
            config,
            router,
            made,
            graph_store,
            content_store,
            database,
            meters,
            _now,
            shut,
            kept,
            known_code,
            analysts,
            seen,
        )
        writing, served = await assembly.writing(ground, stack)
        more += served
    reading = None
    if config.mode != "write":
        more += memory.Users(user.Users(graph_store, vector_store, meters)).routes()
        weights = rank.Weights(alpha=config.alpha)
        breadth = search.Breadth(hops=config.hops)
        names = aliases_mongo.Registry(database, _now)
        finder = search.Search(
            graph_store,
            vector_store,
            made.questions,
            meters,
            weights,
            breadth,
            names,
            instruction=made.instruction,
            reranker=_reranker(config, router, meters),
            threshold=config.answer_threshold,
        )
        reading = knowledge.Reading(finder)
        looks = visual.reading(seen, content_store, graph_store, vector_store, meters)
        more += pages.Searching(looks).routes()
        looking = exploring.Exploring(finder, graph_store, vector_store, names)
        more += looking.routes()
        asks = service.Questions(known_code, analysts)
        more += code.Code(asks, code_history.History(asks, graph_store)).routes()
        own: list[tree.Tool] = [
            retrieving.FastVectorSearchTool(finder, limit=config.agent_hits),
            graph_tool.GraphExploreTool(graph_store, vector_store, names),
            *_looking(config, router, looks, rules_mongo.Rules(database, _now), vector_store),
            retrieving.CodeSearchTool(asks, known_code),
        ]
        questions = _agent(config, router, own, looks, graph_store, database, shut, meters)
        stack.push_async_callback(questions.close)
        assembly.tended("questions", questions.run, meters, config, stack)
        more += agentic.Agentic(questions).routes()
        more += atomic.Searching(looking, rules_mongo.Rules(database, _now), meters).routes()
        if config.mode == "read":
            checker = check.Checker(graph_store, vector_store, assembly.working(kept))
            more += upkeep.Consistency(checker, kept.ledger, kept.ledger).routes()
            await assembly.watch_erasures(kept, shut, database, meters, _now, config, stack)

    both = made.indexes
    pairs = [(made.store, made.documents)] if both is None else [(i.store, i.embedder) for i in (both.new, both.before)]
    lengths = dimensions.Dimensions(pairs)
    assembly.tended("dimensions", lambda: lengths.run(interval=config.recovery_interval), meters, config, stack)

    async def ask_router() -> None:
        # Whatever it answers, it answers: an Ollama without a router in front has no status page.
        with contextlib.suppress(errors.Permanent):
            await router.status()

    figures = None
    if worker is not None:
        figures = workers.Figures(worker, meters.registry)
        await stack.enter_async_context(figures.shared())
    checks = {
        "graph": graph_store.ready,
        "weaviate": vector_store.ready,
        "mongodb": database.ping,
        "router": ask_router,
        "embedding": lengths.ready,
    }
    faces = app.Faces(
        writing,
        reading,
        content.Content(content_store, limit=config.max_content_bytes),
        # Pods of the other modes begin to serve by it. Rules and memories need no model, and the rest says 503.
        health.Health(
            checks,
            meters,
            lenient=() if config.mode == "all" else ("router",),
            figures=None if figures is None else figures.text,
        ),
        more,
    )
    tokens = token_file.Book(Path(config.tokens_file)) if config.tokens_file else None
    limits = rates.Rates(config.client_rate, config.client_burst)
    gate = access.Gate(tokens, limits, time.monotonic, shut, _verifier(config, stack))
    trail = None
    if config.audit != "off":
        # Not the log: what is asked for is written whatever the log's level is.
        trail = audit.Trail(structlog.PrintLogger(sys.stderr).msg, _now, reads=config.audit == "all")
    return app.build(
        faces,
        meters,
        max_body=config.max_body_bytes,
        version=api.VERSION,
        gate=gate,
        trail=trail,
        pages=shared.Pages(
            # Where each caller shows a token, a name that was made to lead here opens nothing.
            browsers.Hosts(config.allowed_hosts) if config.allowed_hosts or not config.tokens_file else None,
            browsers.Origins(config.origins),
            "JERVIS_KB",
        ),
        buffered=config.max_buffered_bytes,
    )


def _vectors(
    config: settings.Settings,
    router: router_client.Client,
    database: mongo.Database,
    kept: records.Records,
    meters: metrics.Metrics,
) -> assembly.Vectors:
    """One index, or two while one embedding model takes the place of another."""

    def index(model: embedding.Model, instruction: str, beside: str = "") -> indexes.Index:
        store = weaviate.Store(
            str(config.weaviate_url),
            config.weaviate_grpc_port,
            model.identity,
            index=config.index,
            api_key=config.weaviate_api_key.get_secret_value(),
            folded=config.fold_diacritics,
            beside=beside,
            layout=_layout(config),
        )
        passages, questions = (embedding.Embedder(router, model, meters, prefixed=one) for one in (True, False))
        return indexes.Index(store, passages, questions, instruction)

    model = embedding.Model(config.embed_model, config.embed_passage_prefix, config.embed_window)
    before = embedding.Model(config.embed_model_before, config.embed_passage_prefix_before)
    book = phase.Book(database, config.index, _now)
    new = index(model, config.embed_query_instruction, before.identity if before.name else "")
    if not before.name:
        return assembly.Vectors(new.store, new.embedder, new.questions, new.instruction, book)
    view = phase.View(
        book, before.identity, model.identity, kept.places, time.monotonic, known_for=records.known_for(config)
    )
    old = index(before, config.embed_query_instruction_before, model.identity)
    both = indexes.Indexes(old, new, view)
    questions = indexes.Questions(both)
    return assembly.Vectors(both, indexes.Documents(both), questions, questions.instruction, book, view, both)


def _verifier(config: settings.Settings, stack: contextlib.AsyncExitStack) -> runtoken.Verifier | None:
    if not config.run_token_keys:
        return None
    runs = liveruns.opened(
        config.run_token_keys, config.live_runs_url, runtoken.KNOWLEDGE_BASE, monotonic=time.monotonic, wall=_now
    )
    if runs.follow is not None:
        stack.callback(asyncio.create_task(runs.follow()).cancel)
    return runs.verifier


def _reranker(config: settings.Settings, router: router_client.Client, meters: metrics.Metrics) -> rerank.Reranker:
    if not config.rerank_model:
        return rerank.Nothing()
    return rerank.CrossEncoder(
        router,
        config.rerank_model,
        meters,
        seconds=config.rerank_seconds,
        chars=config.rerank_chars,
    )


def _looking(
    config: settings.Settings,
    router: router_client.Client,
    looks: pages_search.Search,
    in_force: rules_mongo.Rules,
    vector_store: vectors.Store,
) -> list[tree.Tool]:
    """The agent's tools for pages."""

    def asking_model(model: str) -> decision_model.DecisionModel:
        return decision_model.DecisionModel(
            router, model, asyncio.sleep, num_ctx=config.window(model), setting="models.vision"
        )

    choices = [vision.Choice(one.images, one.bytes, asking_model(one.model)) for one in config.vision_models]
    usual = asking_model(config.vision_model)
    return [
        page_tools.ColQwenSearchTool(looks),
        page_tools.VisualInterpretationTool(
            looks,
            lambda sizes: vision.chosen(usual, choices, sizes),
            in_force,
            functools.partial(vectors.text, vector_store),
            pages=config.agent_interpreted,
            pixels=config.visual_pixels,
        ),
    ]


def _agent(
    config: settings.Settings,
    router: router_client.Client,
    own: list[tree.Tool],
    looks: pages_search.Search,
    graph_store: graph.Store,
    database: mongo.Database,
    shut: closed.Closed,
    meters: metrics.Metrics,
) -> running.Questions:
    model = decision_model.DecisionModel(
        router, config.decision_model, asyncio.sleep, num_ctx=config.window(config.decision_model)
    )
    tools: list[tree.Tool] = [
        *own,
        retrieving.RulesTool(),
        answering.TextResponseTool(model),
        answering.SummarizeTool(model),
    ]
    limits = orchestrator.Limits(config.agent_iterations, config.agent_tokens, enough=config.agent_enough)

    beside = servers.Servers(config.agent_servers, time.monotonic) if config.agent_servers else None

    def fresh_id() -> str:
        return uuid.uuid4().hex

    days = timedelta(days=config.agent_days)
    return running.Questions(
        orchestrator.AgentOrchestrator(tools, model, meters, time.monotonic, limits=limits, beside=beside, pages=looks),
        rules_mongo.Rules(database, _now),
        agent_store.Streams(database, _now, shut),
        agent_store.Conversations(database, _now, shut, fresh_id, life=days),
        meters,
        _now,
        fresh_id,
        asyncio.sleep,
        graph_store.committed,
        bounds=running.Bounds(config.agent_seconds, config.agent_parallel),
        pages=looks.visible,
    )


def _layout(config: settings.Settings) -> weaviate_schema.Layout:
    return weaviate_schema.Layout(
        config.weaviate_index,
        config.weaviate_sentence_index,
        config.weaviate_quantization,
        config.weaviate_ef,
        config.weaviate_ef_construction,
        config.weaviate_max_connections,
        config.weaviate_dynamic_threshold,
        config.weaviate_replicas,
    )


def _graph(config: settings.Settings, migrated: Callable[[int, int], None]) -> graph.Store:
    if config.arango_url:
        # Imported where it is chosen: the driver and what it pulls in cost every other start a quarter of a second.
        from kb.graph import arango

        password = config.arango_password.get_secret_value()
        cluster = arango.Cluster(config.arango_shards, config.arango_replication, config.arango_write_concern)
        return arango.Store(
            config.arango_url,
            config.arango_database,
            config.arango_username,
            password,
            cluster=cluster,
            seconds=config.read_seconds,
        )
    return graph_sqlite.Store(config.data_dir / "graph.sqlite", seconds=config.read_seconds, migrated=migrated)
