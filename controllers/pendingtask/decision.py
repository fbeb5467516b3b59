"""The `Decision` type and the functions that build decisions.

A `Decision` holds the merge patch of the status, the effects to perform once that patch is persisted, the delay until
the next reconciliation, and the resource that the task waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from contracts.api import queue_api
from controllers.pendingtask import phases
from controllers.pendingtask.observed import ObservedState, PodView
from crds import conditions, pendingtask
from crds.model import Model
from crds.phases import HOLDS_SLOT, TERMINAL, Phase

Field = Model | tuple[Model, ...] | str | int | None
"""The value of a status field."""

_TRUE_IN: Mapping[str, frozenset[Phase]] = {
    "Dispatched": HOLDS_SLOT,
    "WaitingForUser": frozenset({Phase.USER_TASK}),
}
"""Conditions that can be true in these phases only."""
_ONLY_UNFINISHED = frozenset({"Suspended", "Preempted"})
"""Conditions that can be true in every phase except terminal ones."""
_STANDING = TERMINAL | {Phase.USER_TASK, Phase.SCHEDULED}
"""Phases in which a task waits for no GPU slot: no reason of the condition Dispatched may say so."""
_QUEUED = frozenset({*queue_api.Reason, "Preempted"})


@dataclass(frozen=True, slots=True)
class Ingest:
    """Store the content in the knowledge base in `after` seconds; results in `Ingested` or `Trouble`."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Launch:
    """Write the task memory, then create or resume the Job of this attempt; results in `Trouble` if that fails."""

    attempt: int
    job_name: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Write the user's messages into the task memory, for the run of this attempt, which reads it again before it ends.
    A failure is none of the task: a run that has not read them is followed by one that does."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """Suspend the running Job: its pod gets SIGTERM and saves its checkpoint."""

    job_name: str


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Resume a suspended Job from its checkpoint."""

    job_name: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a Job that never started to work, or cannot continue where it is."""

    job_name: str


@dataclass(frozen=True, slots=True)
class ExpireJob:
    """Have the Job deleted `ttl_seconds` from now; its result is recorded."""

    job_name: str
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Create the execution copy of a recurring task for `due`; results in `CopyMade`, `CopyHeld` or `Trouble`."""

    due: datetime


@dataclass(frozen=True, slots=True)
class Recall:
    """Find the copy of a recurring task's latest run up to `most`; results in `CopyMade` or `NoCopy`."""

    most: datetime


Effect = Ingest | Launch | Remember | SuspendJob | ResumeJob | DeleteJob | ExpireJob | Copy | Recall


class WaitFor(StrEnum):
    """The shared resource that a task waits for; when it becomes free, waiting tasks are admitted in queue order."""

    QUALIFIER = "Qualifier"
    GPU = "Gpu"


@dataclass(frozen=True, slots=True)
class Note:
    """One Event: a CamelCase reason, a sentence, and whether it is a warning."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """`requeue_after`: seconds until the next reconciliation; None: only an event triggers it."""

    status_patch: Mapping[str, Any] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    requeue_after: float | None = None
    wait_for: WaitFor | None = None
    note: Note | None = None

    @property
    def phase(self) -> Phase | None:
        """The phase that the patch sets, if it sets one."""
        value = self.status_patch.get("phase")
        return None if value is None else Phase(value)


@dataclass(frozen=True, slots=True)
class View:
    """The input of every policy: the task, the state and the time (aware, UTC)."""

    task: pendingtask.PendingTask
    state: ObservedState
    now: datetime

    @property
    def phase(self) -> Phase:
        """New for a task without a phase."""
        return self.task.status.phase or Phase.NEW

    def live_pods(self) -> tuple[PodView, ...]:
        """Pods that run or will run."""
        return self.state.live_pods(self.now)

    def entered(self) -> datetime:
        """When the current phase was entered; now if no time is recorded, so that the task does not count as stale."""
        return self.task.status.phase_times.get(self.phase.value, self.now)


def wait(seconds: float | None = None, *, wait_for: WaitFor | None = None) -> Decision:
    """Change nothing; reconcile again after `seconds`, or when `wait_for` becomes free."""
    return Decision(requeue_after=seconds, wait_for=wait_for)


def until(view: View, moment: datetime) -> Decision:
    """Change nothing before `moment`."""
    return Decision(requeue_after=max(0.0, (moment - view.now).total_seconds()))


def act(*effects: Effect, requeue_after: float | None = None) -> Decision:
    """Perform effects whose intent is persisted already."""
    return Decision(effects=effects, requeue_after=requeue_after)


def condition(view: View, type_: str, ok: bool | None, reason: str, message: str) -> conditions.Condition:
    """A condition of this task as of now."""
    return conditions.make(type_, ok, reason, message, now=view.now, generation=view.task.metadata.generation)


def whole(at: datetime) -> datetime:
    """`at` in whole seconds as metav1.Time has them, rounded up so that "not before" stays true."""
    floor = at.replace(microsecond=0)
    return floor if floor == at else floor + timedelta(seconds=1)


def moment(at: datetime) -> str:
    """metav1.Time on the wire: RFC 3339, UTC, whole seconds."""
    return whole(at).astimezone(UTC).isoformat().replace("+00:00", "Z")


def put(view: View, *new: conditions.Condition) -> list[dict[str, Any]] | None:
    """The new list of conditions, or None if it equals the present one apart from times."""
    merged = view.task.status.conditions
    for one in new:
        merged = conditions.put(merged, one)

    def content(items: tuple[conditions.Condition, ...]) -> list[tuple[str, str, str, str]]:
        return [(c.type, c.status.value, c.reason, c.message) for c in items]

    return None if content(merged) == content(view.task.status.conditions) else [c.wire() for c in merged]


def remark(view: View, new: conditions.Condition, *, decision: Decision) -> Decision:
    """`decision`, with the condition `new` and an Event about it, unless the status has that condition already."""
    listed = put(view, new)
    if listed is None:
        return decision
    return Decision(
        {**decision.status_patch, "conditions": listed},
        decision.effects,
        decision.requeue_after,
        decision.wait_for,
        decision.note or Note(new.reason, new.message, warning=new.status is conditions.Status.FALSE),
    )


def to(
    view: View,
    phase: Phase,
    reason: str,
    message: str,
    *conds: conditions.Condition,
    effects: tuple[Effect, ...] = (),
    warning: bool = False,
    fields: Mapping[str, Field] = MappingProxyType({}),
) -> Decision:
    """Go to `phase`, if the table permits it. `fields` are snake_case fields of the status; None removes one."""
    route = fields.get("route", view.task.status.route)
    phases.check(view.phase, phase, qualified=route is not None)
    patch: dict[str, Any] = {
        "phase": phase.value,
        "phaseTimes": {phase.value: moment(view.now)},
        "observedGeneration": view.task.metadata.generation,
    }
    for name, value in fields.items():
        # A merge patch merges objects: a field that only the old value has must be set to None.
        if isinstance(value, tuple):
            patch[_camel(name)] = [one.wire() for one in value]
        else:
            patch[_camel(name)] = _replaced(view, name, value.wire()) if isinstance(value, Model) else value
    extra = list(conds)
    if phases.terminal(phase):
        patch["completedAt"] = moment(view.now)
        extra.append(condition(view, "Finished", True, reason, message))
        if not any(one.type == "Succeeded" for one in conds):
            extra.append(condition(view, "Succeeded", phase is not Phase.ERROR, reason, message))
    listed = put(view, *extra, *_outdated(view, phase, reason, message, extra))
    if listed is not None:
        patch["conditions"] = listed
    return Decision(patch, effects, note=Note(reason, message, warning=warning))


def _outdated(
    view: View, phase: Phase, reason: str, message: str, given: Iterable[conditions.Condition]
) -> Iterator[conditions.Condition]:
    """The conditions that `phase` makes untrue (or Accepted again), without those that the step itself sets."""
    named = {one.type for one in given}
    for old in view.task.status.conditions:
        if old.type == "Accepted" and old.type not in named and old.status is not conditions.Status.TRUE:
            yield condition(view, old.type, True, "Readable", "")
        if old.type in named:
            continue
        if old.type == "Dispatched" and old.reason in _QUEUED and phase in _STANDING:
            yield condition(view, old.type, False, reason, message)
        if old.status is not conditions.Status.TRUE:
            continue
        if (old.type in _ONLY_UNFINISHED and phase in TERMINAL) or phase not in _TRUE_IN.get(old.type, (phase,)):
            yield condition(view, old.type, False, reason, message)


def clip(text: str) -> str:
    """At most 2 KiB of UTF-8, cut between characters; an unpaired surrogate becomes "?"."""
    return text.encode(errors="replace")[: pendingtask.SUMMARY_BYTES].decode(errors="ignore")


def _camel(name: str) -> str:
    alias = pendingtask.Status.model_fields[name].alias
    assert alias is not None, f"crds.pendingtask.Status.{name} has no wire name"
    return alias


def _replaced(view: View, name: str, new: dict[str, Any]) -> dict[str, Any]:
    old = getattr(view.task.status, name)
    return {**dict.fromkeys(old.wire().keys(), None), **new} if isinstance(old, Model) else new
