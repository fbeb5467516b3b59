"""What every graph store does. A test module subclasses `Contract` and gives the fixture `store`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds import scope
from kb import identity, visibility
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
        assert await store.committed(scopes.SHOP, asked, ["wiki"]) == set(wiki.chunk_ids)
        assert await store.committed(scopes.SHOP, asked, []) == set()
        assert await store.committed(scopes.OTHER, asked) == set()

    async def test_a_hop_leads_to_chunks_that_share_a_node_or_a_neighbour(self, store: Store) -> None:
        start = patch(scopes.SHOP, "u:start", [("person:jana", "leads", "team:core")])
        shares = patch(scopes.SHOP, "u:shares", [("team:core", "owns", "service:login")])
        beyond = patch(scopes.SHOP, "u:beyond", [("jira::X-1", "breaks", "service:login")])
        for made in (start, shares, beyond):
            await store.replace(scopes.SHOP, made)
        reached = await store.reach(scopes.SHOP, start.chunk_ids)
        ways = {(way.document.source_urn, way.node_key, way.edge.type if way.edge else None) for way in reached}
        assert ways == {
            ("u:shares", "team:core", None),
            ("u:shares", "service:login", "owns"),
            ("u:beyond", "service:login", "owns"),
        }
        assert all(way.sentence for way in reached)

    async def test_a_hub_is_capped(self, store: Store) -> None:
        start = patch(scopes.SHOP, "u:start", [("person:jana", "leads", "team:core")])
        await store.replace(scopes.SHOP, start)
        for number in range(6):
            await store.replace(
                scopes.SHOP, patch(scopes.SHOP, f"u:{number}", [("team:core", f"did{number}", f"task:{number}")])
            )
        all_of_them = await store.reach(scopes.SHOP, start.chunk_ids)
        assert len({way.chunk_id for way in all_of_them if way.node_key == "team:core"}) == 6
        capped = await store.reach(scopes.SHOP, start.chunk_ids, per_node=2)
        assert len({way.chunk_id for way in capped if way.node_key == "team:core"}) == 2
        assert len(await store.reach(scopes.SHOP, start.chunk_ids, limit=3)) == 3

    async def test_a_traversal_meets_each_node_once_nearest_first(self, store: Store) -> None:
        ring = [("n:a", "to", "n:b"), ("n:b", "to", "n:c"), ("n:c", "to", "n:d"), ("n:d", "to", "n:a")]
        await store.replace(scopes.SHOP, patch(scopes.SHOP, "u:ring", ring))
        visits = await store.traverse(scopes.SHOP, ["n:a", "n:unknown"], hops=2)
        assert [(visit.node_key, visit.hops) for visit in visits] == [("n:a", 0), ("n:b", 1), ("n:d", 1), ("n:c", 2)]
        assert await store.traverse(scopes.SHOP, ["n:a"], hops=2, limit=2) == visits[:2]
        assert [visit.node_key for visit in await store.traverse(scopes.SHOP, ["n:a"], hops=0)] == ["n:a"]

    async def test_no_hop_crosses_into_what_the_viewer_may_not_see(self, store: Store) -> None:
        mine = patch(scopes.BLOG, "u:mine", [("person:jana", "leads", "team:core")])
        foreign = patch(scopes.SHOP, "u:foreign", [("team:core", "owns", "service:login")])
        stranger = patch(scopes.OTHER, "u:stranger", [("team:core", "sold", "service:login")])
        world = patch(scopes.GLOBAL, "u:world", [("team:core", "means", "n:everyone")])
        pairs = ((scopes.BLOG, mine), (scopes.SHOP, foreign), (scopes.OTHER, stranger), (scopes.GLOBAL, world))
        for owner, made in pairs:
            await store.replace(owner, made)
        reached = await store.reach(scopes.BLOG, mine.chunk_ids)
        assert {way.document.source_urn for way in reached} == {"u:world"}
        visits = await store.traverse(scopes.BLOG, ["person:jana"], hops=3)
        assert [visit.node_key for visit in visits] == ["person:jana", "team:core", "n:everyone"]

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
        visits = await store.traverse(scopes.SHOP, ["team:core"], hops=1)
        assert sorted(visit.node_key for visit in visits if visit.hops == 1) == sorted(keys)

    @pytest.mark.parametrize("viewer", [scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.BLOG])
    async def test_the_table_of_scopes(self, store: Store, viewer: scope.Scope) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        for number, owner in enumerate(owners):
            await store.replace(owner, patch(owner, f"u:{number}", [("n:hub", f"edge{number}", "n:rim")]))
        seen = [number for number, owner in enumerate(owners) if visibility.sees(viewer, owner)]
        shown = {proven.edge.type for proven in await store.edges(viewer)}
        assert shown == {f"edge{number}" for number in seen}
        assert (await store.counts(viewer)).documents == len(seen)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        answers = [*await store.mentioned(viewer, every_chunk)]
        for chunk_id in every_chunk:
            answers += await store.reach(viewer, [chunk_id])
        assert {way.document.id for way in answers} <= mine
        assert len(await store.committed(viewer, every_chunk)) == len(mine)
        for document_id, owner in owners.items():
            assert await store.remove(owner, document_id) is True
