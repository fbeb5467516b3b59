"""The sets of qualification and of questions through a real model, at length (`make test-thorough`): every one ends."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.kb import corpus as public
from bench.qualify import items, passes, site
from bench.real import corpus, facts, sent
from bench.real import passes as read
from kb import api
from tests import thorough
from tests.real import serving
from tests.real.conftest import MODEL

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(not thorough.whole(), reason="make test-thorough sends the sets to real models"),
]
_LEAST_VALID = 0.9
"""Share of the answers that are valid as they were sent."""


async def test_every_item_ends_with_a_route(ollama: serving.Ollama) -> None:
    shared = items.shared()
    todo = [item for item in items.load() if not item.only_simulated and not item.pictures]
    where = dataclasses.replace(site.services(), ollama=ollama.url, model=MODEL)
    async with site.opened(where, shared.today) as place:
        outcomes = await passes.run(place, todo, shared)
    assert [(one.item.id, one.reason) for one in outcomes if one.route == passes.ERROR] == []
    assert [one.item.id for one in outcomes if one.tries > 1] == []
    counted = sent.count(place.spy.chats())
    assert counted["validShare"] >= _LEAST_VALID, counted


async def test_every_question_about_passages_of_others_ends_after_a_search(ollama: serving.Ollama) -> None:
    """Of MuSiQue, with the passages that answer them, which the model has read."""
    questions = public.questions(corpus.PUBLIC / "musique.questions.jsonl")
    gold = {f"wiki::{passage}" for question in questions for passage in question.gold}
    where = dataclasses.replace(site.services(), ollama=ollama.url, model=MODEL)
    ends, searched, invented = [], [], []
    async with site.opened(where, datetime(2026, 11, 23, 8, tzinfo=UTC), decision_model=MODEL) as place:
        for document in corpus.passages():
            if document.urn in gold:
                about = {"source_urn": document.urn, "kind": document.kind, "title": document.title}
                request = api.IngestRequest(scope=read.OWNER, content=document.content, **about)
                stored = await read.read_back(place.kb, document, await place.kb.ingest(request))
                invented += [document.urn] * facts.count(document, stored).invented
        for question in questions:
            async with place.kb.agent.ask(api.AgenticSearch(scope=read.OWNER, query=question.text)) as stream:
                events: list[Any] = [event async for event in stream]
            ends.append(events[-1].outcome)
            searched.append(any(event.type == "result" for event in events))
    assert set(ends) <= {"answered", "impossible"}, ends
    assert all(searched)
    assert invented == []
