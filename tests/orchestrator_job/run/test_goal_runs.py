"""A whole run for each category, as a process: what each model is asked, in which order, and what is there then.

Cases with a repository and a tracker are in `test_work`; here knowledge base and sources process are the tests'.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator_job.model import prompt_budget
from orchestrator_job.run import delegation_wiring as delegation
from router.client import schema
from tests import waiting
from tests.orchestrator_job import job, recording
from tests.orchestrator_job.context.test_rules_context import rule
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.run.test_delegation_runs import FOREIGN, MAIL, SYNTHESIS, WAITS, decided, planned
from tests.orchestrator_job.workbench import calls, parts, report

pytestmark = pytest.mark.services

DESIGN, GOALS, STEPS, CONTEXT = (f"job.{name}/v1" for name in ("design", "goals", "plan_steps", "context"))
LEGACY = "job.agent.LegacyAgent/v1"
EPIC = "Migrate the router to the new cluster, and send the date to a@example.com by mail."
NEW = "Design a new application for time sheets of the team."
ANSWER = "It is migrated on Friday, and a mail was sent [1]."
ORDERS_EPIC = job.order("epic", EPIC, "sendMail")
ORDERS_NEW = job.order("generative", NEW)


def goal(title: str, *needs: int, about: str = "") -> dict[str, Any]:
    """A goal as a model gives it."""
    return {
        "title": title,
        "description": about or f"{title} is done.",
        "doneWhen": f"{title} is there.",
        "dependsOn": list(needs),
    }


def steps(*tasks: str, agent: str = "LegacyAgent") -> dict[str, Any]:
    """The steps of a goal as a model gives them: each needs the one before."""
    return planned(*((agent, task, [n] if n else []) for n, task in enumerate(tasks)))


def epic(mail: dict[str, Any] = MAIL) -> dict[str, list[Any]]:
    """Two goals: one in two steps, one with an effect."""
    return {
        GOALS: [{"goals": [goal("Date"), goal("Mail", 1)]}],
        STEPS: [steps("Find the date.", "Check the date."), steps("Send the date.")],
        LEGACY: [
            calls(("search_knowledge", {"query": "release of the router"})),
            report("It is on Friday."),
            report("It is Friday indeed."),
            calls(("send_mail", mail)),
            *([WAITS] if mail == FOREIGN else []),
            report("The mail was sent."),
        ],
        SYNTHESIS: [job.reply(answer=ANSWER)],
    }


@pytest.fixture
def worked(desk: Desk) -> Desk:
    """A task whose runs have no flag, and may have effects."""
    return desk.reaches_outside()


def kept(desk: Desk) -> dict[str, dict[str, Any]]:
    """The context by its paths."""
    return {one["path"]: one for one in desk.store.all("orchestrator_context", taskUid=desk.task.uid)}


@pytest.mark.parametrize("content", ["When is the release of the router?", "Summarise the plan of the router."])
async def test_advice_and_an_answer_cost_one_call_and_five_steps(worked: Desk, content: str) -> None:
    await worked.ends("Answered", [job.reply()], content=content)
    assert (worked.tags(), len(worked.known.asked)) == ([job.TAG], 1)
    result = worked.result()
    assert (result["taskCategory"], result["taskAction"], "delegations" in result) == ("advice", "respond", False)
    assert kept(worked) == {}
    assert worked.spent()["llmCalls"] == 1
    # Nothing but the answer went through the ledger.
    entries = worked.store.all("orchestrator_ledger", taskUid=worked.task.uid)
    assert not [one for one in entries if "finalize" not in one["step"]]


async def test_an_epic_goes_from_goals_to_steps_to_one_answer(worked: Desk) -> None:
    ended = await worked.ends("Answered", epic(), content=EPIC)
    assert ended.message["summary"] == ANSWER
    assert worked.tags() == [job.TAG, GOALS, STEPS, *[LEGACY] * 3, STEPS, *[LEGACY] * 2, SYNTHESIS]
    assert list(worked.outside.effects.values()) == [1]
    # The second step has the first one's result; the second goal what the first one came to, and no step of it.
    second, third = worked.prompts(LEGACY)[2], worked.prompts(LEGACY)[3]
    assert "It is on Friday." in second
    assert "Goal 1 (done): Date" in third
    assert "It is Friday indeed." in third
    assert "Step (done)" not in third
    assert "Goal 1 (done): Date" in worked.prompts(STEPS)[1]
    found = kept(worked)
    assert {path: (one["level"], one["done"], one["knowledge"]) for path, one in found.items()} == {
        "r1.epic": ("epic", True, False),
        "r1.d1": ("step", True, False),
        "r1.d2": ("step", True, False),
        "r1.g1": ("goal", True, True),
        "r1.d3": ("step", True, False),
        "r1.g2": ("goal", True, True),
    }
    assert {one["clientId"] for one in found.values()} == {"acme"}
    result = worked.result()
    assert (result["taskCategory"], result["taskAction"]) == ("epic", "respond")
    assert result["goals"] == [{"title": "Date", "state": "done"}, {"title": "Mail", "state": "done"}]
    assert [one["action"] for one in result["stepResults"]][:2] == ["Date", "Mail"]
    assert "It is Friday indeed." in result["stepResults"][0]["result"]
    assert [one["delegationId"] for one in result["delegations"]] == ["r1.d1", "r1.d2", "r1.d3"]
    fence = worked.fence()
    assert (fence["spent"]["r1"]["llmCalls"], len(fence["spent"]["r1"]["delegations"])) == (10, 3)


def tables(*designs: Any) -> dict[str, list[Any]]:
    """Something new, with one goal of one step."""
    return {
        DESIGN: list(designs),
        GOALS: [{"goals": [goal("Tables")]}],
        STEPS: [steps("Write down the tables.")],
        LEGACY: [report("The tables are people, projects and hours.")],
    }


async def test_something_new_is_designed_before_its_goals(worked: Desk) -> None:
    answers = [job.reply(answer="The tables are people, projects and hours [1].")]
    script = tables({"design": "Three tables and one page."}) | {SYNTHESIS: answers}
    await worked.ends("Answered", script, content=NEW)
    # One sure report is the answer as it stands.
    assert worked.tags() == [job.TAG, DESIGN, GOALS, STEPS, LEGACY]
    for tag in (GOALS, STEPS, LEGACY):
        assert "Three tables and one page." in worked.prompts(tag)[0], tag
    assert kept(worked)["r1.epic"]["text"].startswith("Three tables and one page.\n\n1. Tables:")
    assert worked.result()["taskCategory"] == "generative"


async def test_a_design_that_no_model_makes_leaves_the_goals(worked: Desk) -> None:
    long = {"design": " ".join(f"Table {n}." for n in range(3000))}
    ended = await worked.ends("Answered", tables({"design": "  "}, long, "Three tables."), content=NEW)
    assert ended.message["summary"][:10] == "The tables"
    assert worked.tags() == [job.TAG, *[DESIGN] * 3, GOALS, STEPS, LEGACY]
    problems = [one["problem"] for one in ended.lines if one["event"] == "answer.unusable"]
    whys = ("at least 1 character", "it was cut off after", "no JSON object of the shape")
    assert [why in each for why, each in zip(whys, problems, strict=True)] == [True] * 3, problems
    # The second try has what was wrong, the last one is the smaller question.
    talks = [one["body"]["messages"] for one in worked.fake.requests(tag=DESIGN)]
    assert [len(each) for each in talks] == [2, 4, 2]
    assert problems[0] in talks[1][-1]["content"]
    # Nothing of what could not be used goes on.
    told = str((worked.prompts(GOALS), worked.prompts(LEGACY)))
    assert not any(text in told for text in ("Three tables.", "Table 7."))
    epic_kept = kept(worked)["r1.epic"]
    assert (epic_kept["text"].startswith("1. Tables:"), epic_kept["summary"]) == (True, None)
    result = worked.result()
    assert (result["taskCategory"], result["goals"]) == ("generative", [{"title": "Tables", "state": "done"}])


async def test_neither_a_design_nor_goals_leave_the_answer(worked: Desk) -> None:
    ended = await worked.run({DESIGN: ["no"] * 3, GOALS: ["no"] * 3, job.TAG: [ORDERS_NEW, job.reply()]}, content=NEW)
    assert ended.message["summary"] == "On Friday [1]."
    assert worked.tags() == [job.TAG, *[DESIGN] * 3, *[GOALS] * 3, job.TAG]
    # What is wanted is known: the second time the answer is asked for.
    shapes = [schema.sketch(one["body"]["format"]) for one in worked.fake.requests(tag=job.TAG)]
    assert ['"intent"' in shape for shape in shapes] == [True, False]
    assert kept(worked) == {}


@pytest.mark.parametrize(
    ("content", "tags"),
    [
        (
            "Please create a page on each, and migrate them:\n- the release of the router\n- the test of the router",
            [job.TAG, GOALS, STEPS, LEGACY, STEPS, LEGACY, SYNTHESIS],
        ),
        (NEW, [job.TAG, DESIGN, GOALS, STEPS, LEGACY, SYNTHESIS]),
    ],
    ids=["epic", "generative"],
)
async def test_the_simulated_model_comes_to_an_answer(worked: Desk, content: str, tags: list[str]) -> None:
    ended = await worked.run(content=content)
    assert ended.message["exitReason"] in ("Answered", "NeedsInput"), ended
    # An agent that is not sure is asked once more.
    assert list(dict.fromkeys(worked.tags())) == list(dict.fromkeys(tags))
    assert worked.tags().count(STEPS) == tags.count(STEPS)


async def test_goals_that_no_model_makes_leave_the_answer(worked: Desk) -> None:
    circle = {"goals": [goal("One", 2), goal("Two", 1)]}
    ended = await worked.run({GOALS: [circle, {"goals": []}, "no"], job.TAG: [ORDERS_EPIC, job.reply()]}, content=EPIC)
    assert ended.message["summary"].startswith("On Friday [1].\n\nNot done, although it was asked for: ")
    assert worked.tags() == [job.TAG, *[GOALS] * 3, job.TAG]
    assert "dependsOn of goal 1" in worked.fake.requests(tag=GOALS)[1]["body"]["messages"][-1]["content"]
    assert "delegations" not in worked.result()


async def test_a_failed_step_ends_its_goal_and_leaves_out_what_needs_it(worked: Desk) -> None:
    gone = "STATUS: 0\nRESULT: There is no cluster.\nISSUES: no cluster\nCONFIDENCE: 0.9\nNEEDS_VERIFICATION: false"
    await worked.ends(
        "Answered",
        {
            GOALS: [{"goals": [goal("Cluster"), goal("Move", 1), goal("Note")]}],
            STEPS: [steps("Look for it.", "Prepare it."), steps("Write the note.")],
            LEGACY: [gone, report("The note is written.")],
            SYNTHESIS: [job.reply(answer="There is no cluster; the note is written [1].")],
        },
        content=EPIC,
    )
    assert worked.tags() == [job.TAG, GOALS, STEPS, LEGACY, STEPS, LEGACY, SYNTHESIS]
    told = worked.prompts(SYNTHESIS)[0]
    assert "LegacyAgent could not do it: Look for it. (no cluster)" in told
    assert "LegacyAgent did not report: Prepare it." in told
    assert "Goal 2 needs one that was not reached, and was left out: Move" in told
    found = kept(worked)
    goals = {path: one["done"] for path, one in found.items() if one["level"] == "goal"}
    assert goals == {"r1.g1": False, "r1.g3": True}
    result = worked.result()
    assert result["stepResults"][0]["action"] == "Note"
    assert [one["state"] for one in result["goals"]] == ["failed", "left_out", "done"]


async def test_a_call_waits_for_a_person_and_the_epic_goes_on(worked: Desk) -> None:
    held = await worked.ends("NeedsApproval", epic(FOREIGN), content=EPIC)
    assert held.waiting[0]["tool"] == "sendMail"
    assert worked.outside.effects == {}
    before = len(worked.tags())
    await worked.ends("Answered", approvals=[decided(1, "Approved")])
    assert worked.tags()[before:] == [LEGACY, SYNTHESIS]
    assert list(worked.outside.effects.values()) == [1]


async def test_a_recorded_epic_that_waits_for_a_person_is_resumed(worked: Desk) -> None:
    worked.task.adopt(recording.load(worked.store, recording.CORPUS / "legacy-1.json"))
    worked.fake.set_script({LEGACY: [report("The mail was sent.")], SYNTHESIS: [job.reply(answer=ANSWER)]})
    [memory] = worked.store.all("task_memory", _id=worked.task.uid)
    worked.store.remember({**memory, "approvals": [decided(1, "Approved")]})
    ended = await worked.run(attempt=2)
    assert ended.message["summary"] == ANSWER, ended
    assert worked.tags() == [LEGACY, SYNTHESIS]
    assert list(worked.outside.effects.values()) == [1]
    assert sorted(kept(worked)) == ["r1.d1", "r1.d2", "r1.d3", "r1.epic", "r1.g1", "r1.g2"]


async def test_the_present_form_is_recorded(worked: Desk, tmp_path: Path) -> None:
    await worked.run(epic(FOREIGN), content=EPIC)
    recording.save(worked.store, recording.path("legacy-present", tmp_path))


async def test_a_spent_budget_ends_in_what_was_done(worked: Desk) -> None:
    # What is wanted, goals, steps and the two calls of the first step; three are the synthesis's.
    await worked.ends("Answered", epic(), content=EPIC, budget={"maxLlmCalls": 8})
    assert worked.tags() == [job.TAG, GOALS, STEPS, LEGACY, LEGACY, SYNTHESIS]
    told = worked.prompts(SYNTHESIS)[0]
    assert "It is on Friday." in told
    assert "all of its 5 model calls" in told
    assert "Goal 2 was not begun: Mail (This round has used all" in told
    assert kept(worked)["r1.g1"]["done"] is False
    assert [one["state"] for one in worked.result()["goals"]] == ["failed", "open"]


async def test_a_budget_of_steps_hands_back_what_was_done(worked: Desk) -> None:
    # intake, evidence, what is wanted, the goals, the first one, its steps, and the first of these with its verdict.
    await worked.ends("BudgetExhausted", epic(), content=EPIC, budget={"maxSteps": 8})
    result = worked.result()
    assert "It is on Friday." in result["answer"]
    assert "- LegacyAgent did not report: Check the date." in result["answer"]
    assert "- Goal 2 was not begun: Mail" in result["answer"]
    assert "steps" in result["answer"].splitlines()[-1]
    assert (await worked.run(budget={"maxSteps": 100})).message["summary"] == ANSWER


async def test_what_is_handed_back_has_nothing_of_steps_where_a_rule_requires_approval(worked: Desk) -> None:
    worked.known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    # To the verdict on the second step, with which the first goal has ended.
    await worked.ends("BudgetExhausted", epic(), content=EPIC, budget={"maxSteps": 10})
    result = worked.result()
    assert result["answer"] == "This task has used all of its 10 steps."
    assert (result["stepResults"], "goals" in result, "delegations" in result) == ([], False, False)


@pytest.mark.parametrize("budget", [{"maxDelegations": 0}, {"maxDepth": 0}], ids=lambda one: str(*one))
@pytest.mark.parametrize(
    "content", [EPIC, NEW, "Create an issue about the backup in the repository o/r."], ids=["epic", "new", "order"]
)
async def test_without_delegations_an_order_has_one_answer(worked: Desk, content: str, budget: dict[str, int]) -> None:
    assert (await worked.run([job.reply()], content=content, budget=budget)).message["summary"] == "On Friday [1]."
    assert (worked.tags(), worked.outside.effects) == ([job.TAG], {})
    assert kept(worked) == {}
    assert "delegations" not in worked.result()
    assert not worked.spent().get("delegations")


async def test_one_level_is_enough_for_the_steps_of_an_epic(worked: Desk) -> None:
    assert (await worked.run(epic(), content=EPIC, budget={"maxDepth": 1})).message["summary"] == ANSWER
    assert list(worked.outside.effects.values()) == [1]


@pytest.mark.parametrize(
    ("tag", "number"), [(GOALS, 1), (STEPS, 2), (LEGACY, 2), (LEGACY, 4), (SYNTHESIS, 1)],
    ids=["goals", "steps", "a step", "before an effect", "the answer"],
)  # fmt: skip
async def test_an_order_that_is_stopped_asks_again_only_what_was_in_flight(worked: Desk, tag: str, number: int) -> None:
    script = epic() | {job.TAG: [ORDERS_EPIC]}
    expected = Counter({each: len(answers) for each, answers in script.items()})
    script[tag] = [*script[tag][: number - 1], {"fault": {"stall": {"afterBytes": 0, "seconds": 60}}},
                   *script[tag][number - 1 :]]  # fmt: skip
    worked.fake.set_script(script)
    worked.remember(content=EPIC)
    running = worked.task.start()
    await waiting.eventually(lambda: worked.fake.count(tag=tag) == number)
    running.process.terminate()
    drained = await worked.task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained"), drained
    # The grace of a call that would take a minute is that of a run that delegates.
    assert [one["grace_seconds"] for one in drained.lines if one["event"] == "draining"] == [0.5]
    assert worked.store.all("task_results") == []
    ended = await worked.ends("Answered", attempt=2)
    assert ended.message["summary"] == ANSWER
    again = Counter(worked.tags()) - expected
    assert again == Counter([tag]), "one call, that of the step in flight"
    assert list(worked.outside.effects.values()) == [1]
    assert sorted(kept(worked)) == ["r1.d1", "r1.d2", "r1.d3", "r1.epic", "r1.g1", "r1.g2"]
    assert [one["state"] for one in worked.result()["goals"]] == ["done", "done"]


async def test_the_next_round_knows_what_the_one_before_came_to(worked: Desk) -> None:
    await worked.run(epic(), content=EPIC)
    await worked.ends(
        "Answered",
        {**epic(), GOALS: [{"goals": [goal("Check")]}], STEPS: [steps("Check it.")], LEGACY: [report()]},
        messages=[{"id": "m1", "text": "Is the mail right?"}],
    )
    told = worked.prompts(GOALS)[-1]
    assert "Goal 1 (done): Date" in told
    assert "Goal 2 (done): Mail" in told
    assert "sendMail to.0 a@example.com: Done: sendMail." in worked.prompts(LEGACY)[-1]
    assert list(worked.outside.effects.values()) == [1]


async def test_long_results_are_summarized_for_later_goals_and_stay_whole(worked: Desk) -> None:
    long = "\n\n".join(f"Finding {n}: {'the disk of vega is slow; ' * 20}ok" for n in range(40))
    # The agent of the next goal opens what it sees a summary of, part by part, and one that does not exist.
    size = prompt_budget.room(delegation.WINDOW) - 200
    starts = range(0, len(long), size)
    reads = [
        *(calls(("read_step", {"step": "r1.g1", "start": start})) for start in starts),
        calls(("read_step", {"step": "r1.d7"})),
    ]
    first = parts(report(long), delegation.WINDOW)
    await worked.ends(
        "Answered",
        {
            GOALS: [{"goals": [goal("Look"), goal("Say", 1)]}],
            STEPS: [steps("Look at all disks."), steps("Say which are slow.")],
            LEGACY: [*first, *reads, report("All are slow.")],
            CONTEXT: ["Forty findings, first part.", "Forty findings, second part."],
            SYNTHESIS: [job.reply(answer="All are slow [1].")],
        },
        content=EPIC,
    )
    # Two parts, which are the whole text; the goal's summary is that of its one step.
    looking, saying = [LEGACY] * len(first), [LEGACY] * (len(reads) + 1)
    assert worked.tags() == [job.TAG, GOALS, STEPS, *looking, CONTEXT, CONTEXT, STEPS, *saying, SYNTHESIS]
    summarized = "".join(worked.prompts(CONTEXT))
    assert all(f"Finding {n}:" in summarized for n in range(40))
    found = kept(worked)
    assert found["r1.d1"]["text"] == long
    assert found["r1.d1"]["summary"] == "Forty findings, first part.\nForty findings, second part."
    told = worked.prompts(LEGACY)[len(first)]
    assert "Forty findings, first part." in told
    assert "Finding 7:" not in told
    assert f'[A summary of {len(long)} characters; read them with read_step, step "r1.g1".]' in told
    # The planner has no tools, so that nothing names one to it.
    assert "read_step" not in "".join((*worked.prompts(STEPS), *worked.prompts(GOALS)))
    bodies = [one["body"] for one in worked.fake.requests(tag=LEGACY)]
    offers = ["read_step" in [each["function"]["name"] for each in one["tools"]] for one in bodies]
    assert offers == [*[False] * len(first), *[True] * len(saying)], "there is nothing to be read before the first step"
    # The latest answer of each talk, as the ones before give way to it.
    answers = [str(one["messages"][-1]["content"]) for one in bodies[len(first) + 1 :]]
    good = [one.removeprefix('<document source="read_step">\n').removesuffix("\n</document>") for one in answers[:-1]]
    assert "".join(one.rpartition("\n[Characters ")[0] for one in good) == long
    assert len(good) == len(starts) > 1
    assert "There is no such step; there are r1.epic, r1.d1, r1.g1." in answers[-1]


async def test_a_state_of_an_epic_is_small(worked: Desk) -> None:
    window = 65_536
    long = " ".join(f"{number:05}" for number in range(50_000))
    done = [report(f"Part {n} is done.") for n in range(33)]
    foreign = calls(("send_mail", FOREIGN))
    await worked.ends(
        "NeedsApproval",
        {
            GOALS: [{"goals": [goal(f"Goal {n} " + "of the migration " * 10) for n in range(7)]}],
            STEPS: [steps(*(f"Step {n} " + "y" * 600 for n in range(5)))] * 7,
            LEGACY: [*parts(report(long), window), *done, foreign, WAITS],
            CONTEXT: ["It is all x."] * 100,
        },
        content=EPIC,
        JERVIS_MAX_LLM_CALLS="200",
        JERVIS_NUM_CTX=str(window),
    )
    # The last of 35 steps waits for a person: the whole state of the round is in the checkpoint.
    assert len(worked.store.all("delegation_metrics", taskUid=worked.task.uid)) == 34
    checkpoints = worked.store.all("orchestrator_checkpoints", thread_id=worked.task.uid)
    writes = worked.store.all("orchestrator_checkpoint_writes", thread_id=worked.task.uid)
    assert max(len(one.get("checkpoint", b"")) for one in checkpoints) < 32 * 1024
    assert max(len(one.get("value", b"")) for one in writes) < 32 * 1024
    assert kept(worked)["r1.d1"]["text"] == long


COFFEE = "Remember that I like coffee without sugar."


@pytest.mark.parametrize("specialists", [True, False])
async def test_what_a_user_wants_remembered_is_stored(desk: Desk, specialists: bool) -> None:
    agent = "job.agent.Personal/v1" if specialists else LEGACY
    fact = {"subject": "coffee", "content": "I like coffee without sugar.", "category": "preference"}
    ended = await desk.ends(
        "Answered",
        {agent: [calls(("store_knowledge", fact)), report("It is remembered.")]},
        type="UserTask",
        content=COFFEE,
        permits=[{"tool": "storeKnowledge"}],
        JERVIS_USE_SPECIALIST_AGENTS=str(specialists).lower(),
    )
    assert ended.message["summary"] == "It is remembered."
    assert [(one["subject"], one["content"]) for one in desk.known.remembered] == [("coffee", fact["content"])]
    asked = desk.fake.requests(tag=agent)[0]["body"]
    assert "store_knowledge" in [one["function"]["name"] for one in asked["tools"]]
    assert "Say plainly where it was not stored." in asked["messages"][1]["content"]
    result = desk.result()
    assert (result["taskCategory"], result["taskAction"]) == ("single_task", "respond")


async def test_an_answer_alone_is_to_say_that_nothing_was_stored(desk: Desk) -> None:
    await desk.ends(
        "Answered",
        [job.reply(answer="Nothing was stored.", citations=[])],
        type="UserTask",
        content=COFFEE,
        budget={"maxDelegations": 0},
    )
    [asked] = desk.fake.requests(path="/api/chat")
    assert "say plainly that nothing was stored." in " ".join(asked["body"]["messages"][0]["content"].split())
    assert desk.known.remembered == []
