"""The measurement of a real model: documents are the same each time, and facts and answers are counted by their own
words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from bench.qualify import spy
from bench.real import corpus, facts, naming, sent

_DOCUMENT = corpus.Document(
    "email::1", "email", "en", "Notes, 1",
    "Alma Brandt leads the project Kestrel. Vrba delivers to Brno. Coffee is here.",
    (corpus.Fact("Alma Brandt", "Kestrel", "Alma Brandt leads the project Kestrel."),
     corpus.Fact("Vrba", "Brno", "Vrba delivers to Brno.")),
)  # fmt: skip


def test_the_documents_are_the_same_for_a_seed_and_hold_their_facts() -> None:
    made = corpus.documents(100, 1)
    assert made == corpus.documents(100, 1)
    assert made != corpus.documents(100, 2)
    assert len({one.urn for one in made}) == 100
    assert {(one.language, one.kind) for one in made} == {
        (language, kind) for language in corpus.LANGUAGES for kind in corpus.KINDS
    }
    for one in made:
        assert len(one.facts) == corpus.FACTS
        for fact in one.facts:
            assert one.content.count(fact.sentence) == 1
            assert fact.source in fact.sentence
            assert fact.target in fact.sentence


def test_the_passages_are_not_ours_and_state_most_of_what_others_found_in_them() -> None:
    passages = corpus.passages(100)
    assert len(passages) == 66
    assert sum(bool(one.facts) for one in passages) >= 60
    assert not any(one.plain for one in passages)
    assert corpus.passages(3) == passages[:3]


@pytest.mark.parametrize("made", [corpus.documents(30, 1), corpus.passages(30)], ids=["made", "passages"])
def test_facts_with_their_sentences_are_right_and_all_others_are_counted(made: Sequence[corpus.Document]) -> None:
    for one in made:
        right = [facts.Stored(fact.source, "states", fact.target, (fact.sentence,)) for fact in one.facts]
        assert facts.count(one, right) == facts.Counted(len(right), len(right), len(right), 0, 0, 0)
        # What the knowledge base would store: its evidence is a sentence of the document.
        first = naming.sentences(one.content)[0]
        assert facts.count(one, [facts.Stored("Paris", "owns", "Napoleon", (first,))]).invented == 1
        swapped = [facts.Stored(fact.source, "states", "Napoleon", (fact.sentence,)) for fact in one.facts]
        assert facts.count(one, swapped).invented == len(swapped)


_LEADS, _DELIVERS = "Alma Brandt leads the project Kestrel.", "Vrba delivers to Brno."


@pytest.mark.parametrize(
    ("ends", "evidence", "recalled", "invented", "unnamed", "unplanted"),
    [
        (("alma brandt", "kestrel"), _LEADS, 1, 0, 0, 0),
        (("Kestrel", "Alma Brandt"), _LEADS, 1, 0, 0, 0),
        # Half a sentence, and another form of a name.
        (("Alma Brandt", "Kestrels"), "Alma Brandt leads the project Kestrel", 0, 0, 0, 0),
        # A sentence that names both ends is no evidence of the fact unless it is stored with it.
        (("Vrba", "Brno"), "Coffee is here.", 1, 1, 0, 1),
        (("Vrba", "Brno"), "Vrba supplies all of Brno.", 1, 1, 0, 1),
        (("Alma Brandt", "Vrba"), "Coffee is here.", 0, 1, 0, 1),
        (("Alma Brandt", "Vrba"), _LEADS, 0, 0, 1, 0),
        (("Alma Brandt", "Paris"), _LEADS, 0, 1, 0, 0),
        (("Coffee", "here"), "Coffee is here.", 0, 0, 0, 1),
    ],
)
def test_a_fact_is_held_against_the_document(
    ends: tuple[str, str], evidence: str, recalled: int, invented: int, unnamed: int, unplanted: int
) -> None:
    stored = [facts.Stored(ends[0], "states", ends[1], (evidence,))]
    assert facts.count(_DOCUMENT, stored) == facts.Counted(2, recalled, 1, invented, unnamed, unplanted)
    # Without pronouns a sentence that names one end proves nothing.
    plain = facts.count(dataclasses.replace(_DOCUMENT, plain=True), stored)
    assert (plain.invented, plain.unnamed) == (invented + unnamed, unnamed)


@pytest.mark.parametrize(
    ("text", "name", "named"),
    [
        ("Der Dienst läuft auf Orion-1.", "orion-1", True),
        ("Der Dienst läuft auf Orion-1.", "orion-2", False),
        ("Patří Borisi Kučerovi.", "Boris Kučera", True),
        ("Jede do Brna.", "Brno", True),
        ("A grand tour.", "Granite", False),
        ("Alma met Clara Brandt.", "Alma Brandt", False),
        ("Anything.", "", False),
    ],
)
def test_a_sentence_names_a_thing_in_any_of_its_forms(text: str, name: str, named: bool) -> None:
    assert naming.names(text, name) is named


def test_what_the_program_makes_of_a_document_s_head_is_no_fact_of_a_model() -> None:
    assert facts.of_itself(_DOCUMENT, facts.Stored("notes_ 1", "mentions", "Vrba", ("Vrba delivers to Brno.",)))
    assert not facts.of_itself(_DOCUMENT, facts.Stored("Vrba", "supplies", "Brno", ()))


def _call(answer: str, *, tag: str = "kb.extract/v1", status: int = 200, shape: Any = None) -> spy.Call:
    given = shape or {
        "type": "object",
        "properties": {"confidence": {"type": "number", "minimum": 0, "maximum": 1}},
        "required": ["confidence"],
    }
    body = json.dumps({"model": "m", "format": given, "messages": [{"role": "system", "content": f"[prompt: {tag}]"}]})
    call = spy.described("/api/chat", body.encode())
    call.status = status
    record = {"message": {"content": answer}, "done": True, "prompt_eval_count": 5, "eval_count": 2}
    spy.read(call, json.dumps(record).encode())
    return call


def test_answers_are_valid_as_sent_only_within_the_bounds_of_their_schema() -> None:
    calls = [
        _call('{"confidence": 0.8}'),
        _call('{"confidence": 95}'),
        _call('{"confidence": 0.8', tag="job.plan/v1"),
        _call("", status=500),
    ]
    counted = sent.count(calls)
    assert (counted["answers"], counted["valid"], counted["validShare"]) == (4, 1, 0.25)
    assert counted["byPrompt"] == {"job.plan/v1": [0, 1], "kb.extract/v1": [1, 3]}
    assert counted["problems"] == {
        "kb.extract/v1: properties.confidence.maximum": 1,
        "job.plan/v1: no JSON": 1,
        "kb.extract/v1: HTTP 500": 1,
    }


def test_calls_without_a_schema_are_not_judged() -> None:
    call = spy.described("/api/chat", b'{"model": "m", "messages": []}')
    assert sent.count([call])["answers"] == 0
