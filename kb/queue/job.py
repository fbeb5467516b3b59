"""A job, and the port of the queue.

Order (seed 001 "Queue Priority / Reordering" and "LLM Extraction Queue"): jobs with a manual position first, by it;
then by priority (0 is the most urgent). Within a priority clients take turns: the next job is the oldest one that is
due of the client that was not served for longest, and a client that begins to wait is behind those that wait already.
So of N clients each is served within N jobs, and one client alone by age (decision 0063).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from crds import priority, scope
from kb import errors, identity

_COME_BACK = 30.0
CLAIM = timedelta(seconds=60)
"""How long a job that was taken is left to the process that took it, unless that reports again."""


class Action(StrEnum):
    """What is to be done with the document.

    Extract   ask the models about its chunks and build the graph from the answers; the job holds the whole request
    Reweave   put its graph together again from what is stored, because an alias of a node has changed
    """

    EXTRACT = "Extract"
    REBUILD_GRAPH = "Reweave"


@dataclass(frozen=True)
class Job:
    """One document's place in the queue; `revision` changes whenever the job is put, `seq` tells the age.

    `indexed`: the document was committed as this job has it. If it is stored otherwise by then, another process
    has replaced or deleted it, and the job is void.
    """

    document_id: str
    seq: int
    owner: scope.Scope
    source_urn: str
    kind: str
    action: Action
    urgency: priority.Priority
    position: int | None
    attempts: int
    reason: str
    created_at: datetime
    not_before: datetime | None
    revision: str
    indexed: bool
    claimed: bool = False
    """Whether a process has taken it, as far as other processes know."""
    ahead: int | None = None
    """In an answer of `listed`: how many jobs of all clients come before it as things stand, without those that are
    being worked on, and as if those that were postponed were due."""


@dataclass(frozen=True)
class Share:
    """What a client has waiting at a priority, without placed jobs and those in work; the least `served` is next."""

    client: str
    waiting: int
    served: int


def ahead(shares: Iterable[Share], client: str, rank: int) -> int:
    """How many jobs of a priority come before the client's job with `rank` others of its own before it."""
    ordered = sorted(shares, key=lambda one: (one.served, one.client))
    mine = next((at for at, one in enumerate(ordered) if one.client == client), len(ordered))
    # Who is served before the client in a round has had one turn more by then.
    return rank + sum(min(one.waiting, rank + (at < mine)) for at, one in enumerate(ordered) if at != mine)


@dataclass(frozen=True)
class Bounds:
    """How much may wait, of all and of one client: in jobs, and in bytes of their requests (None: no bound)."""

    jobs: int
    client_jobs: int
    bytes: int | None = None
    client_bytes: int | None = None

    def check_jobs(self, client: str, mine: int, total: int) -> None:
        """Raises `kb.errors.Crowded` when one job more is too many."""
        if mine >= self.client_jobs:
            raise _crowded(f"{mine} documents of client {client!r} wait", "documents", "JERVIS_KB_QUEUE_CLIENT_LIMIT")
        if total >= self.jobs:
            raise _crowded(f"{total} documents wait", "documents", "JERVIS_KB_QUEUE_LIMIT")

    def check_bytes(self, client: str, size: int, mine: int, total: int) -> None:
        """The same of a request of `size` bytes beside those of the other jobs; one alone always fits."""
        said = f"bytes of requests of client {client!r} wait"
        if self.client_bytes is not None and mine and mine + size > self.client_bytes:
            raise _crowded(f"{mine} {said}", f"{self.client_bytes} bytes", "JERVIS_KB_QUEUE_CLIENT_BYTES")
        if self.bytes is not None and total and total + size > self.bytes:
            raise _crowded(f"{total} bytes of requests wait", f"{self.bytes} bytes", "JERVIS_KB_QUEUE_BYTES")


def _crowded(found: str, limit: str, setting: str) -> errors.Crowded:
    bound = "" if limit == "documents" else f", of {limit} that may"
    return errors.Crowded(
        f"{found} for extraction already{bound}",
        retry_after=_COME_BACK,
        field="queue",
        remedy=f"Send it again when some are done, as GET /api/v1/queue shows, or raise {setting}.",
    )


def revision(before: str, action: Action, request: str) -> str:
    """The revision of a job that is put, over one of the revision `before` ("" for none).

    The same request put again is another revision: who does the job meanwhile must not take the new one for its own.
    """
    return identity.digest(f"{before}\n{action}\n{request}")[:32]


class Queue(Protocol):
    """Keeps at most one job per document. Raises `kb.errors.Away` when the disk, or the server, does not answer.

    `fence` is that of the turn in which the caller works on the document, 0 for a caller without one. Where several
    processes share the queue, `put` raises `kb.errors.Outrun` when a newer owner of the document has put a job, and
    `drop` leaves that job.
    """

    async def put(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        kind: str,
        action: Action,
        urgency: priority.Priority,
        request: str,
        *,
        fence: int = 0,
        bounded: bool = True,
    ) -> Job:
        """Add or replace the document's job. A replaced one keeps its age and the more urgent of both priorities.

        Reweave never replaces Extract, which does it too. Raises `kb.errors.Crowded` when the queue is full, for a
        Reweave never: these are bounded by the documents that are there, and must not be lost. Nor must what was
        accepted and is put back, without `bounded`.
        """
        ...

    async def find(self, document_id: str) -> tuple[Job, str] | None:
        """The document's job with its request (JSON), if there is one."""
        ...

    async def among(self, document_ids: Collection[str]) -> dict[str, Job]:
        """The jobs of the given documents."""
        ...

    async def mark_indexed(self, document_id: str, revision: str) -> None:
        """The document is committed as this job has it."""
        ...

    async def drop(self, document_id: str, *, revision: str | None = None, fence: int = 0) -> None:
        """Forget the job, if it is still of that revision (None: of any)."""
        ...

    async def next(
        self, now: datetime, *, skip: Collection[str], most: priority.Priority | None = None
    ) -> tuple[Job, str] | None:
        """The first job that is due, not of a document in `skip` and at least as urgent as `most`.

        `skip` is what this process has taken. No other process is given the job for `CLAIM`, unless it is put again.
        """
        ...

    async def hold(self, document_ids: Collection[str], now: datetime) -> None:
        """This process still works on these: leave them to it for another `CLAIM`."""
        ...

    async def release(self, document_id: str) -> None:
        """This process does not work on it any more; another one may take it at once."""
        ...

    async def postpone(self, document_id: str, revision: str, reason: str, until: datetime) -> None:
        """It did not succeed for now; counts as an attempt."""
        ...

    async def listed(self, viewer: scope.Scope, *, limit: int, running: Collection[str] = ()) -> tuple[list[Job], int]:
        """The first jobs in order that the viewer may see, with `Job.ahead`, and how many there are of these.

        `running` are the documents that this process works on: they come first.
        """
        ...

    async def move(self, viewer: scope.Scope, document_id: str, position: int) -> Job | None:
        """Set the manual position (from 1), pushing back who stands there; None when the viewer sees no such job."""
        ...

    async def regroup(self, owner: scope.Scope) -> list[str]:
        """Let the jobs of the owner's project belong to its group, in their places; the documents that changed."""
        ...

    async def erase(self, where: scope.Scope) -> int:
        """Forget the jobs of a scope that is erased; how many there were."""
        ...

    async def mentions(self, text: str) -> bool:
        """Whether the request of a job contains `text`."""
        ...

    async def depth(self) -> dict[priority.Priority, int]:
        """Jobs per priority."""
        ...
