"""Whether what was found can answer a question, by its words."""

from __future__ import annotations

import pytest

from bench.kb import retrieval
from crds.priority import Priority
from kb import api, metrics
from kb.retrieve import rank, search, sufficiency
from tests.kb import scopes, world


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
