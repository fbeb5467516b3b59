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
