"""One trace per task, without anything to remember: its id is the task's uid, and so is its root span's.

Source: https://www.w3.org/TR/trace-context/ (traceparent). A uid is a random UUID, 128 bits as a trace id has them.
"""

from __future__ import annotations

import hashlib

HEADER = "traceparent"
VARIABLE = "JERVIS_TRACEPARENT"
"""Where a run finds it."""


def trace_id(uid: str) -> str:
    """32 hexadecimal digits."""
    return uid.replace("-", "").lower()


def root_span(uid: str) -> str:
    """16 hexadecimal digits: the span of the whole task, from its creation to its end."""
    return hashlib.sha256(uid.encode()).hexdigest()[:16]


def parent(uid: str) -> str:
    """What a request for this task carries, so that what others record of it belongs to the task's trace."""
    return f"00-{trace_id(uid)}-{root_span(uid)}-01"
