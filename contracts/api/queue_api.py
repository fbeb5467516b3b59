"""Why tasks wait: the response of `GET /api/v1/queue` and the reasons of the condition `Dispatched`.

Source: seed 000, queue status (pending items of Foreground and Background, `orchestratorHealthy`).
"""

from __future__ import annotations

from enum import StrEnum

from crds import phases
from crds.model import Model, Time
from crds.pendingtask import Mode


class Reason(StrEnum):
    """Why a task waits."""

    SUSPENDED = "Suspended"
    JOB_SUSPENDED = "JobSuspended"
    NOT_ALLOWED = "NotAllowed"
    CODE_ANALYSIS = "CodeAnalysis"
    POSTPONED = "Postponed"
    QUALIFIER_BUSY = "QualifierBusy"
    NO_GPU_BACKEND = "NoGpuBackend"
    CIRCUIT_OPEN = "CircuitOpen"
    USERS_ACTIVE = "UsersActive"
    NO_FREE_SLOT = "NoFreeSlot"
    TURN = "Turn"


MESSAGES = {
    Reason.SUSPENDED: "spec.suspend is true; set it to false to go on.",
    Reason.JOB_SUSPENDED: "Its Job is suspended, and not by the operator.",
    Reason.NOT_ALLOWED: "Its namespace may not have what it asks for; its condition Accepted says what to change.",
    Reason.CODE_ANALYSIS: "Its repository is analyzed first; its condition CodeAnalyzed says how far that is.",
    Reason.POSTPONED: "The last try failed; status.retry says why and when the next one follows.",
    Reason.QUALIFIER_BUSY: "The qualifier is at its limit of concurrent tasks.",
    Reason.NO_GPU_BACKEND: "No GpuBackend of kind GPU is Ready; see `kubectl get gpu` and create or repair one.",
    Reason.CIRCUIT_OPEN: "The dispatch of several runs in a row failed; the next try follows within 30 s.",
    Reason.USERS_ACTIVE: "Users are active; Background runs start when no user has been active for a while.",
    Reason.NO_FREE_SLOT: "No GPU slot is free; `kubectl jervis queue` shows which tasks come before this one.",
    Reason.TURN: "The task is next, or among the next.",
}


def explain(reason: Reason, cause: str = "") -> str:
    """The reason as a sentence, and `cause`, what an administrator has to see to."""
    return f"{MESSAGES[reason]} {cause}".strip()


class Waiting(Model):
    """A waiting task."""

    uid: str
    """Uid of the task."""
    name: str
    """Its name."""
    client_id: str
    """The client that its data belongs to."""
    mode: Mode
    """Foreground also for a chat message, whatever its spec says."""
    queue_position: int | None = None
    """spec.queuePosition."""
    phase: phases.Phase
    """New and ReadyForQualification wait for the qualifier, ReadyForGpu for a GPU slot."""
    reason: Reason
    """Why it waits."""
    message: str
    """The reason as a sentence, and what an administrator has to do about it."""
    since: Time
    """Since when it waits; RFC 3339."""
    not_before: Time | None = None
    """It is postponed until then."""
    position: int | None = None
    """Its position in its queue, from 1; null while it is suspended or postponed."""
    before: int = 0
    """Number of tasks before it in the queue, including those of other namespaces."""
    before_own: tuple[str, ...] = ()
    """Names of the first of them: at most five, of the same namespace and client."""
    aged: bool = False
    """True when it has waited so long that it is taken out of order."""


class Lane(Model):
    """The waiting tasks of the namespace in one mode."""

    pending: int = 0
    """Number of waiting tasks."""
    oldest: Time | None = None
    """Since when the first of them waits; suspended tasks do not count."""


class Slots(Model):
    """GPU slots of all Ready backends."""

    total: int
    """Number of slots."""
    free: int
    """Number of free slots."""


class Queue(Model):
    """The waiting tasks of a namespace and the state of the dispatcher."""

    leading: bool
    """False for a standby replica: it does not know whose turn came last, the breaker's state and users' activity."""
    orchestrator_healthy: bool
    """False while runs cannot be dispatched."""
    breaker: str
    """Closed, Open or HalfOpen."""
    slots: Slots
    """GPU slots."""
    foreground: Lane
    """Tasks that a person waits for."""
    background: Lane
    """All other tasks."""
    items: tuple[Waiting, ...]
    """Foreground first, then Background, each in queue order; at most `limit`."""
    more: int = 0
    """Number of waiting tasks beyond `limit`."""
