"""Conversations whose questions find much: which turns are in a prompt, and what is kept of older ones."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import scope
from crds.priority import Priority
from kb import api, metrics, mongo
from kb.agent import answering, environment, retrieving, running, store, tree
from kb.erasure import closed
from kb.rules import mongo as rules_mongo
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import scopes
from tests.kb.agent import rig

pytestmark = pytest.mark.services
LIFE = timedelta(minutes=10)


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
        numbers = itertools.count()
        shut = closed.Closed()
        self._fake = fake
        self.gone: set[str] = set()
        self.looked_up = 0
        self.search = Many()

        def clock() -> datetime:
            return datetime.now(UTC)

        def fresh_id() -> str:
            return f"{next(numbers):032x}"

        async def committed(viewer: scope.Scope, chunk_ids: Collection[str]) -> set[str]:
            self.looked_up = len(chunk_ids)
            return set(chunk_ids) - self.gone

        self.talks = store.Conversations(database, clock, shut, fresh_id, life=LIFE)
        self._questions = running.Questions(
            rig.agent([self.search, answering.TextResponseTool(rig.voiced(router))], router, meters),
            rules_mongo.Rules(database, clock),
            store.Streams(database, clock, shut, life=LIFE),
            self.talks,
            meters,
            clock,
            fresh_id,
            asyncio.sleep,
            committed,
        )

    async def ask(self) -> list[int]:
        """The numbers of the questions whose turns are in the prompts of the next one."""
        number = self.search.asked + 1
        self._fake.forget()
        found = rig.decided("fast_vector_search", query="words")
        self._fake.set_script(
            {rig.DECIDE: [found, rig.decided("text_response")], rig.ANSWER: [f"Answer of question {number} [1]."]}
        )
        asked = api.AgenticSearch(scope=scopes.SHOP, query=f"Question {number}?", conversation="t")
        one = await self._questions.ask(asked, Priority.P1)
        assert [event async for event in one.follow()][-1].outcome == "answered"
        prompt = self._fake.requests(tag=rig.ANSWER)[0]["body"]["messages"][1]["content"]
        return [earlier for earlier in range(1, number) if f"Answer: Answer of question {earlier} " in prompt]


@pytest.fixture
def desk(router: router_client.Client, database: mongo.Database, meters: metrics.Metrics, fake: process.Fake) -> Desk:
    return Desk(router, database, meters, fake)


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


async def test_turns_of_an_earlier_release_are_read(desk: Desk, database: mongo.Database) -> None:
    talk = await desk.talks.open(scopes.SHOP, "t")
    for number in (1, 2):
        turn = tree.Turn(f"Question {number}?", f"Answer of question {number} [1].", ("old1", f"old{number}"))
        assert await desk.talks.add(scopes.SHOP, talk, turn)
    await database[store.CONVERSATIONS].update_many(
        {"of": talk.id}, {"$unset": {"restsOn": "", "grounds": "", "pages": ""}}
    )
    desk.search.asked = 2
    assert await desk.ask() == [1, 2]
    assert await desk.ask() == [1, 2, 3]
    desk.gone = {"old2"}
    assert await desk.ask() == [1], "the third one had the second one in its prompt"
