"""The index of unfinished tasks: small, versioned, never the truth.

An older version of an object never replaces a newer one, so a watch event that an own write has overtaken is ignored.
Content and the text of messages are not kept; `Contents` holds new tasks whole until the knowledge base reads them,
bounded by bytes, which saves one request for each.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from controllers.pendingtask.slots import bookings
from crds import conditions, order, pendingtask, waits
from crds.phases import Phase

Raw = Mapping[str, Any]
_WAITING_FOR_OTHERS = frozenset({Phase.SCHEDULED, Phase.USER_TASK, Phase.DONE, Phase.COMPLETED, Phase.ERROR})

WAITING = (Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU)
"""Phases in which a task waits for us and not for a moment or a person."""
_POSTPONABLE = frozenset({Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU})


@dataclass(frozen=True, slots=True)
class Entry:
    """One task at one version; times in seconds since the epoch.

    since       when its phase was entered
    queued      since when it waits for its turn: a run that gave its slot up has waited since it first did
    held        by its user, by another controller that suspended its Job, or by its namespace's limits
    not_before  it is postponed until then; 0: it is not
    noted       what its conditions say that it waits for (a reason of `crds.waits`), "" when they say nothing of it
    """

    version: int
    namespace: str
    phase: Phase
    order: order.Order
    user_waits: bool
    since: int
    held: bool
    packed: bytes
    queued: int = 0
    not_before: int = 0
    noted: str = ""

    @property
    def name(self) -> str:
        """Of the object; reserved once, as part of its place in the queues."""
        return self.order.name.partition("/")[2]


def version(raw: Raw) -> int:
    """resourceVersion as a number; the API has ordered them since Kubernetes 1.35 by contract and before in fact."""
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
        self.last_user: datetime | None = None
        self.last_user_on: dict[str, datetime] = {}
        """By backend: when a user's run there ended."""
        self.bookings = bookings.Bookings()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def observe(self, raw: Raw) -> bool:
        """Take a version in; False when it is not newer than what is known. Raises pydantic.ValidationError."""
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
            packed=pack(raw),
            queued=_queued(task, phase, since),
            not_before=_not_before(task, phase),
            noted=_noted(task),
        )
        before = self.bookings.runs.get(uid)
        if known is not None:
            self._by_phase[known.phase].discard(uid)
        self._entries[uid] = entry
        self._by_phase[phase].add(uid)
        self.bookings.observe(task, entry.order)
        self._user_left(before, self.bookings.runs.get(uid))
        self._user(uid, entry.user_waits)
        return True

    def forget(self, uid: str, at: int = 0) -> None:
        """The task is finished or deleted; versions up to `at` stay out."""
        known = self._entries.pop(uid, None)
        if known is not None:
            self._by_phase[known.phase].discard(uid)
        before = self.bookings.runs.get(uid)
        self.bookings.forget(uid)
        self._user_left(before, None)
        self._user(uid, False)
        # A write's answer may come in after the deletion's event: remember a few of the departed.
        self._gone[uid] = max(at, known.version if known else 0) + 1
        if len(self._gone) > 10_000:
            for old in list(self._gone)[:5_000]:
                del self._gone[old]

    def leave(self, uid: str) -> None:
        """The task is served no more, for now: any version of it may come back."""
        self.forget(uid)
        self._gone.pop(uid, None)

    def version(self, uid: str) -> int | None:
        """The newest version that is known, also of a task that is finished or deleted."""
        known = self._entries.get(uid)
        return self._gone.get(uid) if known is None else known.version

    def known(self, namespace: str | None) -> Iterator[Raw]:
        """The tasks of a namespace, None for all, as much of them as a deletion needs."""
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
        """The task without its content, or None."""
        entry = self._entries.get(uid)
        return None if entry is None else unpack(entry.packed)

    def entry(self, uid: str) -> Entry | None:
        """What is known without parsing."""
        return self._entries.get(uid)

    def phase(self, *phases: Phase) -> Iterator[str]:
        """Uids in any of these phases."""
        for phase in phases:
            yield from self._by_phase[phase]

    def count(self, phase: Phase) -> int:
        """How many are in that phase."""
        return len(self._by_phase[phase])

    def oldest(self, phase: Phase) -> tuple[int | None, int | None]:
        """For Foreground and Background: when the one that waits longest entered `phase`; None when nobody does."""
        first: list[int | None] = [None, None]
        for uid in self._by_phase[phase]:
            entry = self._entries[uid]
            known = first[entry.order.lane]
            if not entry.held and (known is None or entry.since < known):
                first[entry.order.lane] = entry.since
        return first[0], first[1]

    @property
    def user_active(self) -> bool:
        """A Foreground task is waiting or running."""
        return bool(self._users)

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
    """A New task waits since it was created. Without any time it is as old as the epoch: something is wrong with it."""
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


def _noted(task: pendingtask.PendingTask) -> str:
    if pendingtask.not_allowed(task.status):
        return waits.Reason.NOT_ALLOWED.value
    found = conditions.find(task.status.conditions, "Dispatched")
    return sys.intern(found.reason) if found is not None and found.status is conditions.Status.FALSE else ""


def _user_waits(task: pendingtask.PendingTask, phase: Phase) -> bool:
    """A person waits for this task now; one that is postponed or held does not keep the GPU from others."""
    if not order.foreground(task.spec) or pendingtask.held(task) or task.metadata.deletion_timestamp is not None:
        return False
    retry = task.status.retry
    postponed = phase in _POSTPONABLE and retry is not None and retry.next_at is not None
    return phase not in _WAITING_FOR_OTHERS and not postponed


RawTask = Mapping[str, Any]

_DROPPED = frozenset({"managedFields", "annotations", "ownerReferences"})
_ELSEWHERE = frozenset({"content", "contentRef"})
_SAID = ("messages", "answers")

# Raw deflate, with a window of 4 KiB: each call allocates its state anew, and a task is hardly larger than that.
_LEVEL, _WINDOW, _MEMORY = 1, -12, 5


def _words(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from (word for word in schema.get("enum", ()) if isinstance(word, str))
        for part in schema.values():
            yield from _words(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _words(part)


_SCHEMA = pendingtask.PendingTask.model_json_schema(by_alias=True)
_KNOWN = orjson.dumps(dict.fromkeys(sorted(set(_words(_SCHEMA))), ""))[-(1 << -_WINDOW) :]


def pack(raw: RawTask) -> bytes:
    """The object without content, annotations (`kubectl apply` copies the content into one), and what users said."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in _DROPPED}
    spec = {key: value for key, value in raw["spec"].items() if key not in _ELSEWHERE}
    for name in _SAID:
        if name in spec:
            spec[name] = [{"id": one["id"], "text": "-"} for one in spec[name]]
    document = orjson.dumps({"metadata": meta, "spec": spec, "status": raw.get("status") or {}})
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _KNOWN)
    return packer.compress(document) + packer.flush()


def unpack(packed: bytes) -> pendingtask.PendingTask:
    """The task, with "-" in place of texts."""
    document = zlib.decompressobj(_WINDOW, _KNOWN).decompress(packed)
    return pendingtask.PendingTask.model_validate(orjson.loads(document))


CAPACITY = 4 << 20
"""Bytes of packed JSON: thousands of short mails, or more than a hundred of the longest."""
UNREAD = frozenset({Phase.NEW.value, Phase.READY_FOR_QUALIFICATION.value})
"""Phases in which nobody has read the content yet."""


class Contents:
    """By uid, at one version."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._used = capacity, 0
        self._reserved_slots: dict[str, tuple[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._reserved_slots)

    def keep(self, raw: Mapping[str, Any]) -> None:
        """Keep a version that is news, if it is of use; an older one is dropped in any case."""
        meta, status = raw["metadata"], raw.get("status") or {}
        self.drop(meta["uid"])
        if status.get("phase", Phase.NEW.value) not in UNREAD:
            return
        slim = {key: value for key, value in meta.items() if key != "managedFields"}
        packed = orjson.dumps({"metadata": slim, "spec": raw["spec"], "status": status})
        if self._used + len(packed) <= self._capacity:
            self._used += len(packed)
            self._reserved_slots[meta["uid"]] = (meta["resourceVersion"], bytes(memoryview(packed)))

    def pop(self, uid: str, version: str) -> dict[str, Any] | None:
        """The object at that resourceVersion, which is not reserved any longer; None when it is not here."""
        reserved = self._reserved_slots.get(uid)
        self.drop(uid)
        if reserved is None or reserved[0] != version:
            return None
        found: dict[str, Any] = orjson.loads(reserved[1])
        return found

    def drop(self, uid: str) -> None:
        """Nobody wants it any more."""
        reserved = self._reserved_slots.pop(uid, None)
        if reserved is not None:
            self._used -= len(reserved[1])
