"""What becomes of each file of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.real import corpus, facts
from kb import api
from kb.agent import decision
from kb.extract import extraction, hints, sentence
from orchestrator_job.answer import model_answer
from orchestrator_job.plan import run_plan
from router.client import asking, calls, endless, reading, schema

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
    read = reading.read(text, model_answer.Draft, choices={"citations": list(_EVIDENCE)})
    given = model_answer.judged(read.value, _EVIDENCE)
    assert given.answer == json.loads(text)["answer"]
    assert (given.citations, given.confidence, given.needs_input) == (citations, confidence, False)
    assert _wrong(read) >= problems


def test_an_answer_that_asks_nothing_is_an_answer() -> None:
    text = _text("answer_needs_input_without_question.json")
    given = model_answer.judged(reading.read(text, model_answer.Draft).value, _EVIDENCE)
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
        await asking.ask(send, [{"role": "user", "content": "q"}], [run_plan.Draft], run_plan.judged)
    assert len(tries) == asking.ATTEMPTS


def test_the_schema_that_ends_a_runner_is_never_sent() -> None:
    listed = json.loads(_text("schema_bound.json"))
    assert schema.parameters(listed)["properties"] == {"text": {"type": "string"}}


def _extractions(ended: str) -> list[tuple[corpus.Document, str]]:
    """SmolLM2's raw answers about documents, of those that came to an end ("stop") or to their bound ("length")."""
    documents = {each.urn: each for each in (*corpus.documents(24, 1), *corpus.passages())}
    listed = map(json.loads, _text("smollm2_extractions.jsonl").splitlines())
    return [(documents[each["document"]], each["text"]) for each in listed if each["ended"] == ended]


def _ended(text: str) -> tuple[int | None, bool]:
    """After how many characters the watch ends an answer that comes token by token; else whether it ends in a loop."""
    watch = endless.Watch(lists=True)
    return next((at for at in range(4, len(text), 4) if watch.repeats(text[at - 4 : at])), None), watch.loops


def test_extractions_of_a_small_model_are_read_whole_and_none_of_their_facts_is_invented() -> None:
    answers = _extractions("stop")
    assert len(answers) == 30
    proved = 0
    for document, text in answers:
        assert _ended(text) == (None, False), text
        read = reading.read(text, extraction.Extraction)
        assert read.unfinished == ""
        sentences = sentence.split(document.content)
        stored = [
            facts.Stored(stated.source, stated.type, stated.target, (proof.text,))
            for stated in read.value.relationships
            if (proof := extraction.prove(sentences, stated, document.title)) is not None
        ]
        proved += len(stored)
        assert facts.count(document, stored).invented == 0, (document, stored)
    assert proved > 0


def test_the_loops_of_a_small_model_end_long_before_their_bound() -> None:
    """Of the same object, which it indents now one way and now another."""
    answers = [text for _, text in _extractions("length")]
    ended = list(map(_ended, answers))
    assert len(answers) == 11
    assert [at or loops for at, loops in ended].count(False) == 0
    assert sum(at or len(text) for text, (at, _) in zip(answers, ended, strict=True)) < sum(map(len, answers)) / 2


def test_each_file_is_read() -> None:
    source = Path(__file__).read_text()
    files = {path.stem for path in _HERE.iterdir() if path.suffix in (".json", ".jsonl", ".txt")}
    assert [name for name in sorted(files) if f'"{name}' not in source] == []
