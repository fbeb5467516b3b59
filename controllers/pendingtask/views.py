"""Jobs and pods as the API serves them -> the few facts that decisions are made from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from controllers.pendingtask import job
from controllers.pendingtask.world import JobState, JobView, Outcome, PodView
from crds.exits import ExitReason
from crds.pendingtask import Question

Raw = Mapping[str, Any]

OVERDUE = timedelta(seconds=10)
"""Beyond a pod's deletionTimestamp, which has its grace period in it: by then a kubelet that is there has ended it."""


def owner_uid(raw: Raw) -> str:
    """Uid of the controlling owner, or "" when there is none."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def task_uid(raw: Raw) -> str:
    """Uid of the task that a Job or pod belongs to, from its label."""
    return str((raw["metadata"].get("labels") or {}).get(job.UID_LABEL, ""))


def attempt(raw: Raw) -> int:
    """Number of the run, from its label; 0 when it has none."""
    text = str((raw["metadata"].get("labels") or {}).get(job.ATTEMPT_LABEL, ""))
    return int(text) if text.isascii() and text.isdigit() else 0


def job_view(raw: Raw) -> JobView:
    """State of a Job from its conditions, spec.suspend and deletionTimestamp."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    over = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
    reason = message = ""
    if "Complete" in over:
        state, reason = JobState.COMPLETE, over["Complete"].get("reason", "")
    elif "Failed" in over:
        state = JobState.FAILED
        reason, message = over["Failed"].get("reason", ""), over["Failed"].get("message", "")
    elif meta.get("deletionTimestamp"):
        state = JobState.DELETING
    elif spec.get("suspend"):
        state = JobState.SUSPENDED
    else:
        state = JobState.ACTIVE
    suspended = state is JobState.SUSPENDED
    marked = job.SUSPENDED_ANNOTATION in (meta.get("annotations") or {})
    return JobView(
        name=meta["name"],
        uid=meta["uid"],
        state=state,
        suspended=suspended,
        foreign=suspended and not marked,
        marked=marked,
        queued=job.QUEUE_LABEL in (meta.get("labels") or {}),
        has_ttl=spec.get("ttlSecondsAfterFinished") is not None,
        reason=reason,
        message=message,
        attempt=attempt(raw),
    )


def pod_view(raw: Raw) -> PodView:
    """One pod. A pod whose phase is Succeeded or Failed does not live, whatever its deletionTimestamp says."""
    status = raw.get("status") or {}
    container: Raw = next((c for c in status.get("containerStatuses") or () if c["name"] == job.CONTAINER), {})
    state = container.get("state") or {}
    ended, waiting = state.get("terminated"), state.get("waiting") or {}
    live = status.get("phase", "Pending") not in ("Succeeded", "Failed")
    # A pod that was evicted before its container ran has a reason of its own and no container state.
    exit_code = ended.get("exitCode") if ended else None
    reason = (ended or {}).get("reason") or status.get("reason") or ""
    why, told = waiting.get("reason", ""), waiting.get("message", "")
    if not told and live:
        why, told = _unschedulable(status)
    meta = raw["metadata"]
    leaving = meta.get("deletionTimestamp")
    return PodView(
        name=meta["name"],
        attempt=attempt(raw),
        live=live,
        started=state.get("running") is not None or ended is not None,
        waiting_reason=why or "Waiting",
        waiting_message=told,
        exit_code=exit_code,
        ended_reason=reason,
        outcome=outcome(str(ended.get("message") or "")) if ended else None,
        backend=str((meta.get("annotations") or {}).get(job.BACKEND_ANNOTATION, "")),
        given_up_at=datetime.fromisoformat(leaving) + OVERDUE if leaving else None,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
    )


def outcome(text: str) -> Outcome | None:
    """The termination message, or None when it is empty or not ours (a crash leaves anything there)."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return recorded(said) if isinstance(said, dict) else None


def recorded(said: Raw) -> Outcome | None:
    """A termination message or a document of `task_results`: {exitReason, summary, ref?, questions?}."""
    try:
        reason = ExitReason(said.get("exitReason", ""))
    except ValueError:
        return None
    ref = said.get("ref")
    ref = ref if isinstance(ref, Mapping) else {}
    return Outcome(
        exit_reason=reason,
        summary=str(said.get("summary") or ""),
        collection=str(ref.get("collection") or "task_results"),
        key=str(ref.get("key") or ""),
        questions=_questions(said.get("questions")),
    )


def _questions(said: Any) -> tuple[Question, ...]:
    """[{id, text}] as the Job writes them; a bare string gets its number as id. At most 16, as the CRD allows."""
    found = []
    for number, one in enumerate(said if isinstance(said, list) else (), start=1):
        text = one.get("text") if isinstance(one, Mapping) else one
        key = one.get("id") if isinstance(one, Mapping) else None
        if text:
            found.append(Question(id=str(key or number)[:63], text=str(text)[:2048]))
    return tuple(found[:16])


def _unschedulable(status: Raw) -> tuple[str, str]:
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("reason") or "Unschedulable"), str(one.get("message") or "")
    return "", ""
