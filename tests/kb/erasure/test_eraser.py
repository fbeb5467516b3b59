"""A scope that is erased is as if nobody had ever told anything about it, whatever breaks off in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from crds import leftovers, scope
from crds.priority import Priority
from kb import client, errors, metrics, mongo, writing
from kb.aliases import mongo as aliases_mongo
from kb.content import mongo as content_mongo
from kb.erasure import book, eraser, holdings
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.http import whole

pytestmark = pytest.mark.services

WHERE = [
    pytest.param(scopes.ACME, id="client"),
    pytest.param(scopes.SHOP, id="project"),
    pytest.param(scopes.RETAIL, id="group"),
]
OWNERS = (scopes.ACME, scopes.SHOP, scopes.BLOG, scopes.RETAIL, scopes.OTHER, scopes.GLOBAL)
STEP = writing.Step(agent="a", action="b")


def made(
    kb: world.ObservedState,
    database: mongo.Database,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    drop: eraser.Drop | None = None,
) -> eraser.Eraser:
    others: dict[str, holdings.Holding] = {**holdings.of(database)}
    if isinstance(kb.content, content_mongo.Store):
        others["contents"] = kb.content
    return eraser.Eraser(
        book.Book(database, clock),
        kb.shut,
        kb.graph,
        kb.vectors,
        drop or kb.pipeline.drop,
        (kb.queue, kb.ledger),
        others,
        meters,
        clock,
        settle=timedelta(seconds=10),
    )


@asynccontextmanager
async def opened(
    path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    vectors: memory.Vectors,
    content: content_mongo.Store,
    database: mongo.Database,
) -> AsyncIterator[world.ObservedState]:
    aliases = aliases_mongo.Registry(database, clock)
    async with world.opened(path, router, clock, meters, vectors, content, aliases=aliases) as kb:
        yield kb


@pytest.fixture
async def kb(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
    mongo_store: content_mongo.Store,
) -> AsyncIterator[world.ObservedState]:
    async with opened(tmp_path, router, clock, meters, memory.Vectors(), mongo_store, database) as opened_world:
        yield opened_world


async def fill(kb: world.ObservedState, door: client.Client, owner: scope.Scope) -> None:
    """One of everything that a scope can own."""
    await kb.ingest(world.request(owner=owner))
    await door.learning.index(world.request("Jana Novak likes tea. " * 20, owner=owner, urn="note::1"))
    await kb.content.save(owner, f"a file of {owner}".encode(), "text/plain")
    draft = {"scope": owner, "rule_key": "r", "rule_type": "CUSTOM", "rule_content": "Be kind.", "created_by": "jana"}
    await door.rules.put(writing.RuleDraft.model_validate(draft))
    await door.memory.remember(writing.SessionDraft(scope=owner, source="chat", summary="said", id="e1"))
    if owner.client_id:
        way = writing.ProcedureDraft(client_id=owner.client_id, trigger_pattern="t", procedure_steps=[STEP])
        await door.memory.save_procedure(way)
        await door.aliases.merge(writing.Merge(scope=owner, alias="person:jana", canonical="person:jana novak"))


async def keep_tasks(database: mongo.Database, owner: scope.Scope) -> None:
    """What the operator and its runs keep of three tasks: one archived, one that runs, one that was only qualified."""
    spec = {name: value for name, value in mongo.names(owner).items() if value}
    for uid, seen in (("archived", ("m", "r", "a")), ("running", ("m", "r")), ("qualified", ("m",))):
        own = f"{uid} {owner}"
        if "m" in seen:
            await database[leftovers.MEMORY].insert_one({"_id": own, "scope": mongo.names(owner), "content": "secret"})
        for collection, field in leftovers.OF_RUNS.items() if "r" in seen else ():
            if collection != leftovers.MEMORY:
                await database[collection].insert_one({"_id": own, field: own, "content": "secret"})
        if "a" in seen:
            archived = {"_id": own, "clientId": owner.client_id, "object": {"spec": spec}, "result": "secret"}
            await database[leftovers.ARCHIVE].insert_one(archived)


async def of_tasks(database: mongo.Database, owner: scope.Scope) -> int:
    """How many documents there are of these."""
    mine = {"$in": [f"{uid} {owner}" for uid in ("archived", "running", "qualified")]}
    return sum(
        [await database[name].count_documents({"_id": mine}) for name in (*leftovers.OF_RUNS, leftovers.ARCHIVE)]
    )


async def owned(kb: world.ObservedState, database: mongo.Database, owner: scope.Scope) -> dict[str, object]:
    """What there is of exactly this owner, wherever it is kept."""
    page, _ = await kb.graph.audit(owner.client_id, limit=1000)
    chunks, _ = await kb.vectors.audit(owner.client_id, limit=1000)
    lines, _ = await kb.vectors.audit_sentences(owner.client_id, limit=1000)
    names = mongo.names(owner)
    found: dict[str, object] = {
        "graph": sum(row.owner == owner for row in page),
        "chunks": sum(row.owner == owner for row in chunks),
        "sentences": sum(row.owner == owner for row in lines),
        "jobs": sum(one.owner == owner for one in (await kb.queue.listed(owner, limit=1000))[0]),
        "contents": await database["content.files"].count_documents({f"metadata.{k}": v for k, v in names.items()}),
        "procedures": await database["procedures"].count_documents({"clientId": owner.client_id}),
        "session": await database["session_memory"].count_documents(
            {"clientId": owner.client_id, "projectId": owner.project_id}
        ),
    }
    for collection in ("clientProjectRules", "graph_entity_registry"):
        found[collection] = await database[collection].count_documents(names)
    found["tasks"] = await of_tasks(database, owner)
    return found


async def finished(works: eraser.Eraser, clock: clocks.Clock) -> None:
    await works.step()
    clock.advance(seconds=11)
    assert await works.step() == 1


@pytest.mark.parametrize("where", WHERE)
async def test_erased_equals_never_told(
    kb: world.ObservedState,
    database: mongo.Database,
    mongo_store: content_mongo.Store,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    where: scope.Scope,
) -> None:
    works = made(kb, database, meters, clock)
    async with whole.over(kb, meters, clock, database=database, works=works) as (door, _):
        for owner in OWNERS:
            await fill(kb, door, owner)
            if not owner.is_global:
                await keep_tasks(database, owner)
        before = {owner: await owned(kb, database, owner) for owner in OWNERS}
        said = await door.erasing.ask(where, "jana")
        assert (said.state, said.requested_by, said.scope) == ("Running", "jana", where)
        assert (await door.erasing.ask(where, "petr")).id == said.id
        with pytest.raises(client.Unavailable, match="being erased") as caught:
            await door.learning.index(world.request(owner=where, urn="late"))
        assert caught.value.retry_after == 10
        await finished(works, clock)
        [done] = await door.erasing.listed(where)
        assert (done.state, done.id, done.reason) == ("Done", said.id, "")
        assert done.erased["documents"] > 0
        assert done.erased["tasks"] == 3 * sum(where.covers(owner) for owner in OWNERS)
        for owner in OWNERS:
            after = await owned(kb, database, owner)
            if where.covers(owner):
                shared = ("procedures", "session") if where != scopes.ACME else ()
                assert not any(value for name, value in after.items() if name not in shared), (owner, after)
            else:
                kept = {name: value for name, value in after.items() if name != "jobs"}
                assert kept == {name: value for name, value in before[owner].items() if name != "jobs"}, owner
        await door.learning.index(world.request(owner=where, urn="new"))
        assert (await kb.ask("login bug", where, sources=["new"])).items


async def test_a_crash_anywhere_is_gone_on_from(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
    mongo_store: content_mongo.Store,
) -> None:
    vectors = memory.Vectors()
    files = (tmp_path, router, clock, meters, vectors, mongo_store, database)
    async with opened(*files) as kb:
        for number in range(6):
            await kb.ingest(world.request(f"Petr Svoboda wrote file{number}.py.", urn=f"u:{number}"))
        await kb.ingest(world.request("Petr Svoboda wrote kept.py.", urn="kept", owner=scopes.BLOG))
    asked = False
    for _ in range(50):
        async with opened(*files) as kb:
            works = made(kb, database, meters, clock)
            if not asked:
                await works.ask(scopes.SHOP, "jana")
                asked = True
            vectors.switch.fail_after = 2  # everything ends here, as if the process had been killed
            try:
                await works.step()
            except errors.Away:
                continue
            finally:
                vectors.switch.fail_after = None
            break
    async with opened(*files) as kb:
        works = made(kb, database, meters, clock)
        await works.look()
        with pytest.raises(errors.Erasing):
            await kb.ingest(world.request())
        clock.advance(seconds=11)
        for _ in range(5):
            if await works.step():
                break
        assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
        assert (await kb.ask("who wrote it?", scopes.BLOG)).items
        [record] = await book.Book(database, clock).listed(scopes.SHOP)
        assert (record.state, sum(record.erased.values())) == ("Done", 6)


async def test_what_was_under_way_does_not_come_after(
    kb: world.ObservedState, database: mongo.Database, meters: metrics.Metrics, clock: clocks.Clock
) -> None:
    """A job that was taken before the erasure is dropped by it, and an ingest that waited for its turn is refused."""
    await kb.pipeline.index(world.request(), Priority.P3)
    found = await kb.queue.next(clock(), skip=())
    assert found is not None
    works = made(kb, database, meters, clock)
    await works.ask(scopes.SHOP, "jana")
    with pytest.raises(errors.Erasing):
        await kb.pipeline.perform(*found)
    await finished(works, clock)
    await kb.pipeline.perform(*found)  # there is no such job any more
    assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
    assert await kb.ledger.failed(scopes.SHOP, limit=10) == await kb.ledger.pending(scopes.SHOP, limit=10) == []
