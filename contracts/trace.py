"""One trace per task, without stored state: trace id and root span id are computed from the task's uid.

Source: https://www.w3.org/TR/trace-context/ (traceparent). A uid is a random UUID of 128 bits, like a trace id.
"""

from __future__ import annotations

import hashlib

HEADER = "traceparent"
VARIABLE = "JERVIS_TRACEPARENT"
"""Environment variable of a run that holds its traceparent."""


def trace_id(uid: str) -> str:
    """32 hexadecimal digits."""
    return uid.replace("-", "").lower()


def root_span(uid: str) -> str:
    """16 hexadecimal digits: the span of the whole task, from its creation to its end."""
    return hashlib.sha256(uid.encode()).hexdigest()[:16]


def parent(uid: str) -> str:
    """The traceparent of requests for this task: spans of other services join the task's trace."""
    return f"00-{trace_id(uid)}-{root_span(uid)}-01"
