"""Termination messages as an attacker, a bug or a crash would leave them (hypothesis strategies)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from crds.exit_reasons import ExitReason

texts = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(codec=None), max_size=8),  # halves of surrogate pairs too
    st.sampled_from(["", " ", "\0", "\ud800", "x" * 254, "é" * 5000, "a/b", "../x", "$where", "n" * 64]),
)
numbers = st.one_of(
    st.integers(-5, 10**30),
    st.floats(),
    st.booleans(),
    st.sampled_from([float("inf"), float("-inf"), float("nan"), 1e308]),
)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
questions = st.lists(
    anything | texts | st.fixed_dictionaries({"id": anything | texts, "text": anything | texts}), max_size=20
)
effects = anything | st.fixed_dictionaries(
    {"id": texts | anything, "tool": texts | anything},
    optional={
        "arguments": st.dictionaries(texts, anything, max_size=4) | anything,
        "targets": st.lists(texts, max_size=4) | anything,
        "copies": st.lists(st.fixed_dictionaries({"text": texts | anything}), max_size=3) | anything,
        "shown": texts | anything,
        "why": texts,
        "detailsRef": texts | anything,
    },
)
objects = st.fixed_dictionaries(
    {"exitReason": st.sampled_from([*ExitReason]).map(str) | anything},
    optional={
        "summary": texts | anything,
        "ref": anything | st.fixed_dictionaries({}, optional={"collection": texts | anything, "key": texts | anything}),
        "questions": questions | anything,
        "waiting": anything | st.integers() | st.lists(effects, max_size=5),
        "unavailable": texts | anything,
        "retryAfterSeconds": numbers | anything,
        "field": texts | anything,
        "remedy": texts | anything,
    },
)
messages = st.one_of(
    objects.map(json.dumps),
    st.text(max_size=30),
    st.sampled_from(["[" * 4096, '{"a":' * 4096, '{"exitReason":"Error","summary":' + "[" * 900 + "]" * 900 + "}"]),
    st.just('{"exitReason":"Answered","summary":"' + "x" * 20_000 + '"}'),
)
"""What a container may leave as its termination message."""
