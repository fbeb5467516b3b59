"""A whole run for each category, as a process: what each model is asked, in which order, and what is there then.

Cases with a repository and a tracker are in `test_work`; here knowledge base and sources process are the tests'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator_job.delegation import talk
from orchestrator_job.delegation import wiring as delegation
from tests import waiting
from tests.fakes.ollama import process
from tests.fakes.ollama.server import generation
from tests.orchestrator_job import job, knowledge, recording
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_runs import MAIL, SYNTHESIS, decided, planned
from tests.orchestrator_job.delegation.workbench import calls, report
from tests.orchestrator_job.test_standing import rule

pytestmark = pytest.mark.services

DESIGN, GOALS, STEPS, CONTEXT = (f"job.{name}/v1" for name in ("design", "goals", "plan_steps", "context"))
LEGACY = "job.agent.LegacyAgent/v1"
EPIC = "Migrate the router to the new cluster, and send the date to a@example.com by mail."
NEW = "Design a new application for time sheets of the team."
ANSWER = "It is migrated on Friday, and a mail was sent [1]."


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
            report("The mail was sent."),
        ],
        SYNTHESIS: [job.reply(answer=ANSWER)],
    }


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


@pytest.fixture
def worked(task: job.Job, outside: sources.Sources) -> job.Job:
    """The same task with a token of its own, and without any flag."""
    token = task.folder / f"token-{task.uid}"
    token.write_text(task.uid)
    task.environment.update(
        JERVIS_SOURCES_URL=outside.url, JERVIS_MAIL_CONNECTION="office", JERVIS_RUN_TOKEN_FILE=str(token)
    )
    return task


def parts(text: str, window: int = delegation.WINDOW) -> list[str]:
    """What an agent's model answers that is asked on until the whole text is there: each answer ends at its bound."""
    pieces = generation.tokens(text)
    return ["".join(pieces[start:]) for start in range(0, len(pieces), window // 4)]


def asked(fake: process.Fake) -> list[str]:
    """Tags of the requests to models, in their order."""
    return [str(one["tag"]) for one in fake.requests(path="/api/chat")]


def prompts(fake: process.Fake, tag: str) -> list[str]:
    """What the user's first message was in each request with this tag."""
    return [str(one["body"]["messages"][1]["content"]) for one in fake.requests(tag=tag)]


def kept(store: job.Store, task: job.Job) -> dict[str, dict[str, Any]]:
    """The context by its paths."""
    return {one["path"]: one for one in store.all("orchestrator_context", taskUid=task.uid)}


@pytest.mark.parametrize("content", ["When is the release of the router?", "Summarise the plan of the router."])
async def test_advice_and_an_answer_cost_one_call_and_five_steps(
    worked: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, content: str
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    store.remember(worked.memory(content=content))
    ended = await worked.run()
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered"), ended
    assert (asked(fake), len(known.asked)) == ([job.TAG], 1)
    [result] = store.all("task_results", _id=worked.uid)
    assert (result["taskCategory"], result["taskAction"], "delegations" in result) == ("advice", "respond", False)
    assert kept(store, worked) == {}
    [fence] = store.all("orchestrator_fences", _id=worked.uid)
    assert fence["spent"]["r1"]["llmCalls"] == 1
    # Nothing but the answer went through the ledger.
    assert not [one for one in store.all("orchestrator_ledger", taskUid=worked.uid) if "finalize" not in one["step"]]


async def test_an_epic_goes_from_goals_to_steps_to_one_answer(
    worked: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(epic())
    store.remember(worked.memory(content=EPIC))
    ended = await worked.run()
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered"), ended
    assert ended.message["summary"] == ANSWER
    assert asked(fake) == [GOALS, STEPS, *[LEGACY] * 3, STEPS, *[LEGACY] * 2, SYNTHESIS]
    assert list(outside.effects.values()) == [1]
    # The second step has the first one's result; the second goal what the first one came to, and no step of it.
    second, third = prompts(fake, LEGACY)[2], prompts(fake, LEGACY)[3]
    assert "It is on Friday." in second
    assert "Goal 1 (done): Date" in third
    assert "It is Friday indeed." in third
    assert "Step (done)" not in third
    assert "Goal 1 (done): Date" in prompts(fake, STEPS)[1]
    found = kept(store, worked)
    assert {path: (one["level"], one["done"], one["knowledge"]) for path, one in found.items()} == {
        "r1.epic": ("epic", True, False),
        "r1.d1": ("step", True, False),
        "r1.d2": ("step", True, False),
        "r1.g1": ("goal", True, True),
        "r1.d3": ("step", True, False),
        "r1.g2": ("goal", True, True),
    }
    assert {one["clientId"] for one in found.values()} == {"acme"}
    [result] = store.all("task_results", _id=worked.uid)
    assert (result["taskCategory"], result["taskAction"]) == ("epic", "respond")
    assert result["goals"] == [{"title": "Date", "state": "done"}, {"title": "Mail", "state": "done"}]
    assert [one["action"] for one in result["stepResults"]][:2] == ["Date", "Mail"]
    assert "It is Friday indeed." in result["stepResults"][0]["result"]
    assert [one["delegationId"] for one in result["delegations"]] == ["r1.d1", "r1.d2", "r1.d3"]
    [fence] = store.all("orchestrator_fences", _id=worked.uid)
    assert (fence["spent"]["r1"]["llmCalls"], len(fence["spent"]["r1"]["delegations"])) == (9, 3)


async def test_something_new_is_designed_before_its_goals(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    script: dict[str, list[Any]] = {
        DESIGN: [{"design": "Three tables and one page."}],
        GOALS: [{"goals": [goal("Tables")]}],
        STEPS: [steps("Write down the tables.")],
        LEGACY: [report("The tables are people, projects and hours.")],
        SYNTHESIS: [job.reply(answer="The tables are people, projects and hours [1].")],
    }
    fake.set_script(script)
    store.remember(worked.memory(content=NEW))
    ended = await worked.run()
    assert ended.message["exitReason"] == "Answered", ended
    # One sure report is the answer as it stands.
    assert asked(fake) == [DESIGN, GOALS, STEPS, LEGACY]
    assert "Three tables and one page." in prompts(fake, GOALS)[0]
    assert "Three tables and one page." in prompts(fake, STEPS)[0]
    assert "Three tables and one page." in prompts(fake, LEGACY)[0]
    assert kept(store, worked)["r1.epic"]["text"].startswith("Three tables and one page.\n\n1. Tables:")
    [result] = store.all("task_results", _id=worked.uid)
    assert result["taskCategory"] == "generative"


async def test_a_design_that_no_model_makes_leaves_the_goals(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    long = {"design": " ".join(f"Table {n}." for n in range(3000))}
    script: dict[str, list[Any]] = {
        DESIGN: [{"design": "  "}, long, "Three tables."],
        GOALS: [{"goals": [goal("Tables")]}],
        STEPS: [steps("Write down the tables.")],
        LEGACY: [report("The tables are people, projects and hours.")],
    }
    fake.set_script(script)
    store.remember(worked.memory(content=NEW))
    ended = await worked.run()
    assert (ended.message["exitReason"], ended.message["summary"][:10]) == ("Answered", "The tables"), ended
    assert asked(fake) == [*[DESIGN] * 3, GOALS, STEPS, LEGACY]
    problems = [one["problem"] for one in ended.lines if one["event"] == "answer.unusable"]
    whys = ("at least 1 character", "it was cut off after", "no JSON object of the shape")
    assert [why in each for why, each in zip(whys, problems, strict=True)] == [True] * 3, problems
    # The second try has what was wrong, the last one is the smaller question.
    talks = [one["body"]["messages"] for one in fake.requests(tag=DESIGN)]
    assert [len(each) for each in talks] == [2, 4, 2]
    assert problems[0] in talks[1][-1]["content"]
    # Nothing of what could not be used goes on.
    assert not any(
        "Three tables." in one or "Table 7." in one for one in (*prompts(fake, GOALS), *prompts(fake, LEGACY))
    )
    epic_kept = kept(store, worked)["r1.epic"]
    assert (epic_kept["text"].startswith("1. Tables:"), epic_kept["summary"]) == (True, None)
    [result] = store.all("task_results", _id=worked.uid)
    assert (result["taskCategory"], result["goals"]) == ("generative", [{"title": "Tables", "state": "done"}])


async def test_neither_a_design_nor_goals_leave_the_answer(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    fake.set_script({DESIGN: ["no"] * 3, GOALS: ["no"] * 3, job.TAG: [job.reply()]})
    store.remember(worked.memory(content=NEW))
    assert (await worked.run()).message["summary"] == "On Friday [1]."
    assert asked(fake) == [*[DESIGN] * 3, *[GOALS] * 3, job.TAG]
    assert kept(store, worked) == {}


@pytest.mark.parametrize(
    ("content", "tags"),
    [
        (
            "Please create a page on each, and migrate them:\n- the release of the router\n- the test of the router",
            [GOALS, STEPS, LEGACY, STEPS, LEGACY, SYNTHESIS],
        ),
        (NEW, [DESIGN, GOALS, STEPS, LEGACY, SYNTHESIS]),
    ],
    ids=["epic", "generative"],
)
async def test_the_simulated_model_comes_to_an_answer(
    worked: job.Job, store: job.Store, fake: process.Fake, content: str, tags: list[str]
) -> None:
    store.remember(worked.memory(content=content))
    ended = await worked.run()
    assert ended.message["exitReason"] in ("Answered", "NeedsInput"), ended
    # An agent that is not sure is asked once more.
    assert list(dict.fromkeys(asked(fake))) == list(dict.fromkeys(tags))
    assert asked(fake).count(STEPS) == tags.count(STEPS)


async def test_goals_that_no_model_makes_leave_the_answer(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    circle = {"goals": [goal("One", 2), goal("Two", 1)]}
    fake.set_script({GOALS: [circle, {"goals": []}, "no"], job.TAG: [job.reply()]})
    store.remember(worked.memory(content=EPIC))
    ended = await worked.run()
    assert ended.message["summary"] == "On Friday [1]."
    assert asked(fake) == [GOALS] * 3 + [job.TAG]
    assert "dependsOn of goal 1" in fake.requests(tag=GOALS)[1]["body"]["messages"][-1]["content"]
    [result] = store.all("task_results", _id=worked.uid)
    assert "delegations" not in result


async def test_a_failed_step_ends_its_goal_and_leaves_out_what_needs_it(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    gone = "STATUS: 0\nRESULT: There is no cluster.\nISSUES: no cluster\nCONFIDENCE: 0.9\nNEEDS_VERIFICATION: false"
    fake.set_script(
        {
            GOALS: [{"goals": [goal("Cluster"), goal("Move", 1), goal("Note")]}],
            STEPS: [steps("Look for it.", "Prepare it."), steps("Write the note.")],
            LEGACY: [gone, report("The note is written.")],
            SYNTHESIS: [job.reply(answer="There is no cluster; the note is written [1].")],
        }
    )
    store.remember(worked.memory(content=EPIC))
    ended = await worked.run()
    assert ended.message["exitReason"] == "Answered", ended
    assert asked(fake) == [GOALS, STEPS, LEGACY, STEPS, LEGACY, SYNTHESIS]
    told = prompts(fake, SYNTHESIS)[0]
    assert "LegacyAgent could not do it: Look for it. (no cluster)" in told
    assert "LegacyAgent did not report: Prepare it." in told
    assert "Goal 2 needs one that was not reached, and was left out: Move" in told
    found = kept(store, worked)
    assert {path: one["done"] for path, one in found.items() if one["level"] == "goal"} == {
        "r1.g1": False,
        "r1.g3": True,
    }
    [result] = store.all("task_results", _id=worked.uid)
    assert result["stepResults"][0]["action"] == "Note"
    assert [one["state"] for one in result["goals"]] == ["failed", "left_out", "done"]


async def test_a_call_waits_for_a_person_and_the_epic_goes_on(
    worked: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(epic({**MAIL, "to": ["x@evil.example"]}))
    store.remember(worked.memory(content=EPIC))
    held = await worked.run()
    assert (held.message["exitReason"], held.message["action"]["tool"]) == ("NeedsApproval", "send_mail"), held
    assert outside.effects == {}
    before = len(asked(fake))
    store.remember(worked.memory(content=EPIC, approvals=[decided(1, "Approved")]))
    ended = await worked.run(attempt=2)
    assert ended.message["exitReason"] == "Answered", ended
    assert asked(fake)[before:] == [LEGACY, SYNTHESIS]
    assert list(outside.effects.values()) == [1]


async def test_a_recorded_epic_that_waits_for_a_person_is_resumed(
    worked: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    worked.adopt(recording.load(store, recording.CORPUS / "legacy-1.json"))
    fake.set_script({LEGACY: [report("The mail was sent.")], SYNTHESIS: [job.reply(answer=ANSWER)]})
    [memory] = store.all("task_memory", _id=worked.uid)
    store.remember({**memory, "approvals": [decided(1, "Approved")]})
    ended = await worked.run(attempt=2)
    assert ended.message["summary"] == ANSWER, ended
    assert asked(fake) == [LEGACY, SYNTHESIS]
    assert list(outside.effects.values()) == [1]
    assert sorted(kept(store, worked)) == ["r1.d1", "r1.d2", "r1.d3", "r1.epic", "r1.g1", "r1.g2"]


async def test_the_present_form_is_recorded(
    tmp_path: Path, worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    fake.set_script(epic({**MAIL, "to": ["x@evil.example"]}))
    store.remember(worked.memory(content=EPIC))
    await worked.run()
    recording.save(store, recording.path("legacy-present", tmp_path))


async def test_a_spent_budget_ends_in_what_was_done(worked: job.Job, store: job.Store, fake: process.Fake) -> None:
    fake.set_script(epic())
    # Goals, steps and the two calls of the first step; three are the synthesis's.
    store.remember(worked.memory(content=EPIC, budget={"maxLlmCalls": 7}))
    ended = await worked.run()
    assert ended.message["exitReason"] == "Answered", ended
    assert asked(fake) == [GOALS, STEPS, LEGACY, LEGACY, SYNTHESIS]
    told = prompts(fake, SYNTHESIS)[0]
    assert "It is on Friday." in told
    assert "all of its 4 model calls" in told
    assert "Goal 2 was not begun: Mail (This round has used all" in told
    assert kept(store, worked)["r1.g1"]["done"] is False
    [result] = store.all("task_results", _id=worked.uid)
    assert [one["state"] for one in result["goals"]] == ["failed", "open"]


async def test_a_budget_of_steps_hands_back_what_was_done(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    fake.set_script(epic())
    # intake, evidence, the goals, the first one, its steps, and the first of these with its verdict.
    store.remember(worked.memory(content=EPIC, budget={"maxSteps": 7}))
    ended = await worked.run()
    assert (ended.status, ended.message["exitReason"]) == (1, "BudgetExhausted"), ended
    [result] = store.all("task_results", _id=worked.uid)
    assert "It is on Friday." in result["answer"]
    assert "- LegacyAgent did not report: Check the date." in result["answer"]
    assert "- Goal 2 was not begun: Mail" in result["answer"]
    assert "steps" in result["answer"].splitlines()[-1]
    store.remember(worked.memory(content=EPIC, budget={"maxSteps": 100}))
    assert (await worked.run(attempt=2)).message["summary"] == ANSWER


async def test_what_is_handed_back_has_nothing_of_steps_where_a_rule_requires_approval(
    worked: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    fake.set_script(epic())
    # To the verdict on the second step, with which the first goal has ended.
    store.remember(worked.memory(content=EPIC, budget={"maxSteps": 9}))
    assert (await worked.run()).message["exitReason"] == "BudgetExhausted"
    [result] = store.all("task_results", _id=worked.uid)
    assert result["answer"] == "This task has used all of its 9 steps."
    assert (result["stepResults"], "goals" in result, "delegations" in result) == ([], False, False)


@pytest.mark.parametrize("budget", [{"maxDelegations": 0}, {"maxDepth": 0}], ids=lambda one: str(*one))
@pytest.mark.parametrize(
    "content", [EPIC, NEW, "Create an issue about the backup in the repository o/r."], ids=["epic", "new", "order"]
)
async def test_without_delegations_an_order_has_one_answer(
    worked: job.Job,
    store: job.Store,
    fake: process.Fake,
    outside: sources.Sources,
    content: str,
    budget: dict[str, int],
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    store.remember(worked.memory(content=content, budget=budget))
    assert (await worked.run()).message["summary"] == "On Friday [1]."
    assert (asked(fake), outside.effects) == ([job.TAG], {})
    assert kept(store, worked) == {}
    [result] = store.all("task_results", _id=worked.uid)
    assert "delegations" not in result
    [fence] = store.all("orchestrator_fences", _id=worked.uid)
    assert not fence["spent"]["r1"].get("delegations")


async def test_one_level_is_enough_for_the_steps_of_an_epic(
    worked: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(epic())
    store.remember(worked.memory(content=EPIC, budget={"maxDepth": 1}))
    assert (await worked.run()).message["summary"] == ANSWER
    assert list(outside.effects.values()) == [1]


@pytest.mark.parametrize(
    ("tag", "number"), [(GOALS, 1), (STEPS, 2), (LEGACY, 2), (LEGACY, 4), (SYNTHESIS, 1)],
    ids=["goals", "steps", "a step", "before an effect", "the answer"],
)  # fmt: skip
async def test_an_order_that_is_stopped_asks_again_only_what_was_in_flight(
    worked: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources, tag: str, number: int
) -> None:
    script = epic()
    expected = Counter({each: len(answers) for each, answers in script.items()})
    script[tag] = [*script[tag][: number - 1], {"fault": {"stall": {"afterBytes": 0, "seconds": 60}}},
                   *script[tag][number - 1 :]]  # fmt: skip
    fake.set_script(script)
    store.remember(worked.memory(content=EPIC))
    running = worked.start()
    await waiting.eventually(lambda: fake.count(tag=tag) == number)
    running.process.terminate()
    drained = await worked.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained"), drained
    # The grace of a call that would take a minute is that of a run that delegates.
    assert [one["grace_seconds"] for one in drained.lines if one["event"] == "draining"] == [0.5]
    assert store.all("task_results") == []
    ended = await worked.run(attempt=2)
    assert (ended.message["exitReason"], ended.message["summary"]) == ("Answered", ANSWER), ended
    again = Counter(asked(fake)) - expected
    assert again == Counter([tag]), "one call, that of the step in flight"
    assert list(outside.effects.values()) == [1]
    assert sorted(kept(store, worked)) == ["r1.d1", "r1.d2", "r1.d3", "r1.epic", "r1.g1", "r1.g2"]
    [result] = store.all("task_results", _id=worked.uid)
    assert [one["state"] for one in result["goals"]] == ["done", "done"]


async def test_the_next_round_knows_what_the_one_before_came_to(
    worked: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(epic())
    store.remember(worked.memory(content=EPIC))
    await worked.run()
    fake.set_script({**epic(), GOALS: [{"goals": [goal("Check")]}], STEPS: [steps("Check it.")], LEGACY: [report()]})
    store.remember(worked.memory(content=EPIC, messages=[{"id": "m1", "text": "Is the mail right?"}]))
    ended = await worked.run(attempt=2)
    assert ended.message["exitReason"] == "Answered", ended
    told = prompts(fake, GOALS)[-1]
    assert "Goal 1 (done): Date" in told
    assert "Goal 2 (done): Mail" in told
    assert "sendMail to.0 a@example.com: Done: sendMail." in prompts(fake, LEGACY)[-1]
    assert list(outside.effects.values()) == [1]


async def test_long_results_are_summarized_for_later_goals_and_stay_whole(
    worked: job.Job, store: job.Store, fake: process.Fake
) -> None:
    long = "\n\n".join(f"Finding {n}: {'the disk of vega is slow; ' * 20}ok" for n in range(40))
    # The agent of the next goal opens what it sees a summary of, part by part, and one that does not exist.
    size = talk.room(delegation.WINDOW) - 200
    starts = range(0, len(long), size)
    reads = [
        *(calls(("read_step", {"step": "r1.g1", "start": start})) for start in starts),
        calls(("read_step", {"step": "r1.d7"})),
    ]
    first = parts(report(long))
    fake.set_script(
        {
            GOALS: [{"goals": [goal("Look"), goal("Say", 1)]}],
            STEPS: [steps("Look at all disks."), steps("Say which are slow.")],
            LEGACY: [*first, *reads, report("All are slow.")],
            CONTEXT: ["Forty findings, first part.", "Forty findings, second part."],
            SYNTHESIS: [job.reply(answer="All are slow [1].")],
        }
    )
    store.remember(worked.memory(content=EPIC))
    ended = await worked.run()
    assert ended.message["exitReason"] == "Answered", ended
    # Two parts, which are the whole text; the goal's summary is that of its one step.
    looking, saying = [LEGACY] * len(first), [LEGACY] * (len(reads) + 1)
    assert asked(fake) == [GOALS, STEPS, *looking, CONTEXT, CONTEXT, STEPS, *saying, SYNTHESIS]
    summarized = "".join(prompts(fake, CONTEXT))
    assert all(f"Finding {n}:" in summarized for n in range(40))
    found = kept(store, worked)
    assert found["r1.d1"]["text"] == long
    assert found["r1.d1"]["summary"] == "Forty findings, first part.\nForty findings, second part."
    told = prompts(fake, LEGACY)[len(first)]
    assert "Forty findings, first part." in told
    assert "Finding 7:" not in told
    assert f'[A summary of {len(long)} characters; read them with read_step, step "r1.g1".]' in told
    # The planner has no tools, so that nothing names one to it.
    assert "read_step" not in "".join((*prompts(fake, STEPS), *prompts(fake, GOALS)))
    bodies = [one["body"] for one in fake.requests(tag=LEGACY)]
    offers = ["read_step" in [each["function"]["name"] for each in one["tools"]] for one in bodies]
    assert offers == [*[False] * len(first), *[True] * len(saying)], "there is nothing to be read before the first step"
    # The latest answer of each talk, as the ones before give way to it.
    answers = [str(one["messages"][-1]["content"]) for one in bodies[len(first) + 1 :]]
    good = [one.removeprefix('<document source="read_step">\n').removesuffix("\n</document>") for one in answers[:-1]]
    assert "".join(one.rpartition("\n[Characters ")[0] for one in good) == long
    assert len(good) == len(starts) > 1
    assert "There is no such step; there are r1.epic, r1.d1, r1.g1." in answers[-1]


async def test_a_state_of_an_epic_is_small(worked: job.Job, store: job.Store, fake: process.Fake) -> None:
    window = 65_536
    long = " ".join(f"{number:05}" for number in range(50_000))
    done = [report(f"Part {n} is done.") for n in range(33)]
    foreign = calls(("send_mail", {**MAIL, "to": ["x@evil.example"]}))
    fake.set_script(
        {
            GOALS: [{"goals": [goal(f"Goal {n} " + "of the migration " * 10) for n in range(7)]}],
            STEPS: [steps(*(f"Step {n} " + "y" * 600 for n in range(5)))] * 7,
            LEGACY: [*parts(report(long), window), *done, foreign],
            CONTEXT: ["It is all x."] * 100,
        }
    )
    store.remember(worked.memory(content=EPIC))
    held = await worked.run(JERVIS_MAX_LLM_CALLS="200", JERVIS_NUM_CTX=str(window))
    # The last of 35 steps waits for a person: the whole state of the round is in the checkpoint.
    assert held.message["exitReason"] == "NeedsApproval", held
    assert len(store.all("delegation_metrics", taskUid=worked.uid)) == 34
    checkpoints = store.all("orchestrator_checkpoints", thread_id=worked.uid)
    writes = store.all("orchestrator_checkpoint_writes", thread_id=worked.uid)
    assert max(len(one.get("checkpoint", b"")) for one in checkpoints) < 32 * 1024
    assert max(len(one.get("value", b"")) for one in writes) < 32 * 1024
    assert kept(store, worked)["r1.d1"]["text"] == long


COFFEE = "Remember that I like coffee without sugar."


@pytest.mark.parametrize("specialists", [True, False])
async def test_what_a_user_wants_remembered_is_stored(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, specialists: bool
) -> None:
    agent = "job.agent.Personal/v1" if specialists else LEGACY
    fact = {"subject": "coffee", "content": "I like coffee without sugar.", "category": "preference"}
    fake.set_script({agent: [calls(("store_knowledge", fact)), report("It is remembered.")]})
    store.remember(task.memory(type="UserTask", content=COFFEE))
    ended = await task.run(JERVIS_USE_SPECIALIST_AGENTS=str(specialists).lower())
    assert (ended.message["exitReason"], ended.message["summary"]) == ("Answered", "It is remembered.")
    assert [(one["subject"], one["content"]) for one in known.remembered] == [("coffee", fact["content"])]
    asked = fake.requests(tag=agent)[0]["body"]
    assert "store_knowledge" in [one["function"]["name"] for one in asked["tools"]]
    assert "Say plainly where it was not stored." in asked["messages"][1]["content"]
    [result] = store.all("task_results", _id=task.uid)
    assert (result["taskCategory"], result["taskAction"]) == ("single_task", "respond")


async def test_an_answer_alone_is_to_say_that_nothing_was_stored(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    fake.set_script({job.TAG: [job.reply(answer="Nothing was stored.", citations=[])]})
    store.remember(task.memory(type="UserTask", content=COFFEE, budget={"maxDelegations": 0}))
    assert (await task.run()).message["exitReason"] == "Answered"
    [asked] = fake.requests(path="/api/chat")
    assert "say plainly that nothing was stored." in " ".join(asked["body"]["messages"][0]["content"].split())
    assert known.remembered == []
