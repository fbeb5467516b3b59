"""A knowledge base put together for a test: real pipeline, real files, simulated models, stores as the test chooses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from crds import scope
from crds.priority import Priority
from kb import api, metrics, mongo
from kb.aliases import merge, registry
from kb.content import store as content
from kb.erasure import closed
from kb.extract import answers, entity_types
from kb.extract.qualifier import image_reading
from kb.files import vision
from kb.graph import sqlite as graph_sqlite
from kb.ingest import document, intake, lanes, pipeline, recovery, sqlite
from kb.ingest import mongo as shared
from kb.queue import mongo as queue_shared
from kb.queue import sqlite as queue_sqlite
from kb.queue import worker
from kb.retrieve import rank, search
from kb.rules import enforce
from kb.upkeep import check, reconcile
from kb.vectors import embedding
from kb.vectors import store as vectors
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes

T = TypeVar("T")
MAIL = """From: Jana Novak <jana@acme.com>
To: Core Team <core@acme.com>

Please fix the login bug JERV-123 by 2026-04-15. The issue affects UserService.kt.
Petr Svoboda wrote UserService.kt last year.

jira:JERV-123|AFFECTS|file:UserService.kt
"""
LONG = "\n\n".join(
    f"Petr Svoboda wrote module{number}.py for Globex. " + f"Filler sentence number {number} follows here. " * 6
    for number in range(12)
)


def request(
    text: str = MAIL, *, owner: scope.Scope = scopes.SHOP, urn: str = "email::<m1@acme.com>", **more: Any
) -> api.IngestRequest:
    """A mail from the shop project unless told otherwise."""
    filled = {"kind": "email", "title": "Login bug", "team": ["Core Team"], "content": text} | more
    return api.IngestRequest(scope=owner, source_urn=urn, **filled)


def costless(reply: api.IngestReply) -> api.IngestReply:
    """Without what it has cost, which is another one each time."""
    assert reply.qualification is not None
    free = reply.qualification.model_copy(update={"metrics": api.ProcessingMetrics()})
    return reply.model_copy(update={"qualification": free})


_DEFAULT = search.Breadth()


@dataclass
class ObservedState:
    """Everything, within reach."""

    pipeline: pipeline.Pipeline
    finder: Callable[[search.Breadth], search.Search]
    recovery: recovery.Recovery
    ledger: sqlite.Ledger | shared.Ledger
    graph: graph_sqlite.Store
    vectors: vectors.Store
    content: content.Store
    queue: queue_sqlite.Queue | queue_shared.Queue
    workers: worker.Workers
    intake: intake.Intake
    merger: merge.Merger
    answers: answers.Answers
    aliases: registry.Registry
    shut: closed.Closed
    embedder: embedding.Port
    clock: clocks.Clock
    meters: metrics.Metrics

    @property
    def switch(self) -> memory.Switch:
        """That of the vectors, which are in memory."""
        assert isinstance(self.vectors, memory.Vectors)
        return self.vectors.switch

    async def ingest(self, document: api.IngestRequest) -> api.IngestReply:
        """In the background's priority."""
        return await self.pipeline.ingest(document, Priority.P3)

    async def ask(
        self,
        query: str,
        viewer: scope.Scope = scopes.SHOP,
        breadth: search.Breadth = _DEFAULT,
        **more: Any,
    ) -> api.RetrieveReply:
        """Retrieve for a viewer."""
        question = api.RetrieveRequest(scope=viewer, query=query, **more)
        return await self.finder(breadth).retrieve(question, Priority.P3)

    async def triples(self, viewer: scope.Scope = scopes.SHOP) -> set[tuple[str, str, str]]:
        """The edges that a viewer can see: source, type and target."""
        edges = (proven.edge for proven in await self.graph.edges(viewer))
        return {(edge.source, edge.type, edge.target) for edge in edges}

    async def worked(self) -> None:
        """Do all jobs of the queue that are due."""
        while await self.workers.step() is not None:
            pass

    async def state(self, viewer: scope.Scope = scopes.SHOP) -> object:
        """Everything that a viewer can see, in an order that does not depend on how it came about."""
        return (
            await self.graph.counts(viewer),
            await self.graph.edges(viewer),
            await self.vectors.counts(viewer),
        )


@asynccontextmanager
async def opened(
    path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    vector_store: vectors.Store,
    content_store: content.Store,
    aliases: registry.Registry | None = None,
    types: entity_types.Registry | None = None,
    *,
    rules: enforce.Port | None = None,
    documents: embedding.Port | None = None,
    questions: embedding.Port | None = None,
    watched: Callable[[Any], Any] = lambda inner: inner,
    database: mongo.Database | None = None,
    tools: bool = False,
    fast: str = "",
    derived: document.Derived | None = None,
    **limits: int,
) -> AsyncIterator[ObservedState]:
    """A world whose files live in `path`: opening it again there is a restart of the process.

    Every store, and the router, is used through what `watched` makes of it. With a database the ledger and the queue
    are there; no claim of a process outlives it, because time does not pass between one and the next.
    """
    bounds, claim = {"limit": 20_000, "per_client": 15_000}, timedelta(0)
    files = (
        sqlite.Ledger(path / "ingest.sqlite", clock, max_answers=1000)
        if database is None
        else shared.Ledger(database, clock, max_answers=1000),
        graph_sqlite.Store(path / "graph.sqlite"),
        queue_sqlite.Queue(path / "queue.sqlite", clock, **bounds)
        if database is None
        else queue_shared.Queue(database, "kb-0", clock, claim=claim, **bounds),
    )
    for file in files:
        await file.prepare()
    ledger, graph, queue = (watched(file) for file in files)
    names = watched(registry.Nothing() if aliases is None else aliases)
    vector_store, content_store, router = watched(vector_store), watched(content_store), watched(router)
    shut = closed.Closed()
    embedder = documents or embedding.Embedder(router, "qwen3-embedding:8b", meters)
    asked = answers.Answers(router, "qwen2.5:7b", ledger, meters)
    pipe = pipeline.Pipeline(
        document.Stores(
            ledger,
            ledger,
            graph,
            vector_store,
            content_store,
            queue,
            names,
            shut,
            types=types or entity_types.Nothing(),
            rules=rules or enforce.Nothing(),
            derived=derived or document.NothingDerived(),
        ),
        asked,
        embedder,
        meters,
        clock,
        document.Limits(tools=tools, **limits),
        image_reading.Eyes(
            vision.Models(answers.Answers(router, "qwen2.5:7b", ledger, meters)), content_store, 1 << 20
        ),
        answers.Answers(router, fast, ledger, meters, num_ctx=2048) if fast else None,
    )
    writers = lanes.Lanes(meters)
    workers = worker.Workers(queue, pipe, meters, clock)
    patience = timedelta(seconds=120)

    def finder(breadth: search.Breadth) -> search.Search:
        return search.Search(graph, vector_store, questions or embedder, meters, rank.Weights(), breadth, names)

    try:
        yield ObservedState(
            pipe,
            finder,
            recovery.Recovery(ledger, pipe, writers, meters, clock, patience=patience),
            ledger,
            graph,
            vector_store,
            content_store,
            queue,
            workers,
            intake.Intake(pipe, writers, workers.wake),
            merge.Merger(names, graph, queue, clock, workers.wake),
            asked,
            names,
            shut,
            embedder,
            clock,
            meters,
        )
    finally:
        for file in files:
            await file.close()


def reconciler(
    kb: ObservedState,
    *,
    turn: reconcile.Turn | None = None,
    graph: Any = None,
    vectors: Any = None,
    working: check.Working | None = None,
) -> reconcile.Reconciler:
    """As the process that writes has it, but for what is given."""
    graph, vectors = graph or kb.graph, vectors or kb.vectors
    checker = check.Checker(graph, vectors, working or kb.pipeline.working)
    stores, own = (graph, vectors, kb.content), (turn or kb.pipeline.turn, kb.ledger.working)
    return reconcile.Reconciler(
        checker, *stores, kb.embedder, *own, kb.ledger, (kb.ledger, kb.queue), kb.meters, kb.clock
    )


async def idle(document_ids: Collection[str]) -> set[str]:
    """No document is in work: what `kb.upkeep.check.Checker` asks, of a test that has written everything."""
    return set()


async def broken_off(kb: ObservedState, call: Awaitable[object]) -> None:
    """Let the call meet a vector store, the one in memory, that is away."""
    vectors: Any = kb.vectors  # of stores around the one in memory, too
    await vectors.switch.refuse(call)


@asynccontextmanager
async def stalled(
    fake: process.Fake,
    call: Coroutine[Any, Any, T],
    *,
    nth: int | None = None,
    also: Sequence[Mapping[str, Any]] = (),
    **match: str,
) -> AsyncIterator[asyncio.Task[T]]:
    """A call that waits for the answer to its `nth` request of a model that is like `match`, or to each: it goes on at
    the end of the block.

    `also` are faults that come before that one.
    """
    gate, before = str(uuid.uuid4()), fake.count(**match)
    stall = {"match": match, "stall": {"afterBytes": 0, "gate": gate}}
    fake.set_faults([*also, stall if nth is None else stall | {"nth": nth}])
    calling = asyncio.create_task(call)
    try:
        await waiting.eventually(lambda: fake.count(**match) >= before + (nth or 1))
        yield calling
    finally:
        await asyncio.to_thread(fake.open_gate, gate)
        await asyncio.gather(calling, return_exceptions=True)
        fake.set_faults([])


@dataclass(frozen=True)
class Opening:
    """Opens worlds of one test: `opened` with its folder, router, clock and meters, and stores in memory."""

    path: Path
    router: router_client.Client
    clock: clocks.Clock
    meters: metrics.Metrics

    def __call__(
        self,
        vector: vectors.Store | None = None,
        text: content.Store | None = None,
        aliases: registry.Registry | None = None,
        *,
        within: str = "",
        **more: Any,
    ) -> AbstractAsyncContextManager[ObservedState]:
        """A world whose files lie in the test's folder, or in `within` there."""
        path = self.path / within
        path.mkdir(exist_ok=True)
        stores = (vector or memory.Vectors(), text or memory.Content(), aliases)
        return opened(path, self.router, self.clock, self.meters, *stores, **more)
