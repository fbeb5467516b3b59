"""The inputs of a decision besides the task itself, as plain frozen values.

The reconciler fills an `ObservedState` from its caches and from the result of the task's last effect; tests fill it by
hand. Times are aware datetimes (UTC).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from contracts.api.queue_api import Reason
from controllers.admission import Refusal
from controllers.clients import Clients
from crds import approvals, errors
from crds.exit_reasons import ExitReason
from crds.pendingtask import Decision, Hints, PlanOutcome, Question
from kb import api

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
    approval_expires: timedelta | None = None
    approval_default: approvals.Default = approvals.Default.REJECT


class JobState(StrEnum):
    """The state of a Job, derived from its conditions and spec."""

    ACTIVE = "Active"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True)
class JobView:
    """The Job of one attempt. `reason` and `message` are those of its terminal condition.

    foreign  suspended, but not by the operator
    marked   has the operator's suspension annotation, suspended or not
    queued   Kueue decides when it runs
    task     (uid, namespace, name) of its task
    warm     it was created before there was a task for it
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
    warm: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result that a run reports, from the termination message or the stored result; bounded by `views`.

    `unavailable` is the service that did not answer, `retry_after` the seconds that it asked for; `field` and `remedy`
    say what to change. `waiting` is the number of effects that approval is asked for, `effects` are the first of them,
    which only the stored result has; `about` is the run's own name of an answer that approval is asked for.
    `messages_read` is the number of the user's messages that the run has read; None where it does not say so.
    `absent_tools` says which tools of other servers its agents did not have, and why.
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
    plan: PlanOutcome | None = None
    waiting: int = 0
    effects: tuple[approvals.Effect, ...] = ()
    messages_read: int | None = None
    absent_tools: str = ""
    about: str = ""

    def sentence(self) -> str:
        """Summary, field and remedy as text for a condition, without repetition."""
        more = [f"Field: {self.field}."] if self.field and self.field not in self.summary else []
        more += [self.remedy] if self.remedy and self.remedy not in self.summary else []
        return " ".join([*([self.summary] if self.summary else []), *more])


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod of the task.

    live         not all containers have ended
    started      the container has run, and a pod of the warm pool has its task
    waiting_*    the kubelet's reason and message before that (ImagePullBackOff ...)
    exit_code    None while the container runs
    backend      the backend whose slot is booked for the pod
    given_up_at  a pod that exists after this time is on a node that does not answer
    created      aware, whole seconds
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
        """It runs or will run, and is not given up."""
        return self.live and (self.given_up_at is None or now < self.given_up_at)


def last_word(pods: Iterable[PodView], attempt: int, job: JobView | None) -> Outcome | None:
    """The outcome that the run's last pod reported; None if it reported none, or the last pod was not seen.

    A Job that was suspended and resumed has several pods. A drained pod reports its own end, not that of the run: of
    two pods created in the same second it is the earlier one, and in a complete Job another pod followed it.
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
    """A task's attachments, processed. `refused`: name and reason; `away`: some failed because a service was down.
    `partly`: name of a file that was taken, and what of it could not be read."""

    chunk_ids: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    away: bool = False
    partly: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Linked:
    """The links of a document: how many have tasks, how many of these are new, and why others have none."""

    links: int
    made: int
    refused: tuple[str, ...] = ()

    def sentence(self) -> str:
        """As a sentence for a condition; "" without links."""
        if not self.links:
            return ""
        there = self.links - len(self.refused)
        text = f"{self.links} link{'s' if self.links > 1 else ''} found, {there} processed as tasks ({self.made} new)."
        return f"{text} {len(self.refused)} refused: {self.refused[0][:300]}" if self.refused else text


@dataclass(frozen=True, slots=True)
class Ruled:
    """The route that hard rules decide, those rules in words, and what belongs to Defer, Ask and Fail."""

    decision: Decision
    rules: tuple[str, ...] = ()
    minutes: int = 0
    questions: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Ingested:
    """The knowledge base has read the content; `attached` is None if no attachments were processed.

    `superseded`, `forbidden`: why the content is not stored, as a sentence; "" if it is. `linked`: the tasks of its
    links. `directive`: what the task needs first; None: nothing, the hints decide.
    `hidden`: what a reader of the content does not see, as "kind: quote".
    `generation` is that of the object that was read; `digest` identifies the input, so that a later generation with the
    same input is not read again.
    `ruled`: what hard rules decide, whatever the rest says.
    `unread`: a person is asked first, and it is read once more with the answer.
    `repeats`: the task that brought the same content before, in words; "" if it is the first.
    `similar`: the earlier document that says nearly the same, in words; "" without one. `answers`: what it answers.
    """

    hints: Hints
    reason: str = ""
    summary: str = ""
    chunk_ids: tuple[str, ...] = ()
    node_keys: tuple[str, ...] = ()
    attached: Attached | None = None
    directive: api.QualifierDirective | None = None
    superseded: str = ""
    linked: Linked | None = None
    forbidden: str = ""
    ruled: Ruled | None = None
    hidden: tuple[str, ...] = ()
    unread: bool = False
    repeats: str = ""
    similar: str = ""
    answers: str = ""
    generation: int | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An effect failed. `operational`: a retry can help; otherwise the task or the configuration must change.

    `generation` and `digest` as in `Ingested`, if a reading failed. `waits_for`: the uid of the task whose end is
    waited for.
    """

    message: str
    operational: bool
    retry_after: float | None = None
    field: str | None = None
    remedy: str | None = None
    generation: int | None = None
    digest: str = ""
    waits_for: str = ""

    def sentence(self) -> str:
        """Message, field and remedy as text for a condition."""
        parts = [self.message.rstrip(".") + "."]
        if self.field:
            parts.append(f"Field: {self.field}.")
        if self.remedy:
            parts.append(self.remedy)
        return " ".join(parts)[:1024]


@dataclass(frozen=True, slots=True)
class TokenNotWritten:
    """The run's Job is there and its token could not be written: its pod waits for that."""

    trouble: Trouble


@dataclass(frozen=True, slots=True)
class CopyMade:
    """The execution copy of a recurring task for `due` exists, named `name`."""

    due: datetime
    name: str = ""


@dataclass(frozen=True, slots=True)
class CopyHeld:
    """No copy was made: concurrencyPolicy forbids it until the copy `by` has ended."""

    due: datetime
    by: str


@dataclass(frozen=True, slots=True)
class NoCopy:
    """The recurring task has no execution copy."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Another task's document answered the request: the name of that task and the document's sourceUrn."""

    by: str
    source: str


def trouble(error: errors.JervisError) -> Trouble:
    """The error as an input of decisions."""
    if isinstance(error, errors.Operational):
        return Trouble(error.message, operational=True, retry_after=error.retry_after)
    if isinstance(error, errors.Permanent):
        return Trouble(error.message, operational=False, field=error.field, remedy=error.remedy)
    return Trouble(error.message, operational=False)


Reading = Ingested | Trouble
"""The result of a qualification."""
Observation = Ingested | Trouble | TokenNotWritten | CopyMade | CopyHeld | NoCopy | Answered


@dataclass(frozen=True, slots=True)
class Slots:
    """The GPU slots that one task may use.

    total        slots of all known GPU backends, including one that stopped serving a moment ago
    free         (backend name, free slots) of Ready GPU backends, best first; without slots reserved for other tasks
    without_gpu  users' runs that may start without a slot now; 0 unless `total` is 0
    held         names of backends on which the task does not start because they serve users
    """

    total: int = 0
    free: Sequence[tuple[str, int]] = ()
    without_gpu: int = 0
    held: frozenset[str] = frozenset()

    @property
    def startable(self) -> Sequence[tuple[str, int]]:
        """The entries of `free` on which the task may start."""
        return tuple(one for one in self.free if one[0] not in self.held)


class Users(NamedTuple):
    """Users' activity that holds a task back; the default holds nothing back."""

    active: bool = False
    last: datetime | None = None
    in_doubt_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claimant:
    """The user's task that gets the slot of a run: its uid, the number of its run, and `namespace/name`.

    `name` is "" for a task of another namespace: names of other tenants' tasks are not shown.
    """

    uid: str
    run: int
    name: str


@dataclass(frozen=True, slots=True)
class ObservedState:
    """A snapshot.

    qualifying      qualifier places that other tasks hold, or that belong to waiters before this task
    working         the qualification or another effect of this task is in progress in this process
    observed        the result of this task's last effect, not yet persisted
    job             the Job of the current attempt; None: the API was asked and has none. In ReadyForGpu: the Job of the
                    run to resume, from the cache only
    strays          names of this task's Jobs that run, or may run, and are not that of the current attempt
    pods            pods of this task, any attempt
    recorded        the stored result of the current attempt, read if the pod left no message or names effects there
    claimant        the task that gets the slot of this task's run
    backend_gone_in seconds until the backend of this task's slot is given up, 0: now; None: it is available
    user_active     a Foreground task waits or runs, and holds this one back
    last_user       the last activity of a user request that holds this task back; None: none is known
    in_doubt_since  since when it is unknown whether the router serves users; None: it is known, or irrelevant
    dispatch_open   the circuit breaker permits another dispatch
    dispatch_cause  what an administrator has to correct if it does not, as a sentence; or ""
    waits           the reason of waiting to record in the task's condition now; None: record none
    refusal         why the task's namespace may not have it; None: it may
    first_over      the task whose reading this one waits for (`status.retry.waitsFor`) is decided about, or gone
    ignored_flags   annotations of the task that choose a feature flag and do not count, as sentences with the remedy
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
    dispatch_cause: str = ""
    waits: Reason | None = None
    refusal: Refusal | None = None
    first_over: bool = False
    ignored_flags: tuple[str, ...] = ()

    @property
    def backend_gone(self) -> bool:
        """The backend of this task's slot is given up: its run has to stop."""
        return self.backend_gone_in == 0

    def live_pods(self, now: datetime) -> tuple[PodView, ...]:
        """Pods that run or will run."""
        return tuple(pod for pod in self.pods if pod.lives(now))
