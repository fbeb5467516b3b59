"""Small pure parts: any schema gets an instance, sizes, durations, names, prompts."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import thorough
from tests.fakes.ollama import catalogue
from tests.fakes.ollama.protocol import names, quantity, request
from tests.fakes.ollama.rules import answering, fitting, generic, prompt, text

TEXT = "The gateway failed 3 times on 2026-12-01. Please restart it. It must not fail again."


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.dictionaries(st.sampled_from(["name", "date", "items", "flag"]), inner, min_size=1, max_size=3)
    return st.one_of(
        fields.map(lambda given: {"type": "object", "properties": given, "required": sorted(given)}),
        inner.map(lambda one: {"type": "array", "items": one, "maxItems": 4}),
        inner.map(lambda one: {"anyOf": [one, {"type": "null"}]}),
    )


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "maxLength": 10, "minLength": 3},
            {"type": "string", "format": "date-time"},
            {"type": "integer", "minimum": 10, "maximum": 20},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "boolean"},
            {"type": ["string", "null"]},
            {"enum": ["low", "normal", "high"]},
            {"const": "fixed"},
        ]
    ),
    _nested,
    max_leaves=8,
)


@settings(max_examples=thorough.examples(150), deadline=None)
@given(SCHEMAS, st.sampled_from([TEXT, "", "Only words", "7"]))
def test_every_schema_gets_an_instance(schema: dict[str, Any], document: str) -> None:
    value = generic.instance(schema, generic.facts(document, date(2026, 11, 21)))
    assert fitting.accepts(generic.Filler(schema, generic.facts(document, None)), schema, value)
    json.dumps(value)


def test_numbers_and_lengths_stay_in_their_bounds() -> None:
    known = generic.facts(TEXT, None)
    assert generic.instance({"type": "integer", "minimum": 10, "maximum": 20}, known) == 15
    assert generic.instance({"type": "integer", "maximum": 9}, known) == 3
    assert len(generic.instance({"type": "string", "maxLength": 12}, known)) <= 12
    assert generic.instance({"type": "array", "items": {"type": "string"}, "minItems": 5}, known).__len__() == 5


def test_references_are_followed_even_in_circles() -> None:
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
        },
    }
    value = generic.instance(schema, generic.facts(TEXT, None))
    assert isinstance(value["next"]["next"]["name"], str)


def test_a_rule_is_bent_to_the_schema_that_was_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {
            "confidence": {"enum": ["low", "high"]},
            "answer": {"type": "string"},
            "extra": {"type": "boolean"},
        },
    }
    bent = fitting.fit(schema, {"answer": "kept", "confidence": 0.5, "unknown": 1}, generic.facts(TEXT, None))
    assert (bent["answer"], sorted(bent)) == ("kept", ["answer", "confidence", "extra"])
    assert bent["confidence"] in ("low", "high")


def test_every_known_tag_answers_with_json_of_its_schema() -> None:
    fields = {"summary": {"type": "string"}, "urgency": {"enum": ["low", "normal", "high"]}}
    wanted = request.Generation(
        model="m",
        messages=(
            request.Message("system", "[prompt:kb.hints/v2]"),
            request.Message("user", f"<document>{TEXT}</document>"),
        ),
        stream=False,
        format={"type": "object", "properties": fields},
    )
    said = json.loads(answering.answer(wanted, lambda texts: pytest.fail("hints need no vectors")))
    assert set(said) == {"summary", "urgency"}


@pytest.mark.parametrize(
    ("given_size", "bytes_"), [("24GiB", 24 << 30), ("24Gi", 24 << 30), ("500M", 500_000_000), (7, 7)]
)
def test_sizes(given_size: str | int, bytes_: int) -> None:
    assert quantity.to_bytes(given_size) == bytes_


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (300, 300.0),
        (0, 0.0),
        (-1, math.inf),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("-1m", math.inf),
        ("0", 0.0),
        ("50ms", 0.05),
    ],
)
def test_keep_alive(value: object, seconds: float | None) -> None:
    assert quantity.to_seconds(value) == seconds


@pytest.mark.parametrize("value", ["5", "soon", True, {}, "5 m", "-1"])
def test_wrong_keep_alive(value: object) -> None:
    with pytest.raises(ValueError, match=r"duration|Unsupported type"):
        quantity.to_seconds(value)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("qwen3", "qwen3:latest"),
        ("Qwen3:30B", "qwen3:30b"),
        ("registry.ollama.ai/library/qwen3:latest", "qwen3:latest"),
        ("hf.co/bartowski/x-GGUF:Q4_K_M", "hf.co/bartowski/x-gguf:q4_k_m"),
        ("", ""),
        ("no spaces", ""),
    ],
)
def test_names(name: str, canonical: str) -> None:
    assert names.canonical(name) == canonical


def test_sizes_follow_from_names() -> None:
    large, small, vision = (catalogue.describe(name) for name in ("qwen3-coder:30b", "nomic-embed-text", "llava"))
    assert 17e9 < large.size < 20e9
    assert small.size < 0.2e9
    assert small.embeds
    assert vision.capabilities == ["completion", "tools", "vision"]
    assert large.memory(8192, 2) == large.size + 2 * 8192 * large.kv_bytes_per_token


def test_sentences_are_found_word_for_word() -> None:
    document = "Dear team,\n\nDr. Novak wrote 1. 12. 2026 down. He\nleft.\n- First item\n- Second item\nStatus: open\n"
    assert text.sentences(document) == [
        "Dear team,",
        "Dr. Novak wrote 1. 12. 2026 down.",
        "He left.",
        "First item",
        "Second item",
        "Status: open",
    ]
    assert [document[start:end] for start, end in text.spans(document)][2] == "He\nleft."


def test_a_prompt_is_taken_apart() -> None:
    asked = prompt.parse(
        [
            ("system", "[prompt:job.respond/v1] rules"),
            (
                "user",
                "Today: 2026-11-21\nTeam: a, b@c.d\n"
                '<evidence id="2" source="urn:x">Text.</evidence>\n<question>Who?</question>',
            ),
        ]
    )
    assert (asked.tag, asked.team, asked.question) == ("job.respond/v1", ("a", "b@c.d"), "Who?")
    assert asked.evidence == (prompt.Evidence(2, "urn:x", "Text."),)
    assert asked.today == date(2026, 11, 21)
