"""How a run ended: the value from which the termination message and the exit code are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import crds.errors
from crds import exit_reasons, pendingtask
from kb import client as kb_client
from orchestrator_job import errors
from router import client as router_client
from sources import client as sources_client

RESULTS = "task_results"
_UNAUTHORIZED = 401


@dataclass(frozen=True)
class Outcome:
    """`summary` is for people. `has_result`: `task_results` has the whole result under the task's uid, or what a run
    that a budget ended hands back.

    `unavailable` names the service that was unavailable (such as "router" or "mongodb") and `retry_after` the seconds
    it asked for; `field` and `remedy` name the change that is needed, where known. `plan` is what became of the plan,
    `waiting` the number of effects in `task_results` that approval is asked for, `about` the entry of the ledger of an
    answer that it is asked for.
    `messages_read` is the number of the user's messages that the last round read; None where none began.
    `absent_tools` says which tools of other servers the agents did not have, and why.
    """

    reason: exit_reasons.ExitReason
    summary: str
    has_result: bool = False
    questions: tuple[pendingtask.Question, ...] = ()
    unavailable: str | None = None
    retry_after: float | None = None
    field: str | None = None
    remedy: str | None = None
    plan: pendingtask.PlanOutcome | None = None
    waiting: int = 0
    messages_read: int | None = None
    absent_tools: str = ""
    about: str = ""

    @property
    def exit_code(self) -> int:
        """0 finished (answered, or asks a person), 42 drained, 1 anything else."""
        if self.reason is exit_reasons.ExitReason.DRAINED:
            return exit_reasons.DRAINED
        if self.reason in exit_reasons.FINAL | exit_reasons.ASKS:
            return exit_reasons.FINISHED
        return exit_reasons.FAILED


def without_tools(absent: Mapping[str, str]) -> str:
    """One sentence about tools that are left out, by name with the reason; "" where none is."""
    if not absent:
        return ""
    count = f"{len(absent)} {'is' if len(absent) == 1 else 'are'} left out: "
    return count + "; ".join(f"{name} ({why.rstrip('.')})" for name, why in absent.items())


def drained(why: str) -> Outcome:
    """The run stopped on request and can be resumed from its checkpoint."""
    return Outcome(
        exit_reasons.ExitReason.DRAINED, f"Stopped on request ({why}); the next run resumes from the checkpoint."
    )


def of_error(error: crds.errors.JervisError) -> Outcome:
    """The outcome of a known error.

    Every operational error is Unavailable (the operator retries later), and so is a refused token: the next run gets a
    new one. Other permanent errors have their own reason.
    """
    if (service := unauthorized(error)) is not None:
        summary = f"{service} did not accept the run's token: {error.message.rstrip('.')}. The next run gets a new one."
        return Outcome(exit_reasons.ExitReason.UNAVAILABLE, summary, unavailable=service)
    if isinstance(error, crds.errors.Operational):
        service = _service(error)
        return Outcome(
            exit_reasons.ExitReason.UNAVAILABLE,
            f"{service} stayed unavailable: {error.message.rstrip('.')}. The next run resumes from the checkpoint.",
            unavailable=service,
            retry_after=error.retry_after,
        )
    field, remedy = (error.field, error.remedy) if isinstance(error, crds.errors.Permanent) else (None, None)
    # The text to approve may be long: the remedy has a field of its own.
    alone = remedy is None or remedy in error.message or isinstance(error, errors.NeedsApproval)
    summary = error.message if alone else f"{error.message} {remedy}"
    result = Outcome(_reason(error), summary, field=field, remedy=remedy)
    if not isinstance(error, errors.NeedsApproval):
        return result
    return replace(result, has_result=error.stored, waiting=error.waiting, about=error.about)


def of_bug(error: Exception) -> Outcome:
    """The outcome of an unexpected error; the log has the traceback."""
    return Outcome(exit_reasons.ExitReason.ERROR, f"The run failed on an unexpected {type(error).__name__}: {error}")


def _service(error: crds.errors.Operational) -> str:
    if isinstance(error, router_client.Unavailable):
        return "router"
    if isinstance(error, kb_client.Unavailable):
        return "kb"
    return "mongodb" if isinstance(error, errors.StoreUnavailable) else "a service"


def unauthorized(error: BaseException) -> str | None:
    """Which service refused the token, if that is what happened."""
    if isinstance(error, router_client.Unauthorized):
        return "router"
    if isinstance(error, kb_client.Rejected) and error.status == _UNAUTHORIZED:
        return "kb"
    if isinstance(error, errors.TokenRefused):
        return error.service
    return "sources" if isinstance(error, sources_client.Rejected) and error.status == _UNAUTHORIZED else None


def recheck(error: BaseException) -> None:
    """Raises it where a service refused the token: that says nothing of what was asked, and the run is resumed with
    another token."""
    if unauthorized(error) is not None:
        raise error


def _reason(error: crds.errors.JervisError) -> exit_reasons.ExitReason:
    if isinstance(error, errors.Failure):
        return error.reason
    if isinstance(error, router_client.Rejected):
        return exit_reasons.ExitReason.WRONG_MODEL if error.field == "model" else exit_reasons.ExitReason.ERROR
    if isinstance(error, kb_client.Rejected):
        return exit_reasons.ExitReason.INVALID_INPUT
    return exit_reasons.ExitReason.ERROR
