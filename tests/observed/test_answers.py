"""What becomes of each file of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kb import api
from kb.agent import decision
from kb.reading import hints
from orchestrator_job import answer, plan
from router.client import asking, calls, reading, schema

_HERE = Path(__file__).parent
_EVIDENCE = (1, 2, 3)


def _text(name: str) -> str:
    return (_HERE / name).read_text()


def _wrong(read: reading.Reading[Any]) -> set[tuple[str, str]]:
    return {(problem.field, problem.what) for problem in read.problems}


@pytest.mark.parametrize(
    ("name", "citations", "confidence", "problems"),
    [
        ("answer_confidence", [1], 0.95, {("confidence", "type")}),
        ("answer_confidence_negative", [2], 0.5, {("confidence", "value")}),
        ("answer_long_citations", [], 0.5, {("citations", "value")}),
        ("answer_unknown_citation", [1], 0.9, {("citations", "value"), ("citations", "many"), ("questions", "blank")}),
    ],
)
def test_an_answer_is_used_and_what_is_wrong_is_counted(
    name: str, citations: list[int], confidence: float, problems: set[tuple[str, str]]
) -> None:
    text = _text(f"{name}.json")
    read = reading.read(text, answer.Draft, choices={"citations": list(_EVIDENCE)})
    given = answer.judged(read.value, _EVIDENCE)
    assert given.answer == json.loads(text)["answer"]
    assert (given.citations, given.confidence, given.needs_input) == (citations, confidence, False)
    assert _wrong(read) >= problems


def test_an_answer_that_asks_nothing_is_an_answer() -> None:
    text = _text("answer_needs_input_without_question.json")
    given = answer.judged(reading.read(text, answer.Draft).value, _EVIDENCE)
    assert (given.answer, given.needs_input, given.questions) == (json.loads(text)["answer"], False, [])


def test_hints_are_used_whatever_their_case() -> None:
    read = reading.read(_text("hints_enum_case.json"), hints.Judgement)
    said = read.value
    assert (said.has_actionable_content, said.is_assigned_to_me, said.has_future_deadline) == (True, False, False)
    assert (said.urgency, said.action) == ("high", api.DirectiveAction.EXECUTE)
    assert (said.suggested_deadline, said.questions, said.tags) == (None, [], ["a"] * 5)
    assert {field for field, _ in _wrong(read)} == {
        "hasActionableContent", "isAssignedToMe", "urgency", "action", "questions", "tags"
    }  # fmt: skip


def test_a_first_decision_that_gives_up_is_read_as_one() -> None:
    """`tests/kb/agent/test_orchestrator.py` has what becomes of it: the question is searched for all the same."""
    made = decision.parse(_text("decision_impossible_first.json"), [])
    assert (made.impossible, made.reasoning) == (True, "The answer is not found yet.")


async def test_a_plan_of_blank_lines_is_no_plan_and_is_asked_for_again() -> None:
    tries: list[asking.Try] = []

    async def send(each: asking.Try) -> calls.Reply:
        tries.append(each)
        return calls.Reply(_text("plan_blank_lines.txt"), cut=True)

    with pytest.raises(reading.Unusable):
        await asking.ask(send, [{"role": "user", "content": "q"}], [plan.Draft], plan.judged)
    assert len(tries) == asking.ATTEMPTS


def test_the_schema_that_ends_a_runner_is_never_sent() -> None:
    listed = json.loads(_text("schema_bound.json"))
    assert schema.parameters(listed)["properties"] == {"text": {"type": "string"}}


def test_each_file_is_read() -> None:
    source = Path(__file__).read_text()
    files = {path.stem for path in _HERE.iterdir() if path.suffix in (".json", ".txt")}
    assert [name for name in sorted(files) if f'"{name}' not in source] == []
