"""How a run ended, whatever happened: the one value that becomes the termination message and the exit code."""

from __future__ import annotations

from dataclasses import dataclass

import crds.errors
from crds import exits, pendingtask
from kb import client as kb_client
from orchestrator_job import errors
from router import client as router_client

RESULTS = "task_results"


@dataclass(frozen=True)
class Outcome:
    """`summary` is for a person. `has_result` says whether `task_results` holds the rest under the task's uid.

    `unavailable` names the service that was away ("router", "kb" or "mongodb") and `retry_after` the seconds it asked
    for; `field` and `remedy` say what to change, where known.
    """

    reason: exits.ExitReason
    summary: str
    has_result: bool = False
    questions: tuple[pendingtask.Question, ...] = ()
    unavailable: str | None = None
    retry_after: float | None = None
    field: str | None = None
    remedy: str | None = None

    @property
    def exit_code(self) -> int:
        """0 finished (answered, or asks the user), 42 drained, 1 anything else."""
        if self.reason is exits.ExitReason.DRAINED:
            return exits.DRAINED
        if self.has_result:
            return exits.FINISHED
        return exits.FAILED


def drained(why: str) -> Outcome:
    """The run was asked to stop and can be resumed from its checkpoint."""
    return Outcome(exits.ExitReason.DRAINED, f"Stopped on request ({why}); the next run resumes from the checkpoint.")


def of_error(error: crds.errors.JervisError) -> Outcome:
    """What an error of the vocabulary means to the operator.

    Everything operational is Unavailable (the operator asks again later); a permanent error says its own reason.
    """
    if isinstance(error, crds.errors.Operational):
        service = _service(error)
        return Outcome(
            exits.ExitReason.UNAVAILABLE,
            f"{service} stayed unavailable: {error.message.rstrip('.')}. The next run resumes from the checkpoint.",
            unavailable=service,
            retry_after=error.retry_after,
        )
    field, remedy = (error.field, error.remedy) if isinstance(error, crds.errors.Permanent) else (None, None)
    summary = error.message if remedy is None or remedy in error.message else f"{error.message} {remedy}"
    return Outcome(_reason(error), summary, field=field, remedy=remedy)


def of_bug(error: Exception) -> Outcome:
    """An error that nobody foresaw; the log has the traceback."""
    return Outcome(exits.ExitReason.ERROR, f"The run failed on an unexpected {type(error).__name__}: {error}")


def _service(error: crds.errors.Operational) -> str:
    if isinstance(error, router_client.Unavailable):
        return "router"
    if isinstance(error, kb_client.Unavailable):
        return "kb"
    return "mongodb" if isinstance(error, errors.StoreUnavailable) else "a service"


def _reason(error: crds.errors.JervisError) -> exits.ExitReason:
    if isinstance(error, errors.Failure):
        return error.reason
    if isinstance(error, router_client.Rejected):
        return exits.ExitReason.WRONG_MODEL if error.field == "model" else exits.ExitReason.ERROR
    if isinstance(error, kb_client.Rejected):
        return exits.ExitReason.INVALID_INPUT
    return exits.ExitReason.ERROR
