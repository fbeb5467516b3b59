"""One mail, read with each kind of engine that is in use: what they do with a request, played at the wire."""

from __future__ import annotations

import json
import re

import pytest

from kb import metrics
from tests.fakes.ollama import process
from tests.kb import world
from tests.kb.extract.qualifier import test_calling as calling
from tests.kb.rules.test_ingest import Kept

CHAT = {"path": "/api/chat"}


def problems(meters: metrics.Metrics) -> dict[str, float]:
    [family] = list(meters.answer_problems.collect())
    return {
        f"{one.labels['prompt']} {one.labels['field']}": one.value
        for one in family.samples
        if one.name.endswith("_total")
    }


@pytest.mark.parametrize(
    ("engine", "counted"),
    [
        ("thinks", set()),
        ("thinksInText", {"kb.qualify.email/v2 answer", "kb.extract/v1 answer"}),
        ("ignoresFormat", {"kb.qualify.email/v2 answer", "kb.extract/v1 answer"}),
        ("diesOfBounds", set()),
    ],
)
async def test_an_engine_that_wraps_its_answers_reads_a_mail_as_any_other(
    kb: world.ObservedState,
    open_world: world.Opening,
    fake: process.Fake,
    meters: metrics.Metrics,
    engine: str,
    counted: set[str],
) -> None:
    async with open_world(within="usual") as usual:
        expected = await usual.ingest(world.request())
    asked = fake.count(path="/api/chat")
    fake.forget()
    fake.set_faults([{"match": CHAT, "engine": engine}])
    reply = await kb.ingest(world.request())
    assert world.costless(reply) == world.costless(expected)
    assert fake.count(path="/api/chat") == asked, "nothing is asked twice"
    assert set(problems(meters)) == counted
    assert "The user wants" not in reply.model_dump_json()


@pytest.mark.parametrize("engine", ["blanks", "endsEarly"])
async def test_of_an_engine_that_does_not_come_to_an_end_is_used_what_came(
    kb: world.ObservedState, fake: process.Fake, meters: metrics.Metrics, engine: str
) -> None:
    fake.set_faults([{"match": CHAT, "engine": engine}])
    reply = await kb.ingest(world.request())
    assert reply.hints is not None
    assert (reply.hints.has_actionable_content, reply.hints.failure) == (True, "")
    assert reply.summary
    assert problems(meters)["kb.qualify.email/v2 urgency"] == 1
    predicted = [one["body"]["options"]["num_predict"] for one in fake.requests(path="/api/chat")]
    assert 0 < max(predicted) <= 8192
    # The text is short: its facts are few, and a loop of a model that writes more of them ends soon.
    [extracted, *_] = [one["body"]["options"]["num_predict"] for one in fake.requests(tag="kb.extract/v1")]
    assert extracted < 4096


async def test_a_model_without_tools_chooses_them_by_format(open_world: world.Opening, fake: process.Fake) -> None:
    rules = Kept()
    rules.rules = []
    async with open_world(rules=rules, tools=True) as made:
        expected = await made.ingest(calling.issue())
    fake.forget()
    fake.set_faults([{"match": CHAT, "engine": "noTools"}])
    async with open_world(within="toolless", rules=rules, tools=True) as made:
        reply = await made.ingest(calling.issue())
    assert (reply.hints, reply.directive, reply.problems) == (expected.hints, expected.directive, [])
    judged = [one for one in fake.requests(tag=calling.TAG) if "format" in one["body"]]
    # One call in an answer: the kind of the issue, then the route.
    assert len(judged) == 2


async def test_a_bound_that_ends_a_runner_is_never_sent(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(world.request())
    sent = json.dumps([one["body"].get("format") for one in fake.requests(path="/api/chat")])
    assert [int(most) for most in re.findall(r'"maxLength": (\d+)', sent)] == [500]


async def test_each_try_differs_and_the_last_is_about_less(kb: world.ObservedState, fake: process.Fake) -> None:
    tag = "kb.qualify.email/v2"
    answer = {"summary": "The login bug.", "hasActionableContent": True, "urgency": "high"}
    fake.set_script({tag: ["I cannot say.", "I still cannot.", answer]})
    text = world.MAIL + "\n\n" + "Beside this nothing happened in the office. " * 400
    reply = await kb.ingest(world.request(text))
    assert reply.hints is not None
    assert (reply.hints.failure, reply.hints.urgency, reply.summary) == ("", "high", "The login bug.")
    first, second, last = (one["body"] for one in fake.requests(tag=tag))
    assert "temperature" not in first["options"]
    assert first["messages"] == second["messages"][:2]
    assert "cannot be used" in second["messages"][-1]["content"]
    assert second["options"]["temperature"] < last["options"]["temperature"]
    assert len(last["messages"][1]["content"]) < len(first["messages"][1]["content"]) / 2
    assert [one["role"] for one in last["messages"]] == ["system", "user"]
