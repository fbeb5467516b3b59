"""Jobs and pods as the API serves them -> the few facts that decisions are made from. Pure.

A label is a claim that anyone may write. A Job is believed in the release's namespace and under the one name that its
task and attempt give; a pod there, if a Job of that name controls it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from controllers.pendingtask import job
from controllers.pendingtask.decision import clip
from controllers.pendingtask.observed import JobState, JobView, Outcome, PodView
from crds.exits import ExitReason
from crds.pendingtask import Question

Raw = Mapping[str, Any]

MESSAGE_CHARACTERS = 16_384
"""Of a termination message that is looked at: the kubelet cuts at 4096 bytes per container, 12 KiB per pod."""
COLLECTION = "task_results"
_COLLECTION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_ANSWERABLE = re.compile(r"[A-Za-z0-9._-]{1,63}")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")

OVERDUE = timedelta(seconds=10)
"""Beyond a pod's deletionTimestamp, which has its grace period in it: by then a kubelet that is there has ended it."""


def believed(raw: Raw, namespace: str) -> bool:
    """Whether a Job is the run that its labels say. `namespace` is the release's."""
    meta = raw["metadata"]
    return bool(meta["namespace"] == namespace and meta["name"] == _run_name(raw))


def owner_uid(raw: Raw) -> str:
    """Uid of the controlling owner, or "" when there is none."""
    return str(_owner(raw).get("uid", ""))


def controlling_job(raw: Raw, namespace: str) -> str:
    """Uid of the Job that controls a pod of ours; "" for a pod that is not believed."""
    owner = _owner(raw)
    ours = raw["metadata"]["namespace"] == namespace and owner.get("kind") == "Job" and owner["name"] == _run_name(raw)
    return str(owner["uid"]) if ours else ""


def _owner(raw: Raw) -> Raw:
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), {})


def _run_name(raw: Raw) -> str:
    """The name that the Job of the run has that the labels tell of; "" when they tell of none."""
    uid, task = task_uid(raw), str((raw["metadata"].get("labels") or {}).get(job.TASK_LABEL, ""))
    return job.name(task, uid, attempt(raw)) if uid and task and attempt(raw) else ""


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
        task=_task(meta),
    )


def _task(meta: Raw) -> tuple[str, str, str]:
    marks, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    name = notes.get(job.TASK_NAME_ANNOTATION) or marks.get(job.TASK_LABEL, "")
    return marks.get(job.UID_LABEL, ""), marks.get(job.TASK_NAMESPACE_LABEL, ""), name


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
        waiting_reason=why if _REASON.fullmatch(why) else "Waiting",
        waiting_message=told,
        exit_code=exit_code,
        ended_reason=reason,
        outcome=outcome(_text(ended.get("message"))) if ended else None,
        backend=str((meta.get("annotations") or {}).get(job.BACKEND_ANNOTATION, "")),
        given_up_at=datetime.fromisoformat(leaving) + OVERDUE if leaving else None,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
    )


def outcome(text: str) -> Outcome | None:
    """The termination message, or None when it is empty or not ours (a crash leaves anything there)."""
    if len(text) > MESSAGE_CHARACTERS:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return recorded(found) if isinstance(found, dict) else None


def recorded(found: Raw) -> Outcome | None:
    """A termination message or a document of `task_results`, as `orchestrator_job.termination` describes it.

    Nothing in it is believed: what has another type than it should is left out, what is too long is cut, and a
    reference that does not fit `crds.pendingtask.ResultRef` is left out as a whole, since a part of a key names
    something else.
    """
    try:
        reason = ExitReason(found.get("exitReason", ""))
    except (ValueError, TypeError):
        return None
    ref = found.get("ref")
    ref = ref if isinstance(ref, Mapping) else {}
    collection = _text(ref.get("collection")) or COLLECTION
    key = _text(ref.get("key"))
    fits = len(key) <= 253 and key.isprintable() and _COLLECTION.fullmatch(collection) is not None
    return Outcome(
        exit_reason=reason,
        summary=clip(_text(found.get("summary"))),
        collection=collection if fits else COLLECTION,
        key=key if fits else "",
        questions=_questions(found.get("questions")),
        retry_after=_seconds(found.get("retryAfterSeconds")),
        unavailable=_text(found.get("unavailable"))[:63],
        field=_text(found.get("field"))[:256],
        remedy=_text(found.get("remedy"))[:512],
    )


def _text(found: Any) -> str:
    """A string that every store takes: no halves of surrogate pairs, no NUL; "" for anything else."""
    return found.encode(errors="replace").decode().replace("\0", "") if isinstance(found, str) else ""


def _seconds(found: Any) -> float | None:
    """A number of seconds that a backoff can use: finite, not negative, an hour at most."""
    number = isinstance(found, int | float) and not isinstance(found, bool) and found == found  # NaN
    return min(float(min(found, 3600)), 3600.0) if number and found >= 0 else None


def _questions(found: Any) -> tuple[Question, ...]:
    """[{id, text}] as the Job writes them; a bare string gets its number as id. At most 16, as the CRD allows.

    An id that `spec.answers` could not name, or that is there twice, is replaced by the number too.
    """
    listed: dict[str, Question] = {}
    for number, one in enumerate((found if isinstance(found, list) else [])[:16], start=1):
        text = _text(one.get("text") if isinstance(one, Mapping) else one)
        key = _text(one.get("id")) if isinstance(one, Mapping) else ""
        if _ANSWERABLE.fullmatch(key) is None or key in listed:
            key = str(number)
        if text.strip():
            listed[key] = Question(id=key, text=text[:2048])
    return tuple(listed.values())


def _unschedulable(status: Raw) -> tuple[str, str]:
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("reason") or "Unschedulable"), str(one.get("message") or "")
    return "", ""
