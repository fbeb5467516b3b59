"""Why a run cannot continue. Each class has the exit reason that is reported to the operator.

crds.errors.Operational
+-- StoreUnavailable   MongoDB is unavailable or busy
+-- NotBegun           an effect did not happen: nothing of it was sent
crds.errors.Permanent
+-- TokenRefused       a service does not take the run's token; `outcome.unauthorized` knows those of the clients
+-- Failure            names its ExitReason
    +-- InvalidInput        unusable input of the operator or the user
    |   +-- NoMemory        there is no task memory
    +-- InvalidOutput       the model did not keep to the schema, retries included
    +-- BudgetExhausted     steps or model calls are used up
    +-- DeadlineExceeded    the run's wall clock is used up
    +-- Stuck               the run repeats itself without learning anything
    +-- NeedsApproval       a person must decide before the run goes on
    |   +-- MayHaveHappened an effect was started, and whether it took place is unknown
    +-- Fenced              a newer run has the task; this one must not write any more
    |   +-- Forgotten       what is kept of the task was removed: it was deleted, or its scope erased
    +-- CheckpointRefused   the stored state is gone, or cannot be read by this program
"""

from __future__ import annotations

from typing import ClassVar

from crds import errors
from crds.exit_reasons import ExitReason


class StoreUnavailable(errors.Operational):
    """MongoDB did not answer, or reported that it is temporarily unavailable."""


class NotBegun(errors.Operational):
    """What an effect is aimed at is away, and nothing was sent to it: the effect did not happen."""


class TokenRefused(errors.Permanent):
    """`service` does not take the run's token: the run is resumed with another one."""

    def __init__(self, message: str, service: str) -> None:
        super().__init__(message, field="Authorization")
        self.service = service


class Failure(errors.Permanent):
    """The run ends; `reason` is reported to the operator."""

    reason: ClassVar[ExitReason] = ExitReason.ERROR


class InvalidInput(Failure):
    """Unusable settings, task memory or content."""

    reason = ExitReason.INVALID_INPUT


class NoMemory(InvalidInput):
    """Nothing is known about the task: not written yet, or removed."""


class InvalidOutput(Failure):
    """The model's answers did not follow the schema, bounded retries included."""

    reason = ExitReason.INVALID_OUTPUT


class BudgetExhausted(Failure):
    """The steps, model calls or tokens of the task are used up."""

    reason = ExitReason.BUDGET_EXHAUSTED


class DeadlineExceeded(Failure):
    """The run exceeded its time limit."""

    reason = ExitReason.DEADLINE_EXCEEDED


class Stuck(Failure):
    """The same step was repeated without new evidence."""

    reason = ExitReason.STUCK


class NeedsApproval(Failure):
    """A person has to decide; `stored`: `task_results` holds what it is about. `waiting` is the number of effects;
    about an answer, `about` is the entry of the ledger (`STEP/ORDINAL`): the decision names it, and counts for no
    other."""

    reason = ExitReason.NEEDS_APPROVAL

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        stored: bool = False,
        waiting: int = 0,
        about: str = "",
    ) -> None:
        super().__init__(message, field="spec.approval", remedy=remedy)
        self.stored = stored
        self.waiting = waiting
        self.about = about


class MayHaveHappened(NeedsApproval):
    """An effect was started earlier, cannot be looked up and must not be repeated blindly. Of delegations `consent`
    asks about it."""


class Fenced(Failure):
    """A newer run of the same task has taken over."""

    reason = ExitReason.FENCED


class Forgotten(Fenced):
    """What is kept of the task was removed: it was deleted, or its scope erased."""


class CheckpointRefused(Failure):
    """The checkpoint is too large, gone, unreadable, or of a form that this program does not know."""
