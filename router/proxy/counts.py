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
_PROMPT_NAMES = (b'"prompt_eval_count"', b'"prompt_tokens"', b'"input_tokens"')
_ANSWER_NAMES = (b'"eval_count"', b'"completion_tokens"', b'"output_tokens"')
_PROMPT, _ANSWER = (
    re.compile(rb"(?:%s):\s*(\d{1,9})\b" % b"|".join(names)) for names in (_PROMPT_NAMES, _ANSWER_NAMES)
)
_LOAD = re.compile(rb'"load_duration":\s*(\d{1,18})\b')


class Counts(NamedTuple):
    """Tokens of the prompt and of the answer, None where nothing is stated."""

    prompt: int | None
    answer: int | None


def read(end: bytes) -> Counts:
    """From the last bytes of an answer."""
    if b'_count"' not in end and b'_tokens"' not in end:
        return NOTHING
    return Counts(_last(_PROMPT, _PROMPT_NAMES, end), _last(_ANSWER, _ANSWER_NAMES, end))


def load_seconds(end: bytes) -> float | None:
    """How long Ollama loaded the model before this answer; None where it does not say."""
    nanoseconds = _number(_LOAD, end)
    return None if nanoseconds is None else nanoseconds / 1e9


NOTHING = Counts(None, None)


def _last(pattern: re.Pattern[bytes], names: tuple[bytes, bytes, bytes], end: bytes) -> int | None:
    """As `_number`, which tries every place: a search for the names alone takes a tenth of the time."""
    first, second, third = names
    at = max(end.rfind(first), end.rfind(second), end.rfind(third))
    if at < 0:
        return None
    found = pattern.match(end, at)
    return _number(pattern, end) if found is None else int(found[1])


def _number(pattern: re.Pattern[bytes], end: bytes) -> int | None:
    found = pattern.findall(end)
    return int(found[-1]) if found else None
