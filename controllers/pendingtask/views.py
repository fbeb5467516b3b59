"""Jobs and pods as served by the API -> the few facts that decisions need. Pure.

Labels are not trusted: any writer can set them. A Job is accepted only in the release's namespace and under the name
that its task and attempt determine, or that warm Jobs have; a pod only if a Job of that name controls it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from controllers.pendingtask import job, warm
from controllers.pendingtask.decision import clip
from controllers.pendingtask.observed import JobState, JobView, Outcome, PodView
from crds import approvals
from crds.exit_reasons import ExitReason
from crds.pendingtask import PlanOutcome, Question

Raw = Mapping[str, Any]

MESSAGE_CHARACTERS = 16_384
"""Longest termination message that is parsed: the kubelet cuts at 4096 bytes per container, 12 KiB per pod."""
COLLECTION = "task_results"
_COLLECTION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_ANSWERABLE = re.compile(r"[A-Za-z0-9._-]{1,63}")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")

_MOST_WAITING = 1_000_000
"""A larger number of effects is this one."""

OVERDUE = timedelta(seconds=10)
"""After a pod's deletionTimestamp, which includes the grace period: a working kubelet has ended the pod by then."""


def believed(raw: Raw, namespace: str) -> bool:
    """Whether a Job is the run that its labels name. `namespace` is the release's."""
    meta = raw["metadata"]
    return bool(meta["namespace"] == namespace and _fits(raw, meta["name"]))


def owner_uid(raw: Raw) -> str:
    """Uid of the controlling owner; "" without one."""
    return str(_owner(raw).get("uid", ""))


def controlling_job(raw: Raw, namespace: str) -> str:
    """Uid of the Job that controls a run's pod; "" for a pod that is not accepted."""
    owner = _owner(raw)
    run = raw["metadata"]["namespace"] == namespace and owner.get("kind") == "Job" and _fits(raw, owner["name"])
    return str(owner["uid"]) if run else ""


def _owner(raw: Raw) -> Raw:
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), {})


def _fits(raw: Raw, name: str) -> bool:
    """Whether the Job of the run that the labels name may be called so."""
    run = run_name(raw)
    return bool(run) and (name == run or (warm.is_warm(raw) and warm.named(name)))


def run_name(raw: Raw) -> str:
    """Name of a Job made for the run that the labels name; "" if they name none."""
    uid, task = task_uid(raw), str((raw["metadata"].get("labels") or {}).get(job.TASK_LABEL, ""))
    return job.name(task, uid, attempt(raw)) if uid and task and attempt(raw) else ""


def task_uid(raw: Raw) -> str:
    """Uid of the task that a Job or pod belongs to, from its label."""
    return str((raw["metadata"].get("labels") or {}).get(job.UID_LABEL, ""))


def attempt(raw: Raw) -> int:
    """Number of the run, from its label; 0 without one."""
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
        warm=warm.is_warm(raw),
    )


def _task(meta: Raw) -> tuple[str, str, str]:
    marks, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    name = notes.get(job.TASK_NAME_ANNOTATION) or marks.get(job.TASK_LABEL, "")
    return marks.get(job.UID_LABEL, ""), marks.get(job.TASK_NAMESPACE_LABEL, ""), name


def running(raw: Raw) -> bool:
    """Whether the container of a pod runs."""
    listed = (raw.get("status") or {}).get("containerStatuses") or ()
    return any(one["name"] == job.CONTAINER and (one.get("state") or {}).get("running") is not None for one in listed)


def pod_view(raw: Raw) -> PodView:
    """One pod. In phase Succeeded or Failed it is not live, with or without a deletionTimestamp."""
    status = raw.get("status") or {}
    container: Raw = next((c for c in status.get("containerStatuses") or () if c["name"] == job.CONTAINER), {})
    state = container.get("state") or {}
    ended, waiting = state.get("terminated"), state.get("waiting") or {}
    live = status.get("phase", "Pending") not in ("Succeeded", "Failed")
    # A pod that was evicted before its container ran has its own reason and no container state.
    exit_code = ended.get("exitCode") if ended else None
    reason = (ended or {}).get("reason") or status.get("reason") or ""
    why, message = waiting.get("reason", ""), waiting.get("message", "")
    if not message and live:
        why, message = _unschedulable(status)
    meta = raw["metadata"]
    deleted = meta.get("deletionTimestamp")
    return PodView(
        name=meta["name"],
        attempt=attempt(raw),
        live=live,
        started=ended is not None or (running(raw) and warm.has_task(raw)),
        waiting_reason=why if _REASON.fullmatch(why) else "Waiting",
        waiting_message=message,
        exit_code=exit_code,
        ended_reason=reason,
        outcome=outcome(_text(ended.get("message"))) if ended else None,
        backend=str((meta.get("annotations") or {}).get(job.BACKEND_ANNOTATION, "")),
        given_up_at=datetime.fromisoformat(deleted) + OVERDUE if deleted else None,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
    )


def outcome(text: str) -> Outcome | None:
    """The outcome in a termination message; None if it is empty or has another format, as after a crash."""
    if len(text) > MESSAGE_CHARACTERS:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return recorded(found) if isinstance(found, dict) else None


def recorded(found: Raw) -> Outcome | None:
    """A termination message or a document of `task_results`, in the format of `orchestrator_job.termination`.

    The input is not trusted: fields of a wrong type are dropped, long texts are cut. A reference that does not fit
    `crds.pendingtask.ResultRef` is dropped as a whole, because part of a key would name another document.
    """
    try:
        reason = ExitReason(found.get("exitReason", ""))
    except (ValueError, TypeError):
        return None
    ref = found.get("ref")
    ref = ref if isinstance(ref, Mapping) else {}
    collection = _text(ref.get("collection")) or COLLECTION
    key = _text(ref.get("key"))
    about = _text(found.get("about"))
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
        plan=_plan(found.get("plan")),
        waiting=_waiting(found.get("waiting")),
        effects=_effects(found.get("waiting")),
        messages_read=_count(found.get("messagesRead")),
        absent_tools=_text(found.get("absentTools"))[:512],
        # A part of it would name another request.
        about=about if len(about) <= approvals.ID_CHARS else "",
    )


def _text(found: Any) -> str:
    """A string that every store accepts (no unpaired surrogates, no NUL); "" for other types."""
    return found.encode(errors="replace").decode().replace("\0", "") if isinstance(found, str) else ""


def _count(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _seconds(found: Any) -> float | None:
    """Seconds that a backoff can use: finite, not negative, at most 3600; None for anything else."""
    number = isinstance(found, int | float) and not isinstance(found, bool) and found == found  # NaN
    return min(float(min(found, 3600)), 3600.0) if number and found >= 0 else None


def _plan(found: Any) -> PlanOutcome | None:
    """What became of the plan: a word in a termination message, the plan itself in a stored result."""
    if isinstance(found, Mapping):
        if found.get("failure"):
            return PlanOutcome.FAILED
        return PlanOutcome.AMENDED if found.get("amendments") else PlanOutcome.MADE
    return PlanOutcome(found) if isinstance(found, str) and found in set(PlanOutcome) else None


def _waiting(found: Any) -> int:
    """How many effects wait: a number in a termination message, the effects themselves in a stored result."""
    return len(found) if isinstance(found, list) else min(_count(found) or 0, _MOST_WAITING)


def _effects(found: Any) -> tuple[approvals.Effect, ...]:
    """As a status has them, the first of those that are usable; none in a termination message."""
    listed: dict[str, approvals.Recorded] = {}
    for one in found if isinstance(found, list) else ():
        try:
            effect = approvals.Recorded.model_validate(_texts(one))
        except (ValueError, RecursionError):
            continue
        if 0 < len(effect.id) <= approvals.ID_CHARS and effect.tool:
            listed.setdefault(effect.id, effect)
    return approvals.request(tuple(listed.values()))


def _texts(found: Any) -> Any:
    """With texts that every store accepts."""
    if isinstance(found, Mapping):
        return {_text(name): _texts(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_texts(value) for value in found]
    return _text(found) if isinstance(found, str) else found


def _questions(found: Any) -> tuple[Question, ...]:
    """[{id, text}] as the Job writes them; a bare string gets its number as id. At most 16, as in the CRD.

    The number also replaces an id that `spec.answers` cannot name, and a duplicate.
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
