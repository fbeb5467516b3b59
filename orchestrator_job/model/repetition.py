"""Detects a run that repeats itself: the same action with the same arguments three times, or no new evidence. Pure.

The trail is part of the graph's state, so repetitions are detected across resumes and rounds. Every node that acts adds
its action; nodes that find new evidence clear the trail.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence

from pydantic import JsonValue

from orchestrator_job import errors

REPEATS = 3
IDLE = 5
"""Calls of one agent in a row that may fail or repeat what is known."""
_KEPT = 12


def note(trail: Sequence[str], action: str, arguments: JsonValue) -> list[str]:
    """The trail with this action added. Raises Stuck at the third occurrence."""
    step = _step(action, arguments)
    longer = [*trail, step][-_KEPT:]
    if longer.count(step) >= REPEATS:
        raise _stuck(action)
    return longer


def _step(action: str, arguments: JsonValue) -> str:
    return f"{action}:{hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()[:16]}"


def _stuck(action: str) -> errors.Stuck:
    return errors.Stuck(
        f"The same step ({action}) was taken {REPEATS} times without learning anything new.",
        remedy="Add a message with what is missing, or close the task.",
    )


class Watch:
    """Watches one agent's loop: its calls, and whether what they give is new. It is not stored, so it keeps all calls:
    a circle of many different ones is found too."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._last = ""
        self._seen: set[bytes] = set()
        self._idle = 0

    def call(self, tool: str, arguments: JsonValue) -> None:
        """Before a call. Raises Stuck at the third one with these arguments."""
        self._last = _step(tool, arguments)
        self._calls[self._last] += 1
        if self._calls[self._last] >= REPEATS:
            raise _stuck(tool)

    def found(self, text: str, *, failed: bool, changed: bool = False) -> None:
        """After a call. Raises Stuck when IDLE calls in a row have failed or given what was known already. `changed`:
        the workspace is another one, so other calls may give something else than before."""
        if changed and not failed:
            self._calls, self._idle = Counter({self._last: self._calls[self._last]}), 0
            return
        digest = hashlib.sha256(text.encode(errors="replace")).digest()
        self._idle = self._idle + 1 if failed or digest in self._seen else 0
        self._seen.add(digest)
        if self._idle >= IDLE:
            raise errors.Stuck(
                f"{IDLE} calls in a row found nothing new.",
                remedy="Add a message with what is missing, or close the task.",
            )
