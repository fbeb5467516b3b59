"""A single task that codes, works on trackers, or both: with a repository, a tracker, and the applications themselves.

The models are scripted; what their calls are answered, and what has happened afterwards, is real.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.ollama import process
from tests.kb.conftest import clock, database, meters
from tests.orchestrator_job import job, office, workbench
from tests.orchestrator_job.conftest import router
from tests.orchestrator_job.office import place
from tests.orchestrator_job.run.test_delegation_runs import SYNTHESIS, decided
from tests.orchestrator_job.run.test_goal_runs import GOALS, LEGACY, STEPS, goal, steps

__all__ = ["clock", "database", "meters", "place", "router"]
pytestmark = pytest.mark.services

_OPEN: tuple[str, dict[str, Any]] = ("open_repository", {})
_EDIT = ("edit_file", {"path": "src/area.py", "old": "w + h", "new": "w * h"})
_COMMIT = ("commit_changes", {"message": "Multiply"})
_COMMENT = ("add_comment", {"repository": "o/r", "issue": "1", "text": "area multiplies now."})


@dataclass(frozen=True)
class Case:
    """`calls` of each agent in its turns; `outside`: what is other than before at the Connections."""

    said: str
    action: str
    calls: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]]
    outside: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    specialists: bool = True


CASES = {
    "code": Case(
        "Correct the function area in the repository code: it must multiply.",
        "code",
        {"Coding": (_OPEN, _EDIT, _COMMIT)},
        changed=("src/area.py",),
    ),
    "tracker": Case(
        "Create an issue about the backup in the repository o/r.",
        "tracker_ops",
        {"IssueTracker": (("create_issue", {"repository": "o/r", "title": "Backup", "text": "It failed."}),)},
        outside={"issues": ["Old", "Backup"]},
    ),
    "mixed": Case(
        "Correct the function area in the repository code and comment on issue #1 of o/r.",
        "mixed",
        {"Coding": (_OPEN, _EDIT, _COMMIT), "IssueTracker": (_COMMENT,)},
        outside={"comments": ["area multiplies now."]},
        changed=("src/area.py",),
    ),
    "one agent": Case(
        "Correct the function area in the repository code and comment on issue #1 of o/r.",
        "mixed",
        {"LegacyAgent": (_OPEN, _EDIT, _COMMIT, _COMMENT)},
        outside={"comments": ["area multiplies now."]},
        changed=("src/area.py",),
        specialists=False,
    ),
}


@pytest.fixture(autouse=True)
def legacy(place: office.Office) -> None:
    """Runs are not on the delegation graph."""
    place.desk.task.environment["JERVIS_USE_DELEGATION_GRAPH"] = "false"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_one_thing_is_done_without_a_plan(place: office.Office, fake: process.Fake, case: Case) -> None:
    place.desk.task.environment["JERVIS_USE_SPECIALIST_AGENTS"] = str(case.specialists).lower()
    tags = {f"job.agent.{agent}/v1": made for agent, made in case.calls.items()}
    script: dict[str, list[Any]] = {
        tag: [*map(workbench.calls, made), workbench.report("The function area multiplies now.")]
        for tag, made in tags.items()
    }
    if len(tags) > 1:
        script[SYNTHESIS] = [job.reply(answer="The function area multiplies now.", citations=[])]
    fake.set_script(script)
    place.remember(content=case.said)
    await place.desk.ends("Answered")
    expected = [tag for tag, made in tags.items() for _ in range(len(made) + 1)]
    asked = place.desk.tags()
    # The first reply says what is wanted.
    assert [tag for tag in asked if tag.startswith("job.")] == [job.TAG] + expected + (
        [SYNTHESIS] if len(tags) > 1 else []
    )
    assert place.outside() == {**office.QUIET, **case.outside}
    result = place.desk.result()
    assert (result["taskCategory"], result["taskAction"]) == ("single_task", case.action)
    assert tuple(result["changedFiles"]) == case.changed
    assert [one["result"] for one in result["stepResults"]] == ["The function area multiplies now."] * len(tags)
    assert place.made.store.all("orchestrator_context", taskUid=place.desk.task.uid) == []
    if case.changed:
        # The commit is in the workspace that the next run, or a push, opens.
        assert place.commit()


async def test_an_epic_codes_and_tracks_by_specialists(place: office.Office, fake: process.Fake) -> None:
    place.desk.task.environment["JERVIS_USE_SPECIALIST_AGENTS"] = "true"
    code = steps("Correct the function area.", agent="Coding")
    track = steps("Say so on issue #1 of o/r.", agent="IssueTracker")
    fake.set_script(
        {
            GOALS: [{"goals": [goal("Code"), goal("Issue", 1)]}],
            STEPS: [code, track],
            "job.agent.Coding/v1": [*map(workbench.calls, (_OPEN, _EDIT, _COMMIT)), workbench.report("It multiplies.")],
            "job.agent.IssueTracker/v1": [workbench.calls(_COMMENT), workbench.report("The comment is written.")],
            SYNTHESIS: [job.reply(answer="It multiplies, and the comment is written.", citations=[])],
        }
    )
    place.remember(content="Migrate the repository code to multiplication, and say so on issue #1 of o/r.")
    await place.desk.ends("Answered")
    assert place.outside() == {**office.QUIET, "comments": ["area multiplies now."]}
    assert place.commit()
    told = place.desk.prompts("job.agent.IssueTracker/v1")[0]
    assert "It multiplies.\nchanged: src/area.py" in told
    result = place.desk.result()
    assert (result["taskCategory"], result["taskAction"]) == ("epic", "mixed")
    assert [one["agentName"] for one in result["delegations"]] == ["Coding", "IssueTracker"]
    assert result["changedFiles"] == ["src/area.py"]


async def test_the_second_step_has_the_whole_result_of_the_first(place: office.Office, fake: process.Fake) -> None:
    case = CASES["mixed"]
    fake.set_script(
        {
            "job.agent.Coding/v1": [workbench.report("The function area multiplies: commit abc.")],
            "job.agent.IssueTracker/v1": [workbench.report("A comment is not needed.")],
            SYNTHESIS: [job.reply(answer="It multiplies.", citations=[])],
        }
    )
    place.remember(content=case.said)
    await place.desk.ends("Answered")
    told = place.desk.prompts("job.agent.IssueTracker/v1")[0]
    assert "The function area multiplies: commit abc." in told
    assert "Constraint: Do the part of the task that concerns issues and comments." in told


async def test_a_comment_that_a_person_refused_was_not_done(place: office.Office, fake: process.Fake) -> None:
    """The text orders work in a tracker, and nothing was done there."""
    place.desk.task.environment["JERVIS_USE_SPECIALIST_AGENTS"] = "false"
    said = "Comment on issue #1 of o/r that area multiplies."
    elsewhere = ("add_comment", {"repository": "o/r", "issue": "2", "text": "area multiplies now."})
    reports = [workbench.report(text) for text in ("It waits.", "No comment was written.")]
    fake.set_script({LEGACY: [workbench.calls(elsewhere), *reports]})
    place.remember(content=said)
    held = await place.desk.ends("NeedsApproval")
    assert held.waiting[0]["tool"] == "addComment"
    place.remember(content=said, approvals=[decided(1, "Rejected")])
    await place.desk.ends("Answered")
    assert place.outside() == office.QUIET
    result = place.desk.result()
    assert (result["taskCategory"], result["taskAction"]) == ("single_task", "respond")
    assert [one["result"] for one in result["stepResults"]] == ["No comment was written."]


async def test_a_mail_that_orders_code_is_answered(place: office.Office, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    place.remember(content=CASES["code"].said, type="EmailProcessing")
    await place.desk.ends("Answered")
    assert fake.count(tag=job.TAG) == 1
    assert not [one for one in fake.requests(path="/api/chat") if str(one["tag"]).startswith("job.agent.")]
