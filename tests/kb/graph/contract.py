"""What every graph store does. A test module subclasses `Contract` and gives the fixture `store`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds import scope
from kb import errors, identity, selection, visibility
from kb.graph import model
from kb.graph.store import Store
from tests.kb import scopes

_NODES = ["person:jana", "file:a.kt", "jira::X-1", "team:core", "service:login"]


def document(owner: scope.Scope, urn: str, kind: str = "email") -> model.Document:
    return model.Document(identity.document(owner, urn), urn, kind, f"Title of {urn}")


def patch(
    owner: scope.Scope, urn: str, edges: list[tuple[str, str, str]], *, chunks: int = 1, kind: str = "email"
) -> model.Patch:
    """A document whose chunks in turn prove the given edges and mention their ends."""
    doc = document(owner, urn, kind)
    chunk_ids = tuple(identity.chunk(doc.id, str(n), 0) for n in range(chunks))
    mentions, evidence = set(), set()
    for place, (source, kind_of_edge, target) in enumerate(edges):
        chunk_id = chunk_ids[place % chunks]
        text = f"{source} {kind_of_edge} {target} says {urn}"
        sentence_id = identity.sentence(chunk_id, text)
        evidence.add(model.Evidence(source, kind_of_edge, target, chunk_id, sentence_id, text))
        for node in (source, target):
            mentions.add(model.Mention(node, chunk_id, sentence_id, text, node.partition(":")[0], node, ""))
    return model.Patch(doc, chunk_ids, tuple(sorted(mentions)), tuple(sorted(evidence)))


async def put(
    store: Store, owner: scope.Scope, urn: str, edges: list[tuple[str, str, str]], **more: Any
) -> model.Patch:
    """Store the `patch` of these arguments."""
    made = patch(owner, urn, edges, **more)
    await store.replace(owner, made)
    return made


async def audited(store: Store, limit: int, document_ids: list[str] | None = None) -> list[model.Committed]:
    """What an audit of the client acme shows, page by page."""
    rows: list[model.Committed] = []
    after: str | None = None
    for _ in range(10):
        page, after = await store.audit("acme", after=after, limit=limit, document_ids=document_ids)
        rows += page
        if after is None:
            return rows
    raise AssertionError("the audit does not end")


def _access(*principals: str) -> tuple[str, ...]:
    return tuple(sorted(f"{visibility.ACCESS}={one}" for one in principals))


async def check_hub(store: Store) -> None:
    """What a store does that reads twenty rows at one node."""
    for number in range(30):
        await put(store, scopes.BLOG, f"u:{number}", [("n:hub", "to", f"n:{number:02}")])
    assert len(await store.leads(scopes.BLOG, ["n:hub"])) == 20
    [first] = await store.nodes(scopes.BLOG, limit=1)
    assert (first.key, first.mentions) == ("n:hub", 20)
    [named] = await store.nodes(scopes.BLOG, keys=["n:hub"])
    assert named.mentions == 30
    assert len((await store.traverse(scopes.BLOG, ["n:hub"], model.Steps(1, 100, 100, None))).visits) == 1 + 20


async def state(store: Store, viewer: scope.Scope) -> tuple[model.Counts, list[model.Proven]]:
    return await store.counts(viewer), await store.edges(viewer)


class Contract:
    """The meaning of `kb.graph.store.Store`."""

    async def test_every_edge_shows_the_chunks_that_prove_it(self, store: Store) -> None:
        first = patch(scopes.SHOP, "u:1", [("person:jana", "wrote", "file:a.kt")])
        second = patch(scopes.SHOP, "u:2", [("person:jana", "wrote", "file:a.kt")])
        await store.replace(scopes.SHOP, first)
        await store.replace(scopes.SHOP, second)
        [proven] = await store.edges(scopes.SHOP)
        assert proven.edge == model.Edge("person:jana", "wrote", "file:a.kt")
        assert proven.evidence_chunk_ids == tuple(sorted(first.chunk_ids + second.chunk_ids))
        assert await store.counts(scopes.SHOP) == model.Counts(documents=2, chunks=2, nodes=2, edges=1, mentions=4)

    async def test_replacing_twice_changes_nothing(self, store: Store) -> None:
        made = await put(store, scopes.SHOP, "u:1", [("person:jana", "wrote", "file:a.kt")], chunks=2)
        before = await state(store, scopes.SHOP)
        await store.replace(scopes.SHOP, made)
        assert await state(store, scopes.SHOP) == before

    async def test_an_older_owner_neither_replaces_nor_removes(self, store: Store) -> None:
        old = patch(scopes.SHOP, "u:1", [("person:jana", "wrote", "file:a.kt")])
        new = patch(scopes.SHOP, "u:1", [("person:jana", "left", "team:core")])
        await store.replace(scopes.SHOP, old, fence=7)
        await store.replace(scopes.SHOP, new, fence=9)
        before = await state(store, scopes.SHOP)
        with pytest.raises(errors.Outrun):
            await store.replace(scopes.SHOP, old, fence=8)
        with pytest.raises(errors.Outrun):
            await store.remove(scopes.SHOP, new.document.id, fence=8)
        assert await state(store, scopes.SHOP) == before
        await store.replace(scopes.SHOP, new, fence=9)
        assert await state(store, scopes.SHOP) == before
        other = patch(scopes.SHOP, "u:2", [("person:jana", "wrote", "file:a.kt")])
        await store.replace(scopes.SHOP, other, fence=8)

    async def test_an_older_owner_does_not_bring_back_what_was_removed(self, store: Store) -> None:
        made = patch(scopes.SHOP, "u:1", [("person:jana", "wrote", "file:a.kt")])
        # Removed before it was ever there: its ingest was slow, and its erasure was not.
        assert not await store.remove(scopes.SHOP, made.document.id, fence=5)
        with pytest.raises(errors.Outrun):
            await store.replace(scopes.SHOP, made, fence=4)
        assert (await store.counts(scopes.SHOP)).documents == 0
        assert await store.forget_fences(5) == 0
        assert await store.forget_fences(6) == 1
        await store.replace(scopes.SHOP, made, fence=4)
        assert (await store.counts(scopes.SHOP)).documents == 1

    async def test_an_older_owner_changes_nothing_in_the_history(self, store: Store) -> None:
        first = version(scopes.SHOP, [("person:jana", "leads", "n:a")], 1)
        await store.replace(scopes.SHOP, first, fence=8)
        [present] = await store.versions(scopes.SHOP, first.document.id)
        kept = version(scopes.SHOP, [("person:jana", "leads", "n:b")], 3, keep=present)
        with pytest.raises(errors.Outrun):
            await store.replace(scopes.SHOP, kept, fence=7)
        assert await store.versions(scopes.SHOP, present.document.id) == [present]
        await store.replace(scopes.SHOP, kept, fence=9)
        before = await store.versions(scopes.SHOP, present.document.id)
        assert len(before) == 2
        with pytest.raises(errors.Outrun):
            await store.expire("acme", selection.millis(at(9)), document_id=present.document.id, fence=8)
        with pytest.raises(errors.Outrun):
            await store.remove(scopes.SHOP, present.document.id, fence=8)
        assert await store.versions(scopes.SHOP, present.document.id) == before
        assert await store.expire("acme", selection.millis(at(9)), document_id=present.document.id, fence=9) == 1

    async def test_replacing_takes_away_what_is_no_longer_said(self, store: Store) -> None:
        old = [("person:jana", "wrote", "file:a.kt"), ("person:jana", "leads", "team:core")]
        new = [("person:jana", "left", "team:core")]
        await put(store, scopes.SHOP, "u:1", old)
        await put(store, scopes.SHOP, "u:1", new)
        after = await state(store, scopes.SHOP)
        assert [str(proven.edge.type) for proven in after[1]] == ["left"]
        assert after[0] == model.Counts(documents=1, chunks=1, nodes=2, edges=1, mentions=2)

    async def test_removing_one_document_leaves_exactly_the_other(self, store: Store) -> None:
        kept = patch(scopes.SHOP, "u:kept", [("person:jana", "wrote", "file:a.kt")])
        gone = patch(
            scopes.SHOP, "u:gone", [("person:jana", "wrote", "file:a.kt"), ("jira::X-1", "fixes", "file:a.kt")]
        )
        await store.replace(scopes.SHOP, kept)
        alone = await state(store, scopes.SHOP)
        await store.replace(scopes.SHOP, gone)
        assert await state(store, scopes.SHOP) != alone
        assert await store.remove(scopes.SHOP, gone.document.id) is True
        assert await state(store, scopes.SHOP) == alone
        assert await store.remove(scopes.SHOP, gone.document.id) is False

    async def test_only_committed_chunks_of_the_kinds_asked_for(self, store: Store) -> None:
        mail = patch(scopes.SHOP, "u:mail", [("person:jana", "wrote", "file:a.kt")], kind="email")
        wiki = patch(scopes.SHOP, "u:wiki", [("person:jana", "wrote", "file:a.kt")], kind="wiki")
        await store.replace(scopes.SHOP, mail)
        await store.replace(scopes.SHOP, wiki)
        asked = [*mail.chunk_ids, *wiki.chunk_ids, "11111111-1111-4111-8111-111111111111"]
        assert await store.committed(scopes.SHOP, asked) == {*mail.chunk_ids, *wiki.chunk_ids}
        assert await store.committed(scopes.SHOP, asked, selection.Selection(kinds=("wiki",))) == set(wiki.chunk_ids)
        assert await store.committed(scopes.SHOP, asked, selection.Selection(kinds=())) == set()
        assert await store.committed(scopes.OTHER, asked) == set()

    async def test_a_hop_leads_from_a_sentence_over_its_node_to_other_chunks(self, store: Store) -> None:
        start = patch(scopes.SHOP, "u:start", [("person:jana", "leads", "team:core")])
        shares = patch(scopes.SHOP, "u:shares", [("team:core", "owns", "service:login")])
        beyond = patch(scopes.SHOP, "u:beyond", [("jira::X-1", "breaks", "service:login")])
        for made in (start, shares, beyond):
            await store.replace(scopes.SHOP, made)
        bridges = await store.bridges(scopes.SHOP, start.chunk_ids)
        sentence = start.mentions[0].sentence_id
        assert bridges == [
            model.Bridge("person:jana", start.chunk_ids[0], sentence),
            model.Bridge("team:core", start.chunk_ids[0], sentence),
        ]
        leads = await store.leads(scopes.SHOP, [bridge.node_key for bridge in bridges])
        assert {(lead.node_key, lead.chunk_id, lead.crowd) for lead in leads} == {
            ("person:jana", start.chunk_ids[0], 1),
            ("team:core", start.chunk_ids[0], 2),
            ("team:core", shares.chunk_ids[0], 2),
        }
        assert await store.leads(scopes.SHOP, ["team:core"], selection.Selection(kinds=("wiki",))) == []

    async def test_what_a_sentence_says_is_shown_with_its_edge(self, store: Store) -> None:
        made = await put(store, scopes.SHOP, "u:1", [("person:jana", "leads", "team:core")])
        said = await store.mentioned(scopes.SHOP, made.chunk_ids)
        assert [(one.node_key, one.edge.type if one.edge else None) for one in said] == [
            ("person:jana", None),
            ("person:jana", "leads"),
            ("team:core", None),
        ]
        assert {one.sentence for one in said} == {"person:jana leads team:core says u:1"}

    async def test_a_hub_is_capped_and_the_most_salient_chunks_stay(self, store: Store) -> None:
        about = patch(scopes.SHOP, "u:about", [("team:core", "means", "n:us")])
        salient = tuple(replace(said, salience=1.0) for said in about.mentions)
        await store.replace(scopes.SHOP, replace(about, mentions=salient))
        for number in range(6):
            await put(store, scopes.SHOP, f"u:{number}", [("team:core", f"did{number}", f"task:{number}")])
        everything = await store.leads(scopes.SHOP, ["team:core"])
        assert len(everything) == 7
        assert {lead.crowd for lead in everything} == {7}
        capped = await store.leads(scopes.SHOP, ["team:core"], per_node=2)
        assert (len(capped), capped[0].chunk_id, capped[0].salience) == (2, about.chunk_ids[0], 1.0)
        assert {lead.crowd for lead in capped} == {2}

    async def test_a_senders_metadata_narrows_before_a_hub_is_capped(self, store: Store) -> None:
        """The two most salient chunks of a hub are of another team than the one that is asked for."""
        made: dict[str, model.Patch] = {}
        for number, labels in enumerate(
            [("team=core",), ("team=core", "urgent=true"), ("team=web",), ("team=web", "urgent=true"), (), None]
        ):
            one = patch(scopes.SHOP, f"u:{number}", [("team:all", f"did{number}", f"task:{number}")])
            said = tuple(replace(mention, salience=1 - number / 10) for mention in one.mentions)
            made[f"u:{number}"] = replace(one, mentions=said, labels=labels)
            await store.replace(scopes.SHOP, made[f"u:{number}"])
        chunks = {urn: one.chunk_ids[0] for urn, one in made.items()}
        # What is not known of a document does not leave it out: the vectors know.
        for groups, admitted in (
            ((("team=web",),), [2, 3, 5]),
            ((("team=web", "team=core"), ("urgent=true",)), [1, 3, 5]),
            ((("team=none",),), [5]),
            ((), [0, 1, 2, 3, 4, 5]),
        ):
            chosen = selection.Selection(labels=groups)
            expected = [chunks[f"u:{number}"] for number in admitted]
            leads = await store.leads(scopes.SHOP, ["team:all"], chosen, per_node=2)
            assert [lead.chunk_id for lead in leads] == expected[:2]
            assert await store.committed(scopes.SHOP, chunks.values(), chosen) == set(expected)

    async def test_the_proofs_of_many_relationships_come_at_once(self, store: Store) -> None:
        for number in range(4):
            owner = scopes.SHOP if number % 2 else scopes.GLOBAL
            made = patch(
                owner, f"u:{number}", [("person:jana", "wrote", "file:a.kt"), ("person:jana", "leads", "team:c")]
            )
            dated = replace(made.document, observed_ms=selection.millis(at(number + 1)))
            await store.replace(owner, replace(made, document=dated))
        wrote = model.Edge("person:jana", "wrote", "file:a.kt")
        leads = model.Edge("person:jana", "leads", "team:c")
        none = model.Edge("person:jana", "wrote", "team:c")
        found = await store.proofs(scopes.SHOP, [wrote, leads, none])
        assert found.keys() == {wrote, leads}
        for edge in (wrote, leads):
            source, kind, target = edge.source, edge.type, edge.target
            said = await store.relationships(scopes.SHOP, source=source, edge_type=kind, target=target)
            assert found[edge] == said
            assert [one.document.source_urn for one in found[edge]] == ["u:3", "u:2", "u:1", "u:0"]
        capped = await store.proofs(scopes.SHOP, [wrote, leads], each=3)
        assert {edge: len(said) for edge, said in capped.items()} == {wrote: 3, leads: 3}
        assert [one.document.source_urn for one in (await store.proofs(scopes.OTHER, [wrote]))[wrote]] == ["u:2", "u:0"]
        assert len((await store.proofs(scopes.SHOP, [wrote], as_of=at(2)))[wrote]) == 2
        assert await store.proofs(scopes.SHOP, []) == {}

    async def test_documents_are_chosen_by_kind_source_and_time(self, store: Store) -> None:
        day = datetime(2026, 3, 2, tzinfo=UTC)
        made: dict[str, model.Document] = {}
        for number, observed in enumerate([None, day, day + timedelta(days=1), day + timedelta(days=2)]):
            said = patch(scopes.SHOP, f"mail:{number}" if number % 2 else f"jira:{number}", [("n:a", "to", "n:b")])
            dated = replace(said.document, observed_ms=selection.millis(observed) if observed else None)
            await store.replace(scopes.SHOP, replace(said, document=dated))
            made[said.chunk_ids[0]] = dated
        for chosen in (
            selection.Selection(since=day),
            selection.Selection(until=day),
            selection.Selection(since=day + timedelta(hours=1), until=day + timedelta(days=1)),
            selection.Selection(as_of=day + timedelta(days=1)),
            selection.Selection(sources=("mail:*", "jira:2")),
            selection.Selection(sources=("mail:*",), as_of=day),
            selection.Selection(sources=()),
        ):
            expected = {
                chunk_id
                for chunk_id, document in made.items()
                if chosen.admits(document.kind, document.source_urn, document.observed_ms)
            }
            assert await store.committed(scopes.SHOP, made, chosen) == expected
            assert {lead.chunk_id for lead in await store.leads(scopes.SHOP, ["n:a"], chosen)} == expected

    async def test_nodes_are_found_by_a_part_of_their_key(self, store: Store) -> None:
        await put(store, scopes.SHOP, "u:1", [("person:jana", "leads", "team:core"), ("person:jana", "x", "n:c")])
        await put(store, scopes.OTHER, "u:2", [("person:janis", "leads", "team:core")])
        [jana] = await store.nodes(scopes.SHOP, text="JAN")
        assert (jana.key, jana.type, jana.mentions, len(jana.chunk_ids)) == ("person:jana", "person", 2, 1)
        assert jana.names == ("person:jana",)
        assert [node.key for node in await store.nodes(scopes.SHOP)] == ["person:jana", "n:c", "team:core"]
        assert [node.key for node in await store.nodes(scopes.SHOP, node_type="team")] == ["team:core"]
        assert [node.key for node in await store.nodes(scopes.SHOP, keys=["n:c", "person:janis"])] == ["n:c"]
        assert len(await store.nodes(scopes.SHOP, limit=1)) == 1

    async def test_nodes_are_found_by_their_names(self, store: Store) -> None:
        edges = [("person:jana", "leads", "team:core"), ("user:jana", "owns", "jira::JERV-1")]
        await put(store, scopes.SHOP, "u:1", edges)
        found = await store.named(scopes.SHOP, ["jana", "jerv-1", "nobody"])
        assert found == {"jana": ["person:jana", "user:jana"], "jerv-1": ["jira::JERV-1"]}
        assert await store.named(scopes.BLOG, ["jana"]) == {}

    async def test_nodes_are_found_by_what_the_forms_of_their_names_have_in_common(self, store: Store) -> None:
        edges = [("person:jana nováková", "leads", "team:core"), ("osoba:janou novákovou", "x", "n:b")]
        await put(store, scopes.SHOP, "u:1", edges)
        stem = model.stem_of("person:jany novákové")
        assert await store.alike(scopes.SHOP, [stem, "nobody"]) == {
            stem: ["osoba:janou novákovou", "person:jana nováková"]
        }
        assert await store.alike(scopes.BLOG, [stem]) == {}

    async def test_forms_of_a_name_are_found_in_the_past_too(self, store: Store) -> None:
        first = version(scopes.SHOP, [("person:jana nováková", "leads", "n:a")], 2)
        await store.replace(scopes.SHOP, first)
        [old] = await store.versions(scopes.SHOP, first.document.id)
        await store.replace(scopes.SHOP, version(scopes.SHOP, [("n:b", "to", "n:c")], 5, keep=old))
        stem = model.stem_of("person:jany novákové")
        assert await store.alike(scopes.SHOP, [stem]) == {}
        assert await store.alike(scopes.SHOP, [stem], as_of=at(3)) == {stem: ["person:jana nováková"]}
        assert await store.alike(scopes.SHOP, [stem], as_of=at(6)) == {}

    async def test_a_relationship_shows_its_proofs_newest_first(self, store: Store) -> None:
        for number in (1, 3, 2):
            said = patch(scopes.SHOP, f"u:{number}", [("person:jana", "leads", "team:core")])
            await store.replace(scopes.SHOP, replace(said, document=replace(said.document, observed_ms=number)))
        await put(store, scopes.SHOP, "u:undated", [("person:jana", "leads", "team:core")])
        found = await store.relationships(scopes.SHOP, source="person:jana", target="team:core")
        assert [one.document.source_urn for one in found] == ["u:3", "u:2", "u:1", "u:undated"]
        assert all(one.edge == model.Edge("person:jana", "leads", "team:core") for one in found)
        assert await store.relationships(scopes.SHOP, source="team:core") == []
        assert len(await store.relationships(scopes.SHOP, edge_type="leads", limit=2)) == 2

    async def test_the_visible_documents_are_listed_page_by_page(self, store: Store) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.OTHER]
        for number, owner in enumerate(owners):
            await put(store, owner, f"mail:{number}", [("n:a", "r", "n:b")])
            await put(store, owner, f"note:{number}", [("n:a", "r", "n:b")], kind="wiki")
        shown: list[model.Listed] = []
        while page := await store.listed(scopes.SHOP, after=shown[-1].document.id if shown else "", limit=3):
            shown += page
        assert [one.document.id for one in shown] == sorted({one.document.id for one in shown})
        visible = {owner for owner in owners if visibility.sees(scopes.SHOP, owner)}
        assert {(one.owner, one.document.kind, one.chunks) for one in shown} == {
            (owner, kind, 1) for owner in visible for kind in ("email", "wiki")
        }
        notes = await store.listed(scopes.SHOP, kind="wiki")
        assert {one.document.source_urn for one in notes} == {f"note:{n}" for n, o in enumerate(owners) if o in visible}
        begun = await store.listed(scopes.SHOP, beginning="mail:2")
        assert [(one.document.source_urn, one.owner) for one in begun] == [("mail:2", scopes.SHOP)]

    async def test_documents_of_exactly_an_owner_are_listed_by_the_beginning_of_their_source(
        self, store: Store
    ) -> None:
        said = [("person:jana", "wrote", "file:a.kt")]
        for urn in ("u:b%_", "u:a", "u:", "u:\U0010ffffz", "v:a", "U:a"):
            await put(store, scopes.SHOP, urn, said)
        await put(store, scopes.SHOP, "u:wiki", said, kind="wiki")
        for owner in (scopes.RETAIL, scopes.ACME, scopes.GLOBAL):
            await put(store, owner, "u:wider", said)

        async def urns(owner: scope.Scope, beginning: str, **more: Any) -> list[str]:
            return [one.source_urn for one in await store.documents(owner, "email", beginning, **more)]

        assert await urns(scopes.SHOP, "u:") == ["u:", "u:a", "u:b%_", "u:\U0010ffffz"]
        assert await urns(scopes.SHOP, "u:", after="u:a", limit=1) == ["u:b%_"]
        assert await urns(scopes.SHOP, "u:b%") == ["u:b%_"]
        assert await urns(scopes.SHOP, "u:b_") == []
        moved = scopes.SHOP.model_copy(update={"group_id": "elsewhere"})
        assert await urns(moved, "u:a") == ["u:a"], "a project's data stay its own when it moves"
        assert await urns(scopes.RETAIL, "u:") == ["u:wider"]
        assert await urns(scopes.ACME, "") == ["u:wider"]
        assert [one.id for one in await store.documents(scopes.SHOP, "wiki", "")] == [
            identity.document(scopes.SHOP, "u:wiki")
        ]

    async def test_a_project_takes_its_data_into_its_new_group(self, store: Store) -> None:
        mine = await put(store, scopes.SHOP, "u:1", [("person:jana", "leads", "team:core")])
        await put(store, scopes.TILL, "u:2", [("person:petr", "leads", "team:core")])
        moved = scopes.make("acme", "shop", "wholesale")
        assert await store.regroup(moved) == [mine.document.id]
        assert await store.regroup(moved) == []
        assert await store.committed(scopes.TILL, mine.chunk_ids) == set()
        assert await store.committed(scopes.make("acme", "bulk", "wholesale"), mine.chunk_ids) == set(mine.chunk_ids)

    async def test_an_audit_shows_everything_of_a_client_with_its_owner(self, store: Store) -> None:
        made: dict[str, scope.Scope] = {}
        for owner in (scopes.ACME, scopes.SHOP, scopes.BLOG, scopes.OTHER):
            said = await put(
                store, owner, "u:1", [("person:jana", "leads", "team:core"), ("n:a", "to", "n:b")], chunks=2
            )
            made |= dict.fromkeys(said.chunk_ids, owner)
        found = await audited(store, 2)
        assert {one.chunk_id: one.owner for one in found} == {
            chunk_id: owner for chunk_id, owner in made.items() if owner is not scopes.OTHER
        }
        assert sorted(one.node_keys for one in found)[0] == ("n:a", "n:b")
        assert all(len(one.sentence_ids) == 1 for one in found)
        assert await store.clients() == ["acme", "other"]

    async def test_an_audit_of_some_documents_shows_them_alone(self, store: Store) -> None:
        made = {}
        for owner, urn in ((scopes.SHOP, "u:1"), (scopes.SHOP, "u:2"), (scopes.BLOG, "u:3"), (scopes.OTHER, "u:4")):
            said = await put(store, owner, urn, [("n:a", "to", "n:b")], chunks=2)
            made[urn] = said
        wanted = [made[urn].document.id for urn in ("u:1", "u:3", "u:4")]
        found = [one.chunk_id for one in await audited(store, 3, wanted)]
        assert sorted(found) == sorted([*made["u:1"].chunk_ids, *made["u:3"].chunk_ids])
        assert await store.audit("acme", document_ids=[]) == ([], None)

    async def test_a_traversal_meets_each_node_once_nearest_first(self, store: Store) -> None:
        ring = [("n:a", "to", "n:b"), ("n:b", "to", "n:c"), ("n:c", "to", "n:d"), ("n:d", "to", "n:a")]
        await put(store, scopes.SHOP, "u:ring", ring)
        walk = await store.traverse(scopes.SHOP, ["n:a", "n:unknown"], model.Steps())
        met = [(visit.node_key, visit.hops) for visit in walk.visits]
        assert met == [("n:a", 0), ("n:b", 1), ("n:d", 1), ("n:c", 2)]
        assert walk.edges == tuple(sorted(model.Edge(*edge) for edge in ring))
        assert not walk.truncated
        short = await store.traverse(scopes.SHOP, ["n:a"], model.Steps(limit=2))
        assert (short.visits, short.truncated) == (walk.visits[:2], True)
        assert [
            visit.node_key for visit in (await store.traverse(scopes.SHOP, ["n:a"], model.Steps(hops=0))).visits
        ] == ["n:a"]
        narrow = await store.traverse(scopes.SHOP, ["n:a"], model.Steps(hops=1, fan_out=1))
        assert ([visit.node_key for visit in narrow.visits], narrow.truncated) == (["n:a", "n:b"], True)
        none = await store.traverse(scopes.SHOP, ["n:a"], model.Steps(edge_types=("other",)))
        assert ([visit.node_key for visit in none.visits], none.edges) == (["n:a"], ())

    async def test_a_traversal_as_of_a_moment_knows_no_later_edges(self, store: Store) -> None:
        day = datetime(2026, 3, 2, tzinfo=UTC)
        for number, edge in enumerate([("n:a", "to", "n:b"), ("n:b", "to", "n:c")]):
            said = patch(scopes.SHOP, f"u:{number}", [edge])
            observed = selection.millis(day + timedelta(days=number))
            await store.replace(scopes.SHOP, replace(said, document=replace(said.document, observed_ms=observed)))
        walk = await store.traverse(scopes.SHOP, ["n:a"], model.Steps(), as_of=day)
        assert [visit.node_key for visit in walk.visits] == ["n:a", "n:b"]
        assert len((await store.traverse(scopes.SHOP, ["n:a"], model.Steps())).visits) == 3

    async def test_no_hop_crosses_into_what_the_viewer_may_not_see(self, store: Store) -> None:
        mine = patch(scopes.BLOG, "u:mine", [("person:jana", "leads", "team:core")])
        foreign = patch(scopes.SHOP, "u:foreign", [("team:core", "owns", "service:login")])
        stranger = patch(scopes.OTHER, "u:stranger", [("team:core", "sold", "service:login")])
        world = patch(scopes.GLOBAL, "u:world", [("team:core", "means", "n:everyone")])
        pairs = ((scopes.BLOG, mine), (scopes.SHOP, foreign), (scopes.OTHER, stranger), (scopes.GLOBAL, world))
        for owner, made in pairs:
            await store.replace(owner, made)
        leads = await store.leads(scopes.BLOG, ["team:core"])
        assert {lead.chunk_id for lead in leads} == {*mine.chunk_ids, *world.chunk_ids}
        walk = await store.traverse(scopes.BLOG, ["person:jana"], model.Steps(hops=3))
        assert [visit.node_key for visit in walk.visits] == ["person:jana", "team:core", "n:everyone"]
        assert {edge.type for edge in walk.edges} == {"leads", "means"}
        # Nor does it begin there: that there is such a node is not told either.
        walk = await store.traverse(scopes.BLOG, ["service:login"], model.Steps(hops=3))
        assert walk == model.Walk((), (), truncated=False)

    async def test_the_documents_to_mend_are_those_whose_owner_sees_the_scope(self, store: Store) -> None:
        owners = [scopes.ACME, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL, scopes.OTHER]
        for owner in owners:
            await put(store, owner, "u:1", [("person:jana", "owns", "file:a.kt")])
        await put(store, scopes.SHOP, "u:2", [("team:core", "owns", "file:a.kt")])
        for asked in owners:
            found = await store.naming(asked, "person:jana")
            expected = {identity.document(owner, "u:1"): owner for owner in owners if visibility.sees(owner, asked)}
            assert {document.id: owner for document, owner in found} == expected
            assert [document.id for document, _ in found] == sorted(expected)
        [first, *_] = await store.naming(scopes.ACME, "person:jana", limit=1)
        rest = await store.naming(scopes.ACME, "person:jana", after=first[0].id)
        assert [first, *rest] == await store.naming(scopes.ACME, "person:jana")
        assert await store.naming(scopes.ACME, "person:nobody") == []

    async def test_somebody_sees_what_the_source_shows_to_it_and_to_all(self, store: Store) -> None:
        told: dict[str, tuple[str, ...] | None] = {
            "old": None,
            "unknown": ("topic=pay",),
            "public": _access("public"),
            "jana": _access("user:jana"),
            "team": _access("user:petr", "group:dev"),
            "nobody": _access("nobody"),
        }
        for owner in (scopes.SHOP, scopes.BLOG):
            for name, labels in told.items():
                said = [(f"person:{name}", "wrote", "file:a.kt"), (f"person:{name}", "wrote", f"file:{name}.kt")]
                await store.replace(owner, replace(patch(owner, f"u:{name}", said), labels=labels))
        first = version(scopes.SHOP, [("person:past", "wrote", "file:a.kt")], 1)
        await store.replace(scopes.SHOP, replace(first, labels=_access("public")))
        [present] = await store.versions(scopes.SHOP, first.document.id)
        assert present.labels == _access("public")
        later = version(scopes.SHOP, [("person:later", "wrote", "file:a.kt")], 3, keep=present)
        await store.replace(scopes.SHOP, replace(later, labels=_access("public")))
        for principals, seen in (
            (("user:jana",), {"public", "jana", "later"}),
            (("user:nina", "group:dev"), {"public", "team", "later"}),
            (("user:nobody",), {"public", "later"}),
            (None, {*told, "later"}),
        ):
            viewer: scope.Scope = scopes.SHOP
            if principals is not None:
                viewer = scope.Viewer(**scopes.SHOP.model_dump(), principals=principals)
            people = {f"person:{name}" for name in seen}
            assert (await store.counts(viewer)).documents == len(seen)
            assert {one.edge.source for one in await store.edges(viewer)} == people
            assert {one.key for one in await store.nodes(viewer, node_type="person")} == people
            walk = await store.traverse(viewer, ["file:a.kt"], model.Steps(1, 100, 100, None))
            assert {one.node_key for one in walk.visits} - {"file:a.kt"} == people
            leads = await store.leads(viewer, ["file:a.kt"])
            assert len({one.chunk_id for one in leads}) == len(seen)
            everything = [one.chunk_id for one in await store.leads(scopes.SHOP, ["file:a.kt"])]
            assert await store.committed(viewer, everything) == {one.chunk_id for one in leads}
            said_there = await store.mentioned(viewer, everything, history=True)
            assert {one.chunk_id for one in said_there} >= {one.chunk_id for one in leads}
            if principals is not None:
                assert {one.chunk_id for one in said_there} == {one.chunk_id for one in leads}
            assert len(await store.listed(viewer)) == len(seen)
            asked = [model.Edge(f"person:{name}", "wrote", "file:a.kt") for name in (*told, "later", "past")]
            assert {edge.source for edge, said in (await store.proofs(viewer, asked)).items() if said} == people
            assert bool(await store.replaced(viewer, [first.document.id])) == (principals is None)

    async def test_strange_keys_are_kept_apart(self, store: Store) -> None:
        keys = [
            "file:ä/ö ü.kt",
            "file:" + "x" * 300,
            "file:" + "x" * 299 + "y",
            "note:a|b%c",
            "note:a_b_c",
            "note:日本",
        ]
        edges = [(key, "mentions", "team:core") for key in keys]
        await put(store, scopes.SHOP, "u:1", edges)
        walk = await store.traverse(scopes.SHOP, ["team:core"], model.Steps(hops=1))
        assert sorted(visit.node_key for visit in walk.visits if visit.hops == 1) == sorted(keys)

    @pytest.mark.parametrize("viewer", [scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.BLOG])
    async def test_the_table_of_scopes(self, store: Store, viewer: scope.Scope) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        for number, owner in enumerate(owners):
            await put(store, owner, f"u:{number}", [("n:hub", f"edge{number}", "n:rim")])
        seen = [number for number, owner in enumerate(owners) if visibility.sees(viewer, owner)]
        assert {proven.edge.type for proven in await store.edges(viewer)} == {f"edge{number}" for number in seen}
        # A chunk and two mentions each, of the same two nodes.
        many = len(seen)
        expected = model.Counts(documents=many, chunks=many, nodes=2 if many else 0, edges=many, mentions=2 * many)
        assert await store.counts(viewer) == expected

    @settings(
        max_examples=25,
        deadline=None,
        # Differing executors: each implementation runs the same test, and an example of one is one of the other.
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.differing_executors,
        ],
    )
    @given(
        world=st.lists(
            st.tuples(
                scopes.ANY,
                st.lists(
                    st.tuples(st.sampled_from(_NODES), st.sampled_from(["r", "s"]), st.sampled_from(_NODES)),
                    min_size=1,
                    max_size=3,
                ),
            ),
            max_size=6,
        ),
        viewer=scopes.ANY,
        run=st.uuids(),
    )
    async def test_nothing_foreign_in_any_answer(
        self,
        store: Store,
        world: list[tuple[scope.Scope, list[tuple[str, str, str]]]],
        viewer: scope.Scope,
        run: object,
    ) -> None:
        owners: dict[str, scope.Scope] = {}
        for number, (owner, edges) in enumerate(world):
            made = await put(store, owner, f"{run}:{number}", edges)
            owners[made.document.id] = owner
        every_chunk = [
            identity.chunk(identity.document(owner, f"{run}:{number}"), "0", 0)
            for number, (owner, _) in enumerate(world)
        ]
        mine = {made for made, owner in owners.items() if visibility.sees(viewer, owner)}
        visible = set(await store.committed(viewer, every_chunk))
        assert len(visible) == len(mine)
        said = await store.mentioned(viewer, every_chunk) + await store.relationships(viewer)
        assert {one.document.id for one in said} <= mine
        seen = {
            *(one.chunk_id for one in said),
            *(bridge.chunk_id for bridge in await store.bridges(viewer, every_chunk)),
            *(lead.chunk_id for lead in await store.leads(viewer, _NODES)),
        }
        nodes = await store.nodes(viewer)
        assert seen | {chunk_id for node in nodes for chunk_id in node.chunk_ids} <= visible
        allowed = {
            node for owner, edges in world for s, _, t in edges for node in (s, t) if visibility.sees(viewer, owner)
        }
        assert {node.key for node in nodes} == allowed
        walk = await store.traverse(viewer, _NODES, model.Steps())
        assert {visit.node_key for visit in walk.visits} == allowed
        shown = {proven.edge for proven in await store.edges(viewer)}
        assert set(walk.edges) == shown
        for document_id, owner in owners.items():
            assert await store.remove(owner, document_id) is True


def at(day: int) -> datetime:
    return datetime(2026, 3, day, tzinfo=UTC)


def version(
    owner: scope.Scope,
    edges: list[tuple[str, str, str]],
    day: int,
    *,
    urn: str = "jira:1",
    keep: model.Version | None = None,
) -> model.Patch:
    """A document as it was on that day in March; with `keep` it replaces that version."""
    made = patch(owner, urn, edges)
    text = f"{day}:{edges}"
    renamed = {chunk_id: identity.chunk(made.document.id, identity.digest(text), 0) for chunk_id in made.chunk_ids}
    kept = None
    if keep is not None:
        began = keep.document.start_ms
        kept = model.Keep(identity.version(made.document.id, keep.revision, began), selection.millis(at(day)))
    return replace(
        made,
        document=replace(made.document, observed_ms=selection.millis(at(day))),
        chunk_ids=tuple(renamed.values())[:1],
        mentions=tuple(replace(one, chunk_id=renamed[one.chunk_id]) for one in made.mentions),
        evidence=tuple(replace(one, chunk_id=renamed[one.chunk_id]) for one in made.evidence),
        revision=identity.digest(text)[:8],
        keep=kept,
    )


class History:
    """What every graph store does with versions that were replaced, and with what callers give."""

    async def twice(self, store: Store, owner: scope.Scope = scopes.SHOP) -> tuple[model.Patch, model.Patch]:
        """A ticket that passes from Jana to Petr on 5 March."""
        first = version(owner, [("jira::X-1", "assigned_to", "user:jana")], 2)
        await store.replace(owner, first)
        [present] = await store.versions(owner, first.document.id)
        second = version(owner, [("jira::X-1", "assigned_to", "user:petr")], 5, keep=present)
        await store.replace(owner, second)
        return first, second

    async def test_the_past_is_answered_as_it_was(self, store: Store) -> None:
        await self.twice(store)
        for day, name in ((1, None), (2, "user:jana"), (4, "user:jana"), (5, "user:petr"), (9, "user:petr")):
            moment = at(day)
            proofs = await store.relationships(scopes.SHOP, source="jira::X-1", as_of=moment)
            assert [one.edge.target for one in proofs if one.edge] == ([name] if name else [])
            walk = await store.traverse(scopes.SHOP, ["jira::X-1"], model.Steps(), as_of=moment)
            assert [edge.target for edge in walk.edges] == ([name] if name else [])
            nodes = await store.nodes(scopes.SHOP, text="user:", as_of=moment)
            assert [node.key for node in nodes] == ([name] if name else [])
            names = await store.named(scopes.SHOP, ["jana", "petr"], as_of=moment)
            assert [key for keys in names.values() for key in keys] == ([name] if name else [])
            seen = await store.observed(scopes.SHOP, ["jira::X-1"], ["assigned_to"], as_of=moment)
            assert [one.edge.target for one in seen] == ([name] if name else [])
            leads = await store.leads(scopes.SHOP, ["jira::X-1"], selection.Selection(as_of=moment))
            chunks = [lead.chunk_id for lead in leads]
            assert len(chunks) == (1 if name else 0)
            assert await store.committed(scopes.SHOP, chunks, selection.Selection(as_of=moment)) == set(chunks)
            said = await store.mentioned(scopes.SHOP, chunks, history=True)
            assert [one.edge.target for one in said if one.edge] == ([name] if name else [])
            bridges = await store.bridges(scopes.SHOP, chunks, history=True)
            assert {bridge.node_key for bridge in bridges} == ({"jira::X-1", name} if name else set())

    async def test_the_present_does_not_see_the_past(self, store: Store) -> None:
        _, second = await self.twice(store)
        past = await store.relationships(scopes.SHOP, source="jira::X-1", as_of=at(3))
        assert {one.document.until_ms for one in past} == {selection.millis(at(5))}
        assert {one.document.id for one in past} == {second.document.id}
        gone = [one.chunk_id for one in past]
        assert await store.committed(scopes.SHOP, gone) == set()
        assert await store.mentioned(scopes.SHOP, gone) == []
        assert await store.bridges(scopes.SHOP, gone) == []
        [proof] = await store.relationships(scopes.SHOP, source="jira::X-1")
        assert proof.edge == model.Edge("jira::X-1", "assigned_to", "user:petr")
        assert await store.named(scopes.SHOP, ["jana"]) == {}
        alone = await store.counts(scopes.SHOP), await store.edges(scopes.SHOP)
        await store.remove(scopes.SHOP, second.document.id)
        await store.replace(scopes.SHOP, replace(second, keep=None))
        assert (await store.counts(scopes.SHOP), await store.edges(scopes.SHOP)) == alone

    async def test_all_versions_of_a_relationship_can_be_asked_for(self, store: Store) -> None:
        await self.twice(store)
        found = await store.relationships(scopes.SHOP, source="jira::X-1", history=True)
        assert [(one.edge.target, one.document.until_ms) for one in found if one.edge] == [
            ("user:jana", selection.millis(at(5))),
            ("user:petr", None),
        ]

    async def test_a_limit_counts_what_was_known_then(self, store: Store) -> None:
        for day, name in ((2, "user:zoe"), (5, "user:adam"), (6, "user:adam")):
            made = version(scopes.SHOP, [("jira::X-1", "assigned_to", name)], day, urn=f"u:{day}")
            await store.replace(scopes.SHOP, made)
        found = await store.relationships(scopes.SHOP, source="jira::X-1", as_of=at(3), limit=1)
        assert [one.edge.target for one in found if one.edge] == ["user:zoe"]

    async def test_versions_are_listed_the_latest_first_and_the_oldest_expire(self, store: Store) -> None:
        _, second = await self.twice(store)
        document_id = second.document.id
        present = (await store.versions(scopes.SHOP, document_id))[0]
        third = version(scopes.SHOP, [("jira::X-1", "assigned_to", "user:iva")], 7, keep=present)
        await store.replace(scopes.SHOP, third)
        listed = await store.versions(scopes.SHOP, document_id)
        assert [(one.document.start_ms, one.document.until_ms) for one in listed] == [
            (selection.millis(at(7)), None),
            (selection.millis(at(5)), selection.millis(at(7))),
            (selection.millis(at(2)), selection.millis(at(5))),
        ]
        assert [one.id for one in listed][:2] == [document_id, third.keep.id if third.keep else ""]
        assert [one.revision for one in listed][:2] == [third.revision, second.revision]
        assert listed[0].chunk_ids == third.chunk_ids
        assert listed[1].chunk_ids == tuple(identity.past(listed[1].id, one) for one in second.chunk_ids)
        assert await store.expire("other", selection.millis(at(20))) == 0
        assert await store.expire("acme", selection.millis(at(6)), document_id="another") == 0
        assert await store.expire("acme", selection.millis(at(6))) == 1
        assert await store.versions(scopes.SHOP, document_id) == listed[:2]
        assert await store.relationships(scopes.SHOP, source="jira::X-1", as_of=at(3)) == []
        assert await store.expire("acme", selection.millis(at(8)), document_id=document_id) == 1
        assert await store.versions(scopes.SHOP, document_id) == listed[:1]

    async def test_the_replaced_versions_of_many_documents_come_at_once(self, store: Store) -> None:
        _, second = await self.twice(store)
        present = (await store.versions(scopes.SHOP, second.document.id))[0]
        third = version(scopes.SHOP, [("jira::X-1", "assigned_to", "user:iva")], 7, keep=present)
        await store.replace(scopes.SHOP, third)
        never = version(scopes.SHOP, [("n:a", "to", "n:b")], 2, urn="u:never")
        await store.replace(scopes.SHOP, never)
        ids = [second.document.id, never.document.id]
        versions = await store.versions(scopes.SHOP, second.document.id)
        assert await store.replaced(scopes.SHOP, ids) == {ids[0]: [one.document for one in versions[1:]]}
        assert await store.replaced(scopes.BLOG, ids) == {}
        assert await store.replaced(scopes.SHOP, []) == {}

    async def test_labels_narrow_the_past_by_what_was_said_then(self, store: Store) -> None:
        first = version(scopes.SHOP, [("n:a", "to", "n:b")], 2)
        await store.replace(scopes.SHOP, replace(first, labels=("team=web",)))
        [present] = await store.versions(scopes.SHOP, first.document.id)
        second = version(scopes.SHOP, [("n:a", "to", "n:c")], 5, keep=present)
        await store.replace(scopes.SHOP, replace(second, labels=("team=core",)))
        past = identity.past(second.keep.id if second.keep else "", first.chunk_ids[0])
        for team, day, expected in (("web", 3, [past]), ("core", 3, []), ("web", 6, []), ("core", 6, second.chunk_ids)):
            chosen = selection.Selection(as_of=at(day), labels=((f"team={team}",),))
            assert [one.chunk_id for one in await store.leads(scopes.SHOP, ["n:a"], chosen)] == list(expected)

    async def test_nodes_are_found_by_the_properties_that_are_shown(self, store: Store) -> None:
        """Also where another document gave the value that is asked for before, and beyond the first page."""
        given: dict[str, dict[int, dict[str, Any]]] = {
            "jira::X-1": {2: {"status": "Open", "points": 3}, 5: {"status": "Done"}},
            "jira::X-2": {2: {"status": "Open", "build": {"branch": "main"}}},
            "jira::X-3": {2: {"status": "Open"}, 5: {"labels": ["a", "b"]}},
            "jira::X-4": {},
        }
        for key, days in given.items():
            for day, said in days.items() or {3: {}}.items():
                made = version(scopes.SHOP, [(key, "to", "n:status")], day, urn=f"u:{key}:{day}")
                text = json.dumps(said, sort_keys=True) if said else ""
                told = tuple(replace(one, properties=text if one.node_key == key else "") for one in made.mentions)
                await store.replace(scopes.SHOP, replace(made, mentions=told))
        for having, found in (
            ((("status=Open",),), ["jira::X-3", "jira::X-2"]),
            ((("status=Done", "status=Open"),), ["jira::X-1", "jira::X-3", "jira::X-2"]),
            ((("status=Done",), ("points=3",)), ["jira::X-1"]),
            ((("build.branch=main",),), ["jira::X-2"]),
            ((("labels=b",),), ["jira::X-3"]),
            ((("status=",),), []),
            ((("none=Open",),), []),
        ):
            for limit in (1, 2, 50):
                nodes = await store.nodes(scopes.SHOP, having=having, limit=limit)
                assert [node.key for node in nodes] == found[:limit]
            assert await store.nodes(scopes.BLOG, having=having) == []
        [then] = await store.nodes(scopes.SHOP, having=(("status=Open",),), keys=["jira::X-1"], as_of=at(3))
        assert (then.key, then.mentions) == ("jira::X-1", 1)
        [now] = await store.nodes(scopes.SHOP, having=(("status=Done",),))
        assert now.mentions == 2, "also what says nothing of it"
        assert await store.nodes(scopes.SHOP, having=(("status=Open",),), keys=["jira::X-1"]) == []

    async def test_a_commit_that_is_repeated_leaves_the_past_alone(self, store: Store) -> None:
        _, second = await self.twice(store)
        before = await store.relationships(scopes.SHOP, source="jira::X-1", history=True)
        await store.replace(scopes.SHOP, replace(second, keep=None))
        assert await store.relationships(scopes.SHOP, source="jira::X-1", history=True) == before

    async def test_nothing_of_a_removed_document_stays_in_the_past(self, store: Store) -> None:
        _, second = await self.twice(store)
        assert await store.remove(scopes.SHOP, second.document.id) is True
        assert await store.versions(scopes.SHOP, second.document.id) == []
        assert await store.relationships(scopes.SHOP, source="jira::X-1", history=True) == []
        assert await store.nodes(scopes.SHOP, as_of=at(3)) == []
        assert await store.audit("acme") == ([], None)

    async def test_an_audit_shows_the_past_as_part_of_its_document(self, store: Store) -> None:
        first, second = await self.twice(store)
        found = await audited(store, 1)
        kept = second.keep.id if second.keep else ""
        past = identity.past(kept, first.chunk_ids[0])
        assert {one.chunk_id: one.node_keys for one in found} == {
            second.chunk_ids[0]: ("jira::X-1", "user:petr"),
            past: ("jira::X-1", "user:jana"),
        }
        assert {one.document.id for one in found} == {first.document.id}
        assert {one.owner for one in found} == {scopes.SHOP}
        assert (await store.audit("acme", document_ids=[first.document.id]))[0] == found
        assert await store.audit("acme", document_ids=["another"]) == ([], None)
        held = await store.held("acme", [past, *second.chunk_ids])
        assert held == {one.chunk_id: one for one in found}
        sentence = first.mentions[0].sentence_id
        assert held[past].sentence_ids == (identity.past(kept, sentence),)
        assert await store.clients() == ["acme"]

    async def test_the_past_moves_with_its_project(self, store: Store) -> None:
        await self.twice(store)
        moved = scopes.make("acme", "shop", "wholesale")
        assert await store.regroup(moved) == [identity.document(scopes.SHOP, "jira:1")]
        new = scopes.make("acme", "bulk", "wholesale")
        assert await store.relationships(scopes.TILL, source="jira::X-1", as_of=at(3)) == []
        assert len(await store.relationships(new, source="jira::X-1", as_of=at(3))) == 1

    @pytest.mark.parametrize("owner", [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.RETAIL])
    async def test_the_past_is_seen_by_whom_the_present_is(self, store: Store, owner: scope.Scope) -> None:
        await self.twice(store, owner)
        for viewer in (scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.BLOG, scopes.TILL):
            found = await store.relationships(viewer, source="jira::X-1", as_of=at(3))
            assert bool(found) == visibility.sees(viewer, owner)
            walk = await store.traverse(viewer, ["user:jana"], model.Steps(), as_of=at(3))
            assert bool(walk.edges) == visibility.sees(viewer, owner)

    async def test_a_version_may_begin_at_another_time_than_it_was_observed(self, store: Store) -> None:
        made = version(scopes.SHOP, [("n:a", "to", "n:b")], 2)
        for since, first_day in ((selection.millis(at(4)), 4), (selection.ALWAYS, 1)):
            await store.replace(scopes.SHOP, replace(made, document=replace(made.document, since_ms=since)))
            for day in (1, 3, 4, 5):
                known = await store.committed(scopes.SHOP, made.chunk_ids, selection.Selection(as_of=at(day)))
                assert bool(known) == (day >= first_day)
        dated = selection.Selection(until=at(2))
        assert await store.committed(scopes.SHOP, made.chunk_ids, dated) == set(made.chunk_ids)

    async def test_properties_are_those_of_the_latest_document_that_the_viewer_sees(self, store: Store) -> None:
        values = {2: '{"status": "Open", "points": 3}', 5: '{"labels": ["a", "b"], "status": "Done"}'}
        for day, text in values.items():
            made = version(scopes.SHOP, [("jira::X-1", "to", "n:b")], day, urn=f"u:{day}")
            told = tuple(replace(one, properties=text if one.node_key == "jira::X-1" else "") for one in made.mentions)
            await store.replace(scopes.SHOP, replace(made, mentions=told))
        [node] = await store.nodes(scopes.SHOP, keys=["jira::X-1"])
        assert node.properties == {"labels": ["a", "b"], "points": 3, "status": "Done"}
        [then] = await store.nodes(scopes.SHOP, keys=["jira::X-1"], as_of=at(3))
        assert then.properties == {"points": 3, "status": "Open"}
        assert await store.nodes(scopes.BLOG, keys=["jira::X-1"]) == []

    async def test_a_given_relationship_shows_its_places_and_properties(self, store: Store) -> None:
        made = patch(scopes.SHOP, "u:1", [("class:a", "calls", "method:b")])
        places = ("src/a.kt@4f2c1a:17", "src/a.kt@4f2c1a:21")
        given = tuple(replace(one, places=places, properties='{"line": 17}') for one in made.evidence)
        await store.replace(scopes.SHOP, replace(made, evidence=given, given="{}", revision="r"))
        for said in (
            await store.relationships(scopes.SHOP, source="class:a"),
            [one for one in await store.mentioned(scopes.SHOP, made.chunk_ids) if one.edge],
        ):
            assert [(one.places, one.properties) for one in said] == [(places, '{"line": 17}')]
        [found] = await store.versions(scopes.SHOP, made.document.id)
        assert (found.given, found.revision) == ("{}", "r")
