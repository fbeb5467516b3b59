"""The tokens that the end of an answer states: Ollama's names, then OpenAI's and Anthropic's. Pure.

Only the last bytes are looked at, so no piece of a stream is parsed. Text of the model cannot be taken for a count: in
JSON the quotes of a string are escaped. Arguments of a tool call can have such names; they stand before the counts, so
the last of each name is the one that counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST = 512
"""Bytes at the end of an answer in which the counts stand."""
_PROMPT = re.compile(rb'"(?:prompt_eval_count|prompt_tokens|input_tokens)":\s*(\d{1,9})\b')
_ANSWER = re.compile(rb'"(?:eval_count|completion_tokens|output_tokens)":\s*(\d{1,9})\b')
_LOAD = re.compile(rb'"load_duration":\s*(\d{1,18})\b')


class Counts(NamedTuple):
    """Tokens of the prompt and of the answer, None where nothing is stated."""

    prompt: int | None
    answer: int | None


def read(end: bytes) -> Counts:
    """From the last bytes of an answer."""
    if b'_count"' not in end and b'_tokens"' not in end:
        return NOTHING
    return Counts(_number(_PROMPT, end), _number(_ANSWER, end))


def load_seconds(end: bytes) -> float | None:
    """How long Ollama loaded the model before this answer; None where it does not say."""
    nanoseconds = _number(_LOAD, end)
    return None if nanoseconds is None else nanoseconds / 1e9


NOTHING = Counts(None, None)


def _number(pattern: re.Pattern[bytes], end: bytes) -> int | None:
    found = pattern.findall(end)
    return int(found[-1]) if found else None
