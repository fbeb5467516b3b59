"""What to do with an existing thread: begin, resume, begin another round, or only report. Pure.

A round is one question with all messages and answers so far. A task's thread has several: a question to the user ends
one, the answer begins the next. So does what the user adds while a round runs: before the round writes its result it
reads the task's memory once more, and ends as `Overtaken` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator_job import errors
from orchestrator_job.store import graph_state


@dataclass(frozen=True)
class Begin:
    """Run the graph from its start as this round."""

    round: int


@dataclass(frozen=True)
class Resume:
    """Continue after the last finished node."""


@dataclass(frozen=True)
class Report:
    """The round is finished; only the message to the operator was lost."""


class Overtaken(Exception):  # noqa: N818 - not an error: the next round begins
    """The user has added something since the round began; nothing of its end was written."""


def plan(values: Mapping[str, Any], digest: str, reached: int = 0) -> Begin | Resume | Report:
    """Decide from the thread's last state and the digest of the present task memory. `reached`: the latest round of
    which the task's ledger has entries, 0 for none.

    The state records whether the round is finished. LangGraph's list of next nodes does not: it is also empty when a
    process died after a node's result was written and before the next checkpoint.

    Raises CheckpointRefused for a state of another schema, and for a thread that is gone though the task has a ledger:
    a run that begins anew would take the effects and decisions of the earlier rounds for its own.
    """
    if not values and reached:
        raise errors.CheckpointRefused(
            f"The checkpoints of this task are gone, though its ledger has reached round {reached}; nothing was done.",
            remedy="Restore orchestrator_checkpoints from a backup, or create the task anew. What it has done stays "
            "done: see orchestrator_ledger.",
        )
    if not values:
        return Begin(1)
    schema = values.get("schema")
    if schema != graph_state.SCHEMA or not isinstance(values.get("round"), int):
        raise errors.CheckpointRefused(
            f"The checkpoint has schema {schema!r}; this program reads schema {graph_state.SCHEMA}.",
            remedy="Finish it with the version that began it, create the task anew, or delete its thread from "
            "orchestrator_checkpoints: the next run begins from the start, unless the task has a ledger.",
        )
    if values.get("digest") != digest:
        # The question has changed: a partial answer to the old one is useless.
        return Begin(int(values["round"]) + 1)
    return Report() if values.get("finished") == values["round"] else Resume()
