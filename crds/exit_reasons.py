"""Why an orchestrator run ended: one enum, written to the termination message and shown in `status.result`.

Source: the agents page of the design (budgets, stuck detection, drain) and seed 000 "Task States Flow".
"""

from __future__ import annotations

from enum import StrEnum

# Exit codes of the orchestrator's container.
FINISHED = 0
FAILED = 1
DRAINED = 42


class ExitReason(StrEnum):
    """`FINAL`, `RESUMABLE` and `ASKS` say what the operator does next."""

    ANSWERED = "Answered"
    REJECTED = "Rejected"
    NEEDS_INPUT = "NeedsInput"
    NEEDS_APPROVAL = "NeedsApproval"
    DRAINED = "Drained"
    UNAVAILABLE = "Unavailable"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    STUCK = "Stuck"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    WRONG_MODEL = "WrongModel"
    INVALID_OUTPUT = "InvalidOutput"
    INVALID_INPUT = "InvalidInput"
    FENCED = "Fenced"
    ERROR = "Error"


ASKS = frozenset({ExitReason.NEEDS_INPUT, ExitReason.NEEDS_APPROVAL})
"""The run needs an answer or a decision of a person; the task becomes a UserTask."""

RESUMABLE = frozenset({ExitReason.DRAINED, ExitReason.UNAVAILABLE, ExitReason.FENCED})
"""The task has no error: it runs again from its checkpoint."""

FINAL = frozenset({ExitReason.ANSWERED, ExitReason.REJECTED})
"""The task is Completed: it is answered, or a person has rejected its action. Every other reason is a failure that goes
to a person."""
