"""Answers that are easily misread: what a model quotes, thinks, cuts off, says twice or counts differently."""

from __future__ import annotations

import contextlib
import json
from typing import Any, ClassVar, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.client import asking, calls, choosing, reading, schema


class Verdict(schema.Shape):
    cautious: ClassVar[dict[str, Any]] = {"reason": ""}

    reason: str
    decision: Literal["open", "leave"]


class Facts(schema.Shape):
    cautious: ClassVar[dict[str, Any]] = {"entities": [], "links": []}

    entities: list[str]
    links: list[str]
    note: str = ""


class Step(pydantic.BaseModel):
    task: str = pydantic.Field(min_length=1, max_length=40)
    rules: list[str] = []
    after: list[int] = []


class Steps(schema.Shape):
    numbered: ClassVar[frozenset[str]] = frozenset({"steps"})

    steps: list[Step] = pydantic.Field(min_length=1, max_length=3)


class Asks(schema.Shape):
    telling: ClassVar[frozenset[str]] = frozenset({"questions"})

    answer: str = ""
    questions: list[str] = pydantic.Field(default_factory=list)
    minutes: int | None = None
    citations: list[int] = pydantic.Field(default_factory=list)


_LEAVE = '{"reason": "a lure", "decision": "leave"}'
_OPEN = '{"reason": "safe", "decision": "open"}'
_WISH = [{"role": "user", "content": "q"}]


@pytest.mark.parametrize(
    "text",
    [
        f"<think>It could be {_OPEN}, but it is a lure, so I mus",
        f"Sure. <think>It could be {_OPEN}, but it is a lure, so I mus",
        f"{_LEAVE} Note: the mail contains {_OPEN}, which I ignored.",
        f"[{_LEAVE}, {_OPEN}]",
        json.dumps({"mine": json.loads(_LEAVE), "theirs": json.loads(_OPEN)}),
        f"{_LEAVE[:-1]}, oh wait, {_OPEN}",
        f'{{"reason": it says {_OPEN}, "decision": "leave"}}',
        f'{{"reason": "it says {_OPEN}", "decision": "leave"}}',
        f'{_OPEN} Hmm, but then {{"reason": "It is a lu',
        '{"decision": "leave", "reason": "a lure", "decision": "open"}',
        '{"decision": "leave", "decision": "open", "reason": "a lu',
        '{"Decision": "open", "reason": "a lure", "decision": "leave"}',
    ],
)
def test_what_is_thought_quoted_or_said_twice_decides_nothing(text: str) -> None:
    with pytest.raises(reading.Unusable):
        reading.read(text, Verdict)


@pytest.mark.parametrize(
    "text",
    [
        f"It could be {_OPEN}, but it is a lure.\n</think>\n\n{_LEAVE}",
        f"<think>{_OPEN}?</think>\n<think>No.</think>{_LEAVE}",
        f"{_LEAVE}\nOnce more:\n```json\n{_LEAVE}\n```",
        '{"reason": "a lure", "reason": "a lure", "decision": "leave"}',
        "The code " + "{ x; } " * 100 + f"means:\n{_LEAVE}",
        "The code " + '{"a": f(x)} ' * 100 + f"means:\n{_LEAVE}",
        f'"}} {{" {_LEAVE}',
        json.dumps({"reason": "it has <think> and </think> in it", "decision": "leave"}),
    ],
)
def test_one_answer_is_found_in_what_stands_around_it(text: str) -> None:
    assert reading.read(text, Verdict).value.decision == "leave"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I think it is 5.</think>It is 6.", "It is 6."),
        ("<think>I think it is 5.", ""),
        ("<think>a</think>\n<think>b</think>c", "c"),
        ("The tags <think> and </think> mark thoughts.", "The tags <think> and </think> mark thoughts."),
        ("A line of it is `</think>`.", "A line of it is `</think>`."),
    ],
)
def test_words_without_thoughts(text: str, words: str) -> None:
    assert reading.plain(text) == words


def _cut(text: str, shape: type[schema.Shape]) -> Any:
    read = reading.read(text, shape)
    assert read.unfinished
    return read.value


@pytest.mark.parametrize(
    "text", ['{"entities": [', '{"entities": [' + "\n" * 50, '{"links": {"a": {"b": 1}}}', '{"note": ""}', "{"]
)
def test_an_answer_is_not_made_of_what_nobody_said(text: str) -> None:
    with pytest.raises(reading.Unusable):
        reading.read(text, Facts)


def test_what_stands_before_the_cut_is_read() -> None:
    assert _cut('{"entities": ["Anna", "Be', Facts).entities == ["Anna"]
    assert _cut('{"entities": ["Anna"], "links": [], "note": "a\\', Facts).entities == ["Anna"]
    assert _cut('{"entities": [],\n"links": [\n', Facts) == Facts(entities=[], links=[])
    assert reading.read('{"entities": []}', Facts).value == Facts(entities=[], links=[])


@pytest.mark.parametrize(
    ("text", "citations", "minutes"),
    [
        ('{"answer": "a", "citations": [1, 1', [1], None),
        ('{"answer": "a", "citations": [1, 1, ', [1, 1], None),
        ('{"answer": "a", "minutes": 1', [], None),
        ('{"answer": "a", "minutes": 12x', [], None),
        ('{"answer": "a", "minutes": 12, "citations": [', [], 12),
    ],
)
def test_a_number_at_the_cut_may_go_on(text: str, citations: list[int], minutes: int | None) -> None:
    read = _cut(text, Asks)
    assert (read.citations, read.minutes) == (citations, minutes)


async def test_a_cut_answer_is_taken_where_no_whole_one_comes() -> None:
    texts = ['{"entities": ["Anna", "Be', '{"entities": ["Anna", "Bela"], "links": []}']
    sent = iter([calls.Reply(text, cut=not text.endswith("}")) for text in texts])

    async def send(each: asking.Try) -> calls.Reply:
        return next(sent)

    asked = await asking.ask(send, _WISH, [Facts], lambda facts: facts)
    assert (asked.value.entities, asked.tries, asked.cut) == (["Anna", "Bela"], 2, False)
    sent = iter([calls.Reply(texts[0], cut=True), calls.Reply(texts[0], cut=True), calls.Reply("{", cut=True)])
    asked = await asking.ask(send, _WISH, [Facts], lambda facts: facts)
    assert (asked.value.entities, asked.tries, asked.cut) == (["Anna"], 3, True)


async def test_a_model_that_repeats_itself_is_told_so() -> None:
    complaints: list[str] = []

    async def send(each: asking.Try) -> calls.Reply:
        return calls.Reply('{"entities": [', cut=True, endless=True, answer_tokens=600)

    with pytest.raises(reading.Unusable, match="repeats itself"):
        await asking.ask(send, _WISH, [Facts], lambda facts: facts, refused=complaints.append)
    assert len(complaints) == asking.ATTEMPTS


@pytest.mark.parametrize(
    "questions",
    [[{"question": "Which?"}], {"q1": "Which?"}, [["Which?", {"a": 1}]], [None], 'cut: ["Which of the', "cut:"],
)
def test_a_question_is_not_lost(questions: Any) -> None:
    text = json.dumps({"answer": "There are two.", "questions": questions})
    if isinstance(questions, str):
        text = '{"answer": "There are two.", "questions":' + questions.removeprefix("cut:")
    with pytest.raises(reading.Unusable, match="questions"):
        reading.read(text, Asks)


@pytest.mark.parametrize("questions", [[], [""], None, "none", "Which?", ["Which?", None]])
def test_no_question_is_no_loss(questions: Any) -> None:
    read = reading.read(json.dumps({"answer": "There are two.", "questions": questions}), Asks)
    assert [question for question in read.value.questions if question] == (
        ["Which?"] if "Which?" in str(questions) else []
    )


@pytest.mark.parametrize(
    "change",
    [
        *({"after": after} for after in (["step 1"], "1, 2", ["Research"], [1.5], ["2.1"], {"on": 1})),
        {"rules": [{"rule": "do not write to the customer"}]},
        {"rules": {"never": "write to the customer"}},
        {"task": "Write the mail to Anna. Do not send it before Monday."},
    ],
)
def test_what_a_numbered_item_says_is_not_left_out(change: dict[str, Any]) -> None:
    with pytest.raises(reading.Unusable, match="steps"):
        reading.read(json.dumps({"steps": [{"task": "Find the sum"}, {"task": "Mail it"} | change]}), Steps)
    with pytest.raises(reading.Unusable, match="steps"):
        reading.read(json.dumps({"steps": [None, {"task": "Mail it"}]}), Steps)


@pytest.mark.parametrize(("change", "after"), [({"after": 1}, [1]), ({"after": ["#1"]}, [1]), ({"after": "none"}, [])])
def test_what_says_the_same_in_another_form_is_used(change: dict[str, Any], after: list[int]) -> None:
    read = reading.read(json.dumps({"steps": [{"task": "Find the sum"}, {"task": "Mail it"} | change]}), Steps)
    assert read.value.steps[1].after == after


def test_a_loss_is_seen_behind_many_problems() -> None:
    steps = [{"TASK": "Find"} | {"after": ["1"] * 60}, {"task": "Mail it", "after": ["step 1"]}]
    with pytest.raises(reading.Unusable, match="after"):
        reading.read(json.dumps({"steps": steps}), Steps)


@pytest.mark.parametrize(
    ("listed", "numbers"),
    [
        *(("[1, 2]", []), ("1-2", []), (["1.2"], []), (["1.0"], []), ([-1], []), (["-1"], []), ([True], [])),
        *((["1"], [1]), (["[12]"], [12]), ([3.0], [3]), ("[3]", [3])),
    ],
)
def test_numbers_are_those_that_were_said(listed: Any, numbers: list[int]) -> None:
    text = json.dumps({"answer": "a", "citations": listed})
    assert reading.read(text, Asks, choices={"citations": list(range(1, 16))}).value.citations == numbers


@pytest.mark.parametrize(
    ("said", "minutes"),
    [
        *(("2h", None), ("3d", None), ("2 hours", None), ("1.5", None), ("10/2", None)),
        *(("-30", -30), ("#5", 5), ("[5]", 5), ("60.0", 60), (60.0, 60), (" 7 ", 7)),
    ],
)
def test_a_whole_number_has_no_unit(said: Any, minutes: int | None) -> None:
    assert reading.read(json.dumps({"answer": "a", "minutes": said}), Asks).value.minutes == minutes


class Sure(schema.Shape):
    cautious: ClassVar[dict[str, Any]] = {"confidence": 0.5}

    answer: str
    confidence: schema.Share


@pytest.mark.parametrize(
    ("said", "confidence"),
    [
        *(("1e-05", 1e-5), ("0.00001", 1e-5), ('"0.00001"', 1e-5), ('"1e-5"', 1e-5), ("1e400", 0.5), ('"1e400"', 0.5)),
        *(("NaN", 0.5), ('"1 percent"', 0.01), ('"1 of 10"', 0.1), ('"1 in 10"', 0.1), ('"high uncertainty"', 0.5)),
        *(('"not high"', 0.5), ('"1 apple"', 0.5), ("[0.8]", 0.5), ('["high"]', 0.5), ('{"high": 1}', 0.5)),
        *(("95", 0.95), ("1", 1.0), ('"high"', 0.9), ('"0.8 (two sources)"', 0.8), ('"low, as it is old"', 0.3)),
    ],
)
def test_least_certain_is_not_certain(said: str, confidence: float) -> None:
    read = reading.read(f'{{"answer": "a", "confidence": {said}}}', Sure)
    assert read.value.confidence == pytest.approx(confidence, rel=1e-9)


@pytest.mark.parametrize("text", ["x \\ud83d y", "x \ud83d y"])
def test_half_a_character_goes_no_further(text: str) -> None:
    read = reading.read(f'{{"answer": "{text}", "questions": ["{text}", "b"], "citations": []}}', Asks)
    assert json.loads(read.value.model_dump_json())["questions"] == ["x \ufffd y", "b"]


@pytest.mark.parametrize(
    "text", ['{"answer": "x", "n": ' + "1" * 5000 + "}", "{" * 9000 + '{"answer": "a"', '{"answer":' * 9000]
)
@pytest.mark.parametrize("around", ["", " thanks"])
def test_no_text_is_more_than_unusable(text: str, around: str) -> None:
    with contextlib.suppress(reading.Unusable):
        assert isinstance(reading.read(text + around, Asks).value, Asks)


def test_a_text_without_end_is_refused_before_it_is_read() -> None:
    with pytest.raises(reading.Unusable, match="characters"):
        reading.read(json.dumps({"answer": "x" * reading.MOST_CHARS}), Asks)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"answer": "Yes" is what they claim, but the test says no.", "questions": ["Which?"]}', {}),
        ('{"questions": ["Which?"], "answer": "Delete "prod" only after the backup."}', {"questions": ["Which?"]}),
        ('{"questions": ["Which?"], "answer": "Use "," as separator."}', {"questions": ["Which?"]}),
        ('{"questions": ["Which?"], "answer": "x \\(y\\) z"}', {"questions": ["Which?"]}),
    ],
)
def test_half_of_a_text_is_not_the_text(text: str, kept: dict[str, Any]) -> None:
    """Quotation marks within it, and other escapes than those of JSON."""
    if not kept:
        with pytest.raises(reading.Unusable, match="answer: is no JSON"):
            reading.read(text, Asks)
        return
    read = reading.read(text, Asks)
    assert read.value == Asks(**kept)
    assert read.unfinished.startswith("answer: is no JSON")


@pytest.mark.parametrize("end", ["", "tru", "-", "\\u00", ' "so', "\n"])
def test_an_answer_that_only_ends_is_no_other_text(end: str) -> None:
    text = '{"questions": ["Which?"], "answer": ' + (f'"so {end}' if "u00" in end else end)
    read = reading.read(text, Asks)
    assert (read.value, read.unfinished) == (Asks(questions=["Which?"]), "it has no end")


def test_a_quotation_mark_that_closes_nothing_is_looked_at_once() -> None:
    """Each escaped one was taken for the beginning of a text, and its end looked for to the end of the answer."""
    marks = "".join(rf"\"w{number} " for number in range(30_000))
    tokens = list(reading._TOKEN.finditer(f'{{"answer": "{marks}'))
    assert len(tokens) == 4


@pytest.mark.parametrize("nothing", ["None", "N/A", "keine", "žádné", ""])
def test_a_question_that_is_none_is_not_asked(nothing: str) -> None:
    said = json.dumps({"answer": "On 5 May.", "questions": [nothing]})
    assert reading.read(said, Asks).value == Asks(answer="On 5 May.")


_TOOL = {"type": "function", "function": {"name": "send", "description": "d", "parameters": {}}}


@pytest.mark.parametrize(
    "text", ['{"name": ["send"]}', "[" * 100_000, '{"name": "send", "arguments": {"to": "a", "to": "b"}}']
)
def test_a_call_that_is_none_stays_text(text: str) -> None:
    reply = calls.Reply(text)
    assert choosing.called(reply, [_TOOL]) == reply


_HALF = r'{"name": "send", "arguments": {"to": "\ud83d"}}'


def test_what_no_store_takes_is_answered_and_no_word() -> None:
    refused = choosing.ToolCall("send", "half of a character is in the arguments")
    assert choosing.called(calls.Reply(_HALF), [_TOOL]).calls == (refused,)
    assert choosing.called(calls.Reply(r'{"answer": "so \ud83d"}'), [_TOOL]).text == "so \ufffd"
    message = {"tool_calls": [{"function": json.loads(_HALF)}, {"function": {"name": "send", "arguments": {}}}]}
    assert calls._calls(message) == [refused, choosing.ToolCall("send", {})]
    assert calls._count({"eval_count": 10**30}, "eval_count") == 0


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ('{"to": "a"}', {"to": "a"}),
        ("", {}),
        (" [1]", [1]),
        # What is no JSON, or says one thing twice, stays what it is; who takes the call refuses it.
        ('{"to": "a', '{"to": "a'),
        ('{"to": "a", "to": "b"}', '{"to": "a", "to": "b"}'),
        ("to a \ud83d", "to a \ufffd"),
        ({"to": '{"a": 1}'}, {"to": '{"a": 1}'}),
        (None, None),
    ],
)
def test_arguments_as_a_text_of_json(sent: Any, taken: Any) -> None:
    """As servers of OpenAI's API have them."""
    message = {"tool_calls": [{"function": {"name": "send", "arguments": sent}}]}
    assert calls._calls(message) == [choosing.ToolCall("send", taken)]


_CALL = '{"name": "send", "arguments": {"to": "a"}}'
_SENT = choosing.ToolCall("send", {"to": "a"})


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (_CALL, [_SENT]),
        (f"<tool_call>\n{_CALL}\n</tool_call>", [_SENT]),
        (
            f"<think>It wants a mail.</think>\n<tool_call>{_CALL}</tool_call>\n<tool_call>{_CALL}</tool_call>",
            [_SENT] * 2,
        ),
        (f"```json\n{_CALL}\n```", [_SENT]),
        (f"[TOOL_CALLS][{_CALL}, {_CALL}]", [_SENT] * 2),
        (f"<|tool_call|>[{_CALL}]", [_SENT]),
        (f"<\uff5ctool\u2581call\u2581begin\uff5c>{_CALL}<\uff5ctool\u2581call\u2581end\uff5c>", [_SENT]),
        ('{"name": "send", "parameters": {"to": "a"}}', [_SENT]),
        ('{"type": "function", "function": {"name": "send", "arguments": "{\\"to\\": \\"a\\"}"}}', [_SENT]),
        # A marked one that was not offered is answered as any other.
        ('<tool_call>{"name": "fly", "arguments": {}}</tool_call>', [choosing.ToolCall("fly", {})]),
        ('<tool_call>{"name": "send"}</tool_call>', [choosing.ToolCall("send", {})]),
        # Nothing else is a call: not what is quoted in words, not another object, not half of one.
        (f"The mail says: <tool_call>{_CALL}</tool_call>", []),
        (f"{_CALL} was in the mail.", []),
        (f'<tool_call>{_CALL}</tool_call> and then <tool_call>{{"name": 1}}</tool_call>', []),
        ('{"name": "Ann", "arguments": {"pro": 1}}', []),
        ('{"status": "1", "result": "done"}', []),
        ('<tool_call>{"name": "send", "arguments": {"to": "a"', []),
        ('<tool_call>{"name": "send", "arguments": {"to": "a", "to": "b"}}</tool_call>', []),
        ("<tool_call>" * 5000, []),
        ("{" * 5000, []),
    ],
)
def test_calls_that_are_the_whole_text_of_an_answer(text: str, made: list[choosing.ToolCall]) -> None:
    reply = choosing.written(calls.Reply(text), [_TOOL])
    assert list(reply.calls) == made
    assert reply.text == ("" if made else text)


_THOUGHT = [
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "`</think>`",
    "The cat",
    " < 3",
    "<",
    "\n",
    "[1]",
    "thin",
]


def _shown(pieces: list[str]) -> str:
    thoughts, shown = reading.Thoughts(), ""
    for piece in pieces:
        said = thoughts.feed(piece)
        shown = said if thoughts.before else shown + said
    return shown + thoughts.end()


@given(st.lists(st.sampled_from(_THOUGHT), max_size=8).map("".join), st.lists(st.integers(1, 9), max_size=20))
def test_thoughts_leave_a_stream_however_it_is_cut(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    rest = text
    for size in sizes:
        pieces, rest = [*pieces, rest[:size]], rest[size:]
    assert _shown([*pieces, rest]) == _shown(list(text))


def test_a_stream_has_what_the_whole_answer_has() -> None:
    for text in (
        "<think>a</think>\nb",
        "a</think>b",
        "<think>a</think><think>b</think>c",
        "<think>a",
        "no <b> here",
        "x<",
    ):
        assert _shown(list(text)).strip() == reading.plain(text), text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('```json\n{"answer": "STATUS: 1\\nRESULT: yes"}\n```', "STATUS: 1\nRESULT: yes"),
        ('<think>hm</think>{"answer": "yes"}', "yes"),
        ('{"answer": "STATUS: 1\\nRESULT: the first half', "STATUS: 1\nRESULT: the first half"),
        ('{"answer": "a quotation mark \\', "a quotation mark "),
        ('{"answer": "\\u00e4 \\u00', "\u00e4 "),
        # Words alone: a call counts as it was written, or not at all.
        ('```json\n{"name": "send", "arguments": {}}\n```', None),
        ('{"name": "send", "arguments": {"to": "a', None),
    ],
)
def test_words_are_taken_out_of_what_is_around_them(text: str, words: str | None) -> None:
    reply = calls.Reply(text, cut=True)
    assert choosing.called(reply, [_TOOL]) == calls.Reply(text if words is None else words, cut=True)
