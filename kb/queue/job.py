"""A job, and the port of the queue.

Order (seed 001 "Queue Priority / Reordering" and "LLM Extraction Queue"): jobs with a manual position first, by it;
then by priority (0 is the most urgent); then the oldest.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from crds import priority, scope


class Action(StrEnum):
    """What is to be done with the document.

    Extract   ask the models about its chunks and weave the answers into the graph; the job holds the whole request
    Reweave   put its graph together again from what is stored, because an alias of a node has changed
    """

    EXTRACT = "Extract"
    REWEAVE = "Reweave"


@dataclass(frozen=True)
class Job:
    """One document's place in the queue; `revision` changes with the request, `seq` tells the age.

    `indexed`: the document was committed as this job has it. If it is stored otherwise by then, somebody else has
    replaced or deleted it, in another process, and the job is void.
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


class Queue(Protocol):
    """Keeps at most one job per document. Raises `kb.errors.Away` when the disk fails."""

    async def put(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        kind: str,
        action: Action,
        urgency: priority.Priority,
        request: str,
    ) -> Job:
        """Add or replace the document's job. A replaced one keeps its age and the more urgent of both priorities.

        Reweave never replaces Extract, which does it too. Raises `kb.errors.Crowded` when the queue is full.
        """
        ...

    async def find(self, document_id: str) -> tuple[Job, str] | None:
        """The document's job with its request (JSON), if there is one."""
        ...

    async def mark_indexed(self, document_id: str, revision: str) -> None:
        """The document is committed as this job has it."""
        ...

    async def drop(self, document_id: str, *, revision: str | None = None) -> None:
        """Forget the job, if it is still of that revision (None: of any)."""
        ...

    async def next(
        self, now: datetime, *, skip: Collection[str], most: priority.Priority | None = None
    ) -> tuple[Job, str] | None:
        """The first job that is due, not of a document in `skip` and at least as urgent as `most`."""
        ...

    async def postpone(self, document_id: str, revision: str, reason: str, until: datetime) -> None:
        """It did not succeed for now; counts as an attempt."""
        ...

    async def listed(self, viewer: scope.Scope, *, limit: int) -> tuple[list[Job], int]:
        """The first jobs in order that the viewer may see, and how many there are of these."""
        ...

    async def move(self, viewer: scope.Scope, document_id: str, position: int) -> Job | None:
        """Set the manual position (from 1), pushing back who stands there; None when the viewer sees no such job."""
        ...

    async def mentions(self, text: str) -> bool:
        """Whether the request of a job contains `text`."""
        ...

    async def depth(self) -> dict[priority.Priority, int]:
        """Jobs per priority."""
        ...
