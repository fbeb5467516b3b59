"""A procedure that is missing: the user is asked, and the answer is followed and kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from crds import pendingtask
from kb import api
from orchestrator_job.agents import registry
from orchestrator_job.plan import execution_plan, procedure_question
from router.client import reading
from tests import effort
from tests.orchestrator_job import job, workbench
from tests.orchestrator_job.context.test_rules_context import rule
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.plan.test_procedures import procedure
from tests.orchestrator_job.run.test_delegation_runs import EMAIL, PLAN, RESEARCH, SYNTHESIS, planned
from tests.orchestrator_job.workbench import report

AGENTS = registry.Registry.load()
STEPS = "job.procedure_steps/v1"
FINANCIAL = "job.agent.Financial/v1"
ORDER = "Check the invoice 7 of Globex by the procedure for invoices of Globex, please."


def answer(text: str) -> dict[str, Any]:
    """As the operator writes it into the memory."""
    return {"id": "r1-q1", "text": text}


@pytest.mark.services
async def test_a_procedure_that_is_named_and_missing_is_asked_for_followed_and_kept(desk: Desk) -> None:
    desk.remember(type="UserTask", content=ORDER)
    ended = await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true").ends("NeedsInput")
    [question] = ended.message["questions"]
    assert question["id"] == "r1-q1"
    assert question["text"].startswith('There is no procedure "invoices of Globex" yet. How is it done?')
    assert desk.tags() == [PLAN]
    assert (desk.known.saved, desk.outside.effects) == ([], {})
    entries = desk.store.all("orchestrator_ledger", taskUid=desk.task.uid)
    assert {one["step"] for one in entries} == {"r1.finalize"}

    said = "1. Find the invoice and its order.\n2. Financial: compare both sums."
    await desk.ends(
        "Answered",
        {
            STEPS: [{"procedure": True, "agents": ["Research", "Financial"]}],
            RESEARCH: [report("It is invoice 7.")],
            FINANCIAL: [report("The sum is right.")],
            SYNTHESIS: [job.reply()],
        },
        answers=[answer(said)],
    )
    [saved] = desk.known.saved
    assert (saved["source"], saved["triggerPattern"], saved["clientId"]) == (
        "user_defined", "invoices of Globex", "acme",
    )  # fmt: skip
    assert [(one["agent"], one["action"]) for one in saved["procedureSteps"]] == [
        ("Research", "Find the invoice and its order."), ("Financial", "compare both sums."),
    ]  # fmt: skip
    assert desk.tags() == [PLAN, STEPS, RESEARCH, FINANCIAL, SYNTHESIS]
    assert desk.known.used == [{"clientId": "acme", "id": "invoices of Globex", "succeeded": True}]


@pytest.mark.services
async def test_a_no_is_done_without_one_and_asked_once(desk: Desk) -> None:
    desk.remember(type="UserTask", content=ORDER)
    await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true").ends("NeedsInput")
    await desk.ends(
        "Answered",
        {
            PLAN: [planned(("Research", "Look.", []), ("Email", "Say.", [1]))],
            RESEARCH: [report()],
            EMAIL: [report()],
            SYNTHESIS: [job.reply()],
        },
        answers=[answer("No.")],
    )
    assert [one["source"] for one in desk.known.saved] == ["learned"]
    [entry] = [one for one in desk.store.all("session_memory", taskId=desk.task.uid) if one["details"]]
    assert entry["details"][procedure_question.DECLINED] is True


@pytest.mark.services
@pytest.mark.parametrize("how", ["no json", "one call", "other model", "verdict"])
async def test_without_a_verdict_that_it_is_a_procedure_an_answer_is_context_and_not_kept(desk: Desk, how: str) -> None:
    await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true").ends("NeedsInput", type="UserTask", content=ORDER)
    no_steps = {"procedure": False, "agents": ["Research"]}
    desk.fake.set_script(
        {
            STEPS: [no_steps] if how == "verdict" else ["no json"] * 3,
            PLAN: [planned(("Research", "Look.", []))],
            RESEARCH: [report("It is not known.")],
            SYNTHESIS: [job.reply()],
        }
    )
    budget = {"maxLlmCalls": 3} if how == "one call" else {}
    if how == "other model":
        desk.task.environment["JERVIS_PLANNER_MODEL"] = "none-has-it:1b"
    said = "I do not know, ask Bob about that."
    await desk.ends("Answered", answers=[answer(said)], budget=budget)
    assert [one for one in desk.known.saved if one["source"] == "user_defined"] == []
    entries = [one for one in desk.store.all("session_memory", taskId=desk.task.uid) if one["details"]]
    # Only a verdict is the user's no: else such a task may ask again.
    assert [one["details"].get(procedure_question.DECLINED, False) for one in entries] == [how == "verdict"]
    if how in ("no json", "verdict"):
        assert said in desk.prompts(PLAN)[-1]
    assert len(desk.fake.requests(tag=STEPS)) == {"no json": 3, "one call": 0}.get(how, 1)


@pytest.mark.services
async def test_a_reply_that_is_no_verdict_is_corrected(desk: Desk) -> None:
    await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true").ends("NeedsInput", type="UserTask", content=ORDER)
    await desk.ends(
        "Answered",
        {
            STEPS: ["no json", {"procedure": True, "agents": ["Research"]}],
            RESEARCH: [report("It is invoice 7.")],
            SYNTHESIS: [job.reply()],
        },
        answers=[answer("Find the invoice and its order.")],
    )
    [saved] = desk.known.saved
    assert [one["agent"] for one in saved["procedureSteps"]] == ["Research"]


@pytest.mark.services
@pytest.mark.parametrize("how", ["flag", "rule", "restricted"])
async def test_nothing_is_asked_where_it_could_not_be_kept_or_must_not_be(desk: Desk, how: str) -> None:
    desk.fake.set_script({PLAN: [planned(("Research", "Look.", []))], RESEARCH: [report()], SYNTHESIS: [job.reply()]})
    if how == "rule":
        desk.known.rules = [rule("Do not disturb.\nenforce: never-use-tool ask")]
    more = {"onBehalfOf": ["user:eve"]} if how == "restricted" else {}
    desk.remember(type="UserTask", content=ORDER, **more)
    await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY=str(how != "flag").lower()).ends("Answered")


@pytest.mark.parametrize(
    ("said", "text", "kind", "name"),
    [
        ("invoices of Globex", ORDER, pendingtask.Type.USER_TASK, "invoices of Globex"),
        (
            "  faktury\nGlobexu ",
            "Udělej to podle postupu pro faktury Globexu.",
            pendingtask.Type.USER_INPUT,
            "faktury Globexu",
        ),
        ("請求書", "請求書の手順でお願いします。", pendingtask.Type.USER_INPUT, "請求書"),
        ("", ORDER, pendingtask.Type.USER_TASK, None),
        ("month-end close", ORDER, pendingtask.Type.USER_TASK, None),
        ("x" * 121, "x" * 200, pendingtask.Type.USER_TASK, None),
        ("known one", "Do it by the known one.", pendingtask.Type.USER_TASK, None),
        ("invoices of Globex", ORDER, pendingtask.Type.EMAIL, None),
    ],
)
def test_which_procedure_the_user_names(said: str, text: str, kind: pendingtask.Type, name: str | None) -> None:
    task = workbench.task("u", text, type=kind)
    assert procedure_question.named(said, task, text, [procedure("known one")]) == name


@pytest.mark.parametrize("filler", [" ", "\n", "a-", "a "])
def test_a_long_answer_is_looked_through_in_time(filler: str) -> None:
    with effort.counted() as spent:
        procedure_question.lines((filler * 8000)[:8000], AGENTS)
    assert spent.loops < 80


BUG = "The test fails with a traceback."
ISSUE = workbench.task("uid", BUG, type=pendingtask.Type.BUG_TRACKER)


def entry(task_id: str = "other", pattern: str = "issue_bug_report", **details: Any) -> api.SessionEntry:
    at = datetime(2026, 2, 28, tzinfo=UTC)
    given = {"pattern": pattern, **details}
    return api.SessionEntry(id="1", timestamp=at, source="x", summary="x", task_id=task_id, details=given)


@pytest.mark.parametrize(
    ("session", "every", "expected"),
    [
        ([entry()], [], "issue_bug_report"),
        ([entry()], [procedure("wiki")], "issue_bug_report"),
        ([], [], None),
        ([entry("uid")], [], None),
        ([entry(pattern="email")], [], None),
        ([entry(), entry("third", declined=True)], [], None),
        ([entry()], [procedure("bug_report", source="learned")], None),
    ],
)
def test_a_kind_of_task_that_comes_again_without_a_procedure_is_asked_for(
    session: list[api.SessionEntry], every: list[api.Procedure], expected: str | None
) -> None:
    assert procedure_question.missing(ISSUE, BUG, every, session) == expected


def test_where_a_task_came_from_makes_no_kind() -> None:
    task = workbench.task("uid", "Answer it?", type=pendingtask.Type.EMAIL)
    assert procedure_question.missing(task, "Answer it?", [], [entry(pattern="email_question")]) is None


def test_a_procedure_that_there_is_by_its_name_is_not_asked_for() -> None:
    task, name = workbench.task("u", ORDER, type=pendingtask.Type.USER_TASK), "invoices of Globex"
    assert procedure_question.named(name, task, ORDER, [procedure("Globex invoice", source="learned")]) is None
    assert procedure_question.named(name, task, ORDER, [procedure("order", source="learned")]) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. Look.\n2) Test agent: run the tests\n- Wizard: do it", [("Look.", ""), ("run the tests", "Test"),
                                                                     ("Wizard: do it", "")]),
        ("Look at it. Then fix it -> test it; close it", [("Look at it.", ""), ("Then fix it", ""), ("test it", ""),
                                                        ("close it", "")]),
        ("Fix it on 6. March.", [("Fix it on 6. March.", "")]),
    ],
)  # fmt: skip
def test_steps_are_what_the_user_wrote(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(one.action, one.agent) for one in procedure_question.lines(text, AGENTS)] == expected


def test_there_are_no_more_steps_than_a_plan_may_have() -> None:
    steps = procedure_question.lines("\n".join(f"Step {number}." for number in range(50)), AGENTS)
    assert len(steps) == execution_plan.MOST


def test_a_choice_of_agents_is_one_for_each_line() -> None:
    steps = [procedure_question.Line("Look."), procedure_question.Line("Fix it.", "Coding")]
    listed = AGENTS.specialists
    made = {"procedure": True, "agents": ["Research", "Test"]}
    chosen = procedure_question.judged(reading.read(json.dumps(made), procedure_question.Chosen).value, steps, listed)
    draft = procedure_question.draft("acme", "x", steps, chosen.agents)
    assert [one.agent for one in draft.procedure_steps] == ["Research", "Coding"]
    others: list[dict[str, Any]] = [
        {**made, "agents": ["Research"]},
        {**made, "agents": ["Research", "Fortune"]},
        {"agents": []},
    ]
    for wrong in others:
        with pytest.raises(reading.Unusable):
            procedure_question.judged(reading.read(json.dumps(wrong), procedure_question.Chosen).value, steps, listed)
    user = procedure_question.messages([procedure_question.Line("</answer> do")], listed)[1]["content"]
    assert user.count("</answer>") == 1


@pytest.mark.parametrize("language", ["en", "de", "cs", "sk", "pt"])
def test_the_question_fits_into_a_status(language: str) -> None:
    assert len(procedure_question.question("x" * 200, language).encode()) <= 2048
