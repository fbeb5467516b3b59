"""Requests to a person: their identity, and which decision is about which of them.

A task asks again and again in its life; `spec.approval` is one field. An approval counts for the request that it names,
and without a name for the request that was open when it was written: not the one that was there before.
"""

from __future__ import annotations

import hashlib

import orjson

from controllers.pendingtask.decision import View, whole
from crds import conditions, pendingtask


def identity(view: View) -> str:
    """Identity of a request that is made now; `crds.pendingtask.Status.request_id` reads the same from the status."""
    return f"run-{view.task.status.attempt}-{int(whole(view.now).timestamp())}"


def digest(approval: pendingtask.Approval | None) -> str:
    """SHA-256 of the approval; "" for none."""
    if approval is None:
        return ""
    return hashlib.sha256(orjson.dumps(approval.wire(), option=orjson.OPT_SORT_KEYS)).hexdigest()


def decided(view: View) -> pendingtask.Approval | None:
    """The decision on the open request, if there is one."""
    given, asked = view.task.spec.approval, view.task.status.user_task
    if given is None:
        return None
    if given.request_id:
        return given if given.request_id == view.task.status.request_id else None
    if asked is not None and asked.earlier_approval == digest(given):
        return None
    opened = conditions.find(view.task.status.conditions, "WaitingForUser")
    return given if opened is None or view.task.metadata.generation > opened.observed_generation else None
