"""Which procedure fits a task, and what becomes of its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import pendingtask
from kb import api
from orchestrator_job.agents import registry
from orchestrator_job.effects import trigger_words
from orchestrator_job.plan import procedures
from tests.conftest import ROOT
from tests.orchestrator_job import workbench

SEED = {
    "task_completion": ["CodeReview", "DevOps", "Test", "IssueTracker"],
    "email_deadline_question": ["IssueTracker", "Research", "Research", "Communication"],
    "bug_report": ["Research", "Coding", "Coding", "Test", "Git"],
}
AGENTS = registry.Registry.load()
MAIL = workbench.task(
    "uid", "Can you make the date?", type=pendingtask.Type.EMAIL, structured_data={"deadline": "2026-03-01"}
)


def procedure(trigger: str, *steps: dict[str, Any], **fields: Any) -> api.Procedure:
    given: dict[str, Any] = {
        "id": trigger, "client_id": "acme", "trigger_pattern": trigger, "success_rate": 0.9, "usage_count": 3,
        "source": "user_defined", "score": 1.5, **fields,
        "procedure_steps": list(steps) or [{"agent": "ResearchAgent", "action": "search the knowledge base"}],
    }  # fmt: skip
    return api.Procedure.model_validate(given)


@pytest.mark.parametrize(
    ("trigger", "task", "text", "expected"),
    [
        ("email_deadline_question", MAIL, "Can you make the date?", True),
        ("email_with_question", MAIL, "Can you make the date?", True),
        ("email_with_question", MAIL, "Here is the plan.", False),
        ("bug_report", workbench.task("u", "x", type=pendingtask.Type.BUG_TRACKER), "Es geht nicht.", True),
        ("bug_report", workbench.task("u", "x"), "When is the release?", False),
        ("task_completion", workbench.task("u", "x"), "PROJ-7 is completed.", True),
        ("task_completion", workbench.task("u", "x"), "PROJ-7 is open.", False),
        ("Invoices of Globex", workbench.task("u", "x"), "An invoice of Globex came.", True),
        ("invoice", workbench.task("u", "x"), "The voice call.", False),
        ("log", workbench.task("u", "x"), "The login page.", False),
        ("bug", workbench.task("u", "x"), "Two bugs.", True),
        ("the task", workbench.task("u", "x"), "The task.", False),
    ],
)
def test_a_trigger_fits_if_the_task_has_all_its_words(trigger: str, task: Any, text: str, expected: bool) -> None:
    assert trigger_words.fits(trigger, procedures.words(task, text)) is expected


@given(
    st.text(st.sampled_from("abs"), min_size=1, max_size=8),
    st.lists(st.text(st.sampled_from("abs"), min_size=1, max_size=8), max_size=4),
)
def test_a_word_is_found_in_any_of_its_forms(wanted: str, found: list[str]) -> None:
    def same(word: str) -> bool:
        short, long = sorted((wanted, word), key=len)
        common = max(size for size in range(len(short) + 1) if short[:size] == long[:size])
        return short == long or (long == f"{short}s" if len(short) < 4 else common >= max(4, len(short) - 3))

    assert trigger_words.Words(found).has(wanted) == any(map(same, found))


def test_a_step_has_what_the_user_defined_whole_and_the_ends_of_a_long_question() -> None:
    action = "Look at every slot. " * 100
    parameters = {f"field{number}": "y" * 900 for number in range(70)}
    made = procedure("bug_report", {"agent": "Research", "action": action.strip(), "parameters": parameters})
    [draft] = procedures.drafts(made, AGENTS, f"Begin. {'word ' * 5000}The end?")
    assert draft.task.startswith(f"{action.strip()}\nThis is a step of the procedure 'bug_report' for: Begin. word")
    assert draft.task.endswith("The end?")
    assert len(draft.task) <= 4000
    assert [one.partition(":")[0] for one in draft.constraints] == list(parameters)
    assert sum(map(len, draft.constraints)) <= 8000
    assert all("characters are left out here.]" in one for one in draft.constraints)


def test_the_users_own_comes_first_and_the_more_exact_one_before_that() -> None:
    every = [
        procedure("email_question", source="learned", id="l1", score=0.9),
        procedure("email", id="u1", score=1.9),
        procedure("email_question", id="u2", score=1.1),
        procedure("wiki", id="u3"),
        procedure("email", source="learned", id="l2", success_rate=0.0),
        procedure("email", source="learned", id="l3", success_rate=0.0, usage_count=0, score=0.1),
    ]
    found = procedures.chosen(every, procedures.words(MAIL, "Can you make the date?"))
    assert found.own is not None
    assert found.own.id == "u2"
    assert [one.id for one in found.learned] == ["l1", "l3"]


def test_steps_become_delegations_one_after_another() -> None:
    made = procedure(
        "email_deadline_question",
        {"agent": "IssueTrackerAgent", "action": "find the issue", "parameters": {"tracker": "Jira", "limit": 3}},
        {"agent": "Fortune Teller", "action": "estimate"},
        {"agent": "Communication", "action": "reply"},
    )
    drafts = procedures.drafts(made, AGENTS, "Can you make it?")
    assert [(one.agent, one.depends_on) for one in drafts] == [
        ("IssueTracker", ()), ("LegacyAgent", (1,)), ("Communication", (2,))
    ]  # fmt: skip
    assert drafts[0].constraints == ("tracker: Jira", "limit: 3")
    assert drafts[0].task.startswith("find the issue\nThis is a step of the procedure")
    assert drafts[0].task.endswith("Can you make it?")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples" / "procedures").glob("*.json")), ids=lambda path: str(path.stem)
)
def test_the_examples_name_agents_that_there_are(path: Path) -> None:
    """Seed 001 "Example Procedures"."""
    draft = api.ProcedureDraft.model_validate_json(path.read_bytes())
    assert [AGENTS.agent(step.agent).name for step in draft.procedure_steps] == SEED[draft.trigger_pattern]


def test_what_is_learned_is_named_by_its_facets() -> None:
    assert procedures.trigger(MAIL, "Can you make the date?") == "email_deadline_question"
    assert procedures.shown([procedure("a", source="learned")]) == (
        "a (3 times, 90% well): ResearchAgent: search the knowledge base"
    )
