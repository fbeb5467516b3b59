"""Each schema that can be sent is compiled by both engines, which then take an answer that fits and no other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
import pytest

from kb.agent import decision
from router.client import resolving, schema
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


def test_each_field_of_a_class_is_sent() -> None:
    """The reference of all samples as well: they say nothing of a field that is not sent."""
    shapes = [shape for shape in walking.shapes() if schema.whole(shape).get("properties")]
    assert [shape.__qualname__ for shape in shapes if _lost(schema.whole(shape), schema.wire(shape))] == []
    # By what pydantic says of the class, and with choices too.
    samples = [(sample.name, sample.listed, sample.schema) for sample in walking.answers() if sample.listed]
    assert len(samples) >= len(shapes)
    assert [(name, lost) for name, listed, sent in samples if (lost := _lost(listed, sent))] == []
    # One field alone is left out on purpose: that which has no value left, as citations where there is no evidence.
    assert _lost(schema.whole(_Verdict), schema.wire(_Verdict, choices={"citations": []})) == ["citations"]


def test_each_argument_of_a_tool_is_sent() -> None:
    """In `tools`, and in the grammar of a call, where that holds the tool's arguments."""
    arguments = {name: schema.parameters(one) for name, one in walking.arguments().items()}
    classes = {name: one.model_json_schema(by_alias=True) for name, one in walking.arguments().items()}
    assert [(name, lost) for name in classes if (lost := _lost(classes[name], arguments[name]))] == []
    calls = {name: schema.functions([(name, takes)])["anyOf"][0] for name, takes in arguments.items()}
    taken = {name: call["properties"]["arguments"] for name, call in calls.items()}
    # Arguments that are too large for a grammar would be any object there; of our own, those that are one are alone so.
    assert [name for name, takes in taken.items() if takes == {"type": "object"}] == ["job._Any"]
    assert [(name, lost) for name in taken if (lost := _lost(arguments[name], taken[name]))] == []


def test_what_is_not_sent_is_seen() -> None:
    """The reference of the two tests above."""
    whole = schema.whole(_Verdict)
    assert _names(whole) == {
        "reason", "people", "people.name", "people.role", "others", "others.name", "others.role", "citations", "tags",
        "anything", "agent", "confidence",
    }  # fmt: skip
    inner = {"type": "object", "properties": {"name": {"type": "string"}}}
    without = {**whole, "properties": {**whole["properties"], "people": {"type": "array", "items": inner}}}
    assert _lost(whole, without) == ["people.role"]
    assert _lost({"anyOf": [whole, {"type": "null"}]}, {"anyOf": [{"type": "null"}]}) == _lost(whole, {})


def _lost(listed: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
    """The properties that one of the two schemas has and the other has not."""
    return sorted(_names(listed) ^ _names(sent))


def _names(part: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> set[str]:
    """The properties of a schema at each depth, those of items and of each alternative with them."""
    definitions = part.get("$defs", {}) if definitions is None else definitions
    if "$ref" in part:
        return _names(definitions[part["$ref"].rpartition("/")[2]], definitions)
    names = set[str]()
    for name, inner in part.get("properties", {}).items():
        names |= {name, *(f"{name}.{below}" for below in _names(inner, definitions))}
    several = (*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("prefixItems", ()))
    for inner in (*several, *([part["items"]] if isinstance(part.get("items"), Mapping) else [])):
        names |= _names(inner, definitions)
    return names


def test_a_reason_is_written_before_the_verdict_that_it_is_for() -> None:
    """In the grammar of llama.cpp too, which has what is required first. A free text that stands before the last
    required field of its class is written before it."""
    samples = [(sample, sample.listed) for sample in walking.answers() if sample.listed is not None]
    late = [
        (sample.name, *found)
        for sample, listed in samples
        for found in _late(resolving.Resolver(listed).part(listed), instances.ordered(sample.schema))
    ]
    assert late == []


def test_a_reason_behind_its_verdict_is_seen() -> None:
    """The reference of the test above: without what `_object_of` requires, the grammar has each free text last."""
    whole = schema.whole(_Verdict)
    sent = dict(schema.wire(_Verdict))
    assert list(_late(whole, instances.ordered(sent))) == []
    required = {**sent, "required": whole["required"]}
    assert list(_late(whole, instances.ordered(required))) == [("reason", "agent"), ("reason", "confidence")]
    nested = {"type": "array", "items": whole}, {"type": "array", "items": instances.ordered(required)}
    assert len(list(_late(*nested))) == 2


def _late(listed: Mapping[str, Any], sent: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(free text, required field) that a class has in this order, and what is sent in the other one; at each depth."""
    properties, written = listed.get("properties", {}), list(sent.get("properties", {}))
    # A field without any value left is not sent, and one of a few values is no free text.
    names = [name for name in properties if name in written]
    for at, name in enumerate(names):
        if _is_free_text(sent["properties"][name]):
            after = [other for other in names[at + 1 :] if other in listed.get("required", ())]
            yield from ((name, other) for other in after if written.index(other) < written.index(name))
        yield from _late(properties[name], sent["properties"][name])
    if "items" in listed and "items" in sent:
        yield from _late(listed["items"], sent["items"])
    objects = [[part for part in one.get("anyOf", ()) if "properties" in part] for one in (listed, sent)]
    for one, other in zip(*objects, strict=True):
        yield from _late(one, other)


def _is_free_text(part: Mapping[str, Any]) -> bool:
    """A text or null; what may be anything is none."""
    several = part.get("anyOf", [part])
    return {one.get("type") for one in several} - {"null"} == {"string"} and not any("enum" in one for one in several)


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
    assert [sample.name for sample in walking.tools() if len(json.dumps(sample.schema)) > schema.MOST_PARAMETERS] == []
    assert [sample.name for sample in walking.formats() if len(str(sample.schema)) > 25_000] == []


def _nested(levels: int) -> dict[str, Any]:
    inner = {"type": "string"} if levels == 0 else _nested(levels - 1)
    alternatives = [{"properties": {f"b{number}": {"type": "string"}}} for number in range(4)]
    return {"type": "object", "properties": {"a": inner}, "anyOf": alternatives}


@pytest.mark.parametrize("levels", [1, 4, 8])
def test_alternatives_beside_properties_cost_what_comes_out_of_them(levels: int) -> None:
    """Each has a copy of the properties: four at each of eight levels are 65,536 of the lowest."""
    sent = schema.parameters(_nested(levels))
    assert len(json.dumps(sent)) < schema.MOST_PARAMETERS
    assert {"a", "b0", "b3"} <= sent["properties"].keys()


def test_a_number_that_no_program_takes_is_left_out() -> None:
    huge = {"type": "object", "properties": {"size": {"enum": [10**400]}, "side": {"enum": [1, 10**30, 2]}}}
    sent = schema.parameters(huge)["properties"]
    assert "enum" not in sent["size"]
    assert "enum" not in sent["side"]
