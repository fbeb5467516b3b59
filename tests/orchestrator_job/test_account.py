"""What a run says it was about: by the task's type, what it cites, and what a person was asked."""

from __future__ import annotations

import pytest

from crds import pendingtask, scope
from orchestrator_job import account, memory, pack


def task(kind: pendingtask.Type, *answers: str) -> memory.TaskMemory:
    given = tuple(pendingtask.Answer(id=f"q{n}", text=text) for n, text in enumerate(answers, start=1))
    return memory.TaskMemory(task_uid="u", type=kind, scope=scope.Scope(client_id="acme"), content="x", answers=given)


def item(number: int, origin: str, source: str = "wiki::1", content: str = "Rollbacks are by tag.") -> pack.Item:
    return pack.Item(id=number, source=source, content=content, origin=origin)


@pytest.mark.parametrize("kind", pendingtask.Type)
def test_only_a_question_in_a_conversation_is_advice(kind: pendingtask.Type) -> None:
    expected = "advice" if kind is pendingtask.Type.USER_INPUT else "single_task"
    assert account.of(task(kind), [], [])["taskCategory"] == expected


def test_the_steps_are_the_evidence_that_was_cited_and_what_was_asked() -> None:
    items = [item(1, "Task"), item(2, "RAG"), item(3, "Graph", "jira::9"), item(4, "RAG", content="x" * 900)]
    said = account.of(task(pendingtask.Type.EMAIL, "This one."), items, [1, 2, 4])
    assert [one["action"] for one in said["stepResults"]] == ["found wiki::1", "found wiki::1", "asked the user (q1)"]
    assert [len(one["result"]) for one in said["stepResults"]] == [21, 500, 9]


def test_an_answer_from_the_tasks_own_text_alone_has_no_steps() -> None:
    assert account.of(task(pendingtask.Type.EMAIL), [item(1, "Task"), item(2, "RAG")], [1])["stepResults"] == []
