"""What is sent as the shape of an answer, what is read of one, and the loop of both; no model is asked."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import errors
from router.client import asking, calls, choosing, endless, reading, schema


class Person(schema.Shape):
    name: str = pydantic.Field(min_length=1, max_length=20)
    age: int | None = None


class Answer(schema.Shape):
    model_config = pydantic.ConfigDict(alias_generator=pydantic.alias_generators.to_camel, populate_by_name=True)
    cautious: ClassVar[dict[str, Any]] = {"confidence": 0.5}

    answer: str = pydantic.Field(max_length=5000)
    citations: list[int] = pydantic.Field(default_factory=list, max_length=400)
    mood: Literal["calm", "in a hurry"] = "calm"
    people: list[Person] = pydantic.Field(default_factory=list, max_length=3)
    is_urgent: bool = False
    confidence: schema.Share


class Loose(schema.Shape):
    tool: str
    inputs: dict[str, Any] = pydantic.Field(default_factory=dict)


class Crowd(schema.Shape):
    people: list[Person] = pydantic.Field(max_length=200)


class Questions(schema.Shape):
    questions: list[str] = pydantic.Field(min_length=1, max_length=16)


class Tree(pydantic.BaseModel):
    title: str
    children: list[Tree] = []


_NUMBERS = {"citations": [1, 2, 3]}


def test_no_bound_but_that_of_a_short_list_is_sent() -> None:
    wire = schema.wire(Answer, choices=_NUMBERS)
    assert wire["properties"]["answer"] == {"type": "string"}
    assert wire["properties"]["citations"] == {"type": "array", "items": {"type": "integer", "enum": [1, 2, 3]}}
    people = wire["properties"]["people"]
    assert people["maxItems"] == 3
    assert people["items"]["properties"]["name"] == {"type": "string"}
    assert wire["properties"]["confidence"] == {"type": "string", "enum": list(schema.WORDS)}
    assert wire["required"] == ["answer", "confidence"]


def test_what_has_no_value_left_is_not_asked_for() -> None:
    wire = schema.wire(Answer, choices={"citations": []})
    assert "citations" not in wire["properties"]
    assert reading.read('{"answer": "a", "citations": [3], "confidence": "high"}', Answer, choices={"citations": []})


def test_two_shapes_are_a_choice() -> None:
    wire = schema.wire(Answer, Questions)
    assert [sorted(part["properties"])[-1] for part in wire["anyOf"]] == ["people", "questions"]
    read = reading.read('{"questions": ["Who?"]}', Answer, Questions)
    assert read == reading.Reading(Questions(questions=["Who?"]))


def test_parameters_have_no_reference_and_nothing_recursive() -> None:
    """Of what refers to itself, any value is left: a level more for each would multiply."""
    assert schema.parameters(Tree) == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "children": {"type": "array", "items": {}}},
        "required": ["title"],
    }


@pytest.mark.parametrize(
    ("given_schema", "sent"),
    [
        ({"type": "string", "maxLength": 2001, "pattern": "^a{1,3000}$", "format": "uri"}, {"type": "string"}),
        ({"$ref": "#/$defs/a"}, {"type": "integer"}),
        ({"$ref": "https://elsewhere.example/a.json"}, {}),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "string", "minLength": 1}, {"type": "string"}]}, {"type": "string"}),
        ({"const": "x"}, {"enum": ["x"]}),
        ({"allOf": [{"$ref": "#/$defs/a"}, {"description": "number"}]}, {"type": "integer", "description": "number"}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        (
            {"type": "array", "maxItems": 400, "items": {"type": "object"}},
            {"type": "array", "items": {"type": "object"}},
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "nonsense"}, {}),
        (True, {}),
    ],
)
def test_what_is_left_of_the_schema_of_another_server_s_tool(given_schema: Any, sent: dict[str, Any]) -> None:
    listed = {"type": "object", "properties": {"p": given_schema}, "$defs": {"a": {"type": "integer", "minimum": 3}}}
    assert schema.parameters(listed)["properties"]["p"] == sent


def test_a_schema_that_refers_to_itself_ends() -> None:
    listed = {"$ref": "#", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}}
    assert schema.parameters(listed) == {"type": "object", "properties": {"a": {}, "b": {}}}


def test_a_schema_that_multiplies_stays_small() -> None:
    wide = {
        f"d{level}": {"properties": {f"p{n}": {"$ref": f"#/$defs/d{level + 1}"} for n in range(20)}}
        for level in range(7)
    }
    made = schema.parameters({"$ref": "#/$defs/d0", "$defs": wide | {"d7": {"type": "string"}}})
    assert json.dumps(made).count('"p0"') <= 2000


class Call(schema.Shape):
    reasoning: str
    tool: str
    inputs: dict[str, Any]


def test_calls_of_tools_are_a_choice_between_shapes() -> None:
    named = [schema.wire(Call, choices={"tool": [name]}) for name in ("search", "stop")]
    takes = schema.parameters({"properties": {"query": {"type": "string", "description": "In words."}}})
    wire = schema.either(schema.holding(named[0], "inputs", takes), schema.holding(named[1], "inputs", None))
    search, stop = wire["anyOf"]
    assert list(search["properties"]) == ["reasoning", "tool", "inputs"]
    assert search["properties"]["inputs"]["properties"] == {"query": {"type": "string"}}
    assert (list(stop["properties"]), stop["required"]) == (["reasoning", "tool"], ["reasoning", "tool"])
    assert schema.either(stop) == stop


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0.85", 0.85), ("0,85", 0.85), ("85 %", 0.85), ("95", 0.95), ("8/10", 0.8), ("8 out of 10", 0.8)),
        *(("very high", 0.95), ("**Low**", 0.3), ("certain", 0.95), ("1", 1.0), ("0", 0.0)),
        *(("8", None), ("-1", None), ("0.0-1.0", None), ("", None), ("sure", None), ("300", None), ("true", None)),
    ],
)
def test_shares(text: str, number: float | None) -> None:
    assert schema.share(text) == number


_VALID = {"answer": "It ends. [1]", "citations": [1], "confidence": "high"}


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({}, []),
        ({"confidence": 0.7}, []),
        ({"confidence": 95}, [("confidence", "type")]),
        ({"confidence": 8}, [("confidence", "value")]),
        ({"confidence": None}, [("confidence", "value")]),
        ({"citations": [1, 47, 1]}, [("citations", "value"), ("citations", "many")]),
        ({"citations": "[1]"}, [("citations", "type"), ("citations", "case")]),
        ({"mood": "In A Hurry"}, [("mood", "case")]),
        ({"mood": "angry"}, [("mood", "value")]),
        ({"isUrgent": "true"}, [("isUrgent", "type")]),
        ({"isUrgent": " Nein"}, [("isUrgent", "type")]),
        ({"isUrgent": "maybe"}, [("isUrgent", "value")]),
        ({"is_urgent": True}, [("isUrgent", "key")]),
        ({"people": None}, [("people", "blank")]),
        ({"people": [{"name": "A"}, {"name": " "}]}, [("people.name", "blank"), ("people", "value")]),
        ({"people": [{"name": "A"}] * 5}, [("people", "many")]),
        ({"people": {"name": "A" * 30, "age": "31 "}}, None),
    ],
)
def test_what_is_usable_is_used_and_each_problem_is_named(
    change: dict[str, Any], problems: list[tuple[str, str]] | None
) -> None:
    read = reading.read(json.dumps(_VALID | change), Answer, choices=_NUMBERS)
    assert isinstance(read.value, Answer)
    assert read.value.answer == "It ends. [1]"
    if problems is not None:
        assert [(problem.field, problem.what) for problem in read.problems] == problems
    else:
        assert read.value.people == [Person(name="A" * 20, age=31)]


@pytest.mark.parametrize(
    ("word", "urgent"), [("yes", True), ("ja", True), ("Ano", True), ("nein", False), ("ne", False)]
)
def test_yes_and_no_are_read_in_the_languages_of_the_prompts(word: str, urgent: bool) -> None:
    assert reading.read(json.dumps(_VALID | {"isUrgent": word}), Answer, choices=_NUMBERS).value.is_urgent is urgent


_JSON = json.dumps(_VALID)


@pytest.mark.parametrize(
    "text",
    [
        f'<think>I write {{\'answer\'}} or {{"answer": "no"}}.</think>\n{_JSON}',
        f"Sure! Here it is:\n```json\n{_JSON}\n```\nAnything else?",
        json.dumps({"result": _VALID}),
        f"<|channel|>analysis<|message|>hm {{}} <|end|><|channel|>final<|message|>{_JSON}",
        _JSON[:-1] + ', "people": [{"name": "A',
        _JSON[:-1] + ', "isUrgent": ' + "true" * 30,
        json.dumps([_VALID]),
    ],
)
def test_json_is_found_in_a_text(text: str) -> None:
    read = reading.read(text, Answer)
    assert isinstance(read.value, Answer)
    assert read.value.answer == "It ends. [1]"
    assert read.problems


@pytest.mark.parametrize("inputs", ['"{}"', "7", "[]"])
def test_an_object_in_another_form_is_a_problem(inputs: str) -> None:
    read = reading.read(f'{{"reasoning": "r", "tool": "t", "inputs": {inputs}}}', Loose)
    assert "inputs" in {problem.field for problem in read.problems}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I do not know.",
        "{}",
        "{" * 9000,
        '{"a":' * 9000,
        '{"citations": [1]}',
        '{"answer": {"x": 1}}',
        '{"answer": "It en',
    ],
)
def test_an_answer_of_which_nothing_can_be_used_is_refused(text: str) -> None:
    with pytest.raises(reading.Unusable):
        reading.read(text, Answer)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys([*schema.whole(Answer)["properties"], "questions"], _VALUES)))
def test_whatever_comes_is_valid_or_refused(answer: dict[str, Any]) -> None:
    try:
        read = reading.read(json.dumps(answer), Answer, Questions, choices=_NUMBERS)
    except reading.Unusable:
        return
    kind = type(read.value)
    assert kind.model_validate(read.value.model_dump(by_alias=True)) == read.value
    assert set(getattr(read.value, "citations", ())) <= {1, 2, 3}


@given(st.text(max_size=3).filter(bool), st.integers(1, 40))
def test_loops_end_and_texts_do_not(part: str, length: int) -> None:
    watch = endless.Watch()
    assert any(watch.repeats(part) for _ in range(2 * endless.WINDOW + endless.BLANKS))
    watch = endless.Watch()
    assert not any(watch.repeats(f"{number * length} words, ") for number in range(2000))


@pytest.mark.parametrize(
    "text",
    [
        *("[" + ", ".join(["0"] * 600) + "]", "2024-01-01,0.0,0.0,0.0\n" * 70, "| 是 | 否 | 是 | 否 |\n" * 140),
        *("| 2024 | 0 | 0 | 0 | none | open | unchanged |\n" * 40, ("_" * 80 + "\n") * 25, "00 " * 600),
        "ERROR connection refused to db:5432\n" * 50,
    ],
    ids=["zeros", "csv", "Chinese", "table", "form", "dump", "log"],
)
def test_what_repeats_itself_for_less_than_the_window_is_no_loop(text: str) -> None:
    quoted = json.dumps({"answer": text + '[{"name": "x"}, ' * 40})
    for watch, whole in ((endless.Watch(), text), (endless.Watch(lists=True), quoted)):
        assert not any(watch.repeats(whole[at : at + 4]) for at in range(0, len(whole), 4))


_ITEM = '"name": "Museum",\n  "description": "Das Projekt wird von Hallmann bezahlt.",\n  "type": "related_2018.3"\n}'


@pytest.mark.parametrize("padding", ["", "Es begann im Mai. " * 16])
@pytest.mark.parametrize("between", [", {\n    ", ",{", ", { \n"])
def test_the_same_object_again_and_again_is_a_loop_of_an_answer_of_a_shape(between: str, padding: str) -> None:
    """SmolLM2 wrote it until its bound."""
    item = between + _ITEM.replace("Das", f"{padding}Das")
    bound = next(chars for chars in endless.OBJECTS if len(item) <= chars // 3)
    watch = endless.Watch(lists=True)
    begun = '{\n  "entities": [\n    {\n      "name": "Hallmann", "description": "", "type": "company"}'
    assert not watch.repeats(begun)
    written = [watch.repeats(item) for _ in range(40)]
    assert written.index(True) * len(item) <= bound + bound // 3
    others = (f'{between}"name": "{number}", "type": "x"}}' for number in range(1000))
    assert not any(map(endless.Watch(lists=True).repeats, others))


def test_a_list_has_the_bound_that_is_known_of_it_and_then_its_grammar_ends_it() -> None:
    listed = schema.wire(Crowd)
    assert "maxItems" not in listed["properties"]["people"]
    assert not schema.ends(listed)
    for most, sent in ((3, 3), (schema.LONGEST_LIST, schema.LONGEST_LIST), (schema.LONGEST_LIST + 1, None)):
        bounded = schema.wire(Crowd, most={"people": most, "others": 1})
        assert bounded["properties"]["people"].get("maxItems") == sent
        assert schema.ends(bounded) == (sent is not None)
    assert schema.wire(Answer, most={"people": 9})["properties"]["people"]["maxItems"] == 3
    assert not schema.ends(schema.either(listed, schema.wire(Crowd, most={"people": 3})))


@pytest.mark.parametrize(
    "part",
    [
        "Mr. Hallmann pays for the project, and the project is paid by Mr. Hallmann. ",
        "2031-12-29, ",
        "プロジェクトはハルマンが払っています。",
        "".join(
            f"{number}. Step {number} of the plan is done by the team of the plant in Graz.\n" for number in range(8)
        ),
    ],
    ids=["sentence", "date", "Japanese", "list"],
)
@pytest.mark.parametrize("lists", [False, True])
def test_a_text_that_goes_on_repeating_itself_ends_at_the_window(part: str, lists: bool) -> None:
    """Behind what is no loop, and in pieces that are none of its parts."""
    begun = '{"answer": "' + " ".join(f"word{number}" for number in range(500))
    written = begun + part * (2 * endless.WINDOW // len(part))
    watch = endless.Watch(lists=lists)
    ended = next(at for at in range(0, len(written), 5) if watch.repeats(written[at : at + 5]))
    assert len(begun) + endless.WINDOW - len(part) <= ended <= len(begun) + endless.WINDOW + 2 * len(part) + 200
    assert watch.loops


def test_blanks_end_before_they_hold_up_a_gpu() -> None:
    watch = endless.Watch()
    assert not watch.repeats('{\n  "steps": [')
    pieces = [watch.repeats("\n") for _ in range(endless.BLANKS + 1)]
    assert pieces.index(True) == endless.BLANKS


class _Model:
    """It gives the replies in order, or raises them; `tries` are what it was asked."""

    def __init__(self, *replies: calls.Reply | str | Exception) -> None:
        self.replies, self.tries = iter(replies), list[asking.Try]()

    async def __call__(self, each: asking.Try) -> calls.Reply:
        self.tries.append(each)
        reply = next(self.replies)
        if isinstance(reply, Exception):
            raise reply
        return calls.Reply(reply) if isinstance(reply, str) else reply


_QUESTION = [{"role": "user", "content": "q"}]


async def test_each_try_differs_and_the_last_is_a_smaller_question() -> None:
    model, refused = _Model("nothing", '{"answer": ""}', _JSON), list[str]()

    def judge(answer: Answer) -> str:
        if not answer.answer:
            raise reading.Unusable("answer: is empty")
        return answer.answer

    big = [{"role": "system", "content": "s"}, {"role": "user", "content": "big"}]
    asked = await asking.ask(
        model, big, [Answer], judge, smaller=lambda: [{"role": "user", "content": "small"}], refused=refused.append
    )
    assert (asked.value, asked.tries, asked.problems) == ("It ends. [1]", 3, ())
    assert len({each.temperature for each in model.tries}) == 3
    assert model.tries[0].messages[0]["content"].startswith("s\nAnswer with one JSON object")
    assert [message["role"] for message in model.tries[1].messages] == ["system", "user", "assistant", "user"]
    assert [message["content"] for message in model.tries[2].messages][-1] == "small"
    assert refused[1] == "answer: is empty"


async def test_what_came_to_no_end_is_not_shown_to_the_model_again() -> None:
    """SmolLM2 wrote the same three thousand characters three times."""
    cut, endless_one = calls.Reply("on " * 900, cut=True), calls.Reply("so on " * 900, cut=True, endless=True)
    model = _Model("no JSON " * 900, cut, endless_one, _JSON)
    asked = await asking.ask(model, _QUESTION, [Answer], lambda answer: answer.answer, attempts=4)
    assert asked.tries == 4
    shown = [len(each.messages[-2]["content"]) for each in model.tries[1:]]
    assert shown[0] > 3000
    assert max(shown[1:]) <= 200
    assert "cut off" in model.tries[2].messages[-1]["content"]
    assert "repeats itself" in model.tries[3].messages[-1]["content"]


async def test_what_is_too_long_for_the_window_is_asked_in_short_at_once() -> None:
    long, short = ([{"role": "user", "content": content}] for content in ("long", "short"))
    too_long = calls.TooLong("the prompt is longer than the window")
    model = _Model(too_long, _JSON)
    asked = await asking.ask(model, long, [Answer], lambda answer: answer, smaller=lambda: short)
    assert (asked.value.answer, asked.tries, len(model.tries)) == ("It ends. [1]", 1, 2)
    assert (model.tries[1].messages[-1]["content"], model.tries[1].temperature) == ("short", None)
    with pytest.raises(calls.TooLong):
        await asking.ask(_Model(too_long), long, [Answer], lambda answer: answer)
    with pytest.raises(calls.TooLong):
        await asking.ask(_Model(too_long, too_long), long, [Answer], lambda answer: answer, smaller=lambda: long)


async def test_an_answer_that_is_not_whole_is_taken_where_no_other_can_be_made() -> None:
    begun = calls.Reply('{"confidence": "high", "answer": "It ends.", "mood": "ca', cut=True)
    for refusal in (calls.TooLong("too long"), errors.Permanent("the budget is used up")):
        asked = await asking.ask(_Model(begun, refusal), _QUESTION, [Answer], lambda answer: answer.answer)
        assert (asked.value, asked.cut, asked.tries) == ("It ends.", True, 1)
    # A busy router is asked again later, and a wrong model or token is set right.
    for later in (calls.Unavailable("busy"), calls.UnknownModel("no such model"), calls.Unauthorized("no token")):
        with pytest.raises(type(later)):
            await asking.ask(_Model(begun, later), _QUESTION, [Answer], lambda answer: answer)


async def test_an_answer_that_makes_the_messages_too_long_is_not_shown() -> None:
    model = _Model("no JSON", calls.TooLong("too long"), _JSON)
    asked = await asking.ask(model, _QUESTION, [Answer], lambda answer: answer.answer)
    assert (asked.value, asked.tries) == ("It ends. [1]", 2)
    assert [len(each.messages) > 2 for each in model.tries] == [False, True, False]
    assert model.tries[2].messages == model.tries[0].messages
    assert model.tries[2].temperature != model.tries[0].temperature


async def test_a_cut_answer_says_so_and_after_all_tries_nothing_is_left() -> None:
    model = _Model(*[calls.Reply('{"answer": "It', answer_tokens=7, cut=True)] * asking.ATTEMPTS)
    with pytest.raises(reading.Unusable, match="cut off after 7 tokens"):
        await asking.ask(model, _QUESTION, [Answer], lambda answer: answer)


def test_a_model_without_tools_chooses_by_format() -> None:
    tool = {"type": "function", "function": {"name": "search", "description": "Find.", "parameters": {
        "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}}  # fmt: skip
    history = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "search", "arguments": {"query": "a"}}}],
        },
        {"role": "tool", "tool_name": "search", "content": "found"},
    ]
    body = choosing.instead({"model": "m", "messages": history}, [tool])
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["format"]["anyOf"][0]["properties"]["name"] == {"type": "string", "enum": ["search"]}
    call = choosing.called(calls.Reply('{"name": "search", "arguments": {"query": "b"}}'), [tool])
    assert (call.text, call.calls) == ("", (choosing.ToolCall("search", {"query": "b"}),))
    assert choosing.called(calls.Reply('{"answer": "done"}'), [tool]).text == "done"
    assert choosing.called(calls.Reply('{"name": "rm", "arguments": {}}'), [tool]).calls == ()
