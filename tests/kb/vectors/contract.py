"""What every vector store does. A test module subclasses `Contract` and gives the fixture `store`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crds import scope
from kb import identity, selection, visibility
from kb.vectors import model
from kb.vectors.store import Store
from tests.kb import scopes


def chunk(owner: scope.Scope, urn: str, text: str, *, ordinal: int = 0, kind: str = "email") -> model.Chunk:
    document_id = identity.document(owner, urn)
    return model.Chunk(
        id=identity.chunk(document_id, identity.digest(text), ordinal),
        document_id=document_id,
        source_urn=urn,
        kind=kind,
        title=f"Title of {urn}",
        heading=f"Title of {urn} | Jana",
        text=text,
        ordinal=ordinal,
        start=7,
        end=7 + len(text),
        observed_at="2026-03-02T09:00:00+00:00",
        graph_refs=("person:jana", "file:a.kt"),
    )


def sentence(of: model.Chunk, text: str) -> model.Sentence:
    return model.Sentence(identity.sentence(of.id, text), of.id, of.document_id, text)


def point(*weights: float) -> model.Vector:
    return [*weights, *[0.0] * (8 - len(weights))]


class Contract:
    """The meaning of `kb.vectors.store.Store`."""

    async def test_before_anything_was_written_there_is_nothing(self, store: Store) -> None:
        assert await store.dense(scopes.SHOP, point(1), limit=5) == []
        assert await store.lexical(scopes.SHOP, "anything", limit=5) == []
        assert await store.chunks(scopes.SHOP, [identity.chunk("d", "h", 0)]) == {}
        assert await store.known(scopes.SHOP, identity.document(scopes.SHOP, "u:1")) == {}
        assert await store.counts(scopes.SHOP) == (0, 0)
        await store.drop(scopes.SHOP, identity.document(scopes.SHOP, "u:1"))

    async def test_what_was_put_is_found_whole(self, store: Store) -> None:
        made = chunk(scopes.SHOP, "u:1", "The login service is broken")
        await store.put(scopes.SHOP, [(made, point(1, 0.2))], [])
        [hit] = await store.dense(scopes.SHOP, point(1, 0.2), limit=5)
        assert hit.chunk_id == made.id
        assert hit.score == pytest.approx(1.0, abs=1e-3)
        assert await store.chunks(scopes.SHOP, [made.id]) == {made.id: made}
        assert await store.known(scopes.SHOP, made.document_id) == {made.id: made.revision(scopes.SHOP)}

    async def test_dense_and_lexical_order(self, store: Store) -> None:
        near, far = chunk(scopes.SHOP, "u:1", "apples and pears"), chunk(scopes.SHOP, "u:2", "the broken login page")
        await store.put(scopes.SHOP, [(near, point(1, 0.1)), (far, point(0.1, 1))], [])
        assert [hit.chunk_id for hit in await store.dense(scopes.SHOP, point(1), limit=5)] == [near.id, far.id]
        assert [hit.chunk_id for hit in await store.dense(scopes.SHOP, point(1), limit=1)] == [near.id]
        assert [hit.chunk_id for hit in await store.lexical(scopes.SHOP, "Login broken?", limit=5)] == [far.id]

    async def test_kinds_narrow(self, store: Store) -> None:
        mail = chunk(scopes.SHOP, "u:1", "login", kind="email")
        wiki = chunk(scopes.SHOP, "u:2", "login", kind="wiki")
        await store.put(scopes.SHOP, [(mail, point(1)), (wiki, point(1))], [])
        wikis, mails, none = (selection.Selection(kinds=kinds) for kinds in (("wiki",), ("email",), ()))
        assert [h.chunk_id for h in await store.dense(scopes.SHOP, point(1), limit=5, chosen=wikis)] == [wiki.id]
        assert [h.chunk_id for h in await store.lexical(scopes.SHOP, "login", limit=5, chosen=mails)] == [mail.id]
        assert await store.dense(scopes.SHOP, point(1), limit=5, chosen=none) == []

    async def test_time_and_source_narrow_and_the_newest_come_first(self, store: Store) -> None:
        day = datetime(2026, 3, 2, tzinfo=UTC)
        made = {}
        for number, observed in enumerate(["", "2026-03-02T01:00:00+01:00", "2026-03-03T00:00:00+00:00"]):
            one = replace(chunk(scopes.SHOP, f"mail:{number}", f"login {number}"), observed_at=observed)
            made[one.id] = one
        other = replace(chunk(scopes.SHOP, "jira:1", "login"), observed_at="2026-03-02T12:00:00+00:00")
        made[other.id] = other
        await store.put(scopes.SHOP, [(one, point(1)) for one in made.values()], [])
        for chosen in (
            selection.ALL,
            selection.Selection(since=day),
            selection.Selection(until=day),
            selection.Selection(since=day, until=day + timedelta(hours=12)),
            selection.Selection(as_of=day),
            selection.Selection(sources=("mail:*",)),
            selection.Selection(sources=("jira:1", "mail:0"), as_of=day),
            selection.Selection(sources=()),
        ):
            expected = {
                key
                for key, one in made.items()
                if chosen.admits(one.kind, one.source_urn, selection.moment(one.observed_at))
            }
            assert {
                hit.chunk_id for hit in await store.dense(scopes.SHOP, point(1), limit=9, chosen=chosen)
            } == expected
            assert {h.chunk_id for h in await store.lexical(scopes.SHOP, "login", limit=9, chosen=chosen)} == expected
            assert {one.id for one in await store.newest(scopes.SHOP, chosen, limit=9)} == expected
        newest = [one.source_urn for one in await store.newest(scopes.SHOP, selection.ALL, limit=9)]
        assert newest == ["mail:2", "jira:1", "mail:1", "mail:0"]
        assert len(await store.newest(scopes.SHOP, selection.ALL, limit=2)) == 2

    async def test_a_project_takes_its_data_into_its_new_group(self, store: Store) -> None:
        mine, other = chunk(scopes.SHOP, "u:1", "login"), chunk(scopes.TILL, "u:2", "login")
        for owner, one in ((scopes.SHOP, mine), (scopes.TILL, other)):
            await store.put(owner, [(one, point(1))], [(sentence(one, "login"), point(1))])
        moved = scopes.make("acme", "shop", "wholesale")
        assert await store.regroup(moved) == 2
        assert await store.regroup(moved) == 0
        assert await store.counts(scopes.make("acme", "", "wholesale")) == (1, 1)
        assert await store.counts(scopes.RETAIL) == (1, 1)
        assert await store.known(moved, mine.document_id) == {mine.id: mine.revision(moved)}

    async def test_an_audit_shows_everything_of_a_client_and_discards_what_it_is_told(self, store: Store) -> None:
        made = {}
        for owner in (scopes.ACME, scopes.SHOP, scopes.OTHER):
            one = chunk(owner, "u:1", "login")
            await store.put(owner, [(one, point(1))], [(sentence(one, "login"), point(1))])
            made[one.id] = model.Stored(one.id, owner, one.document_id, "u:1", one.graph_refs)
        first, after = await store.audit("acme", limit=1)
        second, end = await store.audit("acme", after=after, limit=1)
        rest, last = await store.audit("acme", after=end, limit=1)
        assert (rest, last) == ([], None)
        assert {one.chunk_id: one for one in (*first, *second)} == {
            key: one for key, one in made.items() if one.owner != scopes.OTHER
        }
        lines, _ = await store.audit_sentences("acme")
        assert {line.chunk_id: line.owner for line in lines} == {
            key: one.owner for key, one in made.items() if one.owner != scopes.OTHER
        }
        await store.discard("acme", chunk_ids=list(made), sentence_ids=[line.sentence_id for line in lines])
        assert await store.counts(scopes.SHOP) == (0, 0)
        assert await store.counts(scopes.OTHER) == (1, 1)

    async def test_putting_twice_is_putting_once(self, store: Store) -> None:
        made = chunk(scopes.SHOP, "u:1", "login")
        line = sentence(made, "login")
        for _ in range(2):
            await store.put(scopes.SHOP, [(made, point(1))], [(line, point(0, 1))])
        assert await store.counts(scopes.SHOP) == (1, 1)

    async def test_touching_keeps_the_vector(self, store: Store) -> None:
        made = chunk(scopes.SHOP, "u:1", "login")
        await store.put(scopes.SHOP, [(made, point(1, 0.5))], [])
        changed = model.Chunk(**{**made.__dict__, "title": "Another title", "graph_refs": ("team:core",)})
        await store.touch(scopes.SHOP, [changed])
        [hit] = await store.dense(scopes.SHOP, point(1, 0.5), limit=1)
        assert await store.chunks(scopes.SHOP, [hit.chunk_id]) == {made.id: changed}
        assert hit.score == pytest.approx(1.0, abs=1e-3)
        assert await store.known(scopes.SHOP, made.document_id) == {made.id: changed.revision(scopes.SHOP)}

    async def test_dropping_keeps_what_is_named_and_other_documents(self, store: Store) -> None:
        first, second = (chunk(scopes.SHOP, "u:1", text, ordinal=n) for n, text in enumerate(["one", "two"]))
        other = chunk(scopes.SHOP, "u:2", "three")
        lines = [sentence(made, made.text) for made in (first, second, other)]
        await store.put(
            scopes.SHOP, [(made, point(1)) for made in (first, second, other)], [(line, point(1)) for line in lines]
        )
        await store.drop(scopes.SHOP, first.document_id, keep=[second.id])
        assert set(await store.known(scopes.SHOP, first.document_id)) == {second.id}
        assert await store.counts(scopes.SHOP) == (2, 2)
        await store.drop(scopes.SHOP, first.document_id)
        assert await store.counts(scopes.SHOP) == (1, 1)
        assert set(await store.known(scopes.SHOP, other.document_id)) == {other.id}

    async def test_cosines_of_sentences(self, store: Store) -> None:
        made = chunk(scopes.SHOP, "u:1", "login")
        like, unlike = sentence(made, "like"), sentence(made, "unlike")
        await store.put(scopes.SHOP, [], [(like, point(1)), (unlike, point(0, 1))])
        unknown = identity.sentence(made.id, "never stored")
        found = await store.cosines(scopes.SHOP, point(1), [like.id, unlike.id, unknown])
        assert found == pytest.approx({like.id: 1.0, unlike.id: 0.0}, abs=1e-3)
        assert await store.cosines(scopes.OTHER, point(1), [like.id]) == {}
        assert await store.known_sentences(scopes.SHOP, [like.id, unknown]) == {like.id}

    async def test_a_project_that_changes_its_group_is_stored_anew(self, store: Store) -> None:
        moved = scopes.make("acme", "shop", "wholesale")
        made = chunk(scopes.SHOP, "u:1", "login")
        line = sentence(made, "login")
        await store.put(scopes.SHOP, [(made, point(1))], [(line, point(1))])
        assert await store.known_sentences(moved, [line.id]) == set()
        assert (await store.known(moved, made.document_id))[made.id] != made.revision(moved)
        await store.touch(moved, [made])
        await store.put(moved, [], [(line, point(1))])
        assert await store.counts(scopes.make("acme", "", "wholesale")) == (1, 1)
        assert await store.counts(scopes.RETAIL) == (0, 0)

    async def test_the_table_of_scopes(self, store: Store) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        made = {}
        for number, owner in enumerate(owners):
            one = chunk(owner, f"u:{number}", f"login number{number}")
            line = sentence(one, one.text)
            await store.put(owner, [(one, point(1, number / 10))], [(line, point(1))])
            made[one.id] = (owner, line.id)
        for viewer in (*owners, scopes.make("nobody")):
            mine = {key for key, (owner, _) in made.items() if visibility.sees(viewer, owner)}
            lines = {line for owner, line in made.values() if visibility.sees(viewer, owner)}
            assert {hit.chunk_id for hit in await store.dense(viewer, point(1), limit=20)} == mine
            assert {hit.chunk_id for hit in await store.lexical(viewer, "login", limit=20)} == mine
            assert set(await store.chunks(viewer, list(made))) == mine
            assert set(await store.cosines(viewer, point(1), [line for _, line in made.values()])) == lines
            assert await store.counts(viewer) == (len(mine), len(mine))
