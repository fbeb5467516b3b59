"""A process that does one operation and is killed at a chosen call: `victim.py ARGUMENTS`.

Arguments are one JSON object: the folder of the SQLite files, the simulator's URL, the operation and its text, and the
number of the call before which SIGKILL comes (0: never). With Weaviate's place and index that is the vector store, else
one in memory that lies in the folder. With MongoDB's URI and `records`, the name of a database, the ledger and the
queue are there; `erase` and `enrich` need the URI and the `name` of one. The names of the calls, in order, are left in
the folder's file `calls`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import prometheus_client

from codegraph import api as code_api
from codegraph.branch import analyst
from codegraph.extract import budget
from crds import errors
from crds.priority import Priority
from kb import api, metrics, mongo
from kb.client import resources
from kb.code import book as branches
from kb.crawl import address
from kb.erasure import book, eraser, holdings, places, watch
from kb.service.http import problems
from kb.upkeep import check, reconcile
from kb.vectors import store as vectors
from kb.vectors import weaviate
from router import client as router_client
from tests import waiting
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.aliases import memory as aliases
from tests.kb.crawl import site as sites
from tests.kb.service import whole
from tests.kb.writers import victim as writers
from tests.nursery import children

FILE = Path(__file__)
MOVED = scopes.make("acme", "shop", "wholesale")


@asynccontextmanager
async def opened(
    folder: Path,
    router: router_client.Client,
    vector_store: vectors.Store | None = None,
    watched: Callable[[Any], Any] = lambda inner: inner,
    database: mongo.Database | None = None,
) -> AsyncIterator[world.ObservedState]:
    """The world of one process: all that the processes before it have left in `folder`, and in the database."""
    clock, meters = clocks.Clock(), metrics.Metrics(prometheus_client.CollectorRegistry())
    held: Any = memory.Kept(folder / "vectors", memory.Vectors()) if vector_store is None else vector_store
    content: Any = memory.Kept(folder / "content", memory.Content())
    names: Any = memory.Kept(folder / "aliases", aliases.Registry(clock))
    stores = (held, content, names)
    # One passage after the other, so that the calls come in one order.
    made = world.opened(
        folder, router, clock, meters, *stores, watched=watched, database=database, chunk_chars=900, parallel=1
    )
    async with made as kb:
        yield kb


def reconciler(kb: world.ObservedState) -> reconcile.Reconciler:
    """As the process that writes has it."""
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    checker = check.Checker(kb.graph, kb.vectors, kb.pipeline.working)
    turn, working = kb.pipeline.turn, kb.ledger.working
    return reconcile.Reconciler(
        checker,
        kb.graph,
        kb.vectors,
        kb.content,
        kb.embedder,
        turn,
        working,
        kb.ledger,
        (kb.ledger, kb.queue),
        meters,
        kb.clock,
    )


def erasing(
    kb: world.ObservedState, database: mongo.Database, watched: Callable[[Any], Any] = lambda inner: inner
) -> tuple[eraser.Eraser, watch.Watch]:
    """What erases scopes in a process with files of its own, and what closes them."""
    clock, meters = clocks.Clock(), metrics.Metrics(prometheus_client.CollectorRegistry())
    records = watched(book.Book(database, clock))
    place = watched(places.Places(database, "files", "Files", "kb-0", clock, lambda: 0.0))
    closes = watch.Watch(records, kb.shut, place, (kb.queue, kb.ledger), meters, lambda: 0.0)
    others = {name: watched(one) for name, one in holdings.of(database).items()}
    drop = kb.pipeline.drop
    return eraser.Eraser(records, closes, place, kb.graph, kb.vectors, drop, others, meters), closes


async def enrich(kb: world.ObservedState, known: branches.Book, text: str) -> None:
    """Put what Joern says beside the structure of a branch that `known` has, in one request."""
    analysts = analyst.Analyst()
    works = kb.pipeline.structures(known, analysts, budget.Budget())
    await works.enrich(code_api.Cpg.model_validate_json(text), Priority.P3, problems.code)
    analysts.close()


async def worked(kb: world.ObservedState) -> None:
    """Do all jobs of the queue that are due."""
    await kb.worked()


async def _ingest(kb: world.ObservedState, text: str) -> None:
    await kb.pipeline.ingest(world.request(text), Priority.P3)


async def _index(kb: world.ObservedState, text: str) -> None:
    await kb.pipeline.index(world.request(text), Priority.P3)


async def _perform(kb: world.ObservedState, text: str) -> None:
    await kb.worked()


async def _reweave(kb: world.ObservedState, text: str) -> None:
    alias, _, canonical = text.partition("=")
    await kb.merger.merge(scopes.ACME, alias, canonical, "jana")
    await kb.worked()


async def _regroup(kb: world.ObservedState, text: str) -> None:
    await reconciler(kb).regroup(MOVED)


@asynccontextmanager
async def _learning(kb: world.ObservedState) -> AsyncIterator[resources.Learning]:
    """The service's routes, by its client."""
    judge = address.Judge(["127.0.0.0/8"], sites.everything_here)
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    async with whole.over(kb, meters, kb.clock, judge=judge) as (kb_client, _):
        yield kb_client.learning


async def _store(kb: world.ObservedState, text: str) -> None:
    async with _learning(kb) as learning:
        await learning.store(api.Knowledge.model_validate_json(text))


async def _crawl(kb: world.ObservedState, text: str) -> None:
    """Of a site that has nothing any more."""
    async with sites.served(urlsplit(text).port or 0), _learning(kb) as learning:
        await learning.crawl(api.Crawl(scope=scopes.SHOP, url=text, depth=1))


async def _forget(kb: world.ObservedState, text: str) -> None:
    await kb.pipeline.forget(scopes.SHOP, text)


OPERATIONS: Mapping[str, Callable[[world.ObservedState, str], Awaitable[None]]] = {
    "ingest": _ingest,
    "index": _index,
    "perform": _perform,
    "reweave": _reweave,
    "regroup": _regroup,
    "forget": _forget,
    "store": _store,
    "crawl": _crawl,
}


def run(place: Mapping[str, Any], folder: Path, operation: str, text: str, deadly: int = 0) -> list[str]:
    """Let a process do it; the names of its calls, none when it was killed. Anything else is an error of the test."""
    asked = {**place, "folder": str(folder), "operation": operation, "text": text, "deadly": deadly}
    log, calls = folder / "log", folder / "calls"
    calls.unlink(missing_ok=True)
    code = children.of(str(FILE)).start(dict(os.environ), log, [json.dumps(asked)]).wait(waiting.PATIENCE)
    assert code == (-signal.SIGKILL if deadly else 0), log.read_text()
    return [] if deadly else list(json.loads(calls.read_text()))


async def main(asked: dict[str, Any]) -> list[str]:
    """Do the operation, which may fail for good; the names of the calls of stores and models."""
    calls: list[str] = []

    def before(name: str) -> None:
        calls.append(name)
        if len(calls) == asked["deadly"]:
            os.kill(os.getpid(), signal.SIGKILL)

    async with AsyncExitStack() as stack:
        held = None
        if "weaviate" in asked:
            held = weaviate.Store(asked["weaviate"], asked["grpc"], asked["index"], index=asked["index"])
            stack.push_async_callback(held.close)
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False))
        router = router_client.Client(asked["ollama"], http)
        folder = Path(asked["folder"])
        records = mongo.Database(asked["mongodb"], asked["records"]) if "records" in asked else None
        if records is not None:
            stack.push_async_callback(records.close)
        kb = await stack.enter_async_context(
            opened(folder, router, held, lambda inner: writers.Watched(inner, before), records)
        )
        if asked["operation"] == "erase":
            database = mongo.Database(asked["mongodb"], asked["name"])
            stack.push_async_callback(database.close)
            works, _ = erasing(kb, database, lambda inner: writers.Watched(inner, before))
            await works.ask(scopes.SHOP, "jana")
            while not await works.step():
                pass
            return calls
        if asked["operation"] == "enrich":
            database = mongo.Database(asked["mongodb"], asked["name"])
            stack.push_async_callback(database.close)
            known: Any = writers.Watched(branches.Book(database, kb.clock), before)
            await enrich(kb, known, asked["text"])
            return calls
        with contextlib.suppress(errors.Permanent):
            await OPERATIONS[asked["operation"]](kb, asked["text"])
    return calls


if __name__ == "__main__":
    ASKED = json.loads(sys.argv[1])
    (Path(ASKED["folder"]) / "calls").write_text(json.dumps(asyncio.run(main(ASKED))))
