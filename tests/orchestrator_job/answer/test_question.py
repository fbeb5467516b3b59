"""What the model is asked, once the user has said more."""

from __future__ import annotations

import pytest

from crds import pendingtask
from orchestrator_job.answer import question
from tests.orchestrator_job import workbench


def test_messages_and_answers_are_part_of_the_question() -> None:
    said = {
        "messages": [{"id": "m1", "text": "It met in May."}],
        "answers": [{"id": "r1-q1", "text": "Read the minutes."}],
    }
    task = workbench.task("u", "What did the assembly decide?", **said)
    assert question.ask(task, "What did the assembly decide?").text.splitlines() == [
        "What did the assembly decide?",
        "The user added: It met in May.",
        "Asked back, the user answered: Read the minutes.",
    ]


def test_the_question_about_a_document_says_where_it_came_from() -> None:
    task = workbench.task("u", "Subject: Invoice\n\nPay.", type=pendingtask.Type.EMAIL)
    asked = 'What does "Invoice" ask of us, and what has to be done by whom and by when?'
    assert question.ask(task, task.content or "").text == asked, "one that an older operator wrote names no source"
    known = {"source_type": "EMAIL", "source_id": "1@host", "structured_data": {"deadline": "2027-03-05"}}
    assert question.ask(task.model_copy(update=known), task.content or "").text.splitlines() == [
        asked,
        "It came as EMAIL 1@host; its deadline was read as 2027-03-05.",
    ]


def test_a_query_has_the_latest_words_and_the_ends_of_a_long_order() -> None:
    messages = [{"id": f"m{n}", "text": f"Message {n}. " + "x" * 8000} for n in range(3)]
    content = f"The pump leaks. {'word ' * 2000}Which slot?"
    task = workbench.task("u", content, type=pendingtask.Type.USER_TASK, messages=messages)
    found = question.query(task, task.content or "")
    assert len(found) <= 2000
    assert found.startswith("Message 2. ")
    assert found.endswith("Which slot?")
    assert "The pump leaks." in found
    short = task.model_copy(update={"messages": (), "content": "Which slot?"})
    assert question.query(short, "Which slot?") == "Which slot?"


@pytest.mark.parametrize(
    ("num_ctx", "most", "free"),
    [(None, 12_000, 4_000), (4_096, 4_608, 4_000), (16_384, 12_000, 8_864), (32_768, 58_016, 58_016)],
)
def test_the_room_of_a_question(num_ctx: int | None, most: int, free: int) -> None:
    """Half of what evidence has, or what a window that is known leaves beside evidence and answer."""
    room = question.Room.of(24_000, num_ctx)
    assert (room.most, room.free) == (most, free)
    assert room.taken("x" * free) == 0
    assert room.taken("x" * (free + 10)) == 10
