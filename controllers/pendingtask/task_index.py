"""The index of unfinished tasks: small, versioned, never the truth.

An older version of an object never replaces a newer one, so a watch event that is older than an own write is ignored.
Content and message texts are not stored. `Contents` stores new tasks as a whole, bounded by bytes, until the knowledge
base reads them; this saves one request per task.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from contracts.api import queue_api
from controllers.pendingtask.slots import bookings
from crds import conditions, order, pendingtask
from crds.flags import Flag
from crds.phases import Phase

Raw = Mapping[str, Any]
_WAITING_FOR_OTHERS = frozenset({Phase.SCHEDULED, Phase.USER_TASK, Phase.DONE, Phase.COMPLETED, Phase.ERROR})

WAITING = (Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU)
"""Phases in which a task waits for the operator, not for a time or a person."""
_LINKS = (Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING, Phase.USER_TASK)
_POSTPONABLE = frozenset({Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU})


@dataclass(frozen=True, slots=True)
class Entry:
    """One task at one version; times in seconds since the epoch.

    since       when its phase was entered
    queued      since when it waits for its turn; after a preemption: since it first waited
    held        suspended by its user, by another controller that suspended its Job, or by its namespace's limits
    not_before  postponed until then; 0: not postponed
    noted       the reason of waiting in its conditions (of `contracts.api.queue_api`); "" without one
    analyzing   waits, or will wait, for the analysis of its repository
    undecided   it may still be read, and its route is not known
    waits_for   the uid of the task whose reading of the same content it waits for; "" without one
    """

    version: int
    namespace: str
    phase: Phase
    order: order.Order
    user_waits: bool
    since: int
    held: bool
    document: bytes
    queued: int = 0
    not_before: int = 0
    noted: str = ""
    analyzing: bool = False
    undecided: bool = False
    waits_for: str = ""

    @property
    def name(self) -> str:
        """Name of the object; stored once, as part of its order."""
        return self.order.name.partition("/")[2]


def version(raw: Raw) -> int:
    """resourceVersion as a number; ordered by contract since Kubernetes 1.35, in practice before that too."""
    text = str(raw["metadata"].get("resourceVersion", "0"))
    return int(text) if text.isdigit() else 0


class Tasks:
    """Unfinished tasks by uid."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, int] = {}
        self._by_phase: dict[Phase, set[str]] = {phase: set() for phase in Phase}
        self._users: set[str] = set()
        self._followers: dict[str, set[str]] = {}
        self.last_user: datetime | None = None
        self.last_user_on: dict[str, datetime] = {}
        """Backend -> when a user's run on it ended."""
        self.bookings = bookings.Bookings()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def observe(self, raw: Raw) -> bool:
        """Store a version; False if it is not newer than the stored one. Raises pydantic.ValidationError."""
        uid, number = raw["metadata"]["uid"], version(raw)
        known = self._entries.get(uid)
        if (known is not None and number <= known.version) or number < self._gone.get(uid, 0):
            return False
        task = pendingtask.PendingTask.model_validate(raw)
        phase = task.status.phase or Phase.NEW
        since = _since(task, phase)
        entry = Entry(
            version=number,
            namespace=sys.intern(task.metadata.namespace),
            phase=phase,
            order=order.of(task),
            user_waits=_user_waits(task, phase),
            since=since,
            held=pendingtask.held(task),
            document=_document(raw),
            queued=_queued(task, phase, since),
            not_before=_not_before(task, phase),
            noted=_noted(task),
            analyzing=pendingtask.awaits_analysis(task),
            undecided=pendingtask.undecided(task),
            waits_for=_waits_for(task, phase),
        )
        before = self.bookings.runs.get(uid)
        if known is not None:
            self._by_phase[known.phase].discard(uid)
        self._follow(uid, known, entry)
        self._entries[uid] = entry
        self._by_phase[phase].add(uid)
        self.bookings.observe(task, entry.order)
        self._user_left(before, self.bookings.runs.get(uid))
        self._user(uid, entry.user_waits)
        return True

    def links(self, client_id: str) -> int:
        """Number of the client's tasks of links that are not finished, those that wait for a person included."""
        entries = (self._entries[uid] for phase in _LINKS for uid in self._by_phase[phase])
        return sum(one.order.urgency == order.LINK and one.order.client == client_id for one in entries)

    def forget(self, uid: str, at: int = 0) -> None:
        """The task is finished or deleted; versions up to `at` are ignored from now on."""
        known = self._entries.pop(uid, None)
        if known is not None:
            self._by_phase[known.phase].discard(uid)
        self._follow(uid, known, None)
        before = self.bookings.runs.get(uid)
        self.bookings.forget(uid)
        self._user_left(before, None)
        self._user(uid, False)
        # The response to a write may arrive after the deletion event: remember some removed tasks.
        self._gone[uid] = max(at, known.version if known else 0) + 1
        if len(self._gone) > 10_000:
            for old in list(self._gone)[:5_000]:
                del self._gone[old]

    def leave(self, uid: str) -> None:
        """The task's namespace is no longer served; if it is again, any version of the task is accepted."""
        self.forget(uid)
        self._gone.pop(uid, None)

    def version(self, uid: str) -> int | None:
        """The newest known version, also of a finished or deleted task."""
        known = self._entries.get(uid)
        return self._gone.get(uid) if known is None else known.version

    def known(self, namespace: str | None) -> Iterator[Raw]:
        """The tasks of a namespace (None: of all), with the fields that a deletion event needs."""
        for uid, entry in self._entries.items():
            if namespace in (None, entry.namespace):
                meta = {
                    "uid": uid,
                    "namespace": entry.namespace,
                    "name": entry.name,
                    "resourceVersion": str(entry.version),
                }
                yield {"metadata": meta}

    def get(self, uid: str) -> pendingtask.PendingTask | None:
        """The task without content and texts, or None."""
        entry = self._entries.get(uid)
        return None if entry is None else pendingtask.PendingTask.model_validate_json(zlib.decompress(entry.document))

    def entry(self, uid: str) -> Entry | None:
        """The fields that are stored parsed."""
        return self._entries.get(uid)

    def phase(self, *phases: Phase) -> Iterator[str]:
        """Uids in any of these phases."""
        for phase in phases:
            yield from self._by_phase[phase]

    def analyzing(self) -> list[str]:
        """Uids of the tasks that wait for the analysis of their repository, in their order."""
        waiting = ((self._entries[uid].order, uid) for uid in self._by_phase[Phase.READY_FOR_QUALIFICATION])
        return [uid for _, uid in sorted(waiting) if self._entries[uid].analyzing]

    def undecided(self, uid: str) -> bool:
        """Whether the task is there, may still be read, and its route is not known."""
        entry = self._entries.get(uid)
        return entry is not None and entry.undecided

    def followers(self, uid: str) -> list[str]:
        """Uids of the tasks that wait for that task's reading of the same content."""
        return sorted(self._followers.get(uid, ()))

    def count(self, phase: Phase) -> int:
        """Number of tasks in that phase."""
        return len(self._by_phase[phase])

    def oldest(self, phase: Phase) -> tuple[int | None, int | None]:
        """For Foreground and Background: when the longest waiting task entered `phase`; None if no task waits."""
        first: list[int | None] = [None, None]
        for uid in self._by_phase[phase]:
            entry = self._entries[uid]
            known = first[entry.order.lane]
            if not entry.held and (known is None or entry.since < known):
                first[entry.order.lane] = entry.since
        return first[0], first[1]

    @property
    def user_active(self) -> bool:
        """A Foreground task waits or runs."""
        return bool(self._users)

    def _follow(self, uid: str, before: Entry | None, after: Entry | None) -> None:
        old, new = ("" if one is None else one.waits_for for one in (before, after))
        if old and old != new:
            self._followers[old].discard(uid)
            if not self._followers[old]:
                del self._followers[old]
        if new:
            self._followers.setdefault(new, set()).add(uid)

    def _user_left(self, before: bookings.Run | None, after: bookings.Run | None) -> None:
        if before is None or before.background or not before.backend:
            return
        if after is None or after.background or after.backend != before.backend:
            self.last_user_on[before.backend] = self._clock()

    def _user(self, uid: str, waits: bool) -> None:
        if waits:
            self._users.add(uid)
        elif uid in self._users:
            self._users.discard(uid)
            self.last_user = self._clock()


def _since(task: pendingtask.PendingTask, phase: Phase) -> int:
    """When `phase` was entered, else the creation (a New task), else 0."""
    entered = task.status.phase_times.get(phase.value) or task.metadata.creation_timestamp
    return 0 if entered is None else int(entered.timestamp())


def _queued(task: pendingtask.PendingTask, phase: Phase, since: int) -> int:
    if phase is Phase.READY_FOR_GPU and task.status.preemption is not None:
        return _since(task, Phase.READY_FOR_QUALIFICATION)
    return since


def _not_before(task: pendingtask.PendingTask, phase: Phase) -> int:
    retry = task.status.retry
    if phase not in _POSTPONABLE or retry is None or retry.next_at is None:
        return 0
    return int(retry.next_at.timestamp())


def _waits_for(task: pendingtask.PendingTask, phase: Phase) -> str:
    retry = task.status.retry
    return retry.waits_for if retry is not None and phase is Phase.READY_FOR_QUALIFICATION else ""


def _noted(task: pendingtask.PendingTask) -> str:
    if pendingtask.not_allowed(task.status):
        return queue_api.Reason.NOT_ALLOWED.value
    found = conditions.find(task.status.conditions, "Dispatched")
    return sys.intern(found.reason) if found is not None and found.status is conditions.Status.FALSE else ""


def _user_waits(task: pendingtask.PendingTask, phase: Phase) -> bool:
    """Whether a person waits for this task now. One that is postponed, held or being analyzed does not hold Background
    work back."""
    if not order.foreground(task.spec) or pendingtask.held(task) or task.metadata.deletion_timestamp is not None:
        return False
    retry = task.status.retry
    postponed = phase in _POSTPONABLE and retry is not None and retry.next_at is not None
    return phase not in _WAITING_FOR_OTHERS and not postponed and not pendingtask.awaits_analysis(task)


_NOT_STORED = frozenset({"managedFields", "annotations", "ownerReferences"})
_FLAGS = frozenset(flag.annotation for flag in Flag)
_CONTENT = frozenset({"content", "contentRef"})
TEXT_NOT_KEPT = "(not kept)"


def _document(raw: Raw) -> bytes:
    """The object as deflated JSON, without content and annotations (`kubectl apply` copies the content into one) other
    than those that choose feature flags, and with `TEXT_NOT_KEPT` in place of users' texts: decisions only count
    messages and compare the ids of answers."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in _NOT_STORED}
    if chosen := {key: value for key, value in (raw["metadata"].get("annotations") or {}).items() if key in _FLAGS}:
        meta["annotations"] = chosen
    spec = {key: value for key, value in raw["spec"].items() if key not in _CONTENT}
    for name in ("messages", "answers"):
        if spec.get(name):
            spec[name] = [{"id": one["id"], "text": TEXT_NOT_KEPT} for one in spec[name]]
    return zlib.compress(orjson.dumps({"metadata": meta, "spec": spec, "status": raw.get("status") or {}}), level=1)


CAPACITY = 4 << 20
"""Bytes of JSON: thousands of short mails, or more than a hundred of maximum length."""
UNREAD = frozenset({Phase.NEW.value, Phase.READY_FOR_QUALIFICATION.value})
"""Phases before the content is read."""


class Contents:
    """Whole objects by uid, each at one version."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._used = capacity, 0
        self._objects: dict[str, tuple[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def keep(self, raw: Mapping[str, Any]) -> None:
        """Store a new version if its content is unread and it fits; the stored version is dropped in any case."""
        meta, status = raw["metadata"], raw.get("status") or {}
        self.drop(meta["uid"])
        if status.get("phase", Phase.NEW.value) not in UNREAD:
            return
        slim = {key: value for key, value in meta.items() if key != "managedFields"}
        document = orjson.dumps({"metadata": slim, "spec": raw["spec"], "status": status})
        if self._used + len(document) <= self._capacity:
            self._used += len(document)
            self._objects[meta["uid"]] = (meta["resourceVersion"], bytes(memoryview(document)))

    def pop(self, uid: str, version: str) -> dict[str, Any] | None:
        """Remove and return the object at that resourceVersion; None if that version is not stored."""
        stored = self._objects.get(uid)
        self.drop(uid)
        if stored is None or stored[0] != version:
            return None
        found: dict[str, Any] = orjson.loads(stored[1])
        return found

    def drop(self, uid: str) -> None:
        """Remove the object."""
        stored = self._objects.pop(uid, None)
        if stored is not None:
            self._used -= len(stored[1])
