"""Whole runs on the delegation graph, as processes: side by side, held for a person, on a spent budget, and resumed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controllers.sources.effects import wire
from kb import api
from tests import waiting
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, recording
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_procedures import procedure
from tests.orchestrator_job.delegation.workbench import calls, report
from tests.orchestrator_job.test_standing import rule

pytestmark = pytest.mark.services

PLAN, SYNTHESIS = "job.plan_delegations/v1", "job.synthesize/v1"
RESEARCH, EMAIL, LEGAL = (f"job.agent.{name}/v1" for name in ("Research", "Email", "Legal"))
ORDER = "Find out when the router is released, check the contract, and then send the date to a@example.com by mail."
MAIL = {"to": ["a@example.com"], "subject": "Release", "text": "On Friday."}


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


def script(mail: dict[str, Any] = MAIL) -> dict[str, list[Any]]:
    """Two delegations side by side, then one with an effect, then the answer."""
    return {
        PLAN: [THREE],
        RESEARCH: [calls(("search_knowledge", {"query": "release of the router"})), report("It is on Friday.")],
        LEGAL: [report("The contract allows it.")],
        EMAIL: [calls(("send_mail", mail)), report("The mail was sent.")],
        SYNTHESIS: [job.reply(answer="It is on Friday, the contract allows it, and a mail was sent [1].")],
    }


LATER: dict[str, list[Any]] = {LEGAL: [report("It is.")], SYNTHESIS: [job.reply()]}


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


def delegating(task: job.Job, outside: sources.Sources, **environment: str) -> job.Job:
    """The same task with the flags of the delegation graph, and a token of its own."""
    token = task.folder / f"token-{task.uid}"
    token.write_text(task.uid)
    task.environment.update(
        JERVIS_USE_DELEGATION_GRAPH="true",
        JERVIS_USE_SPECIALIST_AGENTS="true",
        JERVIS_USE_DAG_EXECUTION="true",
        JERVIS_SOURCES_URL=outside.url,
        JERVIS_MAIL_CONNECTION="office",
        JERVIS_RUN_TOKEN_FILE=str(token),
    )
    task.environment.update(environment)
    return task


def decided(attempt: int, verdict: str, **fields: Any) -> dict[str, Any]:
    """As the operator writes it into the memory once a person has decided."""
    return {"requestId": f"run-{attempt}", "attempt": attempt, "verdict": verdict, "author": "ada", **fields}


async def test_two_side_by_side_then_an_effect_then_one_answer(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    ended = await delegating(task, outside, JERVIS_RELEASE="jervis/jervis-operator").run()
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered"), ended
    assert ended.message["summary"].startswith("It is on Friday, the contract allows it")
    assert list(outside.effects.values()) == [1]
    assert next(iter(outside.arguments.values()))["to"] == ["a@example.com"]
    asked = fake.requests(path="/api/chat")
    assert sorted(one["tag"] for one in asked[1:4]) == [LEGAL, RESEARCH, RESEARCH]
    assert [one["tag"] for one in asked if one["tag"] not in (LEGAL, RESEARCH)] == [PLAN, EMAIL, EMAIL, SYNTHESIS]
    told = next(one for one in asked if one["tag"] == EMAIL)["body"]["messages"][1]["content"]
    assert "It is on Friday." in told
    assert "The contract allows it." in told
    metrics = {one["delegationId"]: one for one in store.all("delegation_metrics", taskUid=task.uid)}
    assert {name: (one["agentName"], one["status"]) for name, one in metrics.items()} == {
        "r1.d1": ("Research", "COMPLETED"),
        "r1.d2": ("Legal", "COMPLETED"),
        "r1.d3": ("Email", "COMPLETED"),
    }
    assert {one["release"] for one in metrics.values()} == {"jervis/jervis-operator"}
    [result] = store.all("task_results", _id=task.uid)
    assert [one["delegationId"] for one in result["delegations"]] == ["r1.d1", "r1.d2", "r1.d3"]
    [fence] = store.all("orchestrator_fences", _id=task.uid)
    assert fence["spent"]["r1"]["llmCalls"] == 7
    assert len(store.all("orchestrator_checkpoints", thread_id=task.uid)) == 1


async def test_a_run_uses_the_connection_of_its_own_client(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    """The settings name that of another client of the namespace."""
    outside.connections = (wire.Named(name="globex-mail", type="Email", uses=("sendMail",)),)
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered", ended
    assert [one.connection for one in outside.done.values()] == ["globex-mail"]


async def test_of_several_connections_the_agent_names_one(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    names = ("globex-mail", "globex-sales")
    outside.connections = tuple(wire.Named(name=name, type="Email", uses=("sendMail",)) for name in names)
    answers = script()
    answers[EMAIL].insert(1, calls(("send_mail", {**MAIL, "connection": "globex-sales"})))
    fake.set_script(answers)
    store.remember(task.memory(content=ORDER.replace("by mail", "by mail through globex-sales")))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered", ended
    assert "name the Connection, one of globex-mail, globex-sales" in str(fake.requests(tag=EMAIL)[1]["body"])
    assert [one.connection for one in outside.done.values()] == ["globex-sales"]


async def test_the_outcome_of_a_run_says_what_was_delegated_and_handed_back(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "Answered"
    [result] = store.all("task_results", _id=task.uid)
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


async def test_what_a_rejected_answer_was_written_from_is_no_step(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> None:
    known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    fake.set_script({RESEARCH: [report("It is on Friday [email::<plan@example.org>].")]})
    run = delegating(task, outside)
    assert (await run.run()).message["exitReason"] == "NeedsApproval"
    [proposed] = store.all("task_results", _id=task.uid)
    assert proposed["stepResults"][0]["action"].startswith("Research: ")
    store.remember(task.memory(approvals=[decided(1, "Rejected")]))
    assert (await run.run(attempt=2)).message["exitReason"] == "Rejected"
    [result] = store.all("task_results", _id=task.uid)
    assert (result["answer"], result["stepResults"]) == ("", [])


async def test_a_question_of_one_look_has_what_is_known_and_costs_one_model_call(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> None:
    known.user = api.UserContext(markdown="", categories={"team": ["- **release**: Jana decides on releases"]})
    said = {"timestamp": datetime(2026, 2, 28, tzinfo=UTC), "source": "chat", "summary": "The release was moved."}
    known.session = [api.SessionEntry(id="1", task_id="other", **said)]
    known.together = {"rules", "user-context", "session"}
    fake.set_script({RESEARCH: [report("It is on Friday [email::<plan@example.org>].")]})
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered", ended
    [asked] = fake.requests(path="/api/chat")
    user = asked["body"]["messages"][1]["content"]
    assert '<context about="the user">\n### Team\n- **release**: Jana decides on releases\n</context>' in user
    assert '<context about="what was done lately">\n- 2026-02-28 00:00 chat: The release was moved.\n</context>' in user
    assert sorted(name for name, _ in known.loaded) == ["rules", "session", "user-context"]
    assert len(known.asked) == 1
    [result] = store.all("task_results", _id=task.uid)
    assert (result["taskCategory"], result["taskAction"]) == ("advice", "respond")


async def test_a_foreign_recipient_is_held_and_edited(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    asked = await delegating(task, outside).run()
    assert (asked.status, asked.message["exitReason"]) == (0, "NeedsApproval"), asked
    assert asked.message["action"]["tool"] == "send_mail"
    assert "x@evil.example" in asked.message["action"]["shown"]
    assert "to.0 ('x@evil.example') was named by the model alone." in asked.message["action"]["why"]
    [proposed] = store.all("task_results", _id=task.uid)
    assert proposed["action"]["arguments"]["to"] == ["x@evil.example"]
    assert outside.effects == {}

    # There is no decision yet: the same request again, and no model is asked.
    assert (await task.run(attempt=2)).message["exitReason"] == "NeedsApproval"
    assert fake.count(path="/api/chat") == 5

    edited = '{"to": ["b@example.com"], "subject": "Release", "text": "On Friday."}'
    store.remember(task.memory(content=ORDER, approvals=[decided(2, "Approved", arguments=edited)]))
    ended = await task.run(attempt=3)
    assert ended.message["exitReason"] == "Answered", ended
    assert [one["to"] for one in outside.arguments.values()] == [["b@example.com"]]
    assert fake.count(path="/api/chat") == 7
    [result] = store.all("task_results", _id=task.uid)
    assert result["action"] is None


async def test_an_effect_that_may_have_happened_is_asked_about_with_its_action(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    outside.unsure = 1
    text = f"On Friday. {'So it was said. ' * 90}"
    fake.set_script(script({**MAIL, "text": text}))
    store.remember(task.memory(content=ORDER))
    asked = await delegating(task, outside).run()
    assert (asked.status, asked.message["exitReason"]) == (0, "NeedsApproval"), asked
    action = asked.message["action"]
    assert (action["tool"], action["agent"]) == ("send_mail", "Email")
    assert json.loads(action["arguments"])["to"] == ["a@example.com"]
    assert action["why"].startswith("send_mail was started by an earlier run and may have happened")
    [stored] = store.all("task_results", _id=task.uid)
    assert (stored["action"]["arguments"]["text"], stored["exitReason"]) == (text, "NeedsApproval")
    # What is shown is longer than a status has room for.
    assert stored["action"]["detailsRef"] == action["detailsRef"] != ""
    assert list(outside.effects.values()) == [1]

    # It is done again as it was, or not at all.
    edited = '{"to": ["b@example.com"], "subject": "Release", "text": "On Monday."}'
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Approved", arguments=edited)]))
    again = await task.run(attempt=2)
    assert again.message["exitReason"] == "NeedsApproval", again
    assert "arguments cannot be changed any more" in again.message["action"]["why"]
    assert list(outside.effects.values()) == [1]
    store.remember(task.memory(content=ORDER, approvals=[decided(2, "Approved")]))
    ended = await task.run(attempt=3)
    assert ended.message["exitReason"] == "Answered", ended
    assert list(outside.effects.values()) == [1, 1]
    assert [one["to"] for one in outside.arguments.values()] == [["a@example.com"]] * 2
    [result] = store.all("task_results", _id=task.uid)
    assert result["action"] is None


async def test_a_rejected_effect_is_left_out_and_the_run_goes_on(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    await delegating(task, outside).run()
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Rejected", comment="not to them")]))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert outside.effects == {}
    told = fake.requests(tag=EMAIL)[1]["body"]["messages"][-1]["content"]
    assert "A person has rejected this: not to them" in told


async def test_a_message_while_a_request_is_open_begins_another_round(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    await delegating(task, outside).run()
    fake.set_script(script())
    store.remember(task.memory(content=ORDER, messages=[{"id": "m1", "text": "Only to a@example.com, please."}]))
    ended = await task.run(attempt=2)
    assert ended.message["exitReason"] == "Answered", ended
    assert [key.split()[-1] for key in outside.effects] == ["r2.d3_2"]


async def test_a_message_before_the_end_begins_another_round_in_the_same_run(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_faults([{"match": {"tag": SYNTHESIS}, "nth": 1, "stall": {"afterBytes": 0, "gate": "message"}}])
    first = script()
    more = planned(("Legal", "Read the appendix.", []), ("Email", "Is it sent?", []))
    fake.set_script(
        {
            **first,
            PLAN: [*first[PLAN], more],
            LEGAL: [*first[LEGAL], report("The appendix allows it.")],
            EMAIL: [*first[EMAIL], report("It was sent before.")],
            SYNTHESIS: [*first[SYNTHESIS], job.reply(answer="The appendix allows it [1].")],
        }
    )
    store.remember(task.memory(content=ORDER))
    running = delegating(task, outside).start()
    await waiting.eventually(lambda: fake.count(tag=SYNTHESIS) == 1)
    store.remember(task.memory(content=ORDER, messages=[{"id": "m1", "text": "Read the appendix, too."}]))
    fake.open_gate("message")
    ended = await task.end(running)
    assert (ended.message["summary"], ended.message["messagesRead"]) == ("The appendix allows it [1].", 1)
    # The round that it ended had done something, which the agents of the next one are shown.
    assert list(outside.effects.values()) == [1]
    assert "sendMail" in fake.requests(tag=EMAIL)[-1]["body"]["messages"][1]["content"]
    [result] = store.all("task_results", _id=task.uid)
    assert [one["delegationId"] for one in result["delegations"]] == ["r2.d1", "r2.d2"]


async def test_a_budget_of_calls_ends_in_what_was_found(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    # The plan, two of the agents' calls, and three that only the synthesis may use.
    store.remember(task.memory(content=ORDER, budget={"maxLlmCalls": 6}))
    ended = await delegating(task, outside, JERVIS_USE_DAG_EXECUTION="false").run()
    assert ended.message["exitReason"] == "Answered", ended
    assert fake.count(path="/api/chat") == 4
    told = fake.requests(tag=SYNTHESIS)[0]["body"]["messages"][1]["content"]
    assert "It is on Friday." in told
    assert "all of its 3 model calls" in told
    assert outside.effects == {}


async def test_no_delegations_leave_the_evidence(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER, budget={"maxDelegations": 0}))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered", ended
    assert [one["tag"] for one in fake.requests(path="/api/chat")] == [PLAN, SYNTHESIS]


async def test_a_round_ends_on_the_graph_that_it_began_on(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    await delegating(task, outside).run()
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Approved")]))
    ended = await task.run(attempt=2, JERVIS_USE_DELEGATION_GRAPH="false")
    assert ended.message["exitReason"] == "Answered"
    assert list(outside.effects.values()) == [1]
    # The next round is the other graph's.
    fake.set_script({job.TAG: [job.reply()]})
    store.remember(task.memory(content=ORDER, messages=[{"id": "m1", "text": "And when?"}]))
    assert (await task.run(attempt=3, JERVIS_USE_DELEGATION_GRAPH="false")).message["summary"] == "On Friday [1]."


async def test_a_megabyte_of_evidence_is_behind_references(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources, known: knowledge.Knowledge
) -> None:
    known.items = [knowledge.hit(f"{number} " + "x" * 100_000, f"email::{number}") for number in range(10)]
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    # No window is set, which would bound the evidence to two characters for each of its tokens.
    one = delegating(task, outside, JERVIS_CONTEXT_CHARS="2000000")
    assert (await one.run()).message["exitReason"] == "NeedsApproval"
    stored = store.all("orchestrator_artifacts", taskUid=task.uid)
    assert sum(len(each["body"]) for each in stored) > 1_000_000
    checkpoints = store.all("orchestrator_checkpoints", thread_id=task.uid)
    writes = store.all("orchestrator_checkpoint_writes", thread_id=task.uid)
    assert max(len(each.get("checkpoint", b"")) for each in checkpoints) < 32 * 1024
    assert max(len(each.get("value", b"")) for each in writes) < 32 * 1024


async def test_a_recorded_thread_that_waits_for_a_person_is_resumed(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    path = recording.CORPUS / "delegation-1.json"
    task.adopt(recording.load(store, path))
    fake.set_script({EMAIL: [report("The mail was sent.")], SYNTHESIS: [job.reply()]})
    memory = store.database["task_memory"].find_one({"_id": task.uid})
    assert memory is not None
    store.remember({**memory, "approvals": [decided(1, "Approved")]})
    ended = await delegating(task, outside).run(attempt=2)
    assert ended.message["exitReason"] == "Answered", ended
    assert fake.count(path="/api/chat") == 2
    assert list(outside.effects.values()) == [1]


async def test_the_present_form_is_recorded(
    tmp_path: Path, task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    await delegating(task, outside).run()
    recording.save(store, recording.path("delegation-2", tmp_path))


async def test_requests_of_two_branches_are_asked_one_after_the_other(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    mails = [calls(("send_mail", {**MAIL, "to": [f"{name}@evil.example"]})) for name in ("x", "y")]
    fake.set_script(
        {
            PLAN: [planned(("Email", "Send the first.", []), ("Email", "Send the second.", []))],
            EMAIL: [*mails, report("Sent."), report("Not sent.")],
            SYNTHESIS: [job.reply()],
        }
    )
    store.remember(task.memory(content=ORDER))
    first = await delegating(task, outside).run()
    assert first.message["exitReason"] == "NeedsApproval"
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Approved")]))
    second = await task.run(attempt=2)
    assert second.message["exitReason"] == "NeedsApproval"
    assert second.message["action"]["shown"] != first.message["action"]["shown"]
    assert list(outside.effects.values()) == [1]
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Approved"), decided(2, "Rejected")]))
    assert (await task.run(attempt=3)).message["exitReason"] == "Answered"
    assert list(outside.effects.values()) == [1]
    assert fake.count(path="/api/chat") == 6


async def test_another_round_is_told_what_was_done(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    await delegating(task, outside).run()
    fake.set_script({PLAN: [planned(("Email", "Look.", []), ("Legal", "Look.", []))], EMAIL: [report()], **LATER})
    store.remember(task.memory(content=ORDER, messages=[{"id": "m1", "text": "Was it sent? And is it right?"}]))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    told = fake.requests(tag=EMAIL)[-1]["body"]["messages"][1]["content"]
    assert "sendMail to.0 a@example.com: Done: sendMail." in told


async def test_a_stopped_run_asks_again_only_what_was_in_flight(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script({**script(), LEGAL: [{"fault": {"stall": {"afterBytes": 0}}}, report("It allows it.")]})
    store.remember(task.memory(content=ORDER))
    running = delegating(task, outside, JERVIS_DRAIN_GRACE_SECONDS="0.2").start()
    await waiting.eventually(lambda: fake.count(tag=LEGAL) == 1 and store.all("delegation_metrics", taskUid=task.uid))
    running.process.terminate()
    assert (await task.end(running)).status == 42
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert (fake.count(tag=RESEARCH), fake.count(tag=LEGAL), fake.count(tag=PLAN)) == (2, 2, 1)
    assert list(outside.effects.values()) == [1]


async def test_a_run_that_dies_before_its_first_step_begins_again(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    await delegating(task, outside).killed(("orchestrator_checkpoints", 2))
    assert (await task.run()).message["exitReason"] == "Answered"
    assert list(outside.effects.values()) == [1]


async def test_a_stop_does_not_wait_for_eight_calls_that_take_a_minute(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    # What ends within the grace period is kept; a call that was in flight is asked again, one in each branch.
    stalled: list[Any] = [{"fault": {"stall": {"afterBytes": 0, "seconds": 60}}}] * 8
    eight = planned(*(("Legal", f"Read contract {number}.", []) for number in range(8)))
    fake.set_script({PLAN: [eight], LEGAL: [*stalled, *[report("It is allowed.")] * 8], SYNTHESIS: [job.reply()]})
    store.remember(task.memory(content=ORDER))
    running = delegating(task, outside, JERVIS_DELEGATIONS_AT_ONCE="8").start()
    await waiting.eventually(lambda: fake.count(tag=LEGAL) == 8)
    running.process.terminate()
    drained = await task.end(running)
    assert drained.status == 42
    assert [one["grace_seconds"] for one in drained.lines if one["event"] == "draining"] == [0.5]
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert (fake.count(tag=PLAN), fake.count(tag=LEGAL)) == (1, 16)


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
async def test_a_run_learns_from_an_answer_that_was_given(
    task: job.Job,
    store: job.Store,
    fake: process.Fake,
    known: knowledge.Knowledge,
    outside: sources.Sources,
    verdict: str,
) -> None:
    known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    fake.set_script(
        {
            PLAN: [planned(("Research", "Find it.", []), ("Legal", "Read it.", [1]))],
            RESEARCH: [report("It is on Friday.")],
            LEGAL: [report("It may.")],
            SYNTHESIS: [job.reply()],
        }
    )
    content = "Find out when the router is released and check the contract."
    store.remember(task.memory(type="UserTask", content=content))
    run = delegating(task, outside, JERVIS_USE_PROCEDURAL_MEMORY="true")
    assert (await run.run()).message["exitReason"] == "NeedsApproval"
    assert (known.saved, known.used) == ([], [])
    store.remember(task.memory(type="UserTask", content=content, approvals=[decided(1, verdict)]))
    ended = await run.run(attempt=2)
    assert ended.message["exitReason"] == ("Answered" if verdict == "Approved" else "Rejected"), ended
    learned = [["Research", "Legal"]] if verdict == "Approved" else []
    assert [[step["agent"] for step in one["procedureSteps"]] for one in known.saved] == learned


async def test_a_procedure_whose_effect_was_rejected_has_not_led_to_success(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> None:
    known.procedures = [procedure("contract", {"agent": "Email", "action": "send the date"})]
    fake.set_script(script({**MAIL, "to": ["x@evil.example"]}))
    store.remember(task.memory(content=ORDER))
    run = delegating(task, outside, JERVIS_USE_PROCEDURAL_MEMORY="true")
    assert (await run.run()).message["exitReason"] == "NeedsApproval"
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Rejected")]))
    assert (await run.run(attempt=2)).message["exitReason"] == "Answered"
    assert known.used == [{"clientId": "acme", "id": "contract", "succeeded": False}]


async def test_a_second_round_whose_thread_is_gone_does_not_replay_the_first(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    """It would go through the journal and the ledger of round 1, and say of its mail that the approved one was sent."""
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "Answered"
    said = {"content": ORDER, "messages": [{"id": "m1", "text": "And tell the others."}]}
    fake.set_script(script({**MAIL, "to": ["x@evil.example"], "subject": "Second"}))
    store.remember(task.memory(**said))
    assert (await task.run(attempt=2)).message["exitReason"] == "NeedsApproval"
    for name in ("orchestrator_checkpoints", "orchestrator_checkpoint_writes"):
        store.database[name].delete_many({})
    store.remember(task.memory(**said, approvals=[decided(2, "Approved")]))
    ended = await task.run(attempt=3)
    assert (ended.status, ended.message["exitReason"]) == (1, "Error")
    assert "its ledger has reached round 2" in ended.message["summary"]
    assert list(outside.effects.values()) == [1]


async def test_calls_of_agents_that_break_in_the_middle_count(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    breaks = {"fault": {"reset": {"afterBytes": 40}}}
    said = script()
    fake.set_script({**said, LEGAL: [breaks, breaks, *said[LEGAL]]})
    store.remember(task.memory(content=ORDER))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered"
    [fence] = store.all("orchestrator_fences", _id=task.uid)
    assert fence["spent"]["r1"]["llmCalls"] == fake.count(path="/api/chat") == 9


async def test_a_budget_of_steps_hands_back_what_agents_have_found(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    # intake, evidence, the plan, and the two agents side by side.
    store.remember(task.memory(content=ORDER, budget={"maxSteps": 4}))
    ended = await delegating(task, outside).run()
    assert (ended.status, ended.message["exitReason"]) == (1, "BudgetExhausted")
    [result] = store.all("task_results", _id=task.uid)
    assert "Research:\nIt is on Friday." in result["answer"]
    assert "Legal:\nThe contract allows it." in result["answer"]
    assert "- Email did not report: Send it." in result["answer"]
    assert "steps" in result["answer"].splitlines()[-1]
    assert [one["delegationId"] for one in result["delegations"]] == ["r1.d1", "r1.d2"]
    store.remember(task.memory(content=ORDER, budget={"maxSteps": 20}))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert list(outside.effects.values()) == [1]


async def test_what_is_handed_back_has_nothing_of_agents_where_a_rule_requires_approval(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> None:
    known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    fake.set_script(script())
    store.remember(task.memory(content=ORDER, budget={"maxSteps": 4}))
    assert (await delegating(task, outside).run()).message["exitReason"] == "BudgetExhausted"
    [result] = store.all("task_results", _id=task.uid)
    assert result["answer"] == "This task has used all of its 4 steps."
    assert result["evidence"]
    assert (result["stepResults"], result["changes"], result["citations"]) == ([], [], [])
    assert not {"delegations", "artifacts", "changedFiles"} & result.keys()
    assert not any(said in str(result) for said in ("The contract allows it.", "It is on Friday."))
    store.remember(task.memory(content=ORDER, budget={"maxSteps": 20}))
    held = await task.run(attempt=2)
    assert held.message["action"]["tool"] == "send_mail", held


async def test_another_round_is_in_the_language_of_its_message(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "Answered"
    fake.set_script({PLAN: [planned(("Legal", "Look.", []))], **LATER})
    said = "Bitte prüfe noch einmal den Vertrag und sage mir auf Deutsch, was darin über die Kündigung steht."
    store.remember(task.memory(content=ORDER, messages=[{"id": "m1", "text": said}]))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    assert 'language with the code "de"' in str(fake.requests(tag=LEGAL)[-1]["body"]["messages"])


async def test_a_call_in_flight_is_ended_where_the_time_of_agents_ends(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    """The rest of the time is the answer's, which says what is missing."""
    fake.set_script({**script(), LEGAL: [{"fault": {"stall": {"afterBytes": 0}}}]})
    store.remember(task.memory(content=ORDER))
    ended = await delegating(task, outside, JERVIS_WALL_CLOCK_SECONDS="60").run()
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered"), ended
    shown = fake.requests(tag=SYNTHESIS)[0]["body"]["messages"][1]["content"]
    assert "It is on Friday." in shown
    assert "The time of this run is nearly over." in shown


async def test_the_end_of_the_time_hands_back_what_agents_have_found(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    """The model stalls in the synthesis too."""
    fake.set_script({**script(), SYNTHESIS: [{"fault": {"stall": {"afterBytes": 0}}}]})
    store.remember(task.memory(content=ORDER))
    ended = await delegating(task, outside).run_out_of_time(40, lambda: fake.count(tag=SYNTHESIS) > 0)
    assert (ended.status, ended.message["exitReason"]) == (1, "DeadlineExceeded"), ended
    [result] = store.all("task_results", _id=task.uid)
    assert "Research:\nIt is on Friday." in result["answer"]
    assert "Done outside:\n- sendMail" in result["answer"]
    assert "the 40 seconds" in result["answer"]


async def test_agents_side_by_side_are_one_step(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script())
    # intake, evidence, the plan, two agents, consent, one agent, consent, the answer, approve and finalize.
    store.remember(task.memory(content=ORDER, budget={"maxSteps": 9}))
    assert (await delegating(task, outside).run()).message["exitReason"] == "BudgetExhausted"
    store.remember(task.memory(content=ORDER, budget={"maxSteps": 10}))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
