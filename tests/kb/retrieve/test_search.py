"""The evidence pack: hops, provenance, kinds, and nothing that is not committed or not the viewer's."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds import scope
from kb import metrics, visibility
from kb.retrieve import search
from kb.vectors import weaviate
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.vectors import contract


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[world.ObservedState]:
    async with world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content()) as made:
        yield made


async def test_a_hop_brings_what_the_words_do_not(kb: world.ObservedState) -> None:
    await kb.ingest(world.request("Petr Svoboda wrote Gateway.kt.", urn="u:1", title="Gateway"))
    far = await kb.ingest(world.request("Petr Svoboda will retire next summer.", urn="u:2", title="News"))
    for number in range(40):
        text = f"We write file{number}.kt and nobody knows which module{number}.kt belongs where."
        await kb.ingest(world.request(text, urn=f"u:noise{number}", title="Modules"))
    question = "Who wrote Gateway.kt?"
    narrow = search.Breadth(hits=10)
    with_hops = await kb.ask(question, breadth=narrow, max_results=3)
    without = await kb.ask(question, breadth=dataclasses.replace(narrow, hops=0), max_results=3)
    [reached] = [item for item in with_hops.items if item.provenance.chunk_id in far.chunk_ids]
    assert far.chunk_ids[0] not in [item.provenance.chunk_id for item in without.items]
    assert reached.source == "Graph"
    assert reached.provenance.node_key is not None
    assert reached.provenance.node_key.endswith("petr svoboda")
    assert reached.provenance.sentence == "Petr Svoboda will retire next summer."
    for found in (with_hops, without):
        assert len({item.provenance.chunk_id for item in found.items}) == len(found.items) == 3
        confidences = [item.confidence for item in found.items]
        assert confidences == sorted(confidences, reverse=True)


async def test_kinds_hold_for_hops_too(kb: world.ObservedState) -> None:
    await kb.ingest(world.request("Petr Svoboda wrote Gateway.kt.", urn="u:1", kind="git"))
    await kb.ingest(world.request("Petr Svoboda moved to Brno.", urn="u:2", kind="email"))
    found = await kb.ask("Who wrote Gateway.kt and where is he?", kinds=["git"])
    assert {item.provenance.source_urn for item in found.items} == {"u:1"}


async def test_what_the_graph_has_not_committed_is_not_shown(kb: world.ObservedState) -> None:
    stray = contract.chunk(scopes.SHOP, "u:stray", "login bug")
    await kb.vectors.put(scopes.SHOP, [(stray, [0.1] * 384)], [])
    assert (await kb.ask("login bug")).items == []


_WORLD = st.lists(st.tuples(scopes.ANY, st.integers(0, 3)), min_size=1, max_size=5)


async def check(
    kb: world.ObservedState, documents: list[tuple[scope.Scope, int]], viewer: scope.Scope, run: object
) -> None:
    """Ingest one sentence about a shared entity per document; a viewer finds exactly what it may see."""
    owners: dict[str, scope.Scope] = {}
    for number, (owner, variant) in enumerate(documents):
        urn = f"u:{run}:{number}"
        await kb.ingest(world.request(f"Petr Svoboda wrote Gateway{variant}.kt.", owner=owner, urn=urn))
        owners[urn] = owner
    found = await kb.ask("Who wrote the gateway?", viewer, max_results=50)
    mine = {urn for urn, owner in owners.items() if visibility.sees(viewer, owner)}
    assert {item.provenance.source_urn for item in found.items} == mine
    for urn, owner in owners.items():
        await kb.pipeline.forget(owner, urn)
    assert (await kb.ask("Who wrote the gateway?", viewer, max_results=50)).items == []


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(documents=_WORLD, viewer=scopes.ANY, run=st.uuids())
async def test_nothing_foreign_is_ever_found(
    kb: world.ObservedState, documents: list[tuple[scope.Scope, int]], viewer: scope.Scope, run: object
) -> None:
    await check(kb, documents, viewer, run)


@pytest.mark.services
async def test_nothing_foreign_is_ever_found_in_weaviate(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    weaviate_store: weaviate.Store,
) -> None:
    owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
    async with world.opened(tmp_path, router, clock, meters, weaviate_store, memory.Content()) as kb:
        for number, viewer in enumerate([*owners, scopes.make("nobody")]):
            await check(kb, [(owner, place) for place, owner in enumerate(owners)], viewer, number)
