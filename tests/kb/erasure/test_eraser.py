"""A scope that is erased is as if nothing had ever been ingested about it, whatever breaks off in between."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from contracts import mongo_collections
from crds import scope
from crds.priority import Priority
from kb import api, client, errors, mongo
from kb.agent import store as agent
from kb.agent import tree as agent_tree
from kb.aliases import mongo as aliases_mongo
from kb.content import mongo as content_mongo
from kb.erasure import book, closed, eraser, holdings, places, watch
from kb.ingest import document_locks
from tests.kb import calls, memory, scopes, world
from tests.kb import clock as clocks
from tests.kb.service import whole

pytestmark = pytest.mark.services

Opens = Callable[..., AbstractAsyncContextManager[world.ObservedState]]
OWNERS = (scopes.ACME, scopes.SHOP, scopes.BLOG, scopes.RETAIL, scopes.OTHER, scopes.GLOBAL)
STEP = api.Step(agent="a", action="b")


def made(kb: world.ObservedState, database: mongo.Database, place: places.Places | None = None) -> eraser.Eraser:
    others: dict[str, holdings.Holding] = {**holdings.of(database)}
    if isinstance(kb.content, content_mongo.Store):
        others["contents"] = kb.content
    place = place or files(kb, database)
    watching = watched(kb, database, place)
    return eraser.Eraser(
        book.Book(database, kb.clock), watching, place, kb.graph, kb.vectors, kb.pipeline.drop, others, kb.meters
    )


def watched(kb: world.ObservedState, database: mongo.Database, place: places.Places) -> watch.Watch:
    return watch.Watch(book.Book(database, kb.clock), kb.shut, place, (kb.queue, kb.ledger), kb.meters, lambda: 0.0)


def files(kb: world.ObservedState, database: mongo.Database, pod: str = "kb-0") -> places.Places:
    return places.Places(database, "files", "Files", pod, kb.clock, lambda: 0.0)


def process(kb: world.ObservedState, database: mongo.Database, reading: list[float]) -> places.Places:
    """The place of a writer whose monotonic clock is `reading`."""
    return places.Places(database, "p/1", "Process", "kb-write-0", kb.clock, lambda: reading[0])


@pytest.fixture
def opened(open_world: world.Opening, database: mongo.Database, clock: clocks.Clock) -> Opens:
    contents = content_mongo.Store(database)
    return functools.partial(open_world, text=contents, aliases=aliases_mongo.Registry(database, clock))


@pytest.fixture
async def kb(opened: Opens) -> AsyncIterator[world.ObservedState]:
    async with opened() as opened_world:
        yield opened_world


async def fill(kb: world.ObservedState, kb_client: client.Client, owner: scope.Scope) -> None:
    """One of everything that a scope can own, and a version that was replaced."""
    await kb.ingest(world.request("Jana Novak fixed JERV-7.", owner=owner))
    await kb.ingest(world.request(owner=owner))
    await kb_client.learning.index(world.request("Jana Novak likes tea. " * 20, owner=owner, urn="note::1"))
    await kb.content.save(owner, f"a file of {owner}".encode(), "text/plain")
    draft = {"scope": owner, "rule_key": "r", "rule_type": "CUSTOM", "rule_content": "Be kind.", "created_by": "jana"}
    await kb_client.rules.put(api.RuleDraft.model_validate(draft))
    own = {"scope": owner, "types": [{"name": "medicine", "description": "a drug"}], "by": "jana"}
    await kb_client.types.put(api.EntityTypesDraft.model_validate(own))
    bad = {"scope": owner, "pattern": "bad.example", "list": "Unsafe", "by": "jana"}
    await kb_client.links.put(api.LinkPatternDraft.model_validate(bad))
    await calls.remember(kb_client, api.SessionDraft(scope=owner, source="chat", summary="said", id="e1"))
    if owner.client_id:
        way = api.ProcedureDraft(client_id=owner.client_id, trigger_pattern="t", procedure_steps=[STEP])
        await kb_client.memory.save_procedure(way)
        await kb_client.aliases.merge(api.Merge(scope=owner, alias="person:jana", canonical="person:jana novak"))


async def keep_tasks(database: mongo.Database, owner: scope.Scope) -> None:
    """What the operator and its runs keep of three tasks: one archived, one that runs, one that was only qualified."""
    spec = {name: value for name, value in mongo.names(owner).items() if value}
    for uid in ("archived", "running", "qualified"):
        own = f"{uid} {owner}"
        await database[mongo_collections.MEMORY].insert_one(
            {"_id": own, "scope": mongo.names(owner), "content": "secret"}
        )
        for collection, field in mongo_collections.OF_RUNS.items():
            if collection != mongo_collections.MEMORY and uid != "qualified":
                await database[collection].insert_one({"_id": own, field: own, "content": "secret"})
        if uid == "archived":
            archived = {"_id": own, "clientId": owner.client_id, "object": {"spec": spec}, "result": "secret"}
            await database[mongo_collections.ARCHIVE].insert_one(archived)


_TALK = (mongo_collections.CHAT, mongo_collections.CHAT_SUMMARIES, mongo_collections.CONTEXT)


async def talk(database: mongo.Database, owner: scope.Scope) -> None:
    """What runs keep of a conversation and of their work."""
    for collection in _TALK:
        said = {"_id": f"talk {owner}", **mongo.names(owner), "conversation": "talk-7", "text": "secret"}
        await database[collection].insert_one(said)


async def ask_agent(database: mongo.Database, owner: scope.Scope) -> None:
    """What the decision agent keeps of a question in a conversation, whose stream can be resumed."""
    clock, shut, life = clocks.Clock(), closed.Closed(), timedelta(days=7)
    talks = agent.Conversations(database, clock, shut, lambda: f"turn {owner}", life=life)
    assert await talks.add(owner, await talks.open(owner, "talk-1"), agent_tree.Turn("question", "secret"))
    recorder = await agent.Streams(database, clock, shut, life=life).open(f"stream {owner}", owner)
    assert await recorder.write([api.AgentEvent(id=1, type="token", content="secret")], done=True)


async def of_tasks(database: mongo.Database, owner: scope.Scope) -> int:
    """How many documents there are of these."""
    mine = {"$in": [f"{uid} {owner}" for uid in ("archived", "running", "qualified")]}
    return sum(
        [
            await database[name].count_documents({"_id": mine})
            for name in (*mongo_collections.OF_RUNS, mongo_collections.ARCHIVE)
        ]
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
            {**names, "groupId": "" if owner.project_id else owner.group_id}
        ),
    }
    for collection in ("clientProjectRules", "entityTypes", "linkPatterns", "graph_entity_registry", *_TALK):
        found[collection] = await database[collection].count_documents(names)
    for collection in (agent.STREAMS, agent.EVENTS, agent.CONVERSATIONS):
        found[collection] = await database[collection].count_documents(mongo_collections.session_owner(owner))
    found["tasks"] = await of_tasks(database, owner)
    return found


async def finished(works: eraser.Eraser) -> None:
    assert await works.step() == 0, "a pass that finds something is not the last"
    assert await works.step() == 1


@pytest.mark.parametrize("where", [scopes.ACME, scopes.SHOP, scopes.RETAIL], ids=["client", "project", "group"])
async def test_erased_equals_never_told(kb: world.ObservedState, database: mongo.Database, where: scope.Scope) -> None:
    works = made(kb, database)
    async with whole.over(kb, kb.meters, kb.clock, database=database, works=works) as (kb_client, _):
        for owner in OWNERS:
            await fill(kb, kb_client, owner)
            if not owner.is_global:
                await keep_tasks(database, owner)
            await talk(database, owner)
            await ask_agent(database, owner)
        before = {owner: await owned(kb, database, owner) for owner in OWNERS}
        assert [kind for kind in before[where] if not any(each[kind] for each in before.values())] == []
        said = await kb_client.erasing.ask(where, "jana")
        assert (said.state, said.requested_by, said.scope) == ("Running", "jana", where)
        assert (await kb_client.erasing.ask(where, "petr")).id == said.id
        with pytest.raises(client.Unavailable, match="being erased") as caught:
            await kb_client.learning.index(world.request(owner=where, urn="late"))
        assert caught.value.retry_after == 10
        await finished(works)
        assert ("vacate" in kb.switch.calls) == (where == scopes.ACME), "it has owners left"
        [done] = await kb_client.erasing.listed(where)
        assert (done.state, done.id, done.reason) == ("Done", said.id, "")
        assert done.erased["documents"] > 0
        assert done.erased["tasks"] == 3 * sum(where.covers(owner) for owner in OWNERS)
        for owner in OWNERS:
            after = await owned(kb, database, owner)
            if where.covers(owner):
                shared = ("procedures",) if where != scopes.ACME else ()
                assert not any(value for name, value in after.items() if name not in shared), (owner, after)
            else:
                kept = {name: value for name, value in after.items() if name != "jobs"}
                assert kept == {name: value for name, value in before[owner].items() if name != "jobs"}, owner
        await kb_client.learning.index(world.request(owner=where, urn="new"))
        assert (await kb.ask("login bug", where, sources=["new"])).items


async def test_a_group_takes_its_own_session_entries_alone(kb: world.ObservedState, database: mongo.Database) -> None:
    for name, group in (("client", ""), ("retail", "retail"), ("news", "news")):
        row = {"_id": name, "clientId": "acme", "projectId": "", "groupId": group}
        await database["session_memory"].insert_one(row)
    shop = {"_id": "shop", "clientId": "acme", "projectId": "shop", "groupId": ""}
    await database["session_memory"].insert_one(shop)
    works = made(kb, database)
    await works.ask(scopes.RETAIL, "jana")
    await finished(works)
    left = [row["_id"] async for row in database["session_memory"].find()]
    assert sorted(left) == ["client", "news", "shop"]


async def test_a_crash_anywhere_is_gone_on_from(opened: Opens, database: mongo.Database) -> None:
    vectors = memory.Vectors()
    async with opened(vector=vectors) as kb:
        for number in range(6):
            await kb.ingest(world.request(f"Petr Svoboda wrote file{number}.py.", urn=f"u:{number}"))
        await kb.ingest(world.request("Petr Svoboda wrote kept.py.", urn="kept", owner=scopes.BLOG))
    asked = False
    for _ in range(50):
        async with opened(vector=vectors) as kb:
            works = made(kb, database)
            if not asked:
                await works.ask(scopes.SHOP, "jana")
                asked = True
            else:
                await watched(kb, database, files(kb, database)).look()
            with pytest.raises(errors.Erasing):
                await kb.ingest(world.request())
            vectors.switch.fail_after = 2  # everything ends here, as if the process had been killed
            try:
                if await works.step():
                    break
            except errors.Away:
                continue
            finally:
                vectors.switch.fail_after = None
    async with opened(vector=vectors) as kb:
        assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
        assert (await kb.ask("who wrote it?", scopes.BLOG)).items
        [record] = await book.Book(database, kb.clock).listed(scopes.SHOP)
        assert (record.state, sum(record.erased.values())) == ("Done", 6)


async def test_what_was_under_way_does_not_come_after(kb: world.ObservedState, database: mongo.Database) -> None:
    """A job that was taken before the erasure is dropped by it, and an ingest that waited for its turn is refused."""
    await kb.pipeline.index(world.request(), Priority.P3)
    found = await kb.queue.next(kb.clock(), skip=())
    assert found is not None
    works = made(kb, database)
    await works.ask(scopes.SHOP, "jana")
    with pytest.raises(errors.Erasing):
        await kb.pipeline.perform(*found)
    await finished(works)
    await kb.pipeline.perform(*found)  # there is no such job any more
    assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
    assert await kb.ledger.failed(scopes.SHOP, limit=10) == await kb.ledger.pending(scopes.SHOP, limit=10) == []


async def test_an_erasure_waits_for_files_that_are_down(kb: world.ObservedState, database: mongo.Database) -> None:
    """Their process would go on from them when it starts: with what was told before the erasure."""
    down = files(kb, database, "kb-write-1")
    await down.register()
    reading = [0.0]
    mine = process(kb, database, reading)
    works = made(kb, database, mine)
    await kb.ingest(world.request())
    async with whole.over(kb, kb.meters, kb.clock, database=database, works=works, registry=mine) as (kb_client, http):
        await kb_client.erasing.ask(scopes.SHOP, "jana")
        for _ in range(3):
            reading[0] += 10 * places.LIFE
            assert await works.step() == 0
        [waits] = await kb_client.erasing.listed(scopes.SHOP)
        assert waits.state == "Running"
        assert "kb-write-1 (Files, last report at 2026-03-02 09:00 UTC)" in waits.reason
        # What can be deleted is, and the scope stays closed.
        assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
        with pytest.raises(client.Unavailable, match="being erased"):
            await kb_client.learning.index(world.request(urn="late"))
        listed = (await http.get("/api/v1/erasures/places")).json()["places"]
        assert [(one["id"], one["kind"]) for one in listed] == [("files", "Files"), ("p/1", "Process")]
        # It starts again: it closes the scope and clears its files before it says so.
        await watched(kb, database, down).look()
        assert await works.step() == 1


async def test_files_that_are_lost_are_waited_for_until_somebody_says_so(
    kb: world.ObservedState, database: mongo.Database
) -> None:
    await files(kb, database, "kb-write-1").register()
    mine = process(kb, database, [0.0])
    works = made(kb, database, mine)
    async with whole.over(kb, kb.meters, kb.clock, database=database, works=works, registry=mine) as (_, http):
        await works.ask(scopes.SHOP, "jana")
        assert await works.step() == 0
        unknown = await http.post("/api/v1/erasures/places/forget", json={"id": "file", "by": "jana"})
        assert (unknown.status_code, unknown.json()["error"]["field"]) == (404, "id")
        said = await http.post("/api/v1/erasures/places/forget", json={"id": "files", "by": "jana"})
        assert [one["id"] for one in said.json()["places"]] == ["p/1"]
        assert await works.step() == 1


async def test_an_erasure_waits_for_a_process_until_it_is_not_heard_of(
    kb: world.ObservedState, database: mongo.Database
) -> None:
    other = places.Places(database, "p/2", "Process", "kb-read-7", kb.clock, lambda: 0.0)
    await other.register()
    reading = [0.0]
    mine = process(kb, database, reading)
    works = made(kb, database, mine)
    await works.ask(scopes.SHOP, "jana")
    assert await works.step() == 0
    await other.confirm(())  # it is there, and has not yet looked
    reading[0] += places.LIFE - 1
    assert await works.step() == 0
    reading[0] += places.LIFE
    assert await works.step() == 1
    await mine.purge()
    assert [one.id for one in await mine.listed()] == ["p/1"]
    await mine.leave()
    assert await mine.listed() == []


async def test_an_erasure_waits_for_a_write_that_began_before_it(
    kb: world.ObservedState, database: mongo.Database
) -> None:
    works = made(kb, database)
    with kb.shut.entered(scopes.SHOP):
        await works.ask(scopes.SHOP, "jana")
        assert await works.step() == 0
        assert await works.step() == 0
        await kb.ledger.open("d", scopes.SHOP, "u:1", "{}", kb.clock())
    assert await works.step() == 1
    assert await kb.ledger.find("d") is None


class Lost(document_locks.Turn):
    """A turn that is lost after so many looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(fence=1)
        self._looks = looks

    def check(self) -> None:
        if self._looks == 0:
            raise errors.Outrun("lost")
        self._looks -= 1


async def test_who_has_lost_its_turn_erases_nothing_that_came_after(
    kb: world.ObservedState, database: mongo.Database
) -> None:
    works = made(kb, database)
    for number in range(6):
        await kb.ingest(world.request(f"Petr Svoboda wrote file{number}.py.", urn=f"u:{number}"))
    await works.ask(scopes.SHOP, "jana")
    for looks in range(6):
        before = (await kb.graph.counts(scopes.SHOP)).documents
        with pytest.raises(errors.Outrun):
            await works.step(Lost(looks % 3))
        assert before - (await kb.graph.counts(scopes.SHOP)).documents == min(looks % 3, before)
    [record] = await book.Book(database, kb.clock).listed(scopes.SHOP)
    assert record.state == "Running"
    assert await works.step() == 1
