"""The intent record: what is being ingested, so that a half-finished ingest is seen and resumed.

    Open      a request was accepted; something may have been written; nothing new is visible before the graph commits
    Finished  everything is in place and the reply was given
    Failed    trying again by itself cannot help; `reason` says why, the document stays listed and its request is kept
              for the time when what `reason` names has been changed

Source: kb page, traps 3 and 7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from crds import scope
from kb import selection


class State(StrEnum):
    """See the module."""

    OPEN = "Open"
    FINISHED = "Finished"
    FAILED = "Failed"


@dataclass(frozen=True)
class IngestRequestRecord:
    """One document's record. `known`: the document had been finished before this request, which thus replaces it.

    `owner` is where the document belongs, also when its project has moved to another group since it was requested.
    `recorded`: the request is kept, and can be tried again. That of a finished document is not.
    `dated_ms` is `dated` of the request, `stored_ms` that of the version that was stored last; None where it has no
    time. `stamp` is what `finish` was given for the version that was stored last (`kb.ingest.repeat`).
    """

    document_id: str
    owner: scope.Scope
    source_urn: str
    state: State
    known: bool
    attempts: int
    reason: str
    updated_at: datetime
    recorded: bool
    dated_ms: int | None = None
    stored_ms: int | None = None
    stamp: str = ""

    def outdates(self, observed_at: datetime) -> bool:
        """Whether a request of that time is older than the version that was stored last; not where that has no time."""
        return self.stored_ms is not None and selection.millis(observed_at) < self.stored_ms

    def precedes(self, observed_at: datetime) -> bool:
        """Whether a request of that time is older than the one that is open, which may still fail for good.

        One that failed does not count (decision 0094).
        """
        latest = self.dated_ms if self.state is State.OPEN else None
        return latest is not None and selection.millis(observed_at) < latest


def dated(observed_at: datetime | None, now: datetime) -> int | None:
    """By what a version is compared with those that come after it, in milliseconds: when its source says that it was.

    Not later than `now`, when it came: a wrong clock, or a document of next year, outdates nothing observed after that.
    """
    return None if observed_at is None else selection.millis(min(observed_at, now))


class IngestRequestRecords(Protocol):
    """Keeps one record per document. Raises `kb.errors.Away` when the disk, or the server, does not answer.

    `fence` is that of the turn in which the caller works on the document (`kb.ingest.document_locks`). Where several
    processes share the records, `open` raises `kb.errors.Outrun` when a newer owner has opened one, and what an older
    owner says otherwise changes nothing.
    """

    async def open(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        request: str,
        now: datetime,
        *,
        dated_ms: int | None = None,
        fence: int = 0,
    ) -> IngestRequestRecord:
        """Record that `request` (JSON) is being worked on, replacing an older request for the same document.

        The same request that is open already keeps its `dated_ms`, if it has one.
        """
        ...

    async def finish(self, document_id: str, now: datetime, *, fence: int = 0, stamp: str = "") -> None:
        """Everything is in place, as `dated_ms` of the record says; the request is no longer needed.

        `stamp` is kept until the next version is in place, or the record is forgotten.
        """
        ...

    async def fail(self, document_id: str, reason: str, now: datetime, *, fence: int = 0) -> None:
        """Trying again by itself cannot help; the request is kept."""
        ...

    async def refuse(
        self, document_id: str, owner: scope.Scope, source_urn: str, reason: str, now: datetime, *, fence: int = 0
    ) -> None:
        """A request was wrong and nothing was done with it; the document is listed as failed, without that request.

        A request for the document that is open or has failed stays as it is: it was accepted.
        """
        ...

    async def find(self, document_id: str) -> tuple[IngestRequestRecord, str | None] | None:
        """The document's record with its request, if that is kept."""
        ...

    async def interrupt(self, document_id: str, reason: str, now: datetime, *, fence: int = 0) -> None:
        """Stays Open; `reason` is what it waits for."""
        ...

    async def forget(self, document_id: str, *, fence: int = 0) -> None:
        """The document was deleted."""
        ...

    async def unfinished(
        self, *, before: datetime, after: IngestRequestRecord | None = None, limit: int = 100
    ) -> list[IngestRequestRecord]:
        """Open records not touched since `before`, oldest first; those that follow `after`."""
        ...

    async def mentions(self, text: str) -> bool:
        """Whether a request that is kept contains `text`."""
        ...

    async def failed(self, viewer: scope.Scope, *, limit: int) -> list[IngestRequestRecord]:
        """Failed records that the viewer may see, the latest first."""
        ...

    async def pending(self, viewer: scope.Scope, *, limit: int) -> list[IngestRequestRecord]:
        """Open records that the viewer may see, the latest first."""
        ...

    async def listed(
        self, viewer: scope.Scope, *, beginning: str = "", after: str = "", limit: int = 100
    ) -> list[IngestRequestRecord]:
        """Open and failed records that the viewer may see, whose source URN begins so, in order of document ids."""
        ...

    async def among(self, document_ids: Collection[str]) -> dict[str, IngestRequestRecord]:
        """The open and failed records of the given documents."""
        ...

    async def working(self, document_ids: Collection[str]) -> set[str]:
        """Those of the given documents whose record is open."""
        ...

    async def regroup(self, owner: scope.Scope) -> list[str]:
        """Let the open and failed records of the owner's project belong to its group; the documents that changed."""
        ...

    async def erase(self, where: scope.Scope) -> int:
        """Forget the records of a scope that is erased; how many there were."""
        ...

    async def count(self) -> dict[State, int]:
        """How many records are in each state."""
        ...
