"""The evidence pack: hops, provenance, kinds, what it is sufficient for, and nothing that is not the viewer's."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.kb import retrieval
from crds import scope
from crds.priority import Priority
from kb import api, errors, metrics, visibility
from kb.extract import answers as kept
from kb.extract import extraction, prompt
from kb.graph import model as graph_model
from kb.retrieve import rank, search, sufficiency
from kb.vectors import embedding, weaviate
from router import client as router_client
from tests import waiting
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import memory as names
from tests.kb.vectors import contract


async def test_a_question_is_embedded_after_its_instruction(
    router: router_client.Client, meters: metrics.Metrics, kb: world.ObservedState
) -> None:
    embedder = embedding.Embedder(router, "qwen3-embedding:8b", meters)
    stores = (kb.graph, kb.vectors, embedder, meters, rank.Weights(), search.Breadth())
    finder = search.Search(*stores, instruction="Instruct: answer\nQuery: ")
    [plain, instructed] = await embedder.embed(["Who?", "Instruct: answer\nQuery: Who?"], Priority.P0)
    assert await finder.embed("Who?", Priority.P0) == instructed
    assert await search.Search(*stores).embed("Who?", Priority.P0) == plain


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


async def say(kb: world.ObservedState, document: api.IngestRequest, **typed: str) -> None:
    """Ingest, where the model gives these types to these names (`Blue_Heron="film"`)."""
    found = extraction.Extraction(
        entities=[extraction.Entity(name=name.replace("_", " "), type=kind) for name, kind in typed.items()],
        relationships=[],
    )
    asked = prompt.extract(document.content or "", title=document.title, kind=document.kind)
    place = kept.key("qwen2.5:7b", asked, extraction.Extraction)
    await kb.ledger.keep_answer(place, asked.name, found.model_dump_json(by_alias=True), document.scope)
    await kb.ingest(document)


async def test_a_hop_crosses_types_but_not_numbers(kb: world.ObservedState) -> None:
    """One extraction calls it a film and the other a movie. A number of another type is another thing."""
    start = world.request("Marta Holub worked on Blue Heron and on C-1042.", urn="u:start", title="")
    await say(kb, start, Marta_Holub="person", Blue_Heron="film", **{"C-1042": "film"})
    await say(
        kb, world.request("Blue Heron was paid for by the Lantern Fund.", urn="u:name", title=""), Blue_Heron="movie"
    )
    await say(kb, world.request("Stone was ordered as C-1042.", urn="u:number", title=""), **{"C-1042": "order"})
    for number in range(8):
        await say(kb, world.request(f"What Marta Novak{number} worked on is unknown.", urn=f"u:{number}", title=""))
    found = await kb.ask("What did Marta Holub work on?", breadth=search.Breadth(hits=4), max_results=2, explain=True)
    reached = found.items[1]
    assert (reached.source, reached.provenance.source_urn) == ("Graph", "u:name")
    assert reached.provenance.sentence == "Blue Heron was paid for by the Lantern Fund."
    assert reached.explanation is not None
    assert reached.explanation.via is not None
    assert reached.explanation.via.node_key == "film:blue heron"
    every = await kb.ask("What did Marta Holub work on?", max_results=20, explain=True)
    hops = {item.provenance.source_urn: item.explanation.hop for item in every.items if item.explanation}
    assert hops["u:name"] > 0.0
    assert hops["u:number"] == 0.0


async def test_nodes_of_one_name_are_one_crowd() -> None:
    leads = [
        graph_model.Lead("film:heron", "a", 0.2, 2),
        graph_model.Lead("film:heron", "b", 0.0, 2),
        graph_model.Lead("movie:heron", "a", 0.5, 3),
        graph_model.Lead("movie:heron", "c", 0.0, 3),
        graph_model.Lead("movie:heron", "d", 0.0, 3),
        graph_model.Lead("order:7", "a", 1.0, 1),
        graph_model.Lead("invoice:7", "b", 1.0, 1),
    ]
    merged = search.by_name(leads, most=50)
    assert [(one.chunk_id, one.salience, one.crowd) for one in merged] == [
        ("a", 0.5, 4),
        ("b", 0.0, 4),
        ("c", 0.0, 4),
        ("d", 0.0, 4),
        ("a", 1.0, 1),
        ("b", 1.0, 1),
    ]
    assert [(one.chunk_id, one.crowd) for one in search.by_name(leads, most=3)][:3] == [("a", 3), ("b", 3), ("c", 3)]


async def test_kinds_hold_for_hops_too(kb: world.ObservedState) -> None:
    await kb.ingest(world.request("Petr Svoboda wrote Gateway.kt.", urn="u:1", kind="git"))
    await kb.ingest(world.request("Petr Svoboda moved to Brno.", urn="u:2", kind="email"))
    found = await kb.ask("Who wrote Gateway.kt and where is he?", kinds=["git"])
    assert {item.provenance.source_urn for item in found.items} == {"u:1"}


async def test_metadata_is_given_back_and_holds_for_hops_too(kb: world.ObservedState) -> None:
    core = {"team": "core", "build": {"branch": "main"}}
    await kb.ingest(world.request("Petr Svoboda wrote Gateway.kt.", urn="u:1", metadata=core))
    await kb.ingest(world.request("Petr Svoboda moved to Brno.", urn="u:2", metadata={"team": "web"}))
    await kb.ingest(world.request("Petr Svoboda likes tea.", urn="u:3"))
    question = "Who wrote Gateway.kt and where is he?"
    every = await kb.ask(question)
    assert {item.provenance.source_urn: item.provenance.metadata for item in every.items} == {
        "u:1": core,
        "u:2": {"team": "web"},
        "u:3": {},
    }
    for wanted, expected in (
        ({"team": "core"}, {"u:1"}),
        ({"team": ["core", "web"]}, {"u:1", "u:2"}),
        ({"team": ["core", "web"], "build.branch": "main"}, {"u:1"}),
        ({"team": "sales"}, set()),
    ):
        found = await kb.ask(question, metadata=wanted)
        assert {item.provenance.source_urn for item in found.items} == expected
    # Another value alone changes no text and so no embedding; it is known all the same.
    changed = await kb.ingest(world.request("Petr Svoboda likes tea.", urn="u:3", metadata={"team": "sales"}))
    [item] = (await kb.ask(question, metadata={"team": "sales"})).items
    assert item.provenance.chunk_id in changed.chunk_ids


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
    open_world: world.Opening, weaviate_store: weaviate.Store
) -> None:
    owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
    async with open_world(vector=weaviate_store) as kb:
        for number, viewer in enumerate([*owners, scopes.make("nobody")]):
            await check(kb, [(owner, place) for place, owner in enumerate(owners)], viewer, number)


class Away(names.Registry):
    """A registry whose database is away: at once, or only after a while."""

    def __init__(self, clock: clocks.Clock, trouble: Exception | None) -> None:
        super().__init__(clock)
        self._trouble = trouble

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> Mapping[str, list[str]]:
        if self._trouble is not None:
            raise self._trouble
        await asyncio.Event().wait()
        raise AssertionError("nothing sets the event")


@pytest.mark.parametrize("trouble", [errors.Away("mongodb", "no server"), None], ids=["refused", "silent"])
async def test_a_question_is_answered_while_the_aliases_are_away(
    open_world: world.Opening, clock: clocks.Clock, trouble: Exception | None
) -> None:
    async with open_world(aliases=Away(clock, trouble)) as kb:
        await kb.ingest(world.request("Petr Svoboda wrote Gateway.kt.", urn="u:1"))
        found = await waiting.done(kb.ask("Who wrote Gateway.kt?"))
    assert [item.provenance.source_urn for item in found.items] == ["u:1"]


@pytest.mark.parametrize(
    ("question", "texts", "covered"),
    [
        # Long words count more; small ones and those of grammar not at all. 6 of 6 + 7 letters.
        ("Who paints the bridges?", ["She paints."], 6 / 13),
        ("Who paints the bridges?", ["She painted.", "A bridge."], 1.0),
        ("Who paints the bridges?", [], 0.0),
        ("Paints, paints, bridges?", ["Paint."], 6 / 13),
        ("Kdo je u Novákových?", ["Jana Nováková"], 1.0),
        ("佐藤さん", ["佐藤"], 2 / 6),
        ("Was it 7?", ["It was 8."], 0.0),
        ("Who is it?", ["Nothing."], 1.0),
    ],
)
def test_what_the_texts_leave_unsaid(question: str, texts: list[str], covered: float) -> None:
    assert sufficiency.coverage(question, texts) == pytest.approx(covered, abs=1e-4)


async def test_a_reply_says_whether_its_evidence_is_sufficient(
    kb: world.ObservedState, meters: metrics.Metrics
) -> None:
    await kb.ingest(world.request("Petr Svoboda wrote Gateway.kt.", urn="u:1", title="Gateway"))

    async def ask(question: str, threshold: float) -> tuple[bool, bool]:
        parts = (kb.graph, kb.vectors, kb.embedder, meters, rank.Weights(), search.Breadth())
        asked = api.RetrieveRequest(scope=scopes.SHOP, query=question)
        reply = await search.Search(*parts, threshold=threshold).retrieve(asked, Priority.P3)
        return reply.sufficient, "may not answer" in reply.summary

    assert await ask("Who wrote Gateway.kt?", 0.6) == (True, False)
    assert await ask("Which restaurant serves Szechuan noodles?", 0.6) == (False, True)
    assert await ask("Which restaurant serves Szechuan noodles?", 0.0) == (True, False)
    assert meters.registry.get_sample_value("jervis_kb_insufficient_evidence_total") == 1
    # Nothing found answers nothing, whatever the threshold.
    empty = await kb.ask("Who wrote Gateway.kt?", kinds=["wiki"])
    assert (empty.items, empty.coverage, empty.sufficient) == ([], 0.0, False)


def test_the_threshold_is_chosen_on_one_half_and_reported_on_the_other() -> None:
    chosen = [(True, 0.9), (True, 0.6), (True, 0.8), (False, 0.5), (False, 0.7)]
    reported = [(True, 0.9), (True, 0.3), (False, 0.65), (False, 0.95)]
    asked = [
        retrieval.Asked(answerable, half, coverage)
        for half, of in (("choose", chosen), ("report", reported))
        for answerable, coverage in of
    ]
    found = retrieval.sufficiency(asked)
    assert found["threshold"] == 0.8
    assert found["choose"] == {
        "questions": 3,
        "unanswerable": 2,
        "separation": 83.3,
        "precision": 66.7,
        "recall": 100.0,
        "falseAlarms": 33.3,
    }
    assert found["report"] == {
        "questions": 2,
        "unanswerable": 2,
        "separation": 25.0,
        "precision": 50.0,
        "recall": 50.0,
        "falseAlarms": 50.0,
    }
