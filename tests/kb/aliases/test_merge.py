"""One thing has one node: by its name, by an alias, and apart again when the alias is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crds import scope
from kb import errors
from kb.aliases import registry
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import contract, memory
from tests.kb.vectors import contract as vectors_contract

ONE = "user:john|OWNS|file:Service.kt\nuser:john.doe@example.com|REVIEWED|file:Service.kt"
TWO = "user:john|FIXED|jira:JERV-7"


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=memory.Registry(clock)) as made:
        yield made


async def ends(kb: world.ObservedState, viewer: scope.Scope = scopes.SHOP) -> set[str]:
    """Every node that an edge of the viewer has, by its key."""
    found = await kb.graph.edges(viewer)
    return {end for one in found for end in (one.edge.source, one.edge.target)}


async def settle(kb: world.ObservedState) -> int:
    """Let the queue repair what is to be repaired; how many documents that were."""
    count = 0
    while await kb.workers.step() is not None:
        count += 1
    return count


async def evict_answers(kb: world.ObservedState) -> None:
    """Give the ledger more answers than it keeps."""
    kb.clock.advance(seconds=1)
    for number in range(1100):
        await kb.ledger.keep_answer(f"other-{number}", "kb.extract/v1", "{}", scopes.SHOP)


async def consistent(kb: world.ObservedState, chunk_ids: list[str]) -> None:
    """The vectors' references are the graph's mentions."""
    chunks = await kb.vectors.chunks(scopes.SHOP, chunk_ids)
    said: dict[str, set[str]] = {}
    for one in await kb.graph.mentioned(scopes.SHOP, chunk_ids):
        said.setdefault(one.chunk_id, set()).add(one.node_key)
    for chunk_id, chunk in chunks.items():
        assert said[chunk_id] <= set(chunk.graph_refs)
        assert "user:john" not in chunk.graph_refs


async def test_a_merge_changes_what_was_known_and_what_comes(kb: world.ObservedState, fake: process.Fake) -> None:
    before = await kb.ingest(world.request(ONE, urn="note:1"))
    asked = fake.count(path="/api/chat")
    _, repaired = await kb.merger.merge(scopes.ACME, "user:John", "user:john.doe@example.com", "jana")
    assert repaired == 1
    assert await settle(kb) == 1
    assert fake.count(path="/api/chat") == asked  # nothing is asked again for it
    assert "user:john" not in await ends(kb)
    after = await kb.ingest(world.request(TWO, urn="note:2"))
    assert "user:john" not in await ends(kb)
    triples = {(one.edge.source, one.edge.type) for one in await kb.graph.edges(scopes.SHOP)}
    assert {("user:john.doe@example.com", kind) for kind in ("owns", "reviewed", "fixed")} <= triples
    await consistent(kb, [*before.chunk_ids, *after.chunk_ids])
    [alias] = await kb.aliases.listed(scopes.SHOP)
    assert (alias.seen_count, alias.created_by) == (2, "jana")


async def test_taken_back_it_is_as_if_it_had_never_been(
    kb: world.ObservedState, tmp_path: Path, open_world: world.Opening
) -> None:
    (tmp_path / "never").mkdir()
    async with open_world(within="never") as never:
        await never.ingest(world.request(ONE, urn="note:1"))
        await never.ingest(world.request(TWO, urn="note:2"))
        expected = await never.state()
    await kb.ingest(world.request(ONE, urn="note:1"))
    await kb.merger.merge(scopes.ACME, "user:john", "user:john.doe@example.com", "jana")
    await settle(kb)
    await kb.ingest(world.request(TWO, urn="note:2"))
    assert await kb.state() != expected
    gone, repaired = await kb.merger.unmerge(scopes.ACME, "user:john")
    assert (gone.canonical, repaired) == ("user:john.doe@example.com", 2)
    await settle(kb)
    assert await kb.state() == expected
    with pytest.raises(errors.NotFound):
        await kb.merger.unmerge(scopes.ACME, "user:john")


async def test_pointed_elsewhere_it_is_as_if_it_had_never_meant_anything_else(
    kb: world.ObservedState, tmp_path: Path, open_world: world.Opening, clock: clocks.Clock
) -> None:
    """PUT john -> smith, then PUT john -> doe, is un-merge and merge; DELETE gives everything back."""
    (tmp_path / "never").mkdir()
    async with open_world(within="never", aliases=memory.Registry(clock)) as never:
        await never.ingest(world.request(ONE, urn="note:1"))
        unmerged = await never.state()
        await never.merger.merge(scopes.ACME, "user:john", "user:doe", "jana")
        await settle(never)
        expected = await never.state()
    await kb.ingest(world.request(ONE, urn="note:1"))
    await kb.merger.merge(scopes.ACME, "user:john", "user:smith", "jana")
    await settle(kb)
    made, repaired = await kb.merger.merge(scopes.ACME, "user:john", "user:doe", "petr")
    assert (made.former, repaired) == (("user:smith",), 1)
    await settle(kb)
    assert await kb.state() == expected
    [record] = await kb.aliases.listed(scopes.ACME)
    assert (record.canonical, record.former, record.created_by) == ("user:doe", (), "petr")
    await kb.merger.unmerge(scopes.ACME, "user:john")
    await settle(kb)
    assert await kb.state() == unmerged


@pytest.mark.parametrize("last", ["merge", "unmerge"])
async def test_a_crash_while_it_is_pointed_elsewhere_forgets_no_former_meaning(
    kb: world.ObservedState, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    await kb.ingest(world.request(ONE, urn="note:1"))
    expected = await kb.state()
    await kb.merger.merge(scopes.ACME, "user:john", "user:smith", "jana")
    await settle(kb)

    class KilledError(Exception):
        pass

    async def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as dying:
        dying.setattr(kb.graph, "naming", killed)
        for step in ("user:doe", "user:poe"):
            with pytest.raises(KilledError):
                await kb.merger.merge(scopes.ACME, "user:john", step, "jana")
        if last == "unmerge":
            with pytest.raises(KilledError):
                await kb.merger.unmerge(scopes.ACME, "user:john")
    assert await kb.merger.resume() == 1
    assert await settle(kb) == 1
    if last == "merge":
        assert {"user:poe"} == await ends(kb) & {"user:john", "user:smith", "user:doe", "user:poe"}
        await kb.merger.unmerge(scopes.ACME, "user:john")
        await settle(kb)
    assert await kb.state() == expected
    assert await kb.merger.resume() == 0


async def test_a_projects_alias_is_not_its_siblings_and_renames_nobody_elses_things(kb: world.ObservedState) -> None:
    for owner in (scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.OTHER):
        await kb.ingest(world.request(TWO, urn="note:2", owner=owner))
    _, repaired = await kb.merger.merge(scopes.SHOP, "user:john", "user:real", "jana")
    assert repaired == 1
    await settle(kb)
    assert "user:real" in await ends(kb, scopes.SHOP)
    assert "user:john" in await ends(kb, scopes.BLOG) & await ends(kb, scopes.OTHER)
    for urn, owner in (("note:3", scopes.SHOP), ("note:3", scopes.TILL)):
        await kb.ingest(world.request("user:john|SAW|file:x.py", urn=urn, owner=owner))
    proofs = await kb.graph.relationships(scopes.RETAIL, source="user:real")
    assert {one.owner for one in await kb.aliases.listed(scopes.SHOP)} == {scopes.SHOP}
    assert {(one.edge.source, one.edge.type) for one in proofs if one.edge} == {
        ("user:real", "fixed"),
        ("user:real", "saw"),
    }
    assert len(await kb.graph.relationships(scopes.TILL, source="user:john")) == 2


async def test_no_chain_over_the_bounds_of_two_owners(kb: world.ObservedState) -> None:
    await kb.merger.merge(scopes.SHOP, "user:b", "user:c", "jana")
    with pytest.raises(errors.Invalid, match="itself an alias"):
        await kb.merger.merge(scopes.ACME, "user:a", "user:b", "jana")
    with pytest.raises(errors.Invalid, match="would become an alias"):
        await kb.merger.merge(scopes.ACME, "user:c", "user:d", "jana")
    await kb.merger.merge(scopes.TILL, "user:a", "user:b", "jana")  # no data has both


async def test_no_chains_no_documents_no_homonyms(kb: world.ObservedState) -> None:
    await kb.merger.merge(scopes.ACME, "user:b", "user:c", "jana")
    for owner, alias, canonical, why in (
        (scopes.ACME, "user:a", "user:b", "itself an alias"),
        (scopes.SHOP, "user:c", "user:d", "would become an alias"),
        (scopes.ACME, "product:apple", "organization:apple", "different types"),
        (scopes.ACME, "jira:JERV-1", "jira:JERV-2", "stands for a document"),
        (scopes.ACME, "User:John", "user:john", "already"),
        (scopes.ACME, "john", "user:john", "no key of a node"),
        (scopes.GLOBAL, "user:a", "user:b", "belongs to a client"),
    ):
        with pytest.raises(errors.Invalid, match=why) as refused:
            await kb.merger.merge(owner, alias, canonical, "jana")
        assert why != "itself an alias" or "user:c" in str(refused.value.remedy)
    await kb.merger.merge(scopes.ACME, "product:apple", "organization:apple", "jana", across_types=True)


async def test_a_crash_between_the_record_and_the_documents_is_made_good(kb: world.ObservedState) -> None:
    await kb.ingest(world.request(TWO, urn="note:2"))
    _, repaired = await kb.merger.merge(scopes.ACME, "user:john", "user:real", "jana")
    assert repaired == 1
    await kb.queue.drop((await kb.queue.listed(scopes.SHOP, limit=1))[0][0].document_id)
    [alias] = await kb.aliases.listed(scopes.SHOP)
    await kb.aliases.put(replace(alias, state=registry.State.MERGING))
    assert await kb.merger.resume() == 1
    assert await settle(kb) == 1
    assert "user:real" in await ends(kb)
    assert await kb.merger.resume() == 0


async def test_the_same_name_and_type_is_never_twice(kb: world.ObservedState) -> None:
    spelled = ["user:John  Smith|OWNS|file:a.py", "User:john smith|OWNS|file:b.py", "USER:JOHN SMITH|OWNS|file:c.py"]
    for number, text in enumerate(spelled):
        await kb.ingest(world.request(text, urn=f"note:{number}"))
    await kb.ingest(world.request("order:order_530798957|PAID_BY|user:x\norder:530798957|FOR|user:y", urn="note:9"))
    found = await ends(kb)
    assert {key for key in found if key.startswith("user:") and "smith" in key} == {"user:john smith"}
    assert {key for key in found if key.startswith("order:")} == {"order:530798957"}


async def test_neither_homonyms_of_other_types_nor_likeness_alone_are_merged(kb: world.ObservedState) -> None:
    await kb.ingest(
        world.request("planet:Mercury|ORBITS|star:Sun\nproduct:Mercury|MADE_BY|organization:Ford", urn="n:1")
    )
    await kb.ingest(world.request("organization:IBM|BOUGHT|organization:IBN\nuser:jon|KNOWS|user:john", urn="n:2"))
    names = {"planet:mercury", "product:mercury", "organization:ibm", "organization:ibn", "user:jon", "user:john"}
    assert names <= await ends(kb)


class Late(memory.Registry):
    """A merge comes right after the ingest has looked its names up."""

    async def resolve(self, owner: scope.Scope, keys: Collection[str]) -> Mapping[str, str]:
        found = await super().resolve(owner, keys)
        await self.put(contract.alias("user:john", "user:real"))
        return found


async def test_a_merge_during_an_ingest_is_seen_by_it(open_world: world.Opening, clock: clocks.Clock) -> None:
    async with open_world(aliases=Late(clock)) as made:
        reply = await made.ingest(world.request(TWO, urn="note:2"))
        assert "user:real" in await ends(made)
        assert "user:john" not in await ends(made)
        await consistent(made, reply.chunk_ids)


async def test_an_evicted_answer_is_asked_for_again(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(world.request(world.MAIL + "user:john|OWNS|file:x.py", urn="note:1"))
    expected = await kb.state()
    await kb.merger.merge(scopes.ACME, "user:john", "user:real", "jana")
    await evict_answers(kb)
    asked = fake.count(tag="kb.extract/v1")
    await settle(kb)
    assert fake.count(tag="kb.extract/v1") == asked + 1
    await kb.merger.unmerge(scopes.ACME, "user:john")
    await settle(kb)
    assert await kb.state() == expected


async def test_a_merge_loses_nothing_where_the_model_cannot_say_it_again(
    kb: world.ObservedState, fake: process.Fake, clock: clocks.Clock
) -> None:
    await kb.ingest(world.request(world.MAIL + "user:john|OWNS|file:x.py", urn="note:1"))
    before, counted = await kb.state(), await kb.graph.counts(scopes.SHOP)
    await kb.merger.merge(scopes.ACME, "user:john", "user:real", "jana")
    await evict_answers(kb)
    for fault in ({"malformed": "answer"}, {"status": {"code": 400, "message": "too long"}}):
        fake.set_faults([{"match": {"tag": "kb.extract/v1"}, **fault}])
        await settle(kb)
        assert await kb.state() == before
        [job], _ = await kb.queue.listed(scopes.SHOP, limit=5)
        assert "cannot be extracted again" in job.reason
        clock.advance(seconds=301)
    fake.set_faults([])
    await settle(kb)
    assert "user:real" in await ends(kb)
    assert "user:john" not in await ends(kb)
    assert (await kb.graph.counts(scopes.SHOP)).mentions == counted.mentions
    assert await kb.queue.depth() == {}


async def test_a_merge_weaves_only_what_is_shown(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request(ONE, urn="note:1"))
    before = await kb.graph.counts(scopes.SHOP)
    stray = vectors_contract.chunk(scopes.SHOP, "note:1", "file:Never.kt|CALLS|file:Committed.kt", ordinal=7)
    await kb.vectors.put(scopes.SHOP, [(stray, [0.1] * 384)], [])
    await kb.merger.merge(scopes.ACME, "user:john", "user:real", "jana")
    await settle(kb)
    assert await kb.graph.counts(scopes.SHOP) == before
    assert (await kb.vectors.known(scopes.SHOP, stray.document_id)).keys() == set(reply.chunk_ids)


async def test_two_merges_at_once_make_no_chain(kb: world.ObservedState, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = memory.Registry.listed

    async def later(self: memory.Registry, viewer: scope.Scope, **more: Any) -> list[registry.Alias]:
        """As a server answers: every other waiter comes first."""
        found = await looked(self, viewer, **more)
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(memory.Registry, "listed", later)
    ended = await asyncio.gather(
        kb.merger.merge(scopes.SHOP, "user:a", "user:b", "jana"),
        kb.merger.merge(scopes.SHOP, "user:b", "user:c", "petr"),
        return_exceptions=True,
    )
    refused = [one for one in ended if isinstance(one, errors.Invalid)]
    assert len(refused) == 1
    assert [one.alias for one in await kb.aliases.listed(scopes.SHOP)] in (["user:a"], ["user:b"])
