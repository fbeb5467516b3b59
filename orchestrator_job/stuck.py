"""Detects a run that repeats itself: the same action with the same arguments three times. Pure.

The trail is part of the graph's state, so repetitions are detected across resumes and rounds. Every node that acts adds
its action; nodes that find new evidence clear the trail.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from pydantic import JsonValue

from orchestrator_job import errors

REPEATS = 3
_KEPT = 12


def note(trail: Sequence[str], action: str, arguments: JsonValue) -> list[str]:
    """The trail with this action added. Raises Stuck at the third occurrence."""
    step = f"{action}:{hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()[:16]}"
    longer = [*trail, step][-_KEPT:]
    if longer.count(step) >= REPEATS:
        raise errors.Stuck(
            f"The same step ({action}) was taken {REPEATS} times without learning anything new.",
            remedy="Add a message with what is missing, or close the task.",
        )
    return longer
