"""What must hold of a record, whatever was broken. Pure: every function gives sentences about what does not hold.

A doctored record for each of them is in `test_invariants.py`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from controllers.pendingtask import job
from crds.phases import TERMINAL, Phase
from tests.faults import transitions
from tests.faults.record import Version

NO_TASK = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run that a node played to its end. `read`: how many of spec.messages its input held; None: no input."""

    uid: str
    attempt: int
    reason: str
    read: int | None


def by_object(versions: Iterable[Version]) -> dict[str, list[Version]]:
    """Versions in order by uid."""
    found: dict[str, list[Version]] = defaultdict(list)
    for version in versions:
        found[version.uid].append(version)
    return found


def lost(tasks: Sequence[Version], expected: Mapping[str, frozenset[Phase]]) -> list[str]:
    """Tasks that were submitted and did not reach where their kind ends. Deleted ones count as they last were."""
    last = {history[-1].name: history[-1] for history in by_object(tasks).values()}
    found = []
    for name, ends in expected.items():
        version = last.get(name)
        reached = None if version is None else transitions.phase(version.raw.get("status") or {})
        if reached not in ends:
            found.append(f"{name} is {reached or 'not there'}, not {' or '.join(sorted(ends))}")
    return found


def forbidden(tasks: Sequence[Version]) -> list[str]:
    """Steps between two versions that the table of transitions does not know."""
    found = []
    for history in by_object(tasks).values():
        before: Mapping[str, object] = {}
        for version in history:
            after = version.raw.get("status") or {}
            objection = None if version.deleted else transitions.objection(before, after)
            if objection:
                found.append(f"{version.name} at {version.revision}: {objection}")
            before = after
    return found


def finished_twice(tasks: Sequence[Version]) -> list[str]:
    """Tasks that entered a terminal phase more than once, or left one."""
    found = []
    for history in by_object(tasks).values():
        phases = [transitions.phase(one.raw.get("status") or {}) for one in history]
        ends = sum(b in TERMINAL and a is not b for a, b in zip([Phase.NEW, *phases], phases, strict=False))
        moments = {
            one.raw["status"].get("completedAt") for one in history if (one.raw.get("status") or {}).get("completedAt")
        }
        if ends > 1 or len(moments) > 1:
            found.append(f"{history[0].name} ended {max(ends, len(moments))} times")
    return found


def stale_epochs(tasks: Sequence[Version]) -> list[str]:
    """Writes of a leader that had been replaced: an epoch that is lower than one seen before."""
    found = []
    for history in by_object(tasks).values():
        highest = 0
        for version in history:
            epoch = int((version.raw.get("status") or {}).get("leaderEpoch", 0))
            if epoch < highest:
                found.append(f"{version.name} at {version.revision}: epoch {epoch} after {highest}")
            highest = max(highest, epoch)
    return found


def duplicate_jobs(jobs: Sequence[Version]) -> list[str]:
    """(task, attempt) pairs for which more than one Job was ever created."""
    created: dict[tuple[str, str], set[str]] = defaultdict(set)
    for version in jobs:
        labels = version.raw["metadata"]["labels"]
        created[labels[job.UID_LABEL], labels[job.ATTEMPT_LABEL]].add(version.uid)
    return [f"{len(uids)} Jobs for {task}, run {attempt}" for (task, attempt), uids in created.items() if len(uids) > 1]


def crowded(pods: Sequence[Version]) -> list[str]:
    """Moments at which a task had more than one live pod."""
    live: dict[str, set[str]] = defaultdict(set)
    found = []
    for version in sorted(pods, key=lambda one: one.revision):
        task = version.raw["metadata"]["labels"].get(job.UID_LABEL, NO_TASK)
        ended = (version.raw.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if version.deleted or ended:
            live[task].discard(version.uid)
        else:
            live[task].add(version.uid)
            if len(live[task]) > 1:
                found.append(f"{task} has {len(live[task])} live pods at {version.revision}")
    return found


def overbooked(pods: Sequence[Version], slots: int) -> list[str]:
    """Moments at which more pods lived on the booked slots than there are slots. One without a booking needs none."""
    live: dict[str, str] = {}
    found = []
    for version in sorted(pods, key=lambda one: one.revision):
        ended = (version.raw.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if version.deleted or ended or not version.raw["metadata"].get("annotations", {}).get(job.BACKEND_ANNOTATION):
            live.pop(version.uid, None)
        elif version.uid not in live:
            live[version.uid] = version.raw["metadata"].get("labels", {}).get(job.TASK_LABEL, version.name)
            if len(live) > slots:
                found.append(f"{len(live)} live pods on {slots} slots at {version.revision}: {' '.join(live.values())}")
    return found


def copies(tasks: Sequence[Version]) -> list[str]:
    """Templates that have not exactly one copy each, ever, and copies that did not end as they should.

    The next run of each template of a load is a year away.
    """
    made: dict[str, set[str]] = defaultdict(set)
    found = []
    templates = {one.uid: one.name for one in tasks if "cron" in (one.raw["spec"].get("schedule") or {})}
    for uid, history in by_object(tasks).items():
        for owner in history[-1].raw["metadata"].get("ownerReferences") or ():
            made[owner["uid"]].add(uid)
            phase = transitions.phase(history[-1].raw.get("status") or {})
            if phase is not Phase.COMPLETED:
                found.append(f"{history[-1].name} is {phase}, not {Phase.COMPLETED}")
    found += [
        f"{name} has {len(made[uid])} copies instead of one" for uid, name in templates.items() if len(made[uid]) != 1
    ]
    return found


def unheard(tasks: Sequence[Version], runs: Sequence[Ran]) -> list[str]:
    """Completed tasks whose last run did not read every message that had been written by then, and blind runs."""
    by_uid: dict[str, list[Ran]] = defaultdict(list)
    for run in runs:
        by_uid[run.uid].append(run)
    found = [f"run {run.attempt} of {run.uid} found no input of its own" for run in runs if run.read is None]
    for uid, history in by_object(tasks).items():
        completed = [one for one in history if (one.raw.get("status") or {}).get("phase") == Phase.COMPLETED]
        if not completed:
            continue
        written = len(completed[0].raw["spec"].get("messages") or ())
        read = max((run.read or 0 for run in by_uid[uid] if run.reason == "Answered"), default=0)
        if read < written:
            found.append(f"{completed[0].name} was completed with {read} of {written} messages read")
    return found


def worked_twice(tasks: Sequence[Version], runs: Sequence[Ran]) -> list[str]:
    """Tasks that were answered again although no message had come after the first answer."""
    names = {one.uid: one.name for one in tasks}
    answers: dict[str, list[int]] = defaultdict(list)
    for run in runs:
        if run.reason == "Answered":
            answers[run.uid].append(run.read or 0)
    found = []
    for uid, read in answers.items():
        if len(set(read)) < len(read):
            found.append(f"{names.get(uid, uid)} was answered {len(read)} times, having read {read} messages")
    return found


def results_twice(results: Iterable[Mapping[str, object]]) -> list[str]:
    """More than one stored result for a task."""
    counted = Counter(str(one["_id"]) for one in results)
    return [f"{number} results of {uid}" for uid, number in counted.items() if number > 1]


def unarchived(tasks: Sequence[Version], archive: Mapping[str, str]) -> list[str]:
    """Objects that were deleted without a place in the archive under their last phase. `archive`: phase by uid."""
    found = []
    for uid, history in by_object(tasks).items():
        last = history[-1]
        phase = transitions.phase(last.raw.get("status") or {})
        if last.deleted and phase in TERMINAL and archive.get(uid) != phase:
            found.append(f"{last.name} is deleted as {phase} and archived as {archive.get(uid)}")
    return found


def believed(tasks: Sequence[Version], lie: str) -> list[str]:
    """Tasks with a status that holds what only a forged run has ever reported."""
    found = {one.name: one for one in tasks if lie in json.dumps(one.raw.get("status") or {}, ensure_ascii=False)}
    return [f"{name} believed a forged run at {version.revision}" for name, version in found.items()]


def astray(workloads: Sequence[Version], home: str, mark: str) -> list[str]:
    """Jobs and pods outside of the release's namespace `home`, but for those with the annotation `mark`."""
    made = {(one.namespace, one.kind, one.name): one for one in workloads if one.namespace != home}
    return [
        f"{kind}/{name} is in {namespace}"
        for (namespace, kind, name), one in made.items()
        if mark not in (one.raw["metadata"].get("annotations") or {})
    ]


def orphaned(workloads: Sequence[Version], withdrawn: Collection[str]) -> list[str]:
    """Jobs and pods that are left of tasks whose namespace was deleted. `withdrawn`: uids of these tasks."""
    last = {one.uid: one for one in workloads}
    return [
        f"{one.kind}/{one.name} is left of a deleted namespace"
        for one in last.values()
        if not one.deleted and one.raw["metadata"]["labels"].get(job.UID_LABEL) in withdrawn
    ]


def ends(tasks: Sequence[Version], namespace: str) -> list[float]:
    """When each task of that namespace entered a terminal phase first, in order; seconds as in `Version.at`."""
    first: dict[str, float] = {}
    for version in tasks:
        phase = transitions.phase(version.raw.get("status") or {})
        if version.namespace == namespace and phase in TERMINAL and not version.deleted:
            first.setdefault(version.uid, version.at)
    return sorted(first.values())


def stalled(moments: Sequence[float], since: float, until: float, most: float) -> list[str]:
    """Times between `since` and `until` in which nothing ended for longer than `most` seconds."""
    marks = [since, *(one for one in moments if since <= one <= until), until]
    return [
        f"nothing ended for {b - a:.0f} s, from {a - since:.0f} s after the deletion on"
        for a, b in pairwise(marks)
        if b - a > most
    ]
