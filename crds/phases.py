"""The phases of a PendingTask. `controllers.pendingtask.phases` has the table of transitions.

Source: seed 000 "Task States Flow" under CamelCase names; `docs/names.md` maps them.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """A task without a phase is New: the operator has not processed it yet."""

    NEW = "New"
    SCHEDULED = "Scheduled"
    READY_FOR_QUALIFICATION = "ReadyForQualification"
    QUALIFYING = "Qualifying"
    READY_FOR_GPU = "ReadyForGpu"
    DISPATCHED_GPU = "DispatchedGpu"
    ORCHESTRATING = "Orchestrating"
    USER_TASK = "UserTask"
    DONE = "Done"
    COMPLETED = "Completed"
    ERROR = "Error"


TERMINAL = frozenset({Phase.DONE, Phase.COMPLETED, Phase.ERROR})
HOLDS_SLOT = frozenset({Phase.DISPATCHED_GPU, Phase.ORCHESTRATING})
"""A GPU slot is booked."""

UNFINISHED = ",".join(f"status.phase!={phase.value}" for phase in sorted(TERMINAL))
"""Field selector of unfinished tasks."""

ASKING = f"status.phase={Phase.USER_TASK.value}"
"""Field selector of tasks that wait for a person."""
