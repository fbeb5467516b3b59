"""Everything a decision may look at besides the task itself, as plain frozen values.

The reconciler fills an `ObservedState` from its caches and from the result of the task's last effect; tests fill it by
hand. Times are aware datetimes (UTC).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from controllers.admission import Refusal
from controllers.clients import Clients
from crds import errors
from crds.exits import ExitReason
from crds.pendingtask import Hints, Question
from crds.waits import Reason

_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that decisions depend on."""

    clients: Clients = field(default_factory=Clients)
    advance: timedelta = timedelta(minutes=10)
    catch_up: timedelta = timedelta(days=1)
    idle_threshold: timedelta = timedelta(seconds=30)
    background_age: timedelta = timedelta(hours=1)
    stale_after: timedelta = timedelta(minutes=10)
    recheck: timedelta = timedelta(seconds=60)
    qualifying_at_once: int = 10
    max_lost_runs: int = 5
    max_preemptions: int = 3
    runs_without_gpu: int = 2
    job_ttl_seconds: int = 600


class JobState(StrEnum):
    """What a Job's status adds up to."""

    ACTIVE = "Active"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True)
class JobView:
    """The Job of one attempt. `reason` and `message` are those of its terminal condition.

    foreign  it is suspended, and not by the operator
    marked   it carries the operator's mark of a suspension, suspended or not
    queued   Kueue decides when it runs
    task     (uid, namespace, name) of its task
    """

    name: str
    uid: str
    state: JobState
    suspended: bool = False
    foreign: bool = False
    marked: bool = False
    queued: bool = False
    has_ttl: bool = False
    reason: str = ""
    message: str = ""
    attempt: int = 0
    task: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run said about its own end, from the termination message or the stored result; bounded by `views`.

    `unavailable` names the service that was away and `retry_after` the seconds that it asked for; `field` and `remedy`
    say what to change.
    """

    exit_reason: ExitReason
    summary: str = ""
    collection: str = "task_results"
    key: str = ""
    questions: tuple[Question, ...] = ()
    retry_after: float | None = None
    unavailable: str = ""
    field: str = ""
    remedy: str = ""

    def sentence(self) -> str:
        """Summary, field and remedy as text for a condition; each is named once."""
        more = [f"Field: {self.field}."] if self.field and self.field not in self.summary else []
        more += [self.remedy] if self.remedy and self.remedy not in self.summary else []
        return " ".join([*([self.summary] if self.summary else []), *more])


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod of the task.

    `live` is true until all containers have ended. `started` is true once the container has run. `waiting` is the
    kubelet's reason and message while it has not (ImagePullBackOff ...). `exit_code` is None while it runs. `backend`
    is whose slot was booked for it. `given_up_at`: it should be gone by then; a pod that still is there belongs to a
    node that does not answer. `created` is aware, in whole seconds.
    """

    name: str
    attempt: int
    live: bool
    started: bool
    waiting_reason: str = ""
    waiting_message: str = ""
    exit_code: int | None = None
    ended_reason: str = ""
    outcome: Outcome | None = None
    backend: str = ""
    given_up_at: datetime | None = None
    created: datetime = _EVER

    def lives(self, now: datetime) -> bool:
        """Runs or is about to, and is not given up."""
        return self.live and (self.given_up_at is None or now < self.given_up_at)


def last_word(pods: Iterable[PodView], attempt: int, job: JobView | None) -> Outcome | None:
    """What the run's last pod said of its end; None when it said nothing, or cannot have been seen.

    A Job that was suspended and let go has a pod for each time. One that drained said so of itself and not of the run:
    of two in the same second it was the first, and where the Job is complete another one came after it.
    """
    mine = [pod for pod in pods if pod.attempt == attempt]
    last = max(mine, key=lambda pod: (pod.created, not _drained(pod)), default=None)
    if last is None or (_drained(last) and job is not None and job.state is JobState.COMPLETE):
        return None
    return last.outcome


def _drained(pod: PodView) -> bool:
    return pod.outcome is not None and pod.outcome.exit_reason is ExitReason.DRAINED


@dataclass(frozen=True, slots=True)
class Attached:
    """What became of a task's files. `refused`: name and reason; `away`: of some only because a service was away."""

    chunk_ids: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    away: bool = False


@dataclass(frozen=True, slots=True)
class Ingested:
    """The knowledge base took the content; `attached` is None where nobody looked at files.

    `questions` and `failure` are the qualifier's: what a person has to answer first, and why nothing can be done.
    `generation` is that of the object that was read, and `digest` identifies the input of that reading, so that a later
    generation with the same input need not be read again.
    """

    hints: Hints
    reason: str = ""
    summary: str = ""
    chunk_ids: tuple[str, ...] = ()
    node_keys: tuple[str, ...] = ()
    attached: Attached | None = None
    questions: tuple[str, ...] = ()
    failure: str = ""
    generation: int | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An effect failed. `operational`: trying again later can help; otherwise somebody must change something.

    `generation` and `digest` as of `Ingested`, when it was a reading that failed.
    """

    message: str
    operational: bool
    retry_after: float | None = None
    field: str | None = None
    remedy: str | None = None
    generation: int | None = None
    digest: str = ""

    def sentence(self) -> str:
        """Message, field and remedy as text for a condition."""
        parts = [self.message.rstrip(".") + "."]
        if self.field:
            parts.append(f"Field: {self.field}.")
        if self.remedy:
            parts.append(self.remedy)
        return " ".join(parts)[:1024]


@dataclass(frozen=True, slots=True)
class CopyMade:
    """The execution copy of a recurring task for that moment exists, under that name."""

    due: datetime
    name: str = ""


@dataclass(frozen=True, slots=True)
class CopyHeld:
    """No copy was made: concurrencyPolicy forbids it while the copy called `by` has not ended."""

    due: datetime
    by: str


@dataclass(frozen=True, slots=True)
class NoCopy:
    """There is no execution copy of the recurring task."""


def trouble(error: errors.JervisError) -> Trouble:
    """An error as something that a decision can be made from."""
    if isinstance(error, errors.Operational):
        return Trouble(error.message, operational=True, retry_after=error.retry_after)
    if isinstance(error, errors.Permanent):
        return Trouble(error.message, operational=False, field=error.field, remedy=error.remedy)
    return Trouble(error.message, operational=False)


Reading = Ingested | Trouble
"""What qualification brings."""
Observation = Ingested | Trouble | CopyMade | CopyHeld | NoCopy


@dataclass(frozen=True, slots=True)
class Slots:
    """The book of GPU slots as one task may use it.

    total        slots of all GPU backends that are there, one that stopped serving a moment ago included
    free         (backend name, free slots) of Ready GPU backends, best first; what is kept for others is not in it
    without_gpu  users' runs that may start without a slot now; 0 while `total` is not
    held         names of backends on which it does not start because they serve users
    """

    total: int = 0
    free: Sequence[tuple[str, int]] = ()
    without_gpu: int = 0
    held: frozenset[str] = frozenset()

    @property
    def startable(self) -> Sequence[tuple[str, int]]:
        """Those of `free` on which the task may start."""
        return tuple(one for one in self.free if one[0] not in self.held)


class Users(NamedTuple):
    """Users' activity as far as it holds a task back; by default none does."""

    active: bool = False
    last: datetime | None = None
    in_doubt_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claimant:
    """A user's task that gets the slot of a run: its uid, the number of its run, and `namespace/name`.

    `name` is "" for a task of another namespace: names of others' tasks are not shown.
    """

    uid: str
    run: int
    name: str


@dataclass(frozen=True, slots=True)
class ObservedState:
    """A snapshot.

    qualifying      places at the qualifier that are taken by others, or are those of waiters before this task
    working         this task's qualification or other effect is under way in this process
    observed        what the last effect for this task brought, not yet persisted
    job             the Job of the current attempt; None means that the API was asked and there is none. In ReadyForGpu
                    that of a run that is to be taken up again, as far as is known
    strays          names of Jobs of this task that run, or may, and are not that of the current attempt
    pods            pods of this task, any attempt
    recorded        the stored result of the current attempt, looked up when the pod left no message
    claimant        who is to get the slot of this task's run
    backend_gone_in seconds until the backend whose slot this task has booked is given up, 0: now; None: it is there
    user_active     a Foreground task is waiting or running, and holds this one back
    last_user       when a user request that holds this task back was last active; None: never, as far as is known
    in_doubt_since  since when it is not known whether the router serves users; None: it is known, or does not matter
    dispatch_open   the circuit breaker lets another dispatch through
    refused_for     seconds until a dispatch of this namespace is tried again, as the last ones were refused; None: now
    waits           why this task waits, if its condition is to say so now
    refusal         why its namespace may not have this task
    """

    limits: Limits = field(default_factory=Limits)
    qualifying: int = 0
    working: bool = False
    observed: Observation | None = None
    job: JobView | None = None
    strays: tuple[str, ...] = ()
    pods: tuple[PodView, ...] = ()
    recorded: Outcome | None = None
    slots: Slots = field(default_factory=Slots)
    claimant: Claimant | None = None
    backend_gone_in: float | None = None
    user_active: bool = False
    last_user: datetime | None = None
    in_doubt_since: datetime | None = None
    dispatch_open: bool = True
    refused_for: float | None = None
    waits: Reason | None = None
    refusal: Refusal | None = None

    @property
    def backend_gone(self) -> bool:
        """What runs there has to stop."""
        return self.backend_gone_in == 0

    def live_pods(self, now: datetime) -> tuple[PodView, ...]:
        """Pods that still run or are about to."""
        return tuple(pod for pod in self.pods if pod.lives(now))
