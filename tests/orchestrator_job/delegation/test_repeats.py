"""An effect that the task has had already: shown to its agents, and not done twice by another one of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orchestrator_job.delegation import repeats
from tests.fakes.ollama import process
from tests.orchestrator_job import job
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_runs import EMAIL, LEGAL, PLAN, SYNTHESIS, decided, delegating, planned
from tests.orchestrator_job.delegation.workbench import calls, report

LEGACY = "job.agent.LegacyAgent/v1"
MAIL = {"to": ["a@example.com"], "subject": "Release", "text": "On Friday."}
ORDER = "Send the date of the release to a@example.com, then say what the contract allows."
GAVE_UP = "STATUS: 0\nRESULT: I could not find the contract.\nCONFIDENCE: 0.9\nNEEDS_VERIFICATION: false"
DONE = "sendMail to.0 a@example.com: Done: sendMail."


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


def escalating(mail: dict[str, Any]) -> dict[str, list[Any]]:
    """Email sends it and gives up; the agent that takes the task over wants to send `mail`."""
    return {
        PLAN: [planned(("Email", "Send the date to a@example.com, then say what the contract allows.", []))],
        EMAIL: [calls(("send_mail", MAIL)), GAVE_UP],
        LEGACY: [calls(("send_mail", mail)), report("The mail was sent.")],
        SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
    }


@pytest.mark.services
@pytest.mark.parametrize("text", ["On Friday.", "on  friday."])
async def test_who_takes_a_task_over_knows_what_was_sent_and_does_not_send_it_again(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources, text: str
) -> None:
    fake.set_script(escalating({**MAIL, "text": text}))
    store.remember(task.memory(type="UserTask", content=ORDER))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered", ended
    assert list(outside.effects.values()) == [1]
    first, second = (one["body"]["messages"] for one in fake.requests(tag=LEGACY))
    assert f'<context about="what this task has done already; do not do it again">\n{DONE}' in first[1]["content"]
    assert f"This task has done it already, and it was not done again. {DONE}" in second[-1]["content"]


@pytest.mark.services
async def test_the_same_aim_in_other_words_is_for_a_person_where_the_task_was_taken_over(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(escalating({**MAIL, "text": "It is on Friday!"}))
    store.remember(task.memory(type="UserTask", content=ORDER))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "NeedsApproval", ended
    assert "had this task before has done this in other words" in ended.message["action"]["why"]
    assert list(outside.effects.values()) == [1]
    store.remember(task.memory(type="UserTask", content=ORDER, approvals=[decided(1, "Approved")]))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert list(outside.effects.values()) == [1, 1]


@pytest.mark.services
async def test_later_groups_know_what_was_done_and_two_branches_do_it_once(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    drafts: list[tuple[str, str, list[int]]] = [
        ("Email", "Send it.", []),
        ("Email", "Send the date.", []),
        ("Legal", "Look.", [1, 2]),
    ]
    fake.set_script(
        {
            PLAN: [planned(*drafts)],
            EMAIL: [calls(("send_mail", MAIL)), calls(("send_mail", MAIL)), report("Sent."), report("Sent.")],
            LEGAL: [report("It may.")],
            SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
        }
    )
    store.remember(task.memory(type="UserTask", content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "Answered"
    assert list(outside.effects.values()) == [1]
    assert DONE in json.dumps(fake.requests(tag=LEGAL)[0]["body"]["messages"])


@pytest.mark.services
async def test_the_same_again_in_a_later_round_is_for_a_person(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    once: dict[str, list[Any]] = {
        PLAN: [planned(("Email", "Send it.", []), ("Legal", "Look.", [1]))],
        EMAIL: [calls(("send_mail", MAIL)), report("Sent.")],
        LEGAL: [report("It may.")],
        SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
    }
    fake.set_script(once)
    store.remember(task.memory(type="UserTask", content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "Answered"
    fake.set_script(once)
    messages = [{"id": "m1", "text": "Send it to a@example.com once more."}]
    store.remember(task.memory(type="UserTask", content=ORDER, messages=messages))
    ended = await task.run(attempt=2)
    assert ended.message["exitReason"] == "NeedsApproval", ended
    assert "This task has done the same in an earlier round." in ended.message["action"]["why"]
    assert list(outside.effects.values()) == [1]


def entry(step: str, state: str = "done", text: str = "On Friday.", **result: Any) -> dict[str, Any]:
    """Of the ledger: a mail."""
    return {"step": step, "state": state, "result": result or None, "intent": intent(text)}


def intent(text: str = "On Friday.", to: str = "a@example.com") -> dict[str, Any]:
    """That of a mail."""
    same = repeats.digest("send_mail", "office", {"to": [to], "text": text})
    return {"tool": "sendMail", "connection": "office", "aims": {"to.0": to}, repeats.DIGEST: same}


@pytest.mark.parametrize(
    ("taken_over", "other", "asks"),
    [
        ("", entry("r2.d1"), False),
        ("", entry("r2.d1.3", "started"), False),
        ("", entry("r2.d1", text="It was not done", failed=True), None),
        ("", entry("r2.d1", failed=True), None),
        ("", entry("r1.d7"), True),
        ("", entry("r2.d1", text="On Monday."), None),
        ("r2.d1", entry("r2.d1", text="On Monday."), True),
        ("r2.d1", entry("r2.d1.2", text="On Monday."), True),
        ("r2.d1", entry("r2.d11", text="On Monday."), None),
    ],
)
def test_what_is_a_repetition(taken_over: str, other: dict[str, Any], asks: bool | None) -> None:
    found = repeats.found(intent(), "r2.d2", taken_over, [other])
    assert (found.asks if found is not None else None) is asks


def test_own_effects_are_in_the_talk_already() -> None:
    entries = [entry("r1.d1"), entry("r1.d1.2"), entry("r1.d11"), entry("r1.d2")]
    assert len(repeats.done(entries, "r1.d1")) == 2
    assert len(repeats.done(entries, "r1.d1.3")) == 4
