"""The intent record: what is being ingested, so that a half-finished ingest is seen and resumed.

    Open      a request was accepted; something may have been written; nothing new is visible before the graph commits
    Finished  everything is in place and the reply was given
    Failed    trying again cannot help; `reason` says why and the document stays listed

Source: kb page, traps 3 and 7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from crds import scope


class State(StrEnum):
    """See the module."""

    OPEN = "Open"
    FINISHED = "Finished"
    FAILED = "Failed"


@dataclass(frozen=True)
class Intent:
    """One document's record. `known`: the document had been finished before this request, which thus replaces it."""

    document_id: str
    owner: scope.Scope
    source_urn: str
    state: State
    known: bool
    attempts: int
    reason: str
    updated_at: datetime


class Intents(Protocol):
    """Keeps one record per document. Raises `kb.errors.Away` when the disk fails."""

    async def open(self, document_id: str, owner: scope.Scope, source_urn: str, request: str, now: datetime) -> Intent:
        """Record that `request` (JSON) is being worked on, replacing an older request for the same document."""
        ...

    async def finish(self, document_id: str, now: datetime) -> None:
        """Everything is in place; the request is no longer needed."""
        ...

    async def fail(self, document_id: str, reason: str, now: datetime) -> None:
        """Trying again cannot help."""
        ...

    async def interrupt(self, document_id: str, reason: str, now: datetime) -> None:
        """Stays Open; `reason` is what it waits for."""
        ...

    async def forget(self, document_id: str) -> None:
        """The document was deleted."""
        ...

    async def unfinished(self, *, before: datetime, limit: int = 100) -> list[tuple[Intent, str]]:
        """Open records not touched since `before`, oldest first, each with its request."""
        ...

    async def mentions(self, text: str) -> bool:
        """Whether an open request contains `text`."""
        ...

    async def failed(self, viewer: scope.Scope, *, limit: int) -> list[Intent]:
        """Failed records that the viewer may see, the latest first."""
        ...

    async def pending(self, viewer: scope.Scope, *, limit: int) -> list[Intent]:
        """Open records that the viewer may see, the latest first."""
        ...

    async def working(self, document_ids: Collection[str]) -> set[str]:
        """Those of the given documents whose record is open."""
        ...

    async def count(self) -> dict[State, int]:
        """How many records are in each state."""
        ...
