"""Each schema that can be sent is compiled by both engines, which then take an answer that fits and no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from kb.agent import decision
from router.client import schema
from tests.schemas import engines, foreign, instances, walking

MOST_STATES = 10_000
"""Of outlines-core's automaton: it takes a third of a millisecond for each with a vocabulary of 30,000 tokens. One call
of each of 45 tools has most; a bound of 2,000 characters alone has 2,000."""
MOST_STATES_OF_AN_ANSWER = 7_000


class _Person(schema.Shape):
    name: str = pydantic.Field(min_length=1, max_length=200)
    role: str | None = None


class _Verdict(schema.Shape):
    """Every kind of field that an answer has."""

    reason: str = pydantic.Field(default="", max_length=20_000)
    people: list[_Person] = pydantic.Field(default_factory=list, max_length=12)
    others: list[_Person] = pydantic.Field(default_factory=list, max_length=400)
    citations: list[int] = pydantic.Field(default_factory=list, max_length=16)
    tags: dict[str, str] = pydantic.Field(default_factory=dict)
    anything: Any = None
    agent: str
    confidence: schema.Share


class _Question(schema.Shape):
    questions: list[str] = pydantic.Field(min_length=1, max_length=8)


_CHOICES: schema.Choices = {"citations": walking.EVIDENCE, "agent": ("Research", 'Say "hi"', "příliš žluťoučký")}
ENGINES = (engines.Llguidance(), engines.Outlines())


def _samples() -> Iterator[walking.Sample]:
    yield walking.Sample("each kind of field", schema.wire(_Verdict, choices=_CHOICES))
    yield walking.Sample("one of two", schema.wire(_Verdict, _Question))
    yield walking.Sample("without evidence", schema.wire(_Verdict, choices={"citations": []}))
    yield from walking.formats()


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_each_schema_compiles_and_takes_what_fits_alone(engine: engines.Llguidance | engines.Outlines) -> None:
    problems = []
    for sample in _samples():
        try:
            problems += [f"{sample.name}: {problem}" for problem in _problems(engine, sample)]
        except engines.Refused as error:
            problems.append(f"{sample.name}: refused: {error}")
    assert problems == []


def _problems(engine: engines.Llguidance | engines.Outlines, sample: walking.Sample) -> Iterator[str]:
    grammar = engine.compile(sample.schema)
    states = getattr(grammar, "states", 0)
    if states > (MOST_STATES if sample.name.startswith("call of") else MOST_STATES_OF_AN_ANSWER):
        yield f"{states} states"
    whole = instances.fitting(sample.schema, every=True)
    if not engines.accepts(grammar.again(), instances.written(whole)):
        yield f"does not take {whole}"
    for right, wrong in instances.pairs(sample.schema):
        if not engines.accepts(grammar.again(), instances.written(right)):
            yield f"does not take {right}"
        if engines.accepts(grammar.again(), instances.written(wrong)):
            yield f"takes {wrong}"


def test_a_decision_among_tools_of_other_servers_stays_small() -> None:
    """With the arguments of all of `foreign`, outlines-core takes a minute and a half of CPU."""
    wire = decision.schema(walking.served("maps", "deep", "reference"))
    assert engines.Outlines().compile(wire).states <= MOST_STATES


def test_a_choice_that_a_grammar_lacks_is_seen() -> None:
    """The reference of the test above: without its enums, no schema passes that has one."""
    llguidance = engines.Llguidance()
    samples = [(sample, _without_choices(sample.schema)) for sample in _samples() if walking.enums(sample.schema)]
    assert len(samples) >= 60
    assert [sample.name for sample, open_ in samples if not _takes_wrong(llguidance.compile(open_), sample)] == []


def _takes_wrong(grammar: engines.Grammar, sample: walking.Sample) -> bool:
    return any(
        engines.accepts(grammar.again(), instances.written(wrong)) for _, wrong in instances.pairs(sample.schema)
    )


def _without_choices(part: Any) -> Any:
    if isinstance(part, dict) and "enum" in part:
        return {"type": part["type"]} if "type" in part else {"type": ["string", "number", "boolean", "null"]}
    if isinstance(part, dict):
        return {key: _without_choices(value) for key, value in part.items()}
    return [_without_choices(each) for each in part] if isinstance(part, list) else part


def test_each_choice_of_a_class_is_sent() -> None:
    """The reference of all samples: they are made of what is sent, which lacks no enum of what is read."""
    missing = [
        shape.__qualname__
        for shape in walking.shapes()
        if (whole := schema.whole(shape)).get("properties")
        and walking.enums(whole) != walking.enums(schema.wire(shape))
    ]
    assert missing == []


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_the_mask_has_what_comes_next(engine: engines.Llguidance | engines.Outlines) -> None:
    grammar = engine.compile(schema.wire(_Verdict, choices=_CHOICES))
    assert engines.allowed(grammar) <= set(b"{ \t\r\n")
    for token in b'{"reason": "because", "agent": "':
        assert token in engines.allowed(grammar)
        assert grammar.take(token)
    assert engines.allowed(grammar) == {ord("R"), ord("S"), ord("p")}
    assert not grammar.take(ord("r"))


def test_what_outlines_core_cannot_take_is_seen() -> None:
    """The reference of the two tests above: this is refused, or has more states than they allow."""
    outlines = engines.Outlines()
    with pytest.raises(engines.Refused):
        outlines.compile({"type": "object", "properties": {"any": True}})
    assert (
        outlines.compile({**foreign.BOUND, "properties": {"text": {"type": "string", "maxLength": 8000}}}).states
        > MOST_STATES_OF_AN_ANSWER
    )
    with pytest.raises(engines.Refused):
        engines.Llguidance().compile({"type": "object", "properties": {"p": {"type": "string", "pattern": "(?!x)a"}}})


def test_each_schema_of_another_server_stays_small() -> None:
    """References that multiply end; what is sent has a size that a prompt has room for."""
    assert {sample.name for sample in walking.tools() if len(str(sample.schema)) > 20_000} == {"foreign values"}
    assert [sample.name for sample in walking.formats() if len(str(sample.schema)) > 25_000] == []
