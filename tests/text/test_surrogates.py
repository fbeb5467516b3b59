"""Halves of surrogate pairs leave a text and a value of JSON, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from text import surrogates

_TEXTS = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"])))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner),
    max_leaves=8,
)


@given(_VALUES)
def test_what_is_left_is_utf8_and_has_the_same_form(value: Any) -> None:
    cleaned = surrogates.cleaned(value)
    json.dumps(cleaned, ensure_ascii=False).encode()
    assert surrogates.cleaned(cleaned) == cleaned


def test_whole_characters_stay_and_halves_are_marked() -> None:
    assert surrogates.cleaned({"a\ud83d": ["\U0001f600", 1, None]}) == {"a\ufffd": ["\U0001f600", 1, None]}
    text = "plain" * 3
    assert surrogates.clean(text) is text
