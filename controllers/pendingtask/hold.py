"""`spec.suspend` and patience: what keeps a task where it is, in any phase that does not run anything."""

from __future__ import annotations

from datetime import timedelta

from controllers import backoff
from controllers.pendingtask.decision import Decision, View, condition, put, remark, until, wait
from crds import conditions

LONGEST = timedelta(seconds=max(backoff.QUALIFICATION.cap, *backoff.DISPATCH.seconds) + 1)


def suspended(view: View) -> Decision | None:
    """The user holds the task."""
    if not view.task.spec.suspend:
        return None
    held = condition(view, "Suspended", True, "SuspendedByUser", "spec.suspend is true; set it to false to go on.")
    return remark(view, held, decision=wait())


def resumed(view: View) -> Decision | None:
    """The user let go: say so once."""
    if view.task.spec.suspend or not said(view):
        return None
    listed = put(view, condition(view, "Suspended", False, "Resumed", ""))
    return Decision({"conditions": listed})


def said(view: View) -> bool:
    """Does the status say that the user holds the task?"""
    old = conditions.find(view.task.status.conditions, "Suspended")
    return old is not None and old.status is conditions.Status.TRUE


def retry_later(view: View) -> Decision | None:
    """The last try failed for an operational reason; its wait is not over.

    A wait that no backoff asks for was written under another clock: it is over.
    """
    retry = view.task.status.retry
    if retry is None or retry.next_at is None or not view.now < retry.next_at <= view.now + LONGEST:
        return None
    return until(view, retry.next_at)
