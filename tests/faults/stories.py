"""How a task went, from the record: for the one that ended last, and for each that broke a rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controllers.pendingtask import job
from tests.faults.record import Record, Version

MOST = 8
"""Stories told of one campaign."""


def of_the_last(record: Record) -> str:
    """Of the task that changed its phase last; seconds count back from its end."""
    tasks = record.versions["pendingtasks"]
    if not tasks:
        return "no task"
    stories = {uid: _steps(_status, (one for one in tasks if one.uid == uid)) for uid in {one.uid for one in tasks}}
    uid = max(stories, key=lambda one: stories[one][-1][0])
    name = next(one.name for one in tasks if one.uid == uid)
    return f"{name}: {_told(stories[uid])}"


def of_the_broken(record: Record, sentences: Iterable[str]) -> dict[str, str]:
    """Of the first tasks that are named by what does not hold: the task, its Jobs and their pods."""
    words = dict.fromkeys(word for one in sentences for word in re.split(r"[\s:,{}'\"]+", one))
    known = {one.name for one in record.versions["pendingtasks"]}
    told = {name: whole(record, name) for name in words if name in known}
    return dict([(name, story) for name, story in told.items() if story][:MOST])


def whole(record: Record, name: str) -> str:
    """The task of that name with its Jobs and pods; empty when there is none."""
    tasks = [one for one in record.versions["pendingtasks"] if one.name == name]
    uids = {one.uid for one in tasks}
    parts = _steps(_status, tasks)
    for kind, told in (("jobs", _job), ("pods", _pod)):
        mine = [one for one in record.versions[kind] if _labels(one).get(job.UID_LABEL) in uids]
        for each in dict.fromkeys(one.uid for one in mine):
            parts += _steps(told, [one for one in mine if one.uid == each])
    return _told(sorted(parts, key=lambda step: step[0]))


def _told(steps: Sequence[tuple[float, str]]) -> str:
    return ", ".join(f"-{steps[-1][0] - at:.1f} s {what}" for at, what in steps)


def _steps(told: Any, versions: Iterable[Version]) -> list[tuple[float, str]]:
    steps: list[tuple[float, str]] = []
    for version in versions:
        said = f"{told(version)} deleted" if version.deleted else told(version)
        if not steps or steps[-1][1] != said:
            steps.append((version.at, said))
    return steps


def _labels(version: Version) -> Mapping[str, str]:
    found: Mapping[str, str] = version.raw["metadata"].get("labels") or {}
    return found


def _status(version: Version) -> str:
    status = version.raw.get("status") or {}
    retry = status.get("retry") or {}
    after = f" after {retry['reason']}" if retry.get("reason") else ""
    attempt = f" (run {status['attempt']})" if status.get("attempt") else ""
    return f"{status.get('phase', 'New')}{attempt}{after}"


def _job(version: Version) -> str:
    raw = version.raw
    over = [one["type"] for one in (raw.get("status") or {}).get("conditions") or () if one["status"] == "True"]
    state = over[-1] if over else "suspended" if raw["spec"].get("suspend") else "active"
    leaving = " leaving" if raw["metadata"].get("deletionTimestamp") else ""
    return f"Job {_labels(version).get(job.ATTEMPT_LABEL)} {state}{leaving}"


def _pod(version: Version) -> str:
    return f"pod {version.name[-5:]} {(version.raw.get('status') or {}).get('phase') or 'Pending'}"
