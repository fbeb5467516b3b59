"""The documents whose copies in the stores may disagree, because they were changed since they were last compared.

A change is noted before it begins, and each note has a mark of its own: what compares the stores settles the mark that
it has read, so a document that is noted again meanwhile stays noted. Beside them stands when the stores were compared.
`tests/kb/ingest/ledger_contract.py` is the port's meaning.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crds import scope
from kb import api


@dataclass(frozen=True)
class Change:
    """A document to be compared. No two notes of an installation have the same `mark`."""

    document_id: str
    owner: scope.Scope
    mark: str


@dataclass(frozen=True)
class Pass:
    """The last pass of a kind, in UTC; `ended_at` is None while it runs, and when it broke off.

    A full pass goes on in the client and after the cursor (`kb.upkeep.check`) that are recorded.
    """

    kind: api.PassKind
    begun_at: datetime
    ended_at: datetime | None = None
    client_id: str = ""
    after: str | None = None


class Changes(Protocol):
    """Raises `kb.errors.Away` when the disk, or the server, does not answer."""

    async def note(self, owner: scope.Scope, document_ids: Collection[str]) -> None:
        """Record that the owner's documents have to be compared; it is on the disk when this returns."""
        ...

    async def changed(self, *, after: str = "", limit: int = 100) -> list[Change]:
        """A page of the documents that are noted, in order of their ids: those that follow `after`."""
        ...

    async def settle(self, document_id: str, mark: str) -> None:
        """The document was compared; does nothing when it was noted again since."""
        ...

    async def record(self, one: Pass) -> None:
        """Let this be the last pass of its kind."""
        ...

    async def passes(self) -> dict[api.PassKind, Pass]:
        """The last pass of each kind; none of a kind that has never begun."""
        ...
