"""JSON that is bounded while it arrives: the same text where it is small, and a text still where it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients import json_bounds
from tests import thorough

TEXT = st.text(st.characters() | st.sampled_from('"\\\r\n{}[],: '), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT | st.just("data"), inner, max_size=5),
    max_leaves=20,
)


def fed(body: bytes, *, step: int = 1 << 13, events: bool = False) -> bytes:
    bounded = json_bounds.Bounded(events=events)
    return b"".join(bounded.feed(body[at : at + step]) for at in range(0, len(body), step))


@given(VALUES, st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=thorough.examples(200), deadline=None)
def test_what_is_small_is_passed_on_as_it_is(value: Any, step: int, escaped: bool, indent: Any, events: bool) -> None:
    body = json.dumps(value, ensure_ascii=escaped, indent=indent).encode(errors="replace")
    assert fed(body, step=step, events=events) == body
    assert json_bounds.loads(body) == json.loads(body)


@given(
    st.lists(st.text(st.sampled_from('a"\\\u00e9\U0001f600\x00 '), min_size=1, max_size=9), min_size=1, max_size=4),
    st.integers(5_000, 1 << 13),
    st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_a_long_string_is_cut_between_two_characters(parts: list[str], step: int, escaped: bool) -> None:
    longs = [part * (json_bounds.MOST_STRING // len(part) + 1) for part in parts]
    body = json.dumps([*longs, "last"], ensure_ascii=escaped).encode()
    *cut, last = json_bounds.loads(fed(body, step=step))
    assert last == "last"
    for long, short in zip(longs, cut, strict=True):
        assert 0 < len(short) < len(long)
        assert long.startswith(short.rstrip("\ufffd?"))


def test_pictures_leave_room_for_texts() -> None:
    picture = {"data": "A" * 2_000_000, "blob": "_-9=" * 400, "text": "A" * 2_000}
    value = json_bounds.loads(fed(json.dumps([picture] * 20 + [{"data": "a b" * 1_000}]).encode()))
    assert {name: len(part) for name, part in value[0].items()} == {"data": 1024, "blob": 1024, "text": 2000}
    assert value[-1] == {"data": "a b" * 1_000}, "it is no base64"


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("ending", [b"", b"\n\n"])
@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 60_000 + b"[]]",
        b"[" + b'"",' * 60_000 + b'""]',
        b"[" * 101 + b"]" * 101,
        b"{" * 4_000 + b"}" * 4_000,
        b"[" + b"1" * (2 << 20) + b"]",
        b" " * (2 << 20),
        b"[" + b",".join([b'"' + b"x" * 190_000 + b'"'] * 6) + b"]",
        b'["' + b"A" * (65 << 20) + b'"]',
    ],
    ids=["lists", "texts", "deep", "deeper", "number", "blanks", "strings", "long"],
)
def test_what_would_cost_too_much_is_refused(body: bytes, ending: bytes, events: bool) -> None:
    with pytest.raises(json_bounds.TooLarge):
        fed(body + ending, events=events)


def test_each_event_has_the_bounds_of_a_body() -> None:
    event = b"data: [" + b"[]," * 10_000 + b'"' + b"x" * 150_000 + b'"]'
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        body = (event + end) * 10
        for step in (1_001, 8_192):
            assert fed(body, step=step, events=True)
    with pytest.raises(json_bounds.TooLarge):
        fed((event + b"\n") * 10, events=True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'"a\\ud83d"', "a?"),
        (b'{"\\udc00": ["\\ud83d\\ude00"]}', {"?": ["\U0001f600"]}),
        (b'"\xff"', "\ufffd"),
        (b"[NaN, -Infinity]", [None, None]),
    ],
)
def test_what_is_read_is_text_that_utf_8_can_have(body: bytes, expected: Any) -> None:
    assert json_bounds.loads(body) == expected


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 5_000 + b"]" * 5_000, b"1" * 5_000])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        json_bounds.loads(body)
