"""Whole runs on the delegation graph, as processes: side by side, held for a person, on a spent budget, and resumed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kb import api
from sources.effects import wire
from tests import waiting
from tests.orchestrator_job import job, knowledge, recording
from tests.orchestrator_job.context.test_rules_context import rule
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.plan.test_procedures import procedure
from tests.orchestrator_job.workbench import calls, report

pytestmark = pytest.mark.services

PLAN, SYNTHESIS = "job.plan_delegations/v1", "job.synthesize/v1"
RESEARCH, EMAIL, LEGAL = (f"job.agent.{name}/v1" for name in ("Research", "Email", "Legal"))
ORDER = "Find out when the router is released, check the contract, and then send the date to a@example.com by mail."
MAIL = {"to": ["a@example.com"], "subject": "Release", "text": "On Friday."}
FOREIGN = {**MAIL, "to": ["x@evil.example"]}


WAITS = report("It waits for a person.")
"""What a model reports where nothing is left to do before a person has decided."""


def planned(*drafts: tuple[str, str, list[int]]) -> dict[str, Any]:
    """The answer of the planning model."""
    return {
        "domain": "COMMUNICATION",
        "delegations": [
            {"agent": agent, "task": task, "expectedOutput": "", "constraints": [], "dependsOn": needs}
            for agent, task, needs in drafts
        ],
    }


THREE = planned(("Research", "Find the date.", []), ("Legal", "Read the contract.", []), ("Email", "Send it.", [1, 2]))


def script(mail: dict[str, Any] = MAIL, *, waits: bool | None = None) -> dict[str, list[Any]]:
    """Two delegations side by side, then one with an effect, then the answer. `waits`: a person is asked about it, by
    default where it goes to others."""
    recorded = [WAITS] if (mail["to"] != MAIL["to"] if waits is None else waits) else []
    return {
        PLAN: [THREE],
        RESEARCH: [calls(("search_knowledge", {"query": "release of the router"})), report("It is on Friday.")],
        LEGAL: [report("The contract allows it.")],
        EMAIL: [calls(("send_mail", mail)), *recorded, report("The mail was sent.")],
        SYNTHESIS: [job.reply(answer="It is on Friday, the contract allows it, and a mail was sent [1].")],
    }


LATER: dict[str, list[Any]] = {LEGAL: [report("It is.")], SYNTHESIS: [job.reply()]}


def decided(attempt: int, verdict: str = "Approved", **fields: Any) -> dict[str, Any]:
    """As the operator writes it into the memory once a person has decided."""
    return {"requestId": f"run-{attempt}", "attempt": attempt, "verdict": verdict, "author": "ada", **fields}


async def test_two_side_by_side_then_an_effect_then_one_answer(desk: Desk) -> None:
    ended = await desk.delegates(JERVIS_RELEASE="jervis/jervis-operator").ends("Answered", script(), content=ORDER)
    assert ended.message["summary"].startswith("It is on Friday, the contract allows it")
    assert list(desk.outside.effects.values()) == [1]
    assert next(iter(desk.outside.arguments.values()))["to"] == ["a@example.com"]
    asked = desk.fake.requests(path="/api/chat")
    assert sorted(one["tag"] for one in asked[1:4]) == [LEGAL, RESEARCH, RESEARCH]
    assert [one["tag"] for one in asked if one["tag"] not in (LEGAL, RESEARCH)] == [PLAN, EMAIL, EMAIL, SYNTHESIS]
    told = next(one for one in asked if one["tag"] == EMAIL)["body"]["messages"][1]["content"]
    assert "It is on Friday." in told
    assert "The contract allows it." in told
    metrics = {one["delegationId"]: one for one in desk.store.all("delegation_metrics", taskUid=desk.task.uid)}
    assert {name: (one["agentName"], one["status"]) for name, one in metrics.items()} == {
        "r1.d1": ("Research", "COMPLETED"),
        "r1.d2": ("Legal", "COMPLETED"),
        "r1.d3": ("Email", "COMPLETED"),
    }
    assert {one["release"] for one in metrics.values()} == {"jervis/jervis-operator"}
    assert [one["delegationId"] for one in desk.result()["delegations"]] == ["r1.d1", "r1.d2", "r1.d3"]
    assert desk.spent()["llmCalls"] == 7
    assert len(desk.store.all("orchestrator_checkpoints", thread_id=desk.task.uid)) == 1


async def test_a_run_uses_the_connection_of_its_own_client(desk: Desk) -> None:
    """The settings name that of another client of the namespace."""
    desk.outside.connections = (wire.Named(name="globex-mail", type="Email", uses=("sendMail",)),)
    await desk.delegates().ends("Answered", script(), content=ORDER)
    assert [one.connection for one in desk.outside.done.values()] == ["globex-mail"]


async def test_of_several_connections_the_agent_names_one(desk: Desk) -> None:
    names = ("globex-mail", "globex-sales")
    desk.outside.connections = tuple(wire.Named(name=name, type="Email", uses=("sendMail",)) for name in names)
    answers = script()
    answers[EMAIL].insert(1, calls(("send_mail", {**MAIL, "connection": "globex-sales"})))
    await desk.delegates().ends("Answered", answers, content=ORDER.replace("by mail", "by mail through globex-sales"))
    assert "name the Connection, one of globex-mail, globex-sales" in str(desk.fake.requests(tag=EMAIL)[1]["body"])
    assert [one.connection for one in desk.outside.done.values()] == ["globex-sales"]


async def test_the_outcome_of_a_run_says_what_was_delegated_and_handed_back(desk: Desk) -> None:
    await desk.delegates().ends("Answered", script(), content=ORDER)
    result = desk.result()
    # A user's order that is done; a mail is an answer.
    assert (result["taskCategory"], result["taskAction"]) == ("single_task", "respond")
    steps = [(one["action"], one["result"]) for one in result["stepResults"]]
    assert steps[:3] == [
        ("Research: Find the date.", "It is on Friday."),
        ("Legal: Read the contract.", "The contract allows it."),
        ("Email: Send it.", "The mail was sent."),
    ]
    [mail] = [action for action, _ in steps if action.startswith("sendMail ")]
    assert "a@example.com" in mail


async def test_what_a_rejected_answer_was_written_from_is_no_step(desk: Desk) -> None:
    desk.known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    await desk.delegates().ends("NeedsApproval", {RESEARCH: [report("It is on Friday [email::<plan@example.org>].")]})
    assert desk.result()["stepResults"][0]["action"].startswith("Research: ")
    await desk.ends("Rejected", approvals=[decided(1, "Rejected")])
    result = desk.result()
    assert (result["answer"], result["stepResults"]) == ("", [])


async def test_a_question_of_one_look_has_what_is_known_and_costs_the_plan_and_one_call(desk: Desk) -> None:
    desk.known.user = api.UserContext(markdown="", categories={"team": ["- **release**: Jana decides on releases"]})
    said = {"timestamp": datetime(2026, 2, 28, tzinfo=UTC), "source": "chat", "summary": "The release was moved."}
    desk.known.session = [api.SessionEntry(id="1", task_id="other", **said)]
    desk.known.together = {"rules", "user-context", "session"}
    await desk.delegates().ends("Answered", {RESEARCH: [report("It is on Friday [email::<plan@example.org>].")]})
    assert desk.tags() == [PLAN, RESEARCH]
    planning, asked = desk.fake.requests(path="/api/chat")
    assert planning["tag"] == PLAN
    user = asked["body"]["messages"][1]["content"]
    assert '<context about="the user">\n### Team\n- **release**: Jana decides on releases\n</context>' in user
    assert '<context about="what was done lately">\n- 2026-02-28 00:00 chat: The release was moved.\n</context>' in user
    assert sorted(name for name, _ in desk.known.loaded) == ["rules", "session", "user-context"]
    assert len(desk.known.asked) == 1
    result = desk.result()
    assert (result["taskCategory"], result["taskAction"]) == ("advice", "respond")


async def test_a_foreign_recipient_is_held_and_edited(desk: Desk) -> None:
    asked = await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    assert asked.waiting[0]["tool"] == "sendMail"
    assert "x@evil.example" in asked.waiting[0]["shown"]
    assert asked.waiting[0]["why"] == "No permit names sendMail at office with x@evil.example."
    assert desk.result()["waiting"][0]["arguments"]["to"] == ["x@evil.example"]
    assert desk.outside.effects == {}

    # There is no decision yet: the same request again, and no model is asked.
    await desk.ends("NeedsApproval")
    assert desk.calls() == 6

    edited = '{"to": ["b@example.com"], "subject": "Release", "text": "On Friday."}'
    await desk.ends("Answered", approvals=[decided(2, "Approved", arguments=edited)])
    assert [one["to"] for one in desk.outside.arguments.values()] == [["b@example.com"]]
    assert desk.calls() == 8
    assert desk.result()["waiting"] == []


async def test_an_effect_that_may_have_happened_is_asked_about_with_its_action(desk: Desk) -> None:
    desk.outside.unsure = 1
    text = f"On Friday. {'So it was said. ' * 90}"
    asked = await desk.delegates().ends("NeedsApproval", script({**MAIL, "text": text}, waits=True), content=ORDER)
    action = asked.waiting[0]
    assert (action["tool"], action["agent"]) == ("sendMail", "Email")
    assert action["arguments"]["to"] == ["a@example.com"]
    assert action["why"].startswith("send_mail was started by an earlier run and may have happened")
    stored = desk.result()
    assert (action["arguments"]["text"], stored["exitReason"]) == (text, "NeedsApproval")
    # What is shown is longer than a status has room for.
    assert action["detailsRef"] != ""
    assert list(desk.outside.effects.values()) == [1]

    # It is done again as it was, or not at all.
    edited = '{"to": ["b@example.com"], "subject": "Release", "text": "On Monday."}'
    again = await desk.ends("NeedsApproval", approvals=[decided(1, "Approved", arguments=edited)])
    assert "arguments cannot be changed any more" in again.waiting[0]["why"]
    assert list(desk.outside.effects.values()) == [1]
    await desk.ends("Answered", approvals=[decided(2, "Approved")])
    assert list(desk.outside.effects.values()) == [1, 1]
    assert [one["to"] for one in desk.outside.arguments.values()] == [["a@example.com"]] * 2
    assert desk.result()["waiting"] == []


async def test_a_rejected_effect_is_left_out_and_the_run_goes_on(desk: Desk) -> None:
    await desk.delegates().run(script(FOREIGN), content=ORDER)
    await desk.ends("Answered", approvals=[decided(1, "Rejected", comment="not to them")])
    assert desk.outside.effects == {}
    told = desk.fake.requests(tag=EMAIL)[-1]["body"]["messages"][-1]["content"]
    assert "A person has rejected this: not to them" in told


async def test_a_message_while_a_request_is_open_begins_another_round(desk: Desk) -> None:
    await desk.delegates().run(script(FOREIGN), content=ORDER)
    await desk.ends("Answered", script(), messages=[{"id": "m1", "text": "Only to a@example.com, please."}])
    assert [key.split()[-1] for key in desk.outside.effects] == ["r2.d3_2"]


async def test_a_message_before_the_end_begins_another_round_in_the_same_run(desk: Desk) -> None:
    desk.fake.set_faults([{"match": {"tag": SYNTHESIS}, "nth": 1, "stall": {"afterBytes": 0, "gate": "message"}}])
    first = script()
    more = planned(("Legal", "Read the appendix.", []), ("Email", "Is it sent?", []))
    desk.fake.set_script(
        {
            **first,
            PLAN: [*first[PLAN], more],
            LEGAL: [*first[LEGAL], report("The appendix allows it.")],
            EMAIL: [*first[EMAIL], report("It was sent before.")],
            SYNTHESIS: [*first[SYNTHESIS], job.reply(answer="The appendix allows it [1].")],
        }
    )
    desk.remember(content=ORDER)
    running = desk.delegates().task.start()
    await waiting.eventually(lambda: desk.fake.count(tag=SYNTHESIS) == 1)
    desk.remember(content=ORDER, messages=[{"id": "m1", "text": "Read the appendix, too."}])
    desk.fake.open_gate("message")
    ended = await desk.task.end(running)
    assert (ended.message["summary"], ended.message["messagesRead"]) == ("The appendix allows it [1].", 1)
    # The round that it ended had done something, which the agents of the next one are shown.
    assert list(desk.outside.effects.values()) == [1]
    assert "sendMail" in desk.prompts(EMAIL)[-1]
    assert [one["delegationId"] for one in desk.result()["delegations"]] == ["r2.d1", "r2.d2"]


async def test_a_budget_of_calls_ends_in_what_was_found(desk: Desk) -> None:
    # The plan, two of the agents' calls, and three that only the synthesis may use.
    await desk.delegates(JERVIS_USE_DAG_EXECUTION="false").ends(
        "Answered", script(), content=ORDER, budget={"maxLlmCalls": 6}
    )
    assert desk.calls() == 4
    told = desk.prompts(SYNTHESIS)[0]
    assert "It is on Friday." in told
    assert "all of its 3 model calls" in told
    assert desk.outside.effects == {}


async def test_no_delegations_leave_the_evidence(desk: Desk) -> None:
    await desk.delegates().ends("Answered", script(), content=ORDER, budget={"maxDelegations": 0})
    assert desk.tags() == [PLAN, SYNTHESIS]


async def test_a_round_ends_on_the_graph_that_it_began_on(desk: Desk) -> None:
    await desk.delegates().run(script(FOREIGN), content=ORDER)
    await desk.ends("Answered", approvals=[decided(1, "Approved")], JERVIS_USE_DELEGATION_GRAPH="false")
    assert list(desk.outside.effects.values()) == [1]
    # The next round is the other graph's.
    more = {"messages": [{"id": "m1", "text": "And when?"}], "approvals": None}
    ended = await desk.run([job.reply()], JERVIS_USE_DELEGATION_GRAPH="false", **more)
    assert ended.message["summary"] == "On Friday [1]."


async def test_a_megabyte_of_evidence_is_behind_references(desk: Desk) -> None:
    desk.known.items = [knowledge.hit(f"{number} " + "x" * 100_000, f"email::{number}") for number in range(10)]
    # No window is set, which would bound the evidence to two characters for each of its tokens.
    desk.delegates(JERVIS_CONTEXT_CHARS="2000000")
    await desk.ends("NeedsApproval", script(FOREIGN), content=ORDER)
    stored = desk.store.all("orchestrator_artifacts", taskUid=desk.task.uid)
    assert sum(len(each["body"]) for each in stored) > 1_000_000
    checkpoints = desk.store.all("orchestrator_checkpoints", thread_id=desk.task.uid)
    writes = desk.store.all("orchestrator_checkpoint_writes", thread_id=desk.task.uid)
    assert max(len(each.get("checkpoint", b"")) for each in checkpoints) < 32 * 1024
    assert max(len(each.get("value", b"")) for each in writes) < 32 * 1024


async def test_a_recorded_thread_that_waits_for_a_person_is_resumed(desk: Desk) -> None:
    path = recording.CORPUS / "delegation-1.json"
    desk.task.adopt(recording.load(desk.store, path))
    desk.fake.set_script({EMAIL: [report("The mail was sent.")], SYNTHESIS: [job.reply()]})
    memory = desk.store.database["task_memory"].find_one({"_id": desk.task.uid})
    assert memory is not None
    desk.store.remember({**memory, "approvals": [decided(1, "Approved")]})
    await desk.delegates().ends("Answered", attempt=2)
    assert desk.calls() == 2
    assert list(desk.outside.effects.values()) == [1]


async def test_the_present_form_is_recorded(desk: Desk, tmp_path: Path) -> None:
    await desk.delegates().run(script(FOREIGN), content=ORDER)
    recording.save(desk.store, recording.path("delegation-2", tmp_path))


async def test_two_branches_are_one_request_and_each_effect_has_its_decision(desk: Desk) -> None:
    mails = [calls(("send_mail", {**MAIL, "to": [f"{name}@evil.example"]})) for name in ("x", "y")]
    asked = await desk.delegates().ends(
        "NeedsApproval",
        {
            PLAN: [planned(("Email", "Send the first.", []), ("Email", "Send the second.", []))],
            EMAIL: [*mails, WAITS, WAITS, report("Sent."), report("Not sent.")],
            SYNTHESIS: [job.reply()],
        },
        content=ORDER,
    )
    assert asked.message["waiting"] == 2
    assert asked.message["summary"].startswith("2 effects wait for approval.\n1. sendMail at office")
    verdicts = zip(asked.waiting, ("Approved", "Rejected"), strict=True)
    await desk.ends("Answered", approvals=[decided(1, verdict, about=one["id"]) for one, verdict in verdicts])
    assert [one["to"] for one in desk.outside.arguments.values()] == [asked.waiting[0]["arguments"]["to"]]
    assert desk.calls() == 8


async def test_twelve_effects_of_three_agents_are_one_request_and_two_runs(desk: Desk) -> None:
    marks = [[f"p{part}n{number}" for number in range(4)] for part in range(3)]
    told = [
        {"when": [f"Send part {part}.", "Done: sendMail"], "answer": report(f"Part {part} is sent.")}
        for part in range(3)
    ]
    waits = [{"when": [f"Send part {part}.", '<document source="send_mail"'], "answer": WAITS} for part in range(3)]
    sends = [
        {
            "when": f"Send part {part}.",
            "answer": calls(*(("send_mail", {**FOREIGN, "subject": mark}) for mark in marks[part])),
        }
        for part in range(3)
    ]
    asked = await desk.delegates().ends(
        "NeedsApproval",
        {
            PLAN: [planned(*(("Email", f"Send part {part}.", []) for part in range(3)))],
            EMAIL: [*told, *waits, *sends],
            SYNTHESIS: [job.reply()],
        },
        content=ORDER,
    )
    wanted = [mark for part in marks for mark in part]
    assert [one["arguments"]["subject"] for one in asked.waiting] == wanted
    assert desk.outside.effects == {}
    await desk.ends("Answered", approvals=[decided(1, about=one["id"], forTask=True) for one in asked.waiting])
    assert sorted(one["subject"] for one in desk.outside.arguments.values()) == wanted
    assert set(desk.outside.effects.values()) == {1}
    done = desk.result()["effects"]
    assert {(one["tool"], one["allowedBy"], one["permit"]) for one in done} == {("sendMail", "Approval", "ada")}
    assert [len(done), *{one["effects"]["Approval"] for one in desk.store.all("delegation_metrics")}] == [12, 4]


async def test_another_round_is_told_what_was_done(desk: Desk) -> None:
    await desk.delegates().run(script(), content=ORDER)
    await desk.ends(
        "Answered",
        {PLAN: [planned(("Email", "Look.", []), ("Legal", "Look.", []))], EMAIL: [report()], **LATER},
        messages=[{"id": "m1", "text": "Was it sent? And is it right?"}],
    )
    told = desk.prompts(EMAIL)[-1]
    assert "sendMail to.0 a@example.com: Done: sendMail." in told


async def test_a_stopped_run_asks_again_only_what_was_in_flight(desk: Desk) -> None:
    desk.fake.set_script({**script(), LEGAL: [{"fault": {"stall": {"afterBytes": 0}}}, report("It allows it.")]})
    desk.remember(content=ORDER)
    running = desk.delegates(JERVIS_DRAIN_GRACE_SECONDS="0.2").task.start()
    await waiting.eventually(
        lambda: desk.fake.count(tag=LEGAL) == 1 and desk.store.all("delegation_metrics", taskUid=desk.task.uid)
    )
    running.process.terminate()
    assert (await desk.task.end(running)).status == 42
    await desk.ends("Answered", attempt=2)
    assert (desk.fake.count(tag=RESEARCH), desk.fake.count(tag=LEGAL), desk.fake.count(tag=PLAN)) == (2, 2, 1)
    assert list(desk.outside.effects.values()) == [1]


async def test_a_run_that_dies_before_its_first_step_begins_again(desk: Desk) -> None:
    desk.fake.set_script(script())
    desk.remember(content=ORDER)
    await desk.delegates().task.killed(("orchestrator_checkpoints", 2))
    await desk.ends("Answered")
    assert list(desk.outside.effects.values()) == [1]


async def test_a_stop_does_not_wait_for_eight_calls_that_take_a_minute(desk: Desk) -> None:
    # What ends within the grace period is kept; a call that was in flight is asked again, one in each branch.
    stalled: list[Any] = [{"fault": {"stall": {"afterBytes": 0, "seconds": 60}}}] * 8
    eight = planned(*(("Legal", f"Read contract {number}.", []) for number in range(8)))
    desk.fake.set_script({PLAN: [eight], LEGAL: [*stalled, *[report("It is allowed.")] * 8], SYNTHESIS: [job.reply()]})
    desk.remember(content=ORDER)
    running = desk.delegates(JERVIS_DELEGATIONS_AT_ONCE="8").task.start()
    await waiting.eventually(lambda: desk.fake.count(tag=LEGAL) == 8)
    running.process.terminate()
    drained = await desk.task.end(running)
    assert drained.status == 42
    assert [one["grace_seconds"] for one in drained.lines if one["event"] == "draining"] == [0.5]
    await desk.ends("Answered", attempt=2)
    assert (desk.fake.count(tag=PLAN), desk.fake.count(tag=LEGAL)) == (1, 16)


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
async def test_a_run_learns_from_an_answer_that_was_given(desk: Desk, verdict: str) -> None:
    desk.known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    desk.fake.set_script(
        {
            PLAN: [planned(("Research", "Find it.", []), ("Legal", "Read it.", [1]))],
            RESEARCH: [report("It is on Friday.")],
            LEGAL: [report("It may.")],
            SYNTHESIS: [job.reply()],
        }
    )
    content = "Find out when the router is released and check the contract."
    await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true").ends("NeedsApproval", type="UserTask", content=content)
    assert (desk.known.saved, desk.known.used) == ([], [])
    await desk.ends("Answered" if verdict == "Approved" else "Rejected", approvals=[decided(1, verdict)])
    learned = [["Research", "Legal"]] if verdict == "Approved" else []
    assert [[step["agent"] for step in one["procedureSteps"]] for one in desk.known.saved] == learned


async def test_a_procedure_whose_effect_was_rejected_has_not_led_to_success(desk: Desk) -> None:
    desk.known.procedures = [procedure("contract", {"agent": "Email", "action": "send the date"})]
    desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true")
    await desk.ends("NeedsApproval", script(FOREIGN), content=ORDER)
    await desk.ends("Answered", approvals=[decided(1, "Rejected")])
    assert desk.known.used == [{"clientId": "acme", "id": "contract", "succeeded": False}]


async def test_a_second_round_whose_thread_is_gone_does_not_replay_the_first(desk: Desk) -> None:
    """It would go through the journal and the ledger of round 1, and say of its mail that the approved one was sent."""
    await desk.delegates().ends("Answered", script(), content=ORDER)
    more = [{"id": "m1", "text": "And tell the others."}]
    await desk.ends("NeedsApproval", script({**FOREIGN, "subject": "Second"}), messages=more)
    for name in ("orchestrator_checkpoints", "orchestrator_checkpoint_writes"):
        desk.store.database[name].delete_many({})
    ended = await desk.ends("Error", approvals=[decided(2, "Approved")])
    assert "its ledger has reached round 2" in ended.message["summary"]
    assert list(desk.outside.effects.values()) == [1]


async def test_calls_of_agents_that_break_in_the_middle_count(desk: Desk) -> None:
    breaks = {"fault": {"reset": {"afterBytes": 40}}}
    said = script()
    await desk.delegates().ends("Answered", {**said, LEGAL: [breaks, breaks, *said[LEGAL]]}, content=ORDER)
    assert desk.spent()["llmCalls"] == desk.calls() == 9


async def test_a_budget_of_steps_hands_back_what_agents_have_found(desk: Desk) -> None:
    # intake, evidence, the plan, and the two agents side by side.
    await desk.delegates().ends("BudgetExhausted", script(), content=ORDER, budget={"maxSteps": 4})
    result = desk.result()
    assert "Research:\nIt is on Friday." in result["answer"]
    assert "Legal:\nThe contract allows it." in result["answer"]
    assert "- Email did not report: Send it." in result["answer"]
    assert "steps" in result["answer"].splitlines()[-1]
    assert [one["delegationId"] for one in result["delegations"]] == ["r1.d1", "r1.d2"]
    await desk.ends("Answered", budget={"maxSteps": 20})
    assert list(desk.outside.effects.values()) == [1]


async def test_what_is_handed_back_has_nothing_of_agents_where_a_rule_requires_approval(desk: Desk) -> None:
    desk.known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    await desk.delegates().ends("BudgetExhausted", script(), content=ORDER, budget={"maxSteps": 4})
    result = desk.result()
    assert result["answer"] == "This task has used all of its 4 steps."
    assert result["evidence"]
    assert (result["stepResults"], result["changes"], result["citations"]) == ([], [], [])
    assert not {"delegations", "artifacts", "changedFiles"} & result.keys()
    assert not any(said in str(result) for said in ("The contract allows it.", "It is on Friday."))
    held = await desk.run(budget={"maxSteps": 20})
    assert held.waiting[0]["tool"] == "sendMail", held


async def test_another_round_is_in_the_language_of_its_message(desk: Desk) -> None:
    await desk.delegates().ends("Answered", script(), content=ORDER)
    said = "Bitte prüfe noch einmal den Vertrag und sage mir auf Deutsch, was darin über die Kündigung steht."
    await desk.ends(
        "Answered", {PLAN: [planned(("Legal", "Look.", []))], **LATER}, messages=[{"id": "m1", "text": said}]
    )
    assert 'language with the code "de"' in str(desk.fake.requests(tag=LEGAL)[-1]["body"]["messages"])


async def test_a_call_in_flight_is_ended_where_the_time_of_agents_ends(desk: Desk) -> None:
    """The rest of the time is the answer's, which says what is missing."""
    await desk.delegates(JERVIS_WALL_CLOCK_SECONDS="60").ends(
        "Answered", {**script(), LEGAL: [{"fault": {"stall": {"afterBytes": 0}}}]}, content=ORDER
    )
    shown = desk.prompts(SYNTHESIS)[0]
    assert "It is on Friday." in shown
    assert "The time of this run is nearly over." in shown


async def test_the_end_of_the_time_hands_back_what_agents_have_found(desk: Desk) -> None:
    """The model stalls in the synthesis too."""
    desk.fake.set_script({**script(), SYNTHESIS: [{"fault": {"stall": {"afterBytes": 0}}}]})
    desk.remember(content=ORDER)
    ended = await desk.delegates().task.run_out_of_time(40, lambda: desk.fake.count(tag=SYNTHESIS) > 0)
    assert (ended.status, ended.message["exitReason"]) == (1, "DeadlineExceeded"), ended
    result = desk.result()
    assert "Research:\nIt is on Friday." in result["answer"]
    assert "Done outside:\n- sendMail" in result["answer"]
    assert "the 40 seconds" in result["answer"]


async def test_agents_side_by_side_are_one_step(desk: Desk) -> None:
    # intake, evidence, the plan, two agents, consent, one agent, consent, the answer, approve and finalize.
    await desk.delegates().ends("BudgetExhausted", script(), content=ORDER, budget={"maxSteps": 9})
    await desk.ends("Answered", budget={"maxSteps": 10})
