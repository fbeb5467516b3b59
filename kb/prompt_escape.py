"""What texts of others pass before they stand in a prompt or an answer to an agent.

A document stands between <document> and </document> and is data. It must not be able to write either tag, in any
spelling that a model may read as one, nor the tokens by which servers of models separate the turns of a conversation:
those are read as such wherever they stand in a prompt. A blank is put into them, so that a reader still sees the words.
"""

from __future__ import annotations

import re

_UNSEEN = "[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
_TAG = re.compile(
    rf"<(?=[\s/\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*{_UNSEEN.join('document')}(?![\w.]))", re.IGNORECASE
)
_THREAD = re.compile(
    rf"<(?=[\s/\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*{_UNSEEN.join('thread')}(?![\w.]))", re.IGNORECASE
)
_CONTROL = re.compile(
    r"<(?=\|\w+\|>)|<(?=\uff5c)|<(?=<?/?SYS>>)|<(?=/?s>)|<(?=(?:start|end)_of_turn>)|<(?=[be]os>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])"
    r"|<(?=/?(?:think|tool_call|tool_response)>)",
    re.IGNORECASE,
)


def text(said: str) -> str:
    """`said` without the tags and tokens of a prompt; other texts stay as they are."""
    return _CONTROL.sub(lambda found: f"{found[0]} ", _TAG.sub("< ", said))


def line(said: str) -> str:
    """The same on one line."""
    return text(" ".join(said.split()))


def thread(said: str) -> str:
    """What was said before `document`, between tags of its own."""
    return f"<thread>\n{unthreaded(text(said))}\n</thread>"


def unthreaded(said: str) -> str:
    """`said` without those tags."""
    return _THREAD.sub("< ", said)


def document(said: str) -> str:
    """`said` between the tags."""
    return f"<document>\n{text(said)}\n</document>"
