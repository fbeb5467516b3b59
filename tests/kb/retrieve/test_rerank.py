"""The reranker: what it says is the order; what it does not say in time changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.priority import Priority
from kb import api
from kb.retrieve import rank, rerank, search
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import scopes, world

QUESTION = "Who repaired the telescope mirror?"
MODEL = "all-minilm:latest"
LONG = "Nobody knew it, but Petr repaired the telescope mirror, and who helped is not written."


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    async with open_world() as opened:
        await opened.ingest(world.request("The telescope mirror was repaired.", urn="u:1", title="Telescope mirror"))
        await opened.ingest(world.request(LONG, urn="u:2", title="Who"))
        for number in range(4):
            await opened.ingest(world.request(f"The mirror of room {number}.", urn=f"u:room{number}", title="Rooms"))
        yield opened


async def answered(
    kb: world.ObservedState, router: router_client.Client, model: str = MODEL, seconds: float = 30.0, **more: Any
) -> api.RetrieveReply:
    judge = rerank.CrossEncoder(router, model, kb.meters, candidates=5, seconds=seconds, chars=400)
    stores = (kb.graph, kb.vectors, kb.embedder, kb.meters, rank.Weights(), search.Breadth())
    finder = search.Search(*stores, reranker=judge)
    question = api.RetrieveRequest(scope=scopes.SHOP, query=QUESTION, explain=True, **more)
    return await finder.retrieve(question, Priority.P1)


def sources(reply: api.RetrieveReply) -> list[str]:
    return [one.provenance.source_urn for one in reply.items]


def counted(kb: world.ObservedState, outcome: str) -> float:
    return kb.meters.registry.get_sample_value("jervis_kb_reranks_total", {"outcome": outcome}) or 0.0


async def test_the_first_candidates_are_ordered_by_the_model(
    kb: world.ObservedState, router: router_client.Client, fake: process.Fake
) -> None:
    plain = await kb.ask(QUESTION, explain=True)
    assert (plain.rerank, sources(plain)[0]) == ("Off", "u:1")
    assert fake.count(path="/v1/rerank") == 0
    reply = await answered(kb, router)
    assert (reply.rerank, sources(reply)[0]) == ("Done", "u:2")
    [asked] = fake.requests(path="/v1/rerank")
    assert (asked["priority"], asked["body"]["query"], len(asked["body"]["documents"])) == ("1", QUESTION, 5)
    assert all(len(text) <= 400 for text in asked["body"]["documents"])
    judged = [one.explanation.relevance for one in reply.items if one.explanation]
    assert judged[:5] == sorted((one for one in judged[:5] if one is not None), reverse=True)
    assert judged[5:] == [None] * (len(judged) - 5)
    confidences = [one.confidence for one in reply.items]
    assert confidences == sorted(confidences, reverse=True)
    assert sorted(confidences) == sorted(one.confidence for one in plain.items), "the scores are moved, not made"
    assert counted(kb, "done") == 1
    # What is asked for beyond the candidates, or within them, is in the same order.
    assert sources(await answered(kb, router, max_results=1)) == ["u:2"]


@pytest.mark.parametrize(
    ("fault", "more", "outcome"),
    [
        ({"status": {"code": 503}}, {}, "Failed"),
        ({"malformed": "wire"}, {}, "Failed"),
        ({"reset": {"afterBytes": 0}}, {}, "Failed"),
        ({"stall": {"afterBytes": 0}}, {"seconds": 0.05}, "Late"),
        (None, {"model": "no-such-model"}, "Failed"),
    ],
)
async def test_without_its_answer_the_order_is_the_one_before(
    kb: world.ObservedState,
    router: router_client.Client,
    fake: process.Fake,
    fault: dict[str, Any] | None,
    more: dict[str, Any],
    outcome: str,
) -> None:
    plain = await kb.ask(QUESTION, explain=True)
    if fault is not None:
        fake.set_faults([{"match": {"path": "/v1/rerank"}, **fault}])
    reply = await answered(kb, router, **more)
    assert reply.rerank == outcome
    assert reply.model_copy(update={"rerank": "Off"}) == plain
    assert counted(kb, outcome.lower()) == 1


@given(st.lists(st.tuples(st.floats(0, 5), st.none() | st.floats(-9, 9)), min_size=1, max_size=12))
def test_scores_are_moved_among_the_judged(drawn: list[tuple[float, float | None]]) -> None:
    scores = {f"k{number}": rank.Score(fused=fused) for number, (fused, _) in enumerate(drawn)}
    relevance = {f"k{number}": said for number, (_, said) in enumerate(drawn) if said is not None}
    ordered = rank.order(scores)
    count = len(drawn) // 2 + 1
    first = {key: said for key, said in relevance.items() if key in ordered[:count]}
    before = [scores[key].total for key in ordered]
    rank.rerank(scores, ordered[:count], first)
    made = rank.order(scores)
    assert sorted(made) == sorted(ordered)
    assert made[count:] == ordered[count:]
    judged = [at for at, key in enumerate(ordered) if key in first]
    assert [at for at, key in enumerate(made) if key in first] == judged
    assert [made[at] for at in range(len(made)) if at not in judged] == [
        ordered[at] for at in range(len(made)) if at not in judged
    ]
    said = [first[made[at]] for at in judged]
    assert said == sorted(said, reverse=True)
    assert [scores[key].total for key in made] == pytest.approx(before)
