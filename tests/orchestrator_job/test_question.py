"""What the model is asked, once the user has said more."""

from __future__ import annotations

from crds import pendingtask, scope
from orchestrator_job import memory, question


def test_messages_and_answers_are_part_of_the_question() -> None:
    task = memory.TaskMemory(
        task_uid="u",
        type=pendingtask.Type.USER_INPUT,
        scope=scope.Scope(client_id="acme"),
        content="What did the assembly decide?",
        messages=(pendingtask.Message(id="m1", text="It met in May."),),
        answers=(pendingtask.Answer(id="r1-q1", text="Read the minutes."),),
    )
    assert question.ask(task, "What did the assembly decide?").splitlines() == [
        "What did the assembly decide?",
        "The user added: It met in May.",
        "Asked back, the user answered: Read the minutes.",
    ]


def test_the_question_about_a_document_says_where_it_came_from() -> None:
    task = memory.TaskMemory(
        task_uid="u",
        type=pendingtask.Type.EMAIL,
        scope=scope.Scope(client_id="acme"),
        content="Subject: Invoice\n\nPay.",
    )
    asked = 'What does "Invoice" ask of us, and what has to be done by whom and by when?'
    assert question.ask(task, task.content or "") == asked, "one that an older operator wrote names no source"
    known = {"source_type": "EMAIL", "source_id": "1@host", "structured_data": {"deadline": "2027-03-05"}}
    assert question.ask(task.model_copy(update=known), task.content or "").splitlines() == [
        asked,
        "It came as EMAIL 1@host; its deadline was read as 2027-03-05.",
    ]
