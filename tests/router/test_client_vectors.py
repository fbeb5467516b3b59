"""Answers about embedding models, as servers of either API write them."""

from __future__ import annotations

from typing import Any

import pytest

from router.backends import verdict
from router.client import vectors


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}], [[1.0], [2.0]]),
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}], [[2.0]]),
        ([{"index": 0, "embedding": "AACAPw=="}], []),
        ([{"embedding": [1.0]}, 5], []),
        (None, []),
        ("no", []),
    ],
)
def test_vectors_come_by_their_index_and_one_that_is_missing_is_missing(data: Any, expected: list[list[float]]) -> None:
    assert vectors.listed({"data": data}) == expected


@pytest.mark.parametrize(
    ("reason", "failed"),
    [
        ('do embedding request: Post "http://127.0.0.1:1/embedding": EOF', True),
        ("llama runner process no longer running: -1", True),
        ("connection refused", True),
        ("the input length exceeds the context length", False),
        ("invalid input type", False),
        ("option: connection refused", False),
    ],
)
def test_a_runner_that_was_not_there_says_nothing_of_the_texts(reason: str, failed: bool) -> None:
    assert verdict.runner_failed(reason) is failed


@pytest.mark.parametrize(
    ("about", "parameters", "expected"),
    [
        ({"general.architecture": "bert", "bert.context_length": 512}, "", 512),
        ({"general.architecture": "bert", "bert.context_length": 512}, "num_ctx                        256", 256),
        ({"general.architecture": "qwen3", "qwen3.context_length": 40960}, 'stop "a"\nnum_ctx 8192\n', 8192),
        ({"general.architecture": "bert", "bert.context_length": True}, "num_ctx many", None),
        ({}, None, None),
        (None, 7, None),
    ],
)
def test_the_window_is_the_smaller_of_context_and_num_ctx(about: Any, parameters: Any, expected: int | None) -> None:
    assert vectors.shown_window({"model_info": about, "parameters": parameters}) == expected


@pytest.mark.parametrize(("size", "expected"), [(512, 512), (0, None), (-1, None), ("512", None), (None, None)])
def test_the_listed_window_is_a_count(size: Any, expected: int | None) -> None:
    assert vectors.listed_window({"max_model_len": size}) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("input (812 tokens) is too large to process. increase the physical batch size", True),
        ("Input validation error: `inputs` must have less than 512 tokens. Given: 812", True),
        ("the model runner has unexpectedly stopped", False),
    ],
)
def test_a_text_that_is_too_long_is_known_by_its_words(message: str, expected: bool) -> None:
    assert vectors.too_long(message) is expected
