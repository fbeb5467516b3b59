"""Effects that may have happened, as whole runs: one is asked about after the other, and none is repeated unseen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, mongowire
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_runs import (
    EMAIL,
    LEGAL,
    MAIL,
    ORDER,
    PLAN,
    SYNTHESIS,
    decided,
    delegating,
    planned,
    script,
)
from tests.orchestrator_job.delegation.workbench import calls, report

pytestmark = pytest.mark.services
TWO = "Send the date to a@example.com by mail, and send the price to b@example.com by mail."


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


class Killing(dict[str, dict[str, Any]]):
    """The arguments of effects; kills the run when that many have happened, before it receives the last answer."""

    def __init__(self, running: job.Running, number: int) -> None:
        super().__init__()
        self._running, self._number = running, number

    def __setitem__(self, key: str, value: dict[str, Any]) -> None:
        super().__setitem__(key, value)
        if len(self) == self._number:
            self._running.process.kill()


async def killed(task: job.Job, outside: sources.Sources, effects: int = 1) -> None:
    """Run, and die when so many effects have happened."""
    running = task.start()
    outside.arguments = Killing(running, effects)
    assert (await task.end(running)).status == -9
    outside.arguments = dict(outside.arguments)


def happened(outside: sources.Sources) -> dict[str, int]:
    """How often, by the key at the sources process."""
    return {key.split()[-1]: count for key, count in outside.effects.items()}


async def test_of_two_effects_side_by_side_the_one_that_was_shown_is_done_again(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    outside.unsure = 2
    mails = [calls(("send_mail", {**MAIL, "to": [f"{name}@example.com"], "subject": name})) for name in ("a", "b")]
    fake.set_script(
        {
            PLAN: [planned(("Email", "Send the date.", []), ("Email", "Send the price.", []))],
            EMAIL: [*mails, report("Sent."), report("Sent.")],
            SYNTHESIS: [job.reply()],
        }
    )
    store.remember(task.memory(content=TWO))
    await killed(delegating(task, outside), outside, 2)
    assert sorted(happened(outside).values()) == [1, 1]

    approvals: list[dict[str, Any]] = []
    shown = []
    for attempt in (2, 3):
        asked = await task.run(attempt=attempt)
        assert asked.message["exitReason"] == "NeedsApproval", asked
        [stored] = store.all("task_results", _id=task.uid)
        assert (stored["action"]["shown"], stored["about"]) == (
            asked.message["action"]["shown"], asked.message["about"],
        )  # fmt: skip
        shown.append(asked.message["action"]["shown"])
        approvals.append(decided(attempt, "Approved", about=asked.message["about"]))
        store.remember(task.memory(content=TWO, approvals=approvals))
    assert len(set(shown)) == 2
    assert sum(outside.effects.values()) == 3
    assert (await task.run(attempt=4)).message["exitReason"] == "Answered"
    assert sum(outside.effects.values()) == 4
    assert sorted(one["subject"] for one in outside.arguments.values()) == ["a", "a", "b", "b"]


NEWS = {"content": ORDER, "messages": [{"id": "m1", "text": "Please be quick."}]}
DONE_ALREADY = '<context about="what this task has done already; do not do it again">'


def later(*email: Any) -> dict[str, list[Any]]:
    """Another round, with these turns of the agent for mails."""
    return {
        PLAN: [planned(("Email", "Send it.", []), ("Legal", "Look.", []))],
        EMAIL: [*email, report("It was sent before.")],
        LEGAL: [report("It is right.")],
        SYNTHESIS: [job.reply()],
    }


async def test_another_round_looks_up_what_was_sent_before_the_run_was_killed(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    await killed(delegating(task, outside), outside)
    fake.set_script(later())
    store.remember(task.memory(**NEWS))
    ended = await task.run(attempt=2)
    assert ended.message["exitReason"] == "Answered", ended
    assert happened(outside) == {"r1.d3_2": 1}
    given = fake.requests(tag=EMAIL)[-1]["body"]["messages"][1]["content"]
    assert f"{DONE_ALREADY}\nsendMail to.0 a@example.com: Done: sendMail." in given
    [entry] = store.all("orchestrator_ledger", _id=f"{task.uid}/r1.d3/2")
    assert entry["state"] == "done"


async def test_another_round_does_not_send_what_was_never_sent(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    """The run died after it had written that it begins, and before the sources process was asked."""
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    await killed(delegating(task, outside), outside)
    outside.done.clear()
    outside.effects.clear()
    fake.set_script(later())
    store.remember(task.memory(**NEWS))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert happened(outside) == {}
    assert DONE_ALREADY not in fake.requests(tag=EMAIL)[-1]["body"]["messages"][1]["content"]
    [entry] = store.all("orchestrator_ledger", _id=f"{task.uid}/r1.d3/2")
    assert entry["state"] == "intent"


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
async def test_a_message_in_place_of_a_decision_leaves_the_question_open(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources, verdict: str
) -> None:
    outside.unsure = 1
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    first = await delegating(task, outside).run()
    assert first.message["exitReason"] == "NeedsApproval", first
    before = fake.count(path="/api/chat")
    fake.set_script(later())
    store.remember(task.memory(**NEWS))
    second = await task.run(attempt=2)
    assert second.message["exitReason"] == "NeedsApproval", second
    assert (second.message["about"], second.message["action"]["tool"]) == ("r1.d3/2", "send_mail")
    assert second.message["action"]["agent"] == "Email"
    assert second.message["action"]["shown"] == first.message["action"]["shown"]
    # Before anything else: no model was asked.
    assert fake.count(path="/api/chat") == before
    decision = decided(2, verdict, about="r1.d3/2")
    store.remember(task.memory(**NEWS, approvals=[decision]))
    ended = await task.run(attempt=3)
    assert ended.message["exitReason"] == "Answered", ended
    again = {"r1.d3_2.again2": 1} if verdict == "Approved" else {}
    assert happened(outside) == {"r1.d3_2": 1, **again}
    assert [one["to"] for one in outside.arguments.values()] == [["a@example.com"]] * (1 + len(again))
    given = fake.requests(tag=EMAIL)[-1]["body"]["messages"][1]["content"]
    said = "Done: sendMail." if again else "It may have been done already, and a person decided to leave it at that."
    assert f"{DONE_ALREADY}\nsendMail to.0 a@example.com: {said}" in given


async def test_what_is_not_kept_any_more_is_not_done_again(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    outside.unsure = 1
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "NeedsApproval"
    store.database["orchestrator_journal"].delete_many({})
    store.remember(task.memory(**NEWS))
    asked = await task.run(attempt=2)
    assert asked.message["exitReason"] == "NeedsApproval", asked
    assert "to.0: a@example.com" in asked.message["action"]["shown"]
    store.remember(task.memory(**NEWS, approvals=[decided(2, "Approved", about="r1.d3/2")]))
    again = await task.run(attempt=3)
    assert again.message["exitReason"] == "NeedsApproval", again
    assert "cannot be done again" in again.message["action"]["why"]
    fake.set_script(later())
    store.remember(task.memory(**NEWS, approvals=[decided(3, "Rejected", about="r1.d3/2")]))
    assert (await task.run(attempt=4)).message["exitReason"] == "Answered"
    assert happened(outside) == {"r1.d3_2": 1}


async def test_a_model_that_sends_it_once_more_in_another_round_is_held(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    await killed(delegating(task, outside), outside)
    fake.set_script(later(calls(("send_mail", {**MAIL, "text": "On Friday, as I said."}))))
    store.remember(task.memory(**NEWS))
    asked = await task.run(attempt=2)
    assert asked.message["exitReason"] == "NeedsApproval", asked
    assert asked.message["about"] == "r2.d1.approval/2"
    assert asked.message["action"]["why"].startswith(
        "An earlier round, which did not come to its end, has done the same"
    )
    assert happened(outside) == {"r1.d3_2": 1}
    store.remember(task.memory(**NEWS, approvals=[decided(2, "Rejected", about="r2.d1.approval/2")]))
    assert (await task.run(attempt=3)).message["exitReason"] == "Answered"
    assert happened(outside) == {"r1.d3_2": 1}


async def test_a_round_that_ended_does_not_hold_what_the_next_one_does(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "Answered"
    fake.set_script(later(calls(("send_mail", {**MAIL, "text": "On Monday."}))))
    moved = [{"id": "m1", "text": "It was moved. Send the new date to a@example.com."}]
    store.remember(task.memory(content=ORDER, messages=moved))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert happened(outside) == {"r1.d3_2": 1, "r2.d1_2": 1}


async def test_a_message_after_a_kill_at_any_write_about_the_effect(
    tmp_path: Path,
    store: job.Store,
    mongodb_uri: str,
    fake: process.Fake,
    known: knowledge.Knowledge,
    outside: sources.Sources,
) -> None:
    """The model sends the mail in each round whose prompt does not say that it was sent."""
    sent = report("The mail was sent.")
    turns = [
        {"when": '<document source="send_mail"', "answer": sent},
        {"when": DONE_ALREADY, "answer": report("It was sent before.")},
        {"when": "<question>", "answer": calls(("send_mail", MAIL))},
    ]
    looked = planned(("Email", "Send it.", []), ("Legal", "Look.", []))
    fake.set_script(
        {
            PLAN: [{"when": "<question>", "answer": looked}],
            EMAIL: turns,
            LEGAL: [{"when": "<question>", "answer": report("It is right.")}],
            SYNTHESIS: [{"when": "<question>", "answer": job.reply()}],
        }
    )
    places = ("orchestrator_ledger", "orchestrator_prepared")
    one = delegating(job.Job(tmp_path, mongodb_uri, store.name, known.url, fake.url), outside)
    store.remember(one.memory(content=ORDER))
    async with mongowire.proxying(mongodb_uri) as proxy:
        assert (await one.run(JERVIS_MONGODB_URI=proxy.url)).message["exitReason"] == "Answered"
    cases = [(name, number) for name in places for number in range(1, proxy.writes[name] + 1)]
    assert len(cases) > 5
    for where in cases:
        one = delegating(job.Job(tmp_path, mongodb_uri, store.name, known.url, fake.url), outside)
        store.remember(one.memory(content=ORDER))
        await one.killed(where)
        store.remember(one.memory(**NEWS))
        ended = await one.run(attempt=2)
        assert ended.message["exitReason"] == "Answered", (where, ended)
        assert [count for key, count in outside.effects.items() if one.uid in key] == [1], where
        entries = store.all("orchestrator_ledger", taskUid=one.uid)
        assert "started" not in {entry["state"] for entry in entries if "tool" in entry["intent"]}, where
