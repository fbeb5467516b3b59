"""What every vector store does. A test module subclasses `Contract` and gives the fixture `store`."""

from __future__ import annotations

import json
from collections.abc import Iterable
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


def chunk_ids(hits: Iterable[model.Hit]) -> list[str]:
    """Of the chunks that were hit, in order."""
    return [hit.chunk_id for hit in hits]


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
        assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=5)) == [near.id, far.id]
        assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=1)) == [near.id]
        assert chunk_ids(await store.lexical(scopes.SHOP, "Login broken?", limit=5)) == [far.id]

    async def test_an_id_that_begins_with_zeros_is_found_as_it_is(self, store: Store) -> None:
        """Weaviate sends ids as numbers."""
        made = replace(chunk(scopes.SHOP, "u:1", "the order"), id="00000000-0ed2-5494-a900-8fd6cd43f881")
        line = replace(sentence(made, "the order"), id="000c4f64-84e7-5a3b-8f2f-5a0a3e3f3a11")
        await store.put(scopes.SHOP, [(made, point(1))], [(line, point(1))])
        assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=5)) == [made.id]
        assert chunk_ids(await store.lexical(scopes.SHOP, "order", limit=5)) == [made.id]
        assert (await store.cosines(scopes.SHOP, point(1), [line.id])).keys() == {line.id}

    async def test_what_is_asked_by_id_is_found_in_both_partitions(self, store: Store) -> None:
        mine, shared = chunk(scopes.SHOP, "u:1", "mine"), chunk(scopes.GLOBAL, "u:2", "everyone's")
        for owner, made in ((scopes.SHOP, mine), (scopes.GLOBAL, shared)):
            await store.put(owner, [(made, point(1))], [(sentence(made, made.text), point(1))])
        lines = {sentence(made, made.text).id for made in (mine, shared)}
        assert (await store.chunks(scopes.SHOP, [mine.id, shared.id])).keys() == {mine.id, shared.id}
        assert (await store.cosines(scopes.SHOP, point(1), lines)).keys() == lines
        assert (await store.cosines(scopes.BLOG, point(1), lines)).keys() == {sentence(shared, shared.text).id}

    async def test_kinds_narrow(self, store: Store) -> None:
        mail = chunk(scopes.SHOP, "u:1", "login", kind="email")
        wiki = chunk(scopes.SHOP, "u:2", "login", kind="wiki")
        await store.put(scopes.SHOP, [(mail, point(1)), (wiki, point(1))], [])
        wikis, mails, none = (selection.Selection(kinds=kinds) for kinds in (("wiki",), ("email",), ()))
        assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=5, chosen=wikis)) == [wiki.id]
        assert chunk_ids(await store.lexical(scopes.SHOP, "login", limit=5, chosen=mails)) == [mail.id]
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
            assert set(chunk_ids(await store.dense(scopes.SHOP, point(1), limit=9, chosen=chosen))) == expected
            assert set(chunk_ids(await store.lexical(scopes.SHOP, "login", limit=9, chosen=chosen))) == expected
            assert {one.id for one in await store.newest(scopes.SHOP, chosen, limit=9)} == expected
        newest = [one.source_urn for one in await store.newest(scopes.SHOP, selection.ALL, limit=9)]
        assert newest == ["mail:2", "jira:1", "mail:1", "mail:0"]
        assert len(await store.newest(scopes.SHOP, selection.ALL, limit=2)) == 2

    async def test_a_senders_own_metadata_is_kept_and_narrows(self, store: Store) -> None:
        said: list[dict[str, object]] = [
            {"team": "core", "build": {"branch": "main", "number": 7}},
            {"team": ["web", "core"], "urgent": True, "nothing": None},
            {"team": "Core"},
            {},
        ]
        bare = [chunk(scopes.SHOP, f"u:{number}", f"login bug {number}") for number in range(len(said))]
        made = [
            replace(one, metadata=json.dumps(metadata) if metadata else "")
            for one, metadata in zip(bare, said, strict=True)
        ]
        await store.put(scopes.SHOP, [(one, point(1)) for one in made], [])
        assert await store.chunks(scopes.SHOP, [one.id for one in made]) == {one.id: one for one in made}
        cases: list[tuple[list[dict[str, object]], set[int]]] = [
            ([{"team": "core"}], {0, 1}),
            ([{"team": ["Core", "web"]}], {1, 2}),
            ([{"build.branch": "main"}, {"team": "core"}], {0}),
            ([{"build.number": 7}], {0}),
            ([{"urgent": True}], {1}),
            ([{"team": "core"}, {"urgent": True}], {1}),
            ([{"team": "sales"}], set()),
        ]
        for wanted, expected in cases:
            chosen = selection.Selection(labels=tuple(selection.labels(one) for one in wanted))
            matching = {made[number].id for number in expected}
            assert {n for n, one in enumerate(made) if chosen.carries(selection.labels(one.said()))} == expected
            assert set(chunk_ids(await store.dense(scopes.SHOP, point(1), limit=10, chosen=chosen))) == matching
            assert set(chunk_ids(await store.lexical(scopes.SHOP, "login", limit=10, chosen=chosen))) == matching
            assert {one.id for one in await store.newest(scopes.SHOP, chosen, limit=10)} == matching
            first = {made[0].id, made[1].id}
            assert await store.chosen(scopes.SHOP, first, chosen) == matching & first
            assert await store.chosen(scopes.BLOG, [one.id for one in made], chosen) == set()
        changed = replace(made[0], metadata='{"team": "web"}')
        assert changed.revision(scopes.SHOP) != made[0].revision(scopes.SHOP)
        await store.touch(scopes.SHOP, [changed])
        assert (await store.chunks(scopes.SHOP, [changed.id]))[changed.id] == changed
        web = selection.Selection(labels=(selection.labels({"team": "web"}),))
        assert {one.id for one in await store.newest(scopes.SHOP, web, limit=10)} == {made[0].id, made[1].id}

    async def test_somebody_finds_what_the_source_shows_to_it_and_to_all(self, store: Store) -> None:
        told = {"unknown": None, "public": ["public"], "jana": ["user:jana"], "team": ["user:petr", "group:dev"]}
        named = {}
        for name, shown in told.items():
            said = {} if shown is None else {visibility.ACCESS: shown}
            made = replace(chunk(scopes.SHOP, f"u:{name}", f"the order of {name}"), metadata=json.dumps(said))
            named[made.id] = name
            await store.put(scopes.SHOP, [(made, point(1))], [])
        for principals, seen in (
            (("user:jana",), {"public", "jana"}),
            (("group:dev", "user:nina"), {"public", "team"}),
            (("user:nina",), {"public"}),
        ):
            viewer = scope.Viewer(**scopes.SHOP.model_dump(), principals=principals)
            assert {named[hit.chunk_id] for hit in await store.dense(viewer, point(1), limit=9)} == seen
            assert {named[hit.chunk_id] for hit in await store.lexical(viewer, "order", limit=9)} == seen
            assert {named[one] for one in await store.chunks(viewer, list(named))} == seen
        assert len(await store.dense(scopes.SHOP, point(1), limit=9)) == len(told)
        [made] = (
            await store.chunks(scopes.SHOP, [next(one for one, name in named.items() if name == "jana")])
        ).values()
        assert made.said() == {}

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
            made[one.id] = model.Stored(one.id, owner, one.document_id, "u:1", one.graph_refs, one.revision(owner))
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
        ids = [line.sentence_id for line in lines]
        assert await store.held_sentences("acme", [*ids, identity.sentence("nowhere", "login")]) == set(ids)
        assert await store.held_sentences("other", ids) == set()
        await store.discard("acme", chunk_ids=list(made), sentence_ids=ids)
        assert await store.counts(scopes.SHOP) == (0, 0)
        assert await store.counts(scopes.OTHER) == (1, 1)

    async def test_an_audit_of_some_documents_shows_them_alone(self, store: Store) -> None:
        made = {}
        for number in range(12):
            one = chunk(scopes.SHOP, f"u:{number % 4}", f"login {number}")
            line = sentence(one, f"login {number}")
            await store.put(scopes.SHOP, [(one, point(1))], [(line, point(1))])
            made[one.id] = (one.document_id, line.id)
        wanted = sorted({document for document, _ in made.values()})[:2]
        for what in (store.audit, store.audit_sentences):
            found: list[tuple[str, str]] = []
            after: str | None = None
            for _ in range(10):
                page, after = await what("acme", after=after, limit=4, document_ids=wanted)
                assert len(page) <= 4
                found += [(one.document_id, one.chunk_id) for one in page]
                if after is None:
                    break
            assert after is None
            assert sorted(found) == sorted((document, key) for key, (document, _) in made.items() if document in wanted)
            assert await what("acme", document_ids=["another"]) == ([], None)
            assert await what("other", document_ids=wanted) == ([], None)

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

    async def test_dropping_what_was_known_takes_nothing_that_was_written_since(self, store: Store) -> None:
        gone, confirmed, kept = (chunk(scopes.SHOP, "u:1", text, ordinal=n) for n, text in enumerate("abc"))
        await store.put(scopes.SHOP, [(made, point(1)) for made in (gone, confirmed, kept)], [])
        known = await store.known(scopes.SHOP, gone.document_id)
        # Another owner of the document has confirmed one that is to go, and has stored a new one.
        await store.touch(scopes.SHOP, [replace(confirmed, taken=7)])
        new = replace(chunk(scopes.SHOP, "u:1", "d", ordinal=3), taken=7)
        await store.put(scopes.SHOP, [(new, point(1))], [(sentence(new, "d"), point(1))])
        await store.drop(scopes.SHOP, gone.document_id, keep=[kept.id], known=known)
        left = await store.known(scopes.SHOP, gone.document_id)
        assert set(left) == {confirmed.id, kept.id, new.id}
        assert [model.taken(left[one.id]) for one in (confirmed, kept, new)] == [7, 0, 7]
        await store.drop(scopes.SHOP, gone.document_id, known=known)
        assert set(await store.known(scopes.SHOP, gone.document_id)) == {confirmed.id, new.id}
        assert await store.counts(scopes.SHOP) == (2, 1)

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
            assert set(chunk_ids(await store.dense(viewer, point(1), limit=20))) == mine
            assert set(chunk_ids(await store.lexical(viewer, "login", limit=20))) == mine
            assert set(await store.chunks(viewer, list(made))) == mine
            assert set(await store.cosines(viewer, point(1), [line for _, line in made.values()])) == lines
            assert await store.counts(viewer) == (len(mine), len(mine))


def at(day: int) -> datetime:
    return datetime(2026, 3, day, tzinfo=UTC)


class History:
    """What every vector store does with versions that were replaced."""

    async def replaced(self, store: Store, owner: scope.Scope = scopes.SHOP) -> tuple[model.Chunk, str]:
        """A chunk of 2 March whose version was replaced on 5 March, and the id of its copy."""
        made = chunk(owner, "u:1", "Jana does the login")
        line = sentence(made, "Jana does the login")
        new = replace(chunk(owner, "u:1", "Petr does the login"), observed_at=at(5).isoformat())
        await store.put(owner, [(made, point(1, 0.2))], [(line, point(1, 0.2))])
        version_id = identity.version(made.document_id, "", 0)
        began, ended = selection.moment(made.observed_at), selection.millis(at(5))
        for _ in range(2):
            await store.keep(
                owner,
                version_id,
                began,
                ended,
                chunk_ids=[made.id, "11111111-1111-4111-8111-111111111111"],
                sentence_ids=[line.id],
            )
        await store.put(owner, [(new, point(1, 0.1))], [])
        await store.drop(owner, made.document_id, keep=[new.id])
        return new, version_id

    async def test_the_past_is_found_as_it_was_and_only_there(self, store: Store) -> None:
        new, version_id = await self.replaced(store)
        old = chunk(scopes.SHOP, "u:1", "Jana does the login")
        past = identity.past(version_id, old.id)
        for day, found in ((1, []), (3, [past]), (5, [new.id]), (9, [new.id])):
            chosen = selection.Selection(as_of=at(day))
            assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=5, chosen=chosen)) == found
            assert chunk_ids(await store.lexical(scopes.SHOP, "login", limit=5, chosen=chosen)) == found
            assert [one.id for one in await store.newest(scopes.SHOP, chosen, limit=5)] == found
        assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=5)) == [new.id]
        assert chunk_ids(await store.lexical(scopes.SHOP, "Jana login", limit=5)) == [new.id]
        assert await store.chunks(scopes.SHOP, [past]) == {}
        [kept] = (await store.chunks(scopes.SHOP, [past], history=True)).values()
        assert (kept.text, kept.until_ms, kept.document_id) == (old.text, selection.millis(at(5)), old.document_id)
        line = identity.past(version_id, sentence(old, "Jana does the login").id)
        assert await store.cosines(scopes.SHOP, point(1, 0.2), [line]) == {}
        cosines = await store.cosines(scopes.SHOP, point(1, 0.2), [line], history=True)
        assert cosines == {line: pytest.approx(1.0, abs=1e-3)}
        assert await store.counts(scopes.SHOP) == (1, 0)

    async def test_a_senders_metadata_and_words_narrow_the_past_too(self, store: Store) -> None:
        made = replace(chunk(scopes.SHOP, "u:1", "Jana does the login"), metadata='{"team": "web"}')
        await store.put(scopes.SHOP, [(made, point(1))], [])
        await store.keep(scopes.SHOP, "v", None, selection.millis(at(5)), chunk_ids=[made.id], sentence_ids=[])
        now = replace(made, metadata='{"team": "core"}', observed_at=at(5).isoformat())
        await store.touch(scopes.SHOP, [now])
        past = identity.past("v", made.id)
        for team, day, expected in (("web", 3, [past]), ("core", 3, []), ("web", 6, []), ("core", 6, [made.id])):
            chosen = selection.Selection(as_of=at(day), labels=((f"team={team}",),))
            assert await store.chosen(scopes.SHOP, [made.id, past], chosen) == set(expected)
            assert chunk_ids(await store.dense(scopes.SHOP, point(1), limit=9, chosen=chosen)) == expected
            assert chunk_ids(await store.lexical(scopes.SHOP, "logins", limit=9, chosen=chosen)) == expected
        [found] = (await store.chunks(scopes.SHOP, [past], history=True)).values()
        assert found.said() == {"team": "web"}

    async def test_the_past_is_audited_moved_repaired_and_discarded(self, store: Store) -> None:
        new, version_id = await self.replaced(store)
        old = chunk(scopes.SHOP, "u:1", "Jana does the login")
        past = identity.past(version_id, old.id)
        line = identity.past(version_id, sentence(old, "Jana does the login").id)
        found: list[str] = []
        after: str | None = None
        while True:
            page, after = await store.audit("acme", after=after, limit=1)
            found += [one.chunk_id for one in page]
            if after is None:
                break
        assert sorted(found) == sorted([new.id, past])
        lines, _ = await store.audit_sentences("acme")
        assert [(one.sentence_id, one.chunk_id, one.document_id) for one in lines] == [(line, past, old.document_id)]
        both, _ = await store.audit("acme", document_ids=[new.document_id])
        assert sorted(one.chunk_id for one in both) == sorted(found)
        assert await store.audit_sentences("acme", document_ids=[new.document_id]) == (lines, None)
        assert {one.document_id for one in (await store.held("acme", [past, new.id])).values()} == {old.document_id}
        moved = scopes.make("acme", "shop", "wholesale")
        assert await store.regroup(moved) == 3
        assert (await store.held("acme", [past]))[past].owner == moved
        [kept] = (await store.chunks(moved, [past], history=True)).values()
        await store.touch(moved, [replace(kept, graph_refs=("n:other",))])
        assert (await store.held("acme", [past]))[past].graph_refs == ("n:other",)
        await store.discard("acme", chunk_ids=[past], sentence_ids=[line])
        assert (await store.held("acme", [past, new.id])).keys() == {new.id}
        assert await store.audit_sentences("acme") == ([], None)

    async def test_what_has_an_end_is_put_into_the_past(self, store: Store) -> None:
        begun, ended = selection.millis(at(2)), selection.millis(at(5))
        now = chunk(scopes.SHOP, "u:1", "Jana does the login")
        then = replace(now, id=identity.past("v", now.id), since_ms=begun, until_ms=ended)
        line = replace(sentence(now, now.text), id=identity.past("v", "s"), chunk_id=then.id, until_ms=ended)
        await store.put(scopes.SHOP, [(now, point(1)), (then, point(1))], [(line, point(1))])
        assert await store.counts(scopes.SHOP) == (1, 0)
        assert await store.size("acme") == (2, 1)
        assert await store.size("other") == (0, 0)
        chosen = selection.Selection(as_of=at(3))
        assert then.id in set(chunk_ids(await store.dense(scopes.SHOP, point(1), limit=5, chosen=chosen)))
        assert await store.chunks(scopes.SHOP, [then.id], history=True) == {then.id: then}
        assert (await store.cosines(scopes.SHOP, point(1), [line.id], history=True)).keys() == {line.id}
        assert (await store.held("acme", [now.id]))[now.id].revision == now.revision(scopes.SHOP)
        await store.expire("acme", ended + 1)
        assert await store.size("acme") == (1, 0)
        await store.destroy()

    async def test_versions_expire_and_go_with_their_document(self, store: Store) -> None:
        new, version_id = await self.replaced(store)
        past = identity.past(version_id, chunk(scopes.SHOP, "u:1", "Jana does the login").id)
        await store.expire("acme", selection.millis(at(5)))
        await store.expire("acme", selection.millis(at(9)), document_id=identity.document(scopes.SHOP, "u:2"))
        await store.expire("other", selection.millis(at(9)))
        assert (await store.held("acme", [past])).keys() == {past}
        await store.expire("acme", selection.millis(at(9)), document_id=new.document_id)
        assert await store.held("acme", [past]) == {}
        assert await store.audit_sentences("acme") == ([], None)
        await self.replaced(store)
        await store.drop(scopes.SHOP, new.document_id)
        assert await store.audit("acme") == ([], None)
        assert await store.audit_sentences("acme") == ([], None)

    async def test_a_client_that_owns_nothing_can_be_let_go_of_and_come_back(self, store: Store) -> None:
        new, _ = await self.replaced(store)
        await store.vacate("acme")
        assert len((await store.audit("acme"))[0]) == 2
        await store.drop(scopes.SHOP, new.document_id)
        await store.vacate("acme")
        assert await store.dense(scopes.SHOP, point(1), limit=5) == []
        await self.replaced(store)
        assert len((await store.audit("acme"))[0]) == 2

    @pytest.mark.parametrize("owner", [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.RETAIL])
    async def test_the_past_is_seen_by_whom_the_present_is(self, store: Store, owner: scope.Scope) -> None:
        await self.replaced(store, owner)
        for viewer in (scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.BLOG, scopes.TILL):
            chosen = selection.Selection(as_of=at(3))
            assert bool(await store.dense(viewer, point(1), limit=5, chosen=chosen)) == visibility.sees(viewer, owner)
