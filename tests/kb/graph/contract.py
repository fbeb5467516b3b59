"""What every graph store does. A test module subclasses `Contract` and gives the fixture `store`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds import scope
from kb import identity, selection, visibility
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
        made = patch(scopes.SHOP, "u:1", [("person:jana", "wrote", "file:a.kt")], chunks=2)
        await store.replace(scopes.SHOP, made)
        before = await state(store, scopes.SHOP)
        await store.replace(scopes.SHOP, made)
        assert await state(store, scopes.SHOP) == before

    async def test_replacing_takes_away_what_is_no_longer_said(self, store: Store) -> None:
        old = [("person:jana", "wrote", "file:a.kt"), ("person:jana", "leads", "team:core")]
        new = [("person:jana", "left", "team:core")]
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:1", old))
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:1", new))
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
        made = patch(scopes.SHOP, "u:1", [("person:jana", "leads", "team:core")])
        await store.replace(scopes.SHOP, made)
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
            await store.replace(
                scopes.SHOP, patch(scopes.SHOP, f"u:{number}", [("team:core", f"did{number}", f"task:{number}")])
            )
        everything = await store.leads(scopes.SHOP, ["team:core"])
        assert len(everything) == 7
        assert {lead.crowd for lead in everything} == {7}
        capped = await store.leads(scopes.SHOP, ["team:core"], per_node=2)
        assert (len(capped), capped[0].chunk_id, capped[0].salience) == (2, about.chunk_ids[0], 1.0)
        assert {lead.crowd for lead in capped} == {2}

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
        await store.replace(
            scopes.SHOP, patch(scopes.SHOP, "u:1", [("person:jana", "leads", "team:core"), ("person:jana", "x", "n:c")])
        )
        await store.replace(scopes.OTHER, patch(scopes.OTHER, "u:2", [("person:janis", "leads", "team:core")]))
        [jana] = await store.nodes(scopes.SHOP, text="JAN")
        assert (jana.key, jana.type, jana.mentions, len(jana.chunk_ids)) == ("person:jana", "person", 2, 1)
        assert jana.names == ("person:jana",)
        assert [node.key for node in await store.nodes(scopes.SHOP)] == ["person:jana", "n:c", "team:core"]
        assert [node.key for node in await store.nodes(scopes.SHOP, node_type="team")] == ["team:core"]
        assert [node.key for node in await store.nodes(scopes.SHOP, keys=["n:c", "person:janis"])] == ["n:c"]
        assert len(await store.nodes(scopes.SHOP, limit=1)) == 1

    async def test_nodes_are_found_by_their_names(self, store: Store) -> None:
        edges = [("person:jana", "leads", "team:core"), ("user:jana", "owns", "jira::JERV-1")]
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:1", edges))
        found = await store.named(scopes.SHOP, ["jana", "jerv-1", "nobody"])
        assert found == {"jana": ["person:jana", "user:jana"], "jerv-1": ["jira::JERV-1"]}
        assert await store.named(scopes.BLOG, ["jana"]) == {}

    async def test_a_relationship_shows_its_proofs_newest_first(self, store: Store) -> None:
        for number in (1, 3, 2):
            said = patch(scopes.SHOP, f"u:{number}", [("person:jana", "leads", "team:core")])
            await store.replace(scopes.SHOP, replace(said, document=replace(said.document, observed_ms=number)))
        undated = patch(scopes.SHOP, "u:undated", [("person:jana", "leads", "team:core")])
        await store.replace(scopes.SHOP, undated)
        found = await store.relationships(scopes.SHOP, source="person:jana", target="team:core")
        assert [one.document.source_urn for one in found] == ["u:3", "u:2", "u:1", "u:undated"]
        assert all(one.edge == model.Edge("person:jana", "leads", "team:core") for one in found)
        assert await store.relationships(scopes.SHOP, source="team:core") == []
        assert len(await store.relationships(scopes.SHOP, edge_type="leads", limit=2)) == 2

    async def test_documents_of_exactly_an_owner_are_listed_by_the_beginning_of_their_source(
        self, store: Store
    ) -> None:
        said = [("person:jana", "wrote", "file:a.kt")]
        for urn in ("u:b%_", "u:a", "u:", "u:\U0010ffffz", "v:a", "U:a"):
            await store.replace(scopes.SHOP, patch(scopes.SHOP, urn, said))
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:wiki", said, kind="wiki"))
        for owner in (scopes.RETAIL, scopes.ACME, scopes.GLOBAL):
            await store.replace(owner, patch(owner, "u:wider", said))

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
        mine = patch(scopes.SHOP, "u:1", [("person:jana", "leads", "team:core")])
        await store.replace(scopes.SHOP, mine)
        await store.replace(scopes.TILL, patch(scopes.TILL, "u:2", [("person:petr", "leads", "team:core")]))
        moved = scopes.make("acme", "shop", "wholesale")
        assert await store.regroup(moved) == [mine.document.id]
        assert await store.regroup(moved) == []
        assert await store.committed(scopes.TILL, mine.chunk_ids) == set()
        assert await store.committed(scopes.make("acme", "bulk", "wholesale"), mine.chunk_ids) == set(mine.chunk_ids)

    async def test_an_audit_shows_everything_of_a_client_with_its_owner(self, store: Store) -> None:
        made: dict[str, scope.Scope] = {}
        for owner in (scopes.ACME, scopes.SHOP, scopes.BLOG, scopes.OTHER):
            said = patch(owner, "u:1", [("person:jana", "leads", "team:core"), ("n:a", "to", "n:b")], chunks=2)
            await store.replace(owner, said)
            made |= dict.fromkeys(said.chunk_ids, owner)
        found: list[model.Committed] = []
        after: str | None = None
        for _ in range(10):
            page, after = await store.audit("acme", after=after, limit=2)
            found += page
            if after is None:
                break
        assert {one.chunk_id: one.owner for one in found} == {
            chunk_id: owner for chunk_id, owner in made.items() if owner is not scopes.OTHER
        }
        assert sorted(one.node_keys for one in found)[0] == ("n:a", "n:b")
        assert all(len(one.sentence_ids) == 1 for one in found)
        assert await store.clients() == ["acme", "other"]

    async def test_a_traversal_meets_each_node_once_nearest_first(self, store: Store) -> None:
        ring = [("n:a", "to", "n:b"), ("n:b", "to", "n:c"), ("n:c", "to", "n:d"), ("n:d", "to", "n:a")]
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:ring", ring))
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
            await store.replace(owner, patch(owner, "u:1", [("person:jana", "owns", "file:a.kt")]))
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:2", [("team:core", "owns", "file:a.kt")]))
        for asked in owners:
            found = await store.naming(asked, "person:jana")
            expected = {identity.document(owner, "u:1"): owner for owner in owners if visibility.sees(owner, asked)}
            assert {document.id: owner for document, owner in found} == expected
            assert [document.id for document, _ in found] == sorted(expected)
        [first, *_] = await store.naming(scopes.ACME, "person:jana", limit=1)
        rest = await store.naming(scopes.ACME, "person:jana", after=first[0].id)
        assert [first, *rest] == await store.naming(scopes.ACME, "person:jana")
        assert await store.naming(scopes.ACME, "person:nobody") == []

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
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:1", edges))
        walk = await store.traverse(scopes.SHOP, ["team:core"], model.Steps(hops=1))
        assert sorted(visit.node_key for visit in walk.visits if visit.hops == 1) == sorted(keys)

    @pytest.mark.parametrize("viewer", [scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.BLOG])
    async def test_the_table_of_scopes(self, store: Store, viewer: scope.Scope) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        for number, owner in enumerate(owners):
            await store.replace(owner, patch(owner, f"u:{number}", [("n:hub", f"edge{number}", "n:rim")]))
        seen = [number for number, owner in enumerate(owners) if visibility.sees(viewer, owner)]
        shown = {proven.edge.type for proven in await store.edges(viewer)}
        assert shown == {f"edge{number}" for number in seen}
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
            made = patch(owner, f"{run}:{number}", edges)
            await store.replace(owner, made)
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
