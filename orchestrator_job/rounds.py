"""What to do with the thread that is found: begin, resume, begin another round, or only report. Pure.

A round is one question with everything said so far. The thread of a task lives through several: a question to the user
ends one, the answer begins the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator_job import errors, state


@dataclass(frozen=True)
class Begin:
    """Run the graph from its start as this round."""

    round: int


@dataclass(frozen=True)
class Resume:
    """Go on after the last finished node."""


@dataclass(frozen=True)
class Report:
    """Everything is done; only the message to the operator got lost."""


def plan(values: Mapping[str, Any], digest: str) -> Begin | Resume | Report:
    """Decide from the thread's last state and the digest of the present task memory.

    The state says itself whether it is finished. LangGraph's list of next nodes does not: it is empty as well when a
    process died after a node's result was written and before the checkpoint that follows.

    Raises CheckpointRefused for a state of another schema.
    """
    if not values:
        return Begin(1)
    schema = values.get("schema")
    if schema != state.SCHEMA or not isinstance(values.get("round"), int):
        raise errors.CheckpointRefused(
            f"The checkpoint has schema {schema!r}; this program reads schema {state.SCHEMA}.",
            remedy="Finish it with the version that began it, or delete its thread from orchestrator_checkpoints.",
        )
    if values.get("digest") != digest:
        # What was asked has changed since: half an answer to the old question is worth nothing.
        return Begin(int(values["round"]) + 1)
    return Report() if values.get("finished") == values["round"] else Resume()
