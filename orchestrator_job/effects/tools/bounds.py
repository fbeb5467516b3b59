"""What bounds the answers of all tools, and the answer of a call that failed."""

from __future__ import annotations

from crds import errors
from orchestrator_job.effects.tools import port

MOST_CHARS = 16_000
"""Of one answer: about 4,000 tokens."""
_MARGIN = 200
"""Characters of a part for the line that says where it goes on."""


def cut(text: str, most: int = MOST_CHARS, rest: str = "Ask for less, or for a part.") -> str:
    """The text, or its beginning with a last line that says so."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[{len(text) - most} more characters are left out. {rest}]"


def part(text: str, start: int, most: int) -> port.Result:
    """What begins at `start`, within `most` characters and with where it goes on; together the parts are the text."""
    end = start + max(1, most - _MARGIN)
    found = text[start:end]
    if not found:
        return failed(f"It has only {len(text)} characters.")
    more = f"go on with start={end}" if end < len(text) else "this is its end"
    return port.Result(f"{found}\n[Characters {start} to {min(end, len(text))} of {len(text)}; {more}.]")


def failed(problem: object) -> port.Result:
    """A call that did not work. Of an error of ours, its remedy as well."""
    if isinstance(problem, errors.JervisError):
        return port.Result(spoken(problem), failed=True)
    return port.Result(str(problem), failed=True)


def spoken(error: errors.JervisError) -> str:
    """The message as a sentence, then the remedy where there is one."""
    remedy = getattr(error, "remedy", None)
    return f"{error.message.rstrip('.')}. {remedy}" if remedy else error.message
