"""An effect that the task has had already: shown to its agents, and not done twice by another one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator_job.effects import duplicate_effects, effect_digest
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.run.test_delegation_runs import EMAIL, LEGAL, PLAN, SYNTHESIS, WAITS, decided, planned
from tests.orchestrator_job.workbench import calls, report

LEGACY = "job.agent.LegacyAgent/v1"
MAIL = {"to": ["a@example.com"], "subject": "Release", "text": "On Friday."}
ORDER = "Send the date of the release to a@example.com, then say what the contract allows."
GAVE_UP = "STATUS: 0\nRESULT: I could not find the contract.\nCONFIDENCE: 0.9\nNEEDS_VERIFICATION: false"
DONE = "sendMail to.0 a@example.com: Done: sendMail."


def escalating(mail: dict[str, Any], *waits: str) -> dict[str, list[Any]]:
    """Email sends it and gives up; the agent that takes the task over wants to send `mail`, and reports `waits`."""
    return {
        PLAN: [planned(("Email", "Send the date to a@example.com, then say what the contract allows.", []))],
        EMAIL: [calls(("send_mail", MAIL)), GAVE_UP],
        LEGACY: [calls(("send_mail", mail)), *waits, report("The mail was sent.")],
        SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
    }


@pytest.mark.services
@pytest.mark.parametrize("text", ["On Friday.", "on  friday."])
async def test_who_takes_a_task_over_knows_what_was_sent_and_does_not_send_it_again(desk: Desk, text: str) -> None:
    await desk.delegates().ends("Answered", escalating({**MAIL, "text": text}), type="UserTask", content=ORDER)
    assert list(desk.outside.effects.values()) == [1]
    first, second = (one["body"]["messages"] for one in desk.fake.requests(tag=LEGACY))
    assert f'<context about="what this task has done already; do not do it again">\n{DONE}' in first[1]["content"]
    assert f"This task has done it already, and it was not done again. {DONE}" in second[-1]["content"]


@pytest.mark.services
async def test_the_same_aim_in_other_words_is_for_a_person_where_the_task_was_taken_over(desk: Desk) -> None:
    ended = await desk.delegates().ends(
        "NeedsApproval", escalating({**MAIL, "text": "It is on Friday!"}, WAITS), type="UserTask", content=ORDER
    )
    assert "had this task before has done this in other words" in ended.waiting[0]["why"]
    assert list(desk.outside.effects.values()) == [1]
    await desk.ends("Answered", approvals=[decided(1, "Approved")])
    assert list(desk.outside.effects.values()) == [1, 1]


@pytest.mark.services
async def test_later_groups_know_what_was_done_and_two_branches_do_it_once(desk: Desk) -> None:
    drafts: list[tuple[str, str, list[int]]] = [
        ("Email", "Send it.", []),
        ("Email", "Send the date.", []),
        ("Legal", "Look.", [1, 2]),
    ]
    await desk.delegates().ends(
        "Answered",
        {
            PLAN: [planned(*drafts)],
            EMAIL: [calls(("send_mail", MAIL)), calls(("send_mail", MAIL)), report("Sent."), report("Sent.")],
            LEGAL: [report("It may.")],
            SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
        },
        type="UserTask",
        content=ORDER,
    )
    assert list(desk.outside.effects.values()) == [1]
    assert DONE in json.dumps(desk.fake.requests(tag=LEGAL)[0]["body"]["messages"])


def once(*mails: dict[str, Any], waits: bool = False) -> dict[str, list[Any]]:
    """A round whose agent for mails sends these, by default the one of the tests. `waits`: a person is asked."""
    return {
        PLAN: [planned(("Email", "Send it.", []), ("Legal", "Look.", [1]))],
        EMAIL: [
            *(calls(("send_mail", mail)) for mail in mails or (MAIL,)),
            *([WAITS] if waits else []),
            report("Sent."),
        ],
        LEGAL: [report("It may.")],
        SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
    }


def said(*messages: str) -> dict[str, Any]:
    """The fields of the task with these messages of the user."""
    sent = [{"id": f"m{number}", "text": text} for number, text in enumerate(messages, start=1)]
    return {"type": "UserTask", "content": ORDER, "messages": sent}


PRICE = {**MAIL, "subject": "Price", "text": "It costs ten euros."}


@pytest.mark.services
async def test_the_same_in_a_later_round_is_for_a_person_though_a_permit_names_it(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    asked = await desk.ends(
        "NeedsApproval", once(MAIL, {**MAIL, "text": "on friday."}, waits=True), **said("It did not arrive.")
    )
    # The second one is the same, without case and blanks.
    assert [one["why"].partition(" sendMail")[0] for one in asked.waiting] == [
        "This task has done the same in an earlier round."
    ]
    assert sum(desk.outside.effects.values()) == 1
    await desk.ends("Answered", **said("It did not arrive."), approvals=[approved(asked, 2)])
    assert [key.split()[-1] for key in desk.outside.effects] == ["r1.d1_2", "r2.d1_2"]
    assert "and it was not done again" in desk.fake.requests(tag=EMAIL)[-1]["body"]["messages"][-1]["content"]


@pytest.mark.services
async def test_what_a_round_without_an_answer_has_done_is_for_a_person(desk: Desk) -> None:
    await desk.delegates().ends("NeedsApproval", once(MAIL, FOREIGN, waits=True), **said())
    assert list(desk.outside.effects.values()) == [1]
    asked = await desk.ends("NeedsApproval", once(waits=True), **said("Send it to a@example.com alone."))
    assert "which did not come to its end, has done the same" in asked.waiting[0]["why"]
    assert list(desk.outside.effects.values()) == [1]


COMMUNICATION = "job.agent.Communication/v1"
FOREIGN = {**MAIL, "to": ["x@other.example"]}


def side_by_side(*mails: dict[str, Any]) -> dict[str, list[Any]]:
    """Two agents that each want to send one of the mails."""
    first, second = mails
    return {
        PLAN: [planned(("Email", "Send it.", []), ("Communication", "Announce it.", []))],
        EMAIL: [calls(("send_mail", first)), WAITS, report("Sent.")],
        COMMUNICATION: [calls(("send_mail", second)), WAITS, report("Sent.")],
        SYNTHESIS: [job.reply()],
    }


def approved(asked: job.Ended, attempt: int, **fields: Any) -> dict[str, Any]:
    """A decision on what that run has asked."""
    assert asked.message["exitReason"] == "NeedsApproval", asked
    return decided(attempt, "Approved", about=asked.waiting[0]["id"], **fields)


@pytest.mark.services
async def test_the_same_that_two_agents_want_side_by_side_is_asked_about_and_done_once(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, FOREIGN), **said())
    await desk.ends("Answered", **said(), approvals=[approved(asked, 1)])
    assert list(desk.outside.effects.values()) == [1]
    given = [desk.fake.requests(tag=tag)[-1]["body"]["messages"][-1]["content"] for tag in (EMAIL, COMMUNICATION)]
    assert sum("This task has done it already, and it was not done again." in one for one in given) == 1


@pytest.mark.services
async def test_the_same_of_two_agents_is_rejected_once(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, FOREIGN), **said())
    assert len(asked.waiting) == 1
    no = {**approved(asked, 1), "verdict": "Rejected"}
    await desk.ends("Answered", **said(), approvals=[no])
    assert desk.outside.effects == {}
    given = [desk.fake.requests(tag=tag)[-1]["body"]["messages"][-1]["content"] for tag in (EMAIL, COMMUNICATION)]
    assert all("A person has rejected this" in one for one in given)


@pytest.mark.services
async def test_the_same_of_two_agents_that_is_edited_is_asked_about_again_for_the_second(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, FOREIGN), **said())
    edited = [approved(asked, 1, arguments=json.dumps({**FOREIGN, "text": "On Monday."}))]
    again = await desk.ends("NeedsApproval", **said(), approvals=edited)
    no = {**approved(again, 2), "verdict": "Rejected"}
    await desk.ends("Answered", **said(), approvals=[*edited, no])
    assert [one["text"] for one in desk.outside.arguments.values()] == ["On Monday."]


@pytest.mark.services
async def test_an_approval_whose_arguments_are_edited_to_what_was_done_does_nothing_more(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, {**FOREIGN, "text": "On Monday."}), **said())
    first, second = asked.waiting
    same = {name: first["arguments"][name] for name in ("to", "subject", "text")}
    approvals = [
        decided(1, about=first["id"]),
        decided(1, about=second["id"], arguments=json.dumps(same)),
    ]
    await desk.ends("Answered", **said(), approvals=approvals)
    assert list(desk.outside.effects.values()) == [1]


@pytest.mark.services
async def test_edited_arguments_that_repeat_an_earlier_round_are_asked_about_with_that_reason(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    asked = await desk.run(once(FOREIGN, waits=True), **said("Tell the others, too."))
    assert "earlier round" not in asked.waiting[0]["why"]
    approvals = [approved(asked, 2, arguments=json.dumps(MAIL))]
    again = await desk.run(**said("Tell the others, too."), approvals=approvals)
    approvals.append(approved(again, 3, arguments=json.dumps(MAIL)))
    assert "This task has done the same in an earlier round." in again.waiting[0]["why"]
    assert again.waiting[0]["shown"] == asked.waiting[0]["shown"]
    assert list(desk.outside.effects.values()) == [1]
    await desk.ends("Answered", **said("Tell the others, too."), approvals=approvals)
    assert [one["to"] for one in desk.outside.arguments.values()] == [["a@example.com"]] * 2


@pytest.mark.services
async def test_another_text_for_the_same_address_is_carried_out_without_the_old_one(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    asked = await desk.ends("NeedsApproval", once(PRICE, MAIL, waits=True), **said("Now send the price."))
    assert asked.waiting[0]["arguments"]["text"] == MAIL["text"]
    assert [one["text"] for one in desk.outside.arguments.values()] == [MAIL["text"], PRICE["text"]]


def entry(step: str, state: str = "done", text: str = "On Friday.", **result: Any) -> dict[str, Any]:
    """Of the ledger: a mail."""
    return {"step": step, "state": state, "result": result or None, "intent": intent(text)}


def intent(text: str = "On Friday.", to: str = "a@example.com") -> dict[str, Any]:
    """That of a mail."""
    same = effect_digest.digest("send_mail", "office", {"to": [to], "text": text})
    return {"tool": "sendMail", "connection": "office", "aims": {"to.0": to}, effect_digest.DIGEST: same}


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
    found = duplicate_effects.found(intent(), "r2.d2", taken_over, [other])
    assert (found.asks if found is not None else None) is asks


def test_the_same_of_this_round_comes_before_that_of_an_earlier_one() -> None:
    earlier, latest, now = entry("r1.d7"), entry("r3.d7"), entry("r4.d7")
    found = duplicate_effects.found(intent(), "r4.d2", "", [earlier, latest])
    assert found is not None
    assert found.asks
    refused = duplicate_effects.found(intent(), "r4.d2", "", [earlier, latest, now])
    assert refused is not None
    assert not refused.asks


def test_own_effects_are_in_the_talk_already() -> None:
    entries = [entry("r1.d1"), entry("r1.d1.2"), entry("r1.d11"), entry("r1.d2")]
    assert len(duplicate_effects.done(entries, "r1.d1")) == 2
    assert len(duplicate_effects.done(entries, "r1.d1.3")) == 4
