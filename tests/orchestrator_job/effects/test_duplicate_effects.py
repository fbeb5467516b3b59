"""An effect that the task has had already: shown to its agents, and not done twice by another one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator_job.effects import duplicate_effects, effect_digest, ledger_entries
from orchestrator_job.effects.permits import orders
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.run.test_delegation_runs import EMAIL, LEGAL, PLAN, SYNTHESIS, decided, planned
from tests.orchestrator_job.workbench import calls, report

LEGACY = "job.agent.LegacyAgent/v1"
TRACKER = "job.agent.IssueTracker/v1"
MAIL = {"to": ["a@example.com"], "subject": "Release", "text": "On Friday."}
ORDER = "Send the date of the release to a@example.com, then say what the contract allows."
GAVE_UP = "STATUS: 0\nRESULT: I could not find the contract.\nCONFIDENCE: 0.9\nNEEDS_VERIFICATION: false"
DONE = "sendMail to.0 a@example.com: Done: sendMail."


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
async def test_who_takes_a_task_over_knows_what_was_sent_and_does_not_send_it_again(desk: Desk, text: str) -> None:
    await desk.delegates().ends("Answered", escalating({**MAIL, "text": text}), type="UserTask", content=ORDER)
    assert list(desk.outside.effects.values()) == [1]
    first, second = (one["body"]["messages"] for one in desk.fake.requests(tag=LEGACY))
    assert f'<context about="what this task has done already; do not do it again">\n{DONE}' in first[1]["content"]
    assert f"This task has done it already, and it was not done again. {DONE}" in second[-1]["content"]


@pytest.mark.services
async def test_the_same_aim_in_other_words_is_for_a_person_where_the_task_was_taken_over(desk: Desk) -> None:
    ended = await desk.delegates().ends(
        "NeedsApproval", escalating({**MAIL, "text": "It is on Friday!"}), type="UserTask", content=ORDER
    )
    assert "had this task before has done this in other words" in ended.message["action"]["why"]
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


def once(*mails: dict[str, Any]) -> dict[str, list[Any]]:
    """A round whose agent for mails sends these, by default the one of the tests."""
    return {
        PLAN: [planned(("Email", "Send it.", []), ("Legal", "Look.", [1]))],
        EMAIL: [*(calls(("send_mail", mail)) for mail in mails or (MAIL,)), report("Sent.")],
        LEGAL: [report("It may.")],
        SYNTHESIS: [job.reply(answer="The mail was sent.", citations=[])],
    }


def said(*messages: str) -> dict[str, Any]:
    """The fields of the task with these messages of the user."""
    sent = [{"id": f"m{number}", "text": text} for number, text in enumerate(messages, start=1)]
    return {"type": "UserTask", "content": ORDER, "messages": sent}


OTHER = "Thanks. Now send the price of the router to a@example.com, too."
PRICE = {**MAIL, "subject": "Price", "text": "It costs ten euros."}
AGAIN = "It did not arrive. Send the same mail to a@example.com again."


@pytest.mark.services
async def test_what_the_user_orders_again_in_a_later_message_is_done_again_once(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    await desk.ends("Answered", once(MAIL, {**MAIL, "text": "on friday."}), **said(AGAIN))
    assert [key.split()[-1] for key in desk.outside.effects] == ["r1.d1_2", "r2.d1_2"]
    assert "and it was not done again" in desk.fake.requests(tag=EMAIL)[-1]["body"]["messages"][-1]["content"]

    # The order was for that round.
    asked = await desk.ends("NeedsApproval", once(), **said(AGAIN, "Thank you. And is it right?"))
    assert "This task has done the same in an earlier round." in asked.message["action"]["why"]
    assert sum(desk.outside.effects.values()) == 2


@pytest.mark.services
@pytest.mark.parametrize("message", ["Was it sent?", "It did not arrive.", "Send the price to b@example.com.", OTHER])
async def test_the_same_again_that_a_message_does_not_order_is_for_a_person(desk: Desk, message: str) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    ended = await desk.ends("NeedsApproval", once(), **said(message))
    assert "This task has done the same in an earlier round." in ended.message["action"]["why"]
    assert list(desk.outside.effects.values()) == [1]


@pytest.mark.services
async def test_an_order_in_a_message_does_not_repeat_what_a_round_without_an_answer_has_done(desk: Desk) -> None:
    await desk.delegates().ends("NeedsApproval", once(MAIL, {**MAIL, "to": ["x@evil.example"]}), **said())
    assert list(desk.outside.effects.values()) == [1]
    ended = await desk.ends(
        "NeedsApproval", once(), **said("Send it to a@example.com and to no others.", "Send it to a@example.com.")
    )
    assert "which did not come to its end, has done the same" in ended.message["action"]["why"]
    assert list(desk.outside.effects.values()) == [1]


COMMUNICATION = "job.agent.Communication/v1"
FOREIGN = {**MAIL, "to": ["x@other.example"]}


def side_by_side(*mails: dict[str, Any]) -> dict[str, list[Any]]:
    """Two agents that each want to send one of the mails."""
    first, second = mails
    return {
        PLAN: [planned(("Email", "Send it.", []), ("Communication", "Announce it.", []))],
        EMAIL: [calls(("send_mail", first)), report("Sent.")],
        COMMUNICATION: [calls(("send_mail", second)), report("Sent.")],
        SYNTHESIS: [job.reply()],
    }


def approved(asked: job.Ended, attempt: int, **fields: Any) -> dict[str, Any]:
    """A decision on what that run has asked."""
    assert asked.message["exitReason"] == "NeedsApproval", asked
    return decided(attempt, "Approved", about=asked.message["about"], **fields)


@pytest.mark.services
async def test_the_same_that_two_agents_want_side_by_side_is_asked_about_and_done_once(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, FOREIGN), **said())
    await desk.ends("Answered", **said(), approvals=[approved(asked, 1)])
    assert list(desk.outside.effects.values()) == [1]
    given = [desk.fake.requests(tag=tag)[-1]["body"]["messages"][-1]["content"] for tag in (EMAIL, COMMUNICATION)]
    assert sum("This task has done it already, and it was not done again." in one for one in given) == 1


@pytest.mark.services
async def test_two_agents_whose_first_request_is_rejected_are_both_asked_about(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, FOREIGN), **said())
    no = {**approved(asked, 1), "verdict": "Rejected"}
    again = await desk.run(**said(), approvals=[no])
    await desk.ends("Answered", **said(), approvals=[no, approved(again, 2)])
    assert list(desk.outside.effects.values()) == [1]


@pytest.mark.services
async def test_an_approval_whose_arguments_are_edited_to_what_was_done_does_nothing_more(desk: Desk) -> None:
    asked = await desk.delegates().run(side_by_side(FOREIGN, {**FOREIGN, "text": "On Monday."}), **said())
    approvals = [approved(asked, 1)]
    again = await desk.run(**said(), approvals=approvals)
    [sent] = desk.outside.arguments.values()
    same = {name: sent[name] for name in ("to", "subject", "text")}
    approvals.append(approved(again, 2, arguments=json.dumps(same)))
    await desk.ends("Answered", **said(), approvals=approvals)
    assert list(desk.outside.effects.values()) == [1]


@pytest.mark.services
async def test_edited_arguments_that_repeat_an_earlier_round_are_asked_about_with_that_reason(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    asked = await desk.run(once(FOREIGN), **said("Tell the others, too."))
    assert "earlier round" not in asked.message["action"]["why"]
    approvals = [approved(asked, 2, arguments=json.dumps(MAIL))]
    again = await desk.run(**said("Tell the others, too."), approvals=approvals)
    approvals.append(approved(again, 3, arguments=json.dumps(MAIL)))
    assert "This task has done the same in an earlier round." in again.message["action"]["why"]
    assert again.message["action"]["shown"] == asked.message["action"]["shown"]
    assert list(desk.outside.effects.values()) == [1]
    await desk.ends("Answered", **said("Tell the others, too."), approvals=approvals)
    assert [one["to"] for one in desk.outside.arguments.values()] == [["a@example.com"]] * 2


@pytest.mark.services
async def test_another_order_for_the_same_address_is_carried_out_without_the_old_one(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    asked = await desk.ends("NeedsApproval", once(PRICE, MAIL), **said(OTHER))
    assert MAIL["text"] in asked.message["action"]["arguments"]
    assert [one["text"] for one in desk.outside.arguments.values()] == [MAIL["text"], PRICE["text"]]


@pytest.mark.services
async def test_an_issue_that_was_opened_again_is_closed_by_another_order(desk: Desk) -> None:
    closing = {
        **once(),
        PLAN: [planned(("IssueTracker", "Close it.", []), ("Legal", "Look.", [1]))],
        TRACKER: [calls(("update_issue", {"issue": "14", "state": "closed"})), report("Closed.")],
    }
    order = "Close issue 14, then say what the contract allows."
    await desk.delegates(JERVIS_TRACKER_CONNECTION="tracker").ends("Answered", closing, **{**said(), "content": order})
    await desk.ends("Answered", closing, **{**said("Bob has opened it. Close issue 14."), "content": order})
    assert list(desk.outside.effects.values()) == [1, 1]


@pytest.mark.services
async def test_orders_that_a_round_has_answered_permit_nothing_more(desk: Desk) -> None:
    await desk.delegates().ends("Answered", once(), **said())
    asked = await desk.ends(
        "NeedsApproval", once({**MAIL, "text": "It was moved."}), **said("Thanks. What does the contract say?")
    )
    assert "No order of the user" in asked.message["action"]["why"]
    assert sum(desk.outside.effects.values()) == 1


@pytest.mark.services
async def test_orders_count_until_a_round_is_answered_and_what_rounds_before_it_did_is_reported_then(
    desk: Desk,
) -> None:
    await desk.delegates().ends("NeedsApproval", once(FOREIGN), **said())
    messages = ["Leave the others out."]
    await desk.ends("NeedsApproval", once(MAIL, FOREIGN), **said(*messages))
    assert [one["text"] for one in desk.outside.arguments.values()] == [MAIL["text"]]
    messages.append("To a@example.com alone.")
    await desk.ends("Answered", {**once(), EMAIL: [report("Nothing more.")]}, **said(*messages))
    messages.append("Thanks. Now send the price to a@example.com.")
    await desk.ends("Answered", once(PRICE), **said(*messages))
    assert [one["text"] for one in desk.outside.arguments.values()] == [MAIL["text"], PRICE["text"]]
    messages.append("Send the date to a@example.com again.")
    await desk.ends("Answered", once(MAIL), **said(*messages))
    assert sum(desk.outside.effects.values()) == 3


@pytest.mark.parametrize(
    ("answered", "used"),
    [
        (ledger_entries.Answered(), None),
        (ledger_entries.Answered(2, frozenset({"m1"})), {"m1"}),
    ],
)
def test_whose_orders_are_used_up(answered: ledger_entries.Answered, used: set[str] | None) -> None:
    found = duplicate_effects.spent(answered)
    assert (set(found) if found is not None else None) == used


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("Send it to a@example.com again.", True),
        ("Send the date to a@example.com once more.", True),
        ("Schicke das Datum noch einmal an a@example.com.", True),
        ("Pošli datum ještě jednou na a@example.com.", True),
        ("Pošli dátum opäť na a@example.com.", True),
        ("I ask again. Send the price to a@example.com.", False),
        (OTHER, False),
    ],
)
def test_which_orders_are_about_what_was_done_before(text: str, again: bool) -> None:
    [order] = orders.read(text)
    assert duplicate_effects.again(order) is again


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
    assert (found.asks, found.last) == (True, 3)
    refused = duplicate_effects.found(intent(), "r4.d2", "", [earlier, latest, now])
    assert refused is not None
    assert not refused.asks


def test_own_effects_are_in_the_talk_already() -> None:
    entries = [entry("r1.d1"), entry("r1.d1.2"), entry("r1.d11"), entry("r1.d2")]
    assert len(duplicate_effects.done(entries, "r1.d1")) == 2
    assert len(duplicate_effects.done(entries, "r1.d1.3")) == 4
