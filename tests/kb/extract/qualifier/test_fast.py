"""Small answers are asked of the fast model; what it does not know, the qualifier's judges as if there were none."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kb import api
from kb.extract import answers, typed
from router.client import asking
from tests.fakes.ollama import process
from tests.kb import world
from tests.kb.extract.qualifier import test_scenarios as scenarios

FAST, USUAL = "qwen3-coder:30b", "qwen2.5:7b"
TYPE, DETECT = "kb.qualify.type/v1", "kb.qualify.detect/v2"


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    async with open_world(fast=FAST) as made:
        yield made


def asked(fake: process.Fake) -> list[tuple[str, str]]:
    """Who was asked what about the document, in order."""
    every = fake.requests(path="/api/chat")
    return [(one["body"]["model"], one["tag"]) for one in every if one["tag"].startswith("kb.qualify.")]


async def test_the_type_is_said_by_the_fast_model(kb: world.ObservedState, fake: process.Fake) -> None:
    _, found = await scenarios.qualified(kb, world.request(scenarios.ISSUE, kind="note", urn="note::1"))
    assert asked(fake) == [(FAST, TYPE), (USUAL, "kb.qualify.jira/v2")]
    assert (found.content_type, found.errors) == (api.ContentType.JIRA, ())
    [quick] = fake.requests(tag=TYPE)
    assert quick["body"]["options"]["num_ctx"] == 2048


async def test_what_it_does_not_know_is_judged_whole(kb: world.ObservedState, fake: process.Fake) -> None:
    _, found = await scenarios.qualified(kb, scenarios.document("GENERIC"))
    assert asked(fake) == [(FAST, TYPE), (USUAL, DETECT)]
    assert (found.content_type, found.errors) == (api.ContentType.GENERIC, ())


async def test_without_a_usable_answer_of_it_nothing_is_lost(kb: world.ObservedState, fake: process.Fake) -> None:
    fake.set_script({TYPE: ["no"] * answers.ATTEMPTS})
    _, found = await scenarios.qualified(kb, world.request(scenarios.ISSUE, kind="note", urn="note::1"))
    assert asked(fake) == [(FAST, TYPE)] * answers.ATTEMPTS + [(USUAL, DETECT), (USUAL, "kb.qualify.jira/v2")]
    assert found.content_type is api.ContentType.JIRA
    assert [one.partition(" gave")[0] for one in found.errors] == [f"contentType: model {FAST!r}"]


async def test_a_known_kind_asks_it_nothing(kb: world.ObservedState, fake: process.Fake) -> None:
    await scenarios.qualified(kb, scenarios.document("EMAIL"))
    assert asked(fake) == [(USUAL, "kb.qualify.email/v2")]


async def test_a_model_that_never_ends_is_cut_and_the_typed_fallback_is_left(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    endless = '{"summary": "' + "and on " * 3 * answers.ANSWER_TOKENS
    fake.set_script({"kb.qualify.email/v2": [endless] * answers.ATTEMPTS})
    reply, found = await scenarios.qualified(kb, scenarios.document("EMAIL"))
    tries = fake.requests(tag="kb.qualify.email/v2")
    most = typed.EmailJudgement.tokens + asking.THOUGHTS
    assert [one["body"]["options"]["num_predict"] for one in tries] == [most] * answers.ATTEMPTS
    assert most < answers.ANSWER_TOKENS / 2
    assert tries[-1]["body"]["messages"][-1]["content"].startswith("That answer cannot be used: it repeats itself")
    assert isinstance(found.extraction, api.EmailExtraction)
    assert found.extraction.sender == "Jana Novak <jana@acme.com>"
    assert len(found.errors) == 1
    assert reply.hints.failure


@pytest.mark.parametrize(
    ("text", "num_ctx", "most"),
    [
        ("", None, answers.ANSWER_TOKENS),
        ("", 32_768, answers.ANSWER_TOKENS),
        ("x" * 3000, 2048, 1048),
        ("ž" * 1000, 2048, 1048),
        ("x" * 30_000, 2048, 512),
    ],
)
def test_an_answer_has_what_its_question_leaves_of_the_window(text: str, num_ctx: int | None, most: int) -> None:
    assert answers.room([{"role": "user", "content": text}], num_ctx) == most
