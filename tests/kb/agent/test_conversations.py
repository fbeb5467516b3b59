"""What turns of a conversation rest on: the latest stay for as long as all of that is seen, however much was found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import Any

import pytest

from crds import scope
from crds.priority import Priority
from kb import api, metrics, mongo
from kb.agent import answering, environment, retrieving, store, tree, turn_sources
from kb.agent.tree import Turn
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import scopes
from tests.kb.agent import rig


class Talk:
    """A conversation whose last `shown` turns are in each prompt."""

    def __init__(self, shown: int = 5) -> None:
        self.turns: list[Turn] = []
        self.gone: set[str] = set()
        self._shown = shown

    def standing(self) -> list[Turn]:
        asked = turn_sources.of(self.turns, self.turns)
        return turn_sources.standing(
            self.turns, turn_sources.TurnSources(asked.chunks - self.gone, asked.pages - self.gone)
        )

    def say(self, *chunks: str, pages: tuple[str, ...] = ()) -> Turn:
        shown = self.standing()[-self._shown :]
        name = f"t{len(self.turns) + 1}"
        self.turns.append(replace(turn_sources.added(Turn("q", "a", chunks, pages), self.turns, shown), id=name))
        return self.turns[-1]

    def left(self) -> list[str]:
        return [one.id for one in self.standing()]


def test_the_latest_turns_stay_however_many_there_are() -> None:
    talk = Talk()
    for number in range(100):
        assert len(talk.standing()) == number
        kept = talk.say(*[f"q{number}c{one}" for one in range(85)])
        assert (len(kept.chunks), len(kept.rests_on)) == (85, min(number, 1))
    assert len(turn_sources.of(talk.turns, talk.turns[-1:]).chunks) == 8500


def test_what_is_found_again_is_kept_once() -> None:
    talk = Talk(shown=1)
    for _ in range(3):
        talk.say("a", "b", "a", pages=("p", "p"))
    assert [(one.chunks, one.pages, one.rests_on) for one in talk.turns] == [
        (("a", "b"), ("p",), ()),
        ((), (), ("t1",)),
        ((), (), ("t2",)),
    ]


def test_a_turn_falls_with_all_that_had_it_in_their_prompts() -> None:
    talk = Talk(shown=2)
    for number in range(1, 7):
        talk.say(f"c{number}", pages=(f"p{number}",))
    for gone in ("c3", "p3"):
        talk.gone = {gone}
        assert talk.left() == ["t1", "t2"]
    # What is said now rests on what is still seen, and does not fall with the others.
    assert talk.say("c7").rests_on == ("t2",)
    talk.say("c8")
    assert talk.left() == ["t1", "t2", "t7", "t8"]
    talk.gone = {"c1"}
    assert talk.left() == []
    talk.say("c9")
    assert talk.left() == ["t9"]
    talk.gone = set()
    assert talk.left() == [f"t{number}" for number in range(1, 10)]


def test_a_turn_names_each_of_its_prompt_that_none_of_the_others_rests_on() -> None:
    apart = [Turn("q", "a", (f"c{number}",), id=f"old{number}") for number in range(3)]
    kept = turn_sources.added(Turn("q", "a", ("c1", "new")), apart, apart)
    assert (kept.chunks, kept.rests_on) == (("new",), ("old0", "old1", "old2"))


def test_a_turn_that_names_one_that_is_not_known_does_not_stand() -> None:
    turns = [
        Turn("q", "a", id="1"),
        Turn("q", "a", rests_on=("0",), id="2"),
        Turn("q", "a", rests_on=("2",), id="3"),
    ]
    nothing = turn_sources.TurnSources(frozenset(), frozenset())
    assert [one.id for one in turn_sources.standing(turns, nothing)] == ["1"]
    # In whatever order they come, and if they should name each other.
    assert [one.id for one in turn_sources.standing(turns[::-1], nothing)] == ["1"]
    circle = [Turn("q", "a", ("c",), rests_on=("2",), id="1"), Turn("q", "a", rests_on=("1",), id="2")]
    assert turn_sources.standing(circle, nothing) == []
    assert turn_sources.of(circle, circle[1:]).chunks == {"c"}


class Many(tree.Chosen):
    """Stands for the tools that search: each question finds `each` passages that no other finds."""

    name = "fast_vector_search"
    description = "Search."
    inputs = retrieving.Query

    def __init__(self) -> None:
        self.each = 85
        self.asked = 0

    async def is_tool_available(self, tree_data: tree.TreeData) -> bool:
        return True

    async def __call__(self, tree_data: tree.TreeData, inputs: dict[str, Any]) -> AsyncIterator[tree.Given]:
        self.asked += 1
        found = [
            {"chunkId": f"q{self.asked}c{number}", "sourceUrn": "note::1", "text": "Words."}
            for number in range(self.each)
        ]
        yield environment.Result(found, {}, "text_results", "chunks", "Found {num_objects}.")


class Desk:
    """A process that answers questions of one conversation. `gone`: passages that are not seen any more; `looked_up`:
    how many the last question asked for."""

    def __init__(
        self, router: router_client.Client, database: mongo.Database, meters: metrics.Metrics, fake: process.Fake
    ) -> None:
        self._fake = fake
        self.gone: set[str] = set()
        self.looked_up = 0
        self.search = Many()

        async def committed(viewer: scope.Scope, chunk_ids: Collection[str]) -> set[str]:
            self.looked_up = len(chunk_ids)
            return set(chunk_ids) - self.gone

        agent = rig.agent([self.search, answering.TextResponseTool(rig.voiced(router))], router, meters)
        self.site = rig.Questions(agent, database, meters, committed)

    async def ask(self) -> list[int]:
        """The numbers of the questions whose turns are in the prompts of the next one."""
        number = self.search.asked + 1
        self._fake.forget()
        found = rig.decided("fast_vector_search", query="words")
        self._fake.set_script(
            {rig.DECIDE: [found, rig.decided("text_response")], rig.ANSWER: [f"Answer of question {number} [1]."]}
        )
        asked = api.AgenticSearch(scope=scopes.SHOP, query=f"Question {number}?", conversation="t")
        one = await self.site.questions.ask(asked, Priority.P1)
        assert [event async for event in one.follow()][-1].outcome == "answered"
        prompt = self._fake.requests(tag=rig.ANSWER)[0]["body"]["messages"][1]["content"]
        return [earlier for earlier in range(1, number) if f"Answer: Answer of question {earlier} " in prompt]


@pytest.fixture
def desk(router: router_client.Client, database: mongo.Database, meters: metrics.Metrics, fake: process.Fake) -> Desk:
    return Desk(router, database, meters, fake)


@pytest.mark.services
async def test_the_latest_turns_are_in_the_prompt_however_much_was_found(desk: Desk) -> None:
    for number in range(1, 10):
        assert await desk.ask() == list(range(1, number))
    desk.search.each = 600
    for number in range(10, 12):
        assert await desk.ask() == list(range(1, number))
    assert desk.looked_up == 9 * 85 + 600
    desk.gone = {"q3c84"}
    assert await desk.ask() == [1, 2], "the others had the third one in their prompts"
    assert await desk.ask() == [1, 2, 12]


@pytest.mark.services
async def test_what_older_turns_rest_on_is_kept_without_their_words(
    desk: Desk, database: mongo.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_TURNS", 3)
    desk.search.each = 2
    for number in range(1, 9):
        assert await desk.ask() == list(range(max(1, number - 3), number))
    words = [
        one["answer"] async for one in database[store.CONVERSATIONS].find({"answer": {"$ne": ""}, "of": {"$gt": ""}})
    ]
    assert sorted(words) == [f"Answer of question {number} [1]." for number in (6, 7, 8)]
    desk.gone = {"q1c0"}
    assert await desk.ask() == [], "the latest may repeat what was said of it"
    assert await desk.ask() == [9]


@pytest.mark.services
@pytest.mark.parametrize(("most", "bound"), [("MOST_ROWS", 5), ("MOST_GROUNDS", 10)])
async def test_what_is_kept_of_a_conversation_is_bounded(
    desk: Desk, database: mongo.Database, monkeypatch: pytest.MonkeyPatch, most: str, bound: int
) -> None:
    monkeypatch.setattr(store, most, bound)
    desk.search.each = 2
    for number in range(1, 7):
        assert await desk.ask() == list(range(1, number))
    assert await database[store.CONVERSATIONS].count_documents({"of": {"$gt": ""}}) == 5
    # What the first one rests on cannot be looked up any more.
    assert await desk.ask() == []
    assert await desk.ask() == [7]
