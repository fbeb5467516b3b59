"""Effects that may have happened, as whole runs: one is asked about after the other, and none is repeated unseen; and
edited arguments of what a person is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import thorough
from tests.orchestrator_job import job, sources
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.run.test_delegation_runs import (
    EMAIL,
    FOREIGN,
    LEGAL,
    MAIL,
    ORDER,
    PLAN,
    SYNTHESIS,
    WAITS,
    decided,
    planned,
    script,
)
from tests.orchestrator_job.workbench import calls, report

pytestmark = pytest.mark.services
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "permits.md"
TWO = "Send the date to a@example.com by mail, and send the price to b@example.com by mail."


class Killing(dict[str, dict[str, Any]]):
    """The arguments of effects; kills the run when that many have happened, before it receives the last answer."""

    def __init__(self, running: job.Running, number: int) -> None:
        super().__init__()
        self._running, self._number = running, number

    def __setitem__(self, key: str, value: dict[str, Any]) -> None:
        super().__setitem__(key, value)
        if len(self) == self._number:
            self._running.process.kill()


async def killed(desk: Desk, script: Mapping[str, Sequence[Any]], content: str = ORDER, effects: int = 1) -> None:
    """Run, and die when so many effects have happened."""
    desk.fake.set_script(script)
    desk.remember(content=content)
    running = desk.delegates().task.start()
    desk.outside.arguments = Killing(running, effects)
    assert (await desk.task.end(running)).status == -9
    desk.outside.arguments = dict(desk.outside.arguments)


def happened(outside: sources.Sources) -> dict[str, int]:
    """How often, by the key at the sources process."""
    return {key.split()[-1]: count for key, count in outside.effects.items()}


async def test_two_effects_side_by_side_are_asked_about_together_and_done_again(desk: Desk) -> None:
    desk.outside.unsure = 2
    mails = [calls(("send_mail", {**MAIL, "to": [f"{name}@example.com"], "subject": name})) for name in ("a", "b")]
    two: dict[str, list[Any]] = {
        PLAN: [planned(("Email", "Send the date.", []), ("Email", "Send the price.", []))],
        EMAIL: [*mails, WAITS, WAITS, report("Sent."), report("Sent.")],
        SYNTHESIS: [job.reply()],
    }
    await killed(desk, two, TWO, effects=2)
    assert sorted(happened(desk.outside).values()) == [1, 1]
    asked = await desk.ends("NeedsApproval", attempt=2)
    assert len({one["shown"] for one in asked.waiting}) == asked.message["waiting"] == 2
    assert sum(desk.outside.effects.values()) == 2
    await desk.ends("Answered", approvals=[decided(2, about=one["id"]) for one in asked.waiting])
    assert sum(desk.outside.effects.values()) == 4
    assert sorted(one["subject"] for one in desk.outside.arguments.values()) == ["a", "a", "b", "b"]


NEWS: dict[str, Any] = {"content": ORDER, "messages": [{"id": "m1", "text": "Please be quick."}]}
DONE_ALREADY = '<context about="what this task has done already; do not do it again">'


def later(*email: Any) -> dict[str, list[Any]]:
    """Another round, with these turns of the agent for mails."""
    return {
        PLAN: [planned(("Email", "Send it.", []), ("Legal", "Look.", []))],
        EMAIL: [*email, report("It was sent before.")],
        LEGAL: [report("It is right.")],
        SYNTHESIS: [job.reply()],
    }


async def test_another_round_looks_up_what_was_sent_before_the_run_was_killed(desk: Desk) -> None:
    await killed(desk, script())
    await desk.ends("Answered", later(), **NEWS, attempt=2)
    assert happened(desk.outside) == {"r1.d3_2": 1}
    given = desk.prompts(EMAIL)[-1]
    assert f"{DONE_ALREADY}\nsendMail to.0 a@example.com: Done: sendMail." in given
    [entry] = desk.store.all("orchestrator_ledger", _id=f"{desk.task.uid}/r1.d3/2")
    assert entry["state"] == "done"


async def test_another_round_does_not_send_what_was_never_sent(desk: Desk) -> None:
    """The run died after it had written that it begins, and before the sources process was asked."""
    await killed(desk, script())
    desk.outside.done.clear()
    desk.outside.effects.clear()
    await desk.ends("Answered", later(), **NEWS, attempt=2)
    assert happened(desk.outside) == {}
    assert DONE_ALREADY not in desk.prompts(EMAIL)[-1]
    [entry] = desk.store.all("orchestrator_ledger", _id=f"{desk.task.uid}/r1.d3/2")
    assert entry["state"] == "intent"


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
async def test_a_message_in_place_of_a_decision_leaves_the_question_open(desk: Desk, verdict: str) -> None:
    desk.outside.unsure = 1
    first = await desk.delegates().ends("NeedsApproval", script(waits=True), content=ORDER)
    before = desk.calls()
    second = await desk.ends("NeedsApproval", later(), **NEWS)
    assert (second.waiting[0]["id"], second.waiting[0]["tool"]) == ("r1.d3/2", "sendMail")
    assert second.waiting[0]["agent"] == "Email"
    assert second.waiting[0]["shown"] == first.waiting[0]["shown"]
    # Before anything else: no model was asked.
    assert desk.calls() == before
    decision = decided(2, verdict, about="r1.d3/2")
    await desk.ends("Answered", **NEWS, approvals=[decision])
    again = {"r1.d3_2.again2": 1} if verdict == "Approved" else {}
    assert happened(desk.outside) == {"r1.d3_2": 1, **again}
    assert [one["to"] for one in desk.outside.arguments.values()] == [["a@example.com"]] * (1 + len(again))
    given = desk.prompts(EMAIL)[-1]
    said = "Done: sendMail." if again else "It may have been done already, and a person decided to leave it at that."
    assert f"{DONE_ALREADY}\nsendMail to.0 a@example.com: {said}" in given


async def test_what_was_approved_while_the_user_wrote_a_message_is_done_as_it_was_approved(desk: Desk) -> None:
    asked = await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    yes = decided(1, about=asked.waiting[0]["id"])
    await desk.ends("Answered", later(), **NEWS, approvals=[yes])
    assert happened(desk.outside) == {"r1.d3_2": 1}
    assert [one["to"] for one in desk.outside.arguments.values()] == [FOREIGN["to"]]
    assert f"{DONE_ALREADY}\nsendMail to.0 x@evil.example: Done: sendMail." in desk.prompts(EMAIL)[-1]
    # The next round does not do it once more.
    again = {"content": ORDER, "messages": [*NEWS["messages"], {"id": "m2", "text": "Thanks."}]}
    await desk.ends("Answered", later(), **again, approvals=[yes])
    assert happened(desk.outside) == {"r1.d3_2": 1}


async def test_what_is_not_kept_any_more_is_not_done_again(desk: Desk) -> None:
    desk.outside.unsure = 1
    await desk.delegates().ends("NeedsApproval", script(waits=True), content=ORDER)
    desk.store.database["orchestrator_journal"].delete_many({})
    asked = await desk.ends("NeedsApproval", **NEWS)
    assert "to.0: a@example.com" in asked.waiting[0]["shown"]
    again = await desk.ends("NeedsApproval", **NEWS, approvals=[decided(2, "Approved", about="r1.d3/2")])
    assert "cannot be done again" in again.waiting[0]["why"]
    await desk.ends("Answered", later(), **NEWS, approvals=[decided(3, "Rejected", about="r1.d3/2")])
    assert happened(desk.outside) == {"r1.d3_2": 1}


async def test_a_model_that_sends_it_once_more_in_another_round_is_held(desk: Desk) -> None:
    await killed(desk, script())
    asked = await desk.ends(
        "NeedsApproval",
        later(calls(("send_mail", {**MAIL, "text": "On Friday, as I said."})), WAITS),
        **NEWS,
        attempt=2,
    )
    assert asked.waiting[0]["id"] == "r2.d1.approval/2"
    assert asked.waiting[0]["why"].startswith("An earlier round, which did not come to its end, has done the same")
    assert happened(desk.outside) == {"r1.d3_2": 1}
    await desk.ends("Answered", **NEWS, approvals=[decided(2, "Rejected", about="r2.d1.approval/2")])
    assert happened(desk.outside) == {"r1.d3_2": 1}


async def test_a_round_that_ended_does_not_hold_what_the_next_one_does(desk: Desk) -> None:
    await desk.delegates().ends("Answered", script(), content=ORDER)
    moved = [{"id": "m1", "text": "It was moved. Send the new date to a@example.com."}]
    await desk.ends("Answered", later(calls(("send_mail", {**MAIL, "text": "On Monday."}))), messages=moved)
    assert happened(desk.outside) == {"r1.d3_2": 1, "r2.d1_2": 1}


async def test_a_message_after_a_kill_at_any_write_about_the_effect(desk: Desk) -> None:
    """The model sends the mail in each round whose prompt does not say that it was sent."""
    sent = report("The mail was sent.")
    turns = [
        {"when": '<document source="send_mail"', "answer": sent},
        {"when": DONE_ALREADY, "answer": report("It was sent before.")},
        {"when": "<question>", "answer": calls(("send_mail", MAIL))},
    ]
    looked = planned(("Email", "Send it.", []), ("Legal", "Look.", []))
    standing: dict[str, list[Any]] = {
        PLAN: [{"when": "<question>", "answer": looked}],
        EMAIL: turns,
        LEGAL: [{"when": "<question>", "answer": report("It is right.")}],
        SYNTHESIS: [{"when": "<question>", "answer": job.reply()}],
    }
    places = ("orchestrator_ledger", "orchestrator_prepared")
    writes = await desk.delegates().writes("Answered", standing, content=ORDER)
    cases = [(name, number) for name in places for number in range(1, writes[name] + 1)]
    assert len(cases) > 5
    for where in thorough.part(cases):
        one = desk.another().delegates()
        one.remember(content=ORDER)
        await one.task.killed(where)
        ended = await one.run(**NEWS, attempt=2)
        assert ended.message["exitReason"] == "Answered", (where, ended)
        assert [count for key, count in one.outside.effects.items() if one.task.uid in key] == [1], where
        entries = one.store.all("orchestrator_ledger", taskUid=one.task.uid)
        assert "started" not in {entry["state"] for entry in entries if "tool" in entry["intent"]}, where


# --- edited arguments of an approval: the example of docs/permits.md works, others are asked about -----------------


def example() -> str:
    """The edited arguments that the page shows."""
    [found] = re.findall(r"approve order --arguments '1=(\{.*\})'", _PAGE.read_text())
    return str(found)


async def test_the_example_of_the_page_is_sent(desk: Desk) -> None:
    await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    await desk.ends("Answered", approvals=[decided(1, "Approved", arguments=example())])
    wanted = json.loads(example())
    [sent] = desk.outside.arguments.values()
    assert {name: sent[name] for name in wanted} == wanted


@pytest.mark.parametrize("edited", [{"to": ["b@example.com"], "subject": "Disk", "body": "It is replaced."}, {}])
async def test_arguments_that_the_tool_does_not_take_are_asked_about_again(
    desk: Desk, edited: dict[str, object]
) -> None:
    await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    wrong = decided(1, "Approved", arguments=json.dumps(edited), about="r1.d3.approval/2")
    # Another attempt, which the operator makes when this one has left no result, asks the same.
    for _ in range(2):
        asked = await desk.ends("NeedsApproval", approvals=[wrong])
        assert asked.waiting[0]["id"] == "r1.d3.approval/2"
        why = asked.waiting[0]["why"]
        assert why.startswith("Asked again, as the edited arguments cannot be used: send_mail: ")
        assert "text: Field required" in why
        assert asked.waiting[0]["arguments"]["to"] == ["x@evil.example"]
    assert (desk.outside.effects, desk.fake.count(tag=EMAIL)) == ({}, 2)
    right = decided(3, "Approved", arguments=json.dumps({**MAIL, "to": ["b@example.com"]}), about="r1.d3.approval/2")
    await desk.ends("Answered", approvals=[wrong, right])
    assert [one["to"] for one in desk.outside.arguments.values()] == [["b@example.com"]]


async def test_what_was_edited_in_vain_does_not_approve_the_model_s_arguments(desk: Desk) -> None:
    """The edited arguments name the same recipient, who counts as named by a person then."""
    await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    wrong = decided(1, "Approved", arguments=json.dumps({"to": FOREIGN["to"], "body": "Another text."}))
    await desk.ends("NeedsApproval", approvals=[wrong])
    assert desk.outside.effects == {}
