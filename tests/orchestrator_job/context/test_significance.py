"""What a run says it was about: by the task's type, what it cites, and what a person was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from crds import pendingtask, scope
from kb import api
from orchestrator_job.answer import evidence_pack
from orchestrator_job.context import significance
from orchestrator_job.store import task_memory
from sources.effects import tools


def task(kind: pendingtask.Type, *answers: str, readers: tuple[str, ...] = ()) -> task_memory.TaskMemory:
    given = tuple(pendingtask.Answer(id=f"q{n}", text=text) for n, text in enumerate(answers, start=1))
    owner = scope.Scope(client_id="acme")
    return task_memory.TaskMemory(
        task_uid="u", type=kind, scope=owner, content="x", answers=given, on_behalf_of=readers
    )


def item(
    number: int, origin: str, source: str = "wiki::1", content: str = "Rollbacks are by tag."
) -> evidence_pack.Item:
    return evidence_pack.Item(id=number, source=source, content=content, origin=origin)


@pytest.mark.parametrize("kind", pendingtask.Type)
def test_only_a_question_in_a_conversation_is_advice(kind: pendingtask.Type) -> None:
    expected = "advice" if kind is pendingtask.Type.USER_INPUT else "single_task"
    assert significance.of(task(kind), [], [])["taskCategory"] == expected


def test_the_steps_are_the_evidence_that_was_cited_and_what_was_asked() -> None:
    items = [item(1, "Task"), item(2, "RAG"), item(3, "Graph", "jira::9"), item(4, "RAG", content="x" * 900)]
    said = significance.of(task(pendingtask.Type.EMAIL, "This one."), items, [1, 2, 4])
    assert [one["action"] for one in said["stepResults"]] == ["found wiki::1", "found wiki::1", "asked the user (q1)"]
    assert [len(one["result"]) for one in said["stepResults"]] == [21, 500, 9]


def test_an_answer_from_the_tasks_own_text_alone_has_no_steps() -> None:
    assert significance.of(task(pendingtask.Type.EMAIL), [item(1, "Task"), item(2, "RAG")], [1])["stepResults"] == []


COMPLETED = {"status": "COMPLETED", "agent": "Coding"}


def delegated(
    *effects: tuple[str, dict[str, Any]],
    files: tuple[str, ...] = (),
    kind: api.TaskCategory = api.TaskCategory.SINGLE_TASK,
    first_state: Mapping[str, Any] = COMPLETED,
) -> significance.Delegated:
    """Two delegations, of which the second found nothing, and these effects with their receipts."""
    first = {"delegationId": "r1.d1", "agentName": "Coding", "success": True, "result": "Fixed.", "changedFiles": files}
    second = {"delegationId": "r1.d2", "agentName": "Legal", "success": False, "result": " ", "changedFiles": ()}
    entries = [{"intent": {"tool": tool, "aims": {"issue": "A-1"}}, "result": receipt} for tool, receipt in effects]
    states = {"r1.d1": first_state, "r1.d2": COMPLETED}
    return significance.Delegated(kind, {"r1.d1": "Fix  the\nretry."}, (first, second), entries, states)


@pytest.mark.parametrize(
    ("effects", "files", "action"),
    [
        ((), (), "respond"),
        (("sendMail",), (), "respond"),
        (("store_knowledge", "save_draft"), (), "respond"),
        ((), ("retry.py",), "code"),
        (("pushBranch", "store_knowledge"), (), "code"),
        (("createIssue",), (), "tracker_ops"),
        (("updateIssue", "addComment"), (), "tracker_ops"),
        (("addComment",), ("retry.py",), "mixed"),
        (("pushBranch", "sendMail"), (), "mixed"),
        (("createIssue", "editPage"), (), "mixed"),
    ],
)
def test_the_action_is_what_delegations_did_outside(
    effects: tuple[str, ...], files: tuple[str, ...], action: str
) -> None:
    done = delegated(*((tool, {"text": "Done."}) for tool in effects), files=files)
    assert significance.of(task(pendingtask.Type.USER_INPUT), [], [], done)["taskAction"] == action


@pytest.mark.parametrize("receipt", [{"skipped": True}, {"failed": True, "text": "No such issue."}])
def test_what_a_person_refused_or_a_service_did_not_do_was_not_done(receipt: dict[str, Any]) -> None:
    said = significance.of(task(pendingtask.Type.EMAIL), [], [], delegated(("createIssue", receipt)))
    assert said["taskAction"] == "respond"
    assert [one["action"] for one in said["stepResults"]] == ["Coding: Fix the retry."]


@pytest.mark.parametrize("kind", api.TaskCategory)
def test_the_category_of_a_delegated_task_is_that_of_its_text(kind: api.TaskCategory) -> None:
    said = significance.of(task(pendingtask.Type.USER_INPUT), [], [], delegated(kind=kind))
    assert said["taskCategory"] == kind.value


def test_the_steps_begin_with_what_was_handed_back_and_done() -> None:
    done = delegated(("createIssue", {"text": "Created A-1."}))
    said = significance.of(task(pendingtask.Type.EMAIL, "Yes."), [item(2, "RAG")], [2], done)
    assert [(one["action"], one["result"]) for one in said["stepResults"]] == [
        ("Coding: Fix the retry.", "Fixed."),
        ("createIssue issue A-1", "Created A-1."),
        ("found wiki::1", "Rollbacks are by tag."),
        ("asked the user (q1)", "Yes."),
    ]


@pytest.mark.parametrize(
    ("state", "readers"),
    [
        ({"status": "FAILED"}, ()),
        ({"status": "COMPLETED", "verify": True}, ()),
        ({}, ()),
        (COMPLETED, ("user:alice",)),
    ],
    ids=["failed", "doubted", "unknown", "on behalf of a user"],
)
def test_what_the_knowledge_base_is_not_given_is_no_step(state: dict[str, Any], readers: tuple[str, ...]) -> None:
    """What was done outside stays a step: it happened, whatever its agent says of it."""
    done = delegated(("createIssue", {"text": "Created A-1."}), first_state=state)
    said = significance.of(task(pendingtask.Type.EMAIL, readers=readers), [], [], done)
    assert [one["action"] for one in said["stepResults"]] == ["createIssue issue A-1"]
    assert said["taskAction"] == "tracker_ops"


def test_the_names_are_those_of_the_effects_that_there_are() -> None:
    assert set(tools.TOOLS) == significance.CODE | significance.TRACKER | significance.OTHERS
