"""The decision agent with a decision maker of rules finds what one search for the question does not; and however
wrongly a model decides, the run ends, no call is made twice, nothing is raised."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from bench.agent_search import evaluate, maker, wrong
from bench.kb import corpus, inmemory, world
from kb.agent import decision_model
from kb.ingest import document
from router import client as router_client
from tests import thorough
from tests.kb.agent import rig

_FOLDER = Path(__file__).parents[2] / "kb" / "questions"
_PROMPT = """<question>
When did Lothair II's mother die?
</question>
Retrieved data:
{retrieved}
Previous errors:
none
Tools already used:
none
calledBefore:
{called}
AVAILABLE TOOLS:
- fast_vector_search: inputs: {{}}"""
_FOUND = """## fast_vector_search / text_results: Found 1
[1] Lothair II | wiki::1
<document>
Lothair II was king of Lotharingia. He was the second son of Emperor Lothair I and his mother was Ermengarde of Tours.
</document>"""


def test_it_searches_for_the_question_first() -> None:
    said = maker.decide(_PROMPT.format(retrieved="nothing yet", called="none"))
    assert (said["tool"], said["inputs"]) == ("fast_vector_search", {"query": "When did Lothair II's mother die?"})


def test_it_follows_a_name_that_a_passage_has_and_the_question_has_not() -> None:
    said = maker.decide(_PROMPT.format(retrieved=_FOUND, called="- fast_vector_search {'query': 'x'}"))
    assert (said["tool"], said["inputs"]) == ("graph_explore", {"node": "Ermengarde of Tours"})


def test_without_relationships_it_searches_for_the_name() -> None:
    prompt = _PROMPT.replace(
        "none\nTools", "- graph_explore: No relationships of 'Ermengarde of Tours' are known.\nTools"
    )
    called = "- fast_vector_search {'query': 'x'}\n- graph_explore {'node': 'Emperor Lothair I'}"
    said = maker.decide(prompt.format(retrieved=_FOUND, called=called))
    assert (said["tool"], said["inputs"]) == ("fast_vector_search", {"query": "Ermengarde of Tours did mother die"})


def test_it_answers_when_nothing_is_left_to_follow() -> None:
    for calls in (1, maker.FOLLOWED + 1):
        called = "\n".join(["- fast_vector_search {'query': 'Ermengarde of Tours'}"] * calls)
        found = _FOUND if calls > 1 else _FOUND.replace("Emperor Lothair I", "a king").replace("Lotharingia", "a land")
        assert maker.decide(_PROMPT.format(retrieved=found, called=called))["tool"] == "text_response"


async def test_follow_up_searches_collect_what_the_first_one_does_not() -> None:
    questions = corpus.questions(_FOLDER / "musique.questions.jsonl")
    passages = corpus.load(_FOLDER / "musique.passages.jsonl", _FOLDER / "musique.triples.jsonl")
    wire = maker.Maker()
    place = world.Place("", 0, document.Limits(), processes=1)
    async with inmemory.opened(place) as empty, httpx.AsyncClient(transport=wire) as http:
        voiced = decision_model.DecisionModel(
            router_client.Client("http://model.example.com", http), rig.MODEL, rig.no_pause
        )
        found = await evaluate.asked(await inmemory.fill(empty, passages), questions, wire, voiced, hits=2)
    assert found["problems"] == []
    assert found["outcomes"] == {"answered": len(questions)}
    # The first search is the plain one.
    assert found["agent"]["R@2"] == found["plain"]["R@2"]
    assert found["agent"]["all"] > found["agent"]["R@2"]
    assert found["toolCallsAQuestion"]["fast_vector_search"] > 1
    # A decision for each call of a tool, and one that writes.
    assert found["modelCallsAQuestion"] == pytest.approx(sum(found["toolCallsAQuestion"].values()) + 1, abs=0.02)


@pytest.mark.parametrize("outages", [False, True])
async def test_every_run_ends_with_an_answer_or_as_impossible(outages: bool) -> None:
    runs = thorough.examples(100)
    found = await wrong.measure(runs, 9, outages=outages)
    assert found["problems"] == []
    assert sum(found["outcomes"].values()) == runs
    assert set(found["outcomes"]) - {"failed" if outages else ""} == {"answered", "impossible"}
    assert found["executedTwice"] == 0
    # Every kind of mistake was made, and repetitions were refused.
    assert {"unknown_tool", "wrong_type", "repeated", "nothing", "megabyte", "no_json", "invented"} <= set(
        found["said"]
    )
    assert found["refusedRepetitions"] > 0
    assert found["mostRefusedInOneRun"] <= 2
