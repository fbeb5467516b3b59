"""RFC 7396, and the way back: what a patch makes of a document, and the patch between two."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers import mergepatch

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
keys = st.sampled_from("abcd")
patches = st.recursive(
    st.dictionaries(keys, leaves, max_size=4), lambda inner: st.dictionaries(keys, leaves | inner, max_size=4)
)
whole = patches.map(lambda patch: mergepatch.merged({}, patch))


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"e": 1}, {"a": [1]}, {"e": 1, "a": [1]}),
    ],
)
def test_the_examples_of_the_rfc(document: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert mergepatch.merged(document, patch) == result


@given(whole, whole)
def test_the_difference_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = mergepatch.difference(old, new)
    assert mergepatch.merged(old, patch) == new
    assert (patch == {}) is (old == new)


@given(whole, patches)
def test_nothing_is_changed_in_place(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = mergepatch.merged({}, document)
    mergepatch.merged(document, patch)
    assert document == before
