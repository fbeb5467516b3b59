"""Answers as real models write them, read by the shapes of the knowledge base, and what is asked of models for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.real import corpus
from kb import api
from kb.extract import extraction, hints, prompt, shape, typed
from kb.files import image
from kb.links import prompt as links
from kb.outcome import learn
from kb.service import assembly, serving
from router.client import reading, schema
from tests.schemas import instances

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
assert assembly, serving  # all that asks models is imported
HINTS = {
    "summary": "The certificate has to be renewed.", "reason": "It asks for it.", "hasActionableContent": True,
    "isAssignedToMe": True, "suggestedDeadline": "2026-04-15", "hasFutureDeadline": True, "urgency": "high",
    "action": "Execute", "questions": [], "deferMinutes": None, "tags": ["certificate"],
}  # fmt: skip


def shapes(of: type[shape.Shape] = shape.Shape) -> Iterator[type[shape.Shape]]:
    for each in of.__subclasses__():
        yield each
        yield from shapes(each)


def keys(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, inner in part.items():
            yield name
            yield from keys(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from keys(inner)


@pytest.mark.parametrize("asked_for", list(shapes()), ids=lambda each: each.__name__)
def test_nothing_is_sent_that_ends_a_runner_and_each_answer_has_a_bound(asked_for: type[shape.Shape]) -> None:
    wire = schema.wire(asked_for)
    assert not {"minLength", "pattern", "$ref", "format"} & set(keys(wire))
    bounded = [name for name, part in wire.get("properties", {}).items() if "maxLength" in part]
    assert set(bounded) == asked_for.ended
    assert list(keys(wire)).count("maxLength") == len(bounded)
    assert 0 < asked_for.tokens <= shape.LONGEST
    for name, verdict in (("reason", "hasActionableContent"), ("reason", "decision"), ("typeReason", "contentType")):
        # llama.cpp's grammar does not keep the order of the properties.
        names = list(instances.ordered(wire).get("properties", {}))
        if name in names and verdict in names:
            assert names.index(name) < names.index(verdict)


def test_a_yes_or_no_has_not_the_room_of_a_page() -> None:
    assert {links.Answer.tokens, typed.Kind.tokens} == {shape.SMALL}
    assert links.Answer.tokens * 8 < extraction.Extraction.tokens


def read(answer: dict[str, Any]) -> hints.Judgement:
    return reading.read(json.dumps(answer), hints.Judgement).value


def test_hints_of_a_small_model_are_used() -> None:
    said = {
        "hasActionableContent": "true", "isAssignedToMe": None, "hasFutureDeadline": False, "suggestedDeadline": "",
        "urgency": "High", "summary": "Please renew the certificate of the registry", "reason": "",
        "action": "execute", "questions": None, "tags": ["tls"] * 21,
    }  # fmt: skip
    got = reading.read(json.dumps(said), hints.Judgement)
    assert got.value.has_actionable_content
    assert (got.value.urgency, got.value.action, len(got.value.tags)) == ("high", api.DirectiveAction.EXECUTE, 5)
    fields = {problem.field for problem in got.problems}
    assert fields == {"hasActionableContent", "isAssignedToMe", "urgency", "action", "questions", "tags"}


@pytest.mark.parametrize("name", HINTS)
@pytest.mark.parametrize("broken", [None, [], {"a": 1}, "\u00bf", 47, ...], ids=str)
def test_an_order_is_not_lost_to_a_field(name: str, broken: Any) -> None:
    said = {key: value for key, value in HINTS.items() if key != name} | ({} if broken is ... else {name: broken})
    found = hints.settle(read(said), NOW)
    assert found.has_actionable_content
    assert found.failure == ""
    # No date that nobody gave puts it off.
    assert found.suggested_deadline in (None, datetime(2026, 4, 15, 23, 59, 59, tzinfo=UTC))


def test_a_mail_of_which_hardly_anything_was_said_counts_as_an_order_of_no_kind() -> None:
    said = reading.read('{"summary": "Renew it."}', typed.EmailReading).value
    assert (said.classification, said.has_actionable_content) == (api.EmailClassification.UNKNOWN, True)
    assert (said.is_assigned_to_me, said.urgency, said.answers_earlier) == (False, "normal", False)


def test_a_type_is_one_of_those_that_there_are() -> None:
    assert schema.wire(typed.Kind)["properties"]["contentType"]["enum"] == [kind.value for kind in api.ContentType]
    for word, kind in (("email", "EMAIL"), ("POEM", "GENERIC")):
        said = {"typeReason": "It has rhymes.", "contentType": word}
        assert reading.read(json.dumps(said), typed.Kind).value.content_type.value == kind
    with pytest.raises(reading.Unusable, match="contentType"):
        reading.read('{"contentType": "POEM"}', typed.Kind)


def test_facts_that_are_whole_are_kept_beside_those_that_are_not() -> None:
    entities = [{"name": "Jana", "type": "person"}, {"name": "", "type": "x"}, {"type": "team"}, "Petr"]
    relationships = [{"source": "Jana", "target": "P-7", "type": "maintains"}, {"source": "Jana"}]
    said = reading.read(json.dumps({"entities": entities, "relationships": relationships}), extraction.Extraction).value
    assert [one.name for one in said.entities] == ["Jana"]
    assert [one.type for one in said.relationships] == ["maintains"]
    assert reading.read(json.dumps({"entities": entities}), extraction.Extraction).value.relationships == []


@pytest.mark.parametrize("said", [{"urgency": 7}, {"tags": []}, {"reason": None}])
def test_a_judgement_is_not_made_of_what_no_model_said(said: dict[str, Any]) -> None:
    with pytest.raises(reading.Unusable):
        read(said)


def test_an_image_says_something_by_its_text_alone() -> None:
    assert image.document(reading.read('{"text": "Total: 5 EUR"}', image.Sight).value).endswith("Total: 5 EUR")
    with pytest.raises(reading.Unusable):
        reading.read('{"title": "An image", "description": " "}', image.Sight)


def test_lessons_without_a_summary_are_lessons() -> None:
    said = reading.read('{"key_decisions": ["Use k3s.", ""], "topics": null}', learn.Lessons).value
    assert (said.key_decisions, said.topics) == (["Use k3s."], [])


def test_a_link_is_opened_by_a_decision_alone() -> None:
    with pytest.raises(reading.Unusable):
        reading.read('{"reason": "It is a specification."}', links.Answer)
    assert reading.read('{"decision": "Leave"}', links.Answer).value.decision == "leave"


def _lists(text: str) -> Mapping[str, Any]:
    question = prompt.extract(text, title="", kind="chat")
    listed: Mapping[str, Any] = schema.wire(extraction.Extraction, most=question.most)["properties"]
    return listed


@pytest.mark.parametrize(
    ("text", "most"), [("Hi.", 12), ("x" * 336, 14), ("ž" * 168, 14), ("x" * 384, 16), ("x" * 408, None)]
)
def test_a_short_text_has_few_names_and_facts_and_the_grammar_says_so(text: str, most: int | None) -> None:
    assert [(name, part.get("maxItems")) for name, part in _lists(text).items()] == [
        ("entities", most), ("relationships", most)
    ]  # fmt: skip
    assert schema.ends(schema.wire(extraction.Extraction, most=prompt.extract(text, title="", kind="chat").most)) == (
        most is not None
    )


def test_lists_that_the_grammar_ends_come_to_their_end() -> None:
    """SmolLM2's longest entries have ninety tokens."""
    for text in ("Hi.", "x" * 336, "ž" * 168, "x" * 384):
        question = prompt.extract(text, title="", kind="chat")
        assert question.tokens is not None
        assert sum(question.most.values()) * 90 <= question.tokens <= 4096


def test_the_bound_has_room_for_what_others_found_in_passages_of_others() -> None:
    """OpenIE's triples of MuSiQue's passages."""
    texts = {each["id"]: each["text"] for each in map(json.loads, corpus.lines("musique.passages.jsonl"))}
    bounded, left_out = 0, 0
    for each in map(json.loads, corpus.lines("musique.triples.jsonl")):
        triples = [triple for triple in each["triples"] if len(triple) == 3]
        names = {name for triple in triples for name in triple[::2]}
        lists = _lists(texts[each["passage"]])
        if "maxItems" in lists["entities"]:
            bounded += 1
            left_out += max(0, len(names) - lists["entities"]["maxItems"])
            left_out += max(0, len(triples) - lists["relationships"]["maxItems"])
    assert bounded > 20
    assert left_out <= 1
