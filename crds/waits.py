"""Why tasks wait, as the operator answers `GET /api/v1/queue` and writes into the condition `Dispatched`.

Source: seed 000, queue status (items of Foreground and Background that are pending, `orchestratorHealthy`).
"""

from __future__ import annotations

from enum import StrEnum

from crds import phases
from crds.model import Model, Time
from crds.pendingtask import Mode


class Reason(StrEnum):
    """What a waiting task lacks."""

    SUSPENDED = "Suspended"
    JOB_SUSPENDED = "JobSuspended"
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
    Reason.POSTPONED: "The last try failed; status.retry says why and when the next one follows.",
    Reason.QUALIFIER_BUSY: "Every place at the qualifier is taken.",
    Reason.NO_GPU_BACKEND: "No GpuBackend of kind GPU is Ready; see `kubectl get gpu` and create or repair one.",
    Reason.CIRCUIT_OPEN: "Runs could not be dispatched several times in a row; the next try follows within 30 s.",
    Reason.USERS_ACTIVE: "Users are active; Background runs start once they have been quiet.",
    Reason.NO_FREE_SLOT: "Every GPU slot is taken; `kubectl jervis queue` shows what comes before this task.",
    Reason.TURN: "Its turn has come, or is about to.",
}


def explain(reason: Reason, cause: str = "") -> str:
    """The reason as a sentence, and `cause`, what an administrator has to see to."""
    return f"{MESSAGES[reason]} {cause}".strip()


class Waiting(Model):
    """A task that waits for its turn."""

    uid: str
    """Identity of the task."""
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
    """What it lacks."""
    message: str
    """The same as a sentence, and what an administrator has to see to."""
    since: Time
    """Since when it waits for its turn; RFC 3339."""
    not_before: Time | None = None
    """It is postponed until then."""
    position: int | None = None
    """Its place among all that wait for the same, from 1; null while it is suspended or postponed."""
    before: int = 0
    """How many tasks have their turn before it, those of other namespaces included."""
    before_own: tuple[str, ...] = ()
    """The first of them by name: at most five, of the same namespace and client."""
    aged: bool = False
    """It has waited for so long that it is taken before its place."""


class Lane(Model):
    """The waiting tasks of the namespace in one mode."""

    pending: int = 0
    """How many."""
    oldest: Time | None = None
    """Since when the one that has waited longest does; suspended ones do not count."""


class Slots(Model):
    """GPU slots of all Ready backends."""

    total: int
    """How many."""
    free: int
    """How many are free."""


class Queue(Model):
    """What waits in a namespace, and for what."""

    leading: bool
    """False: this replica stands by. Turns, the breaker and users' activity are then as far as it knows."""
    orchestrator_healthy: bool
    """False while runs cannot be dispatched."""
    breaker: str
    """Closed, Open or HalfOpen."""
    slots: Slots
    """What waiters wait for."""
    foreground: Lane
    """Tasks that a person waits for."""
    background: Lane
    """All others."""
    items: tuple[Waiting, ...]
    """Foreground first, each in the order of turns; at most `limit`."""
    more: int = 0
    """How many are left out."""
