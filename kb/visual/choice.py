"""Which documents get pages: a choice of each client, project and group; none is made, and there are none, by default.

An owner's choice holds where `kb.visibility.governs` says; of several the most specific one counts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from crds import scope
from kb import identity, mongo

COLLECTION = "pageChoices"
Which = Literal["None", "Seen", "All"]
"""`Seen`: pages that text alone does not tell (scans, drawings, figures) and images. `All`: every page."""


@dataclass(frozen=True)
class Choice:
    """What was decided for an owner, by whom and when. `sources`: those of the documents, or beginnings that end with
    `*`; () is every document."""

    owner: scope.Scope
    which: Which
    sources: tuple[str, ...]
    by: str
    at: datetime

    def takes(self, source_urn: str) -> bool:
        """Whether a document of this source gets pages."""
        if self.which == "None":
            return False
        return not self.sources or any(
            source_urn.startswith(one[:-1]) if one.endswith("*") else source_urn == one for one in self.sources
        )


class Registry(Protocol):
    """Raises `kb.errors.Away` when it does not answer."""

    async def holding(self, where: scope.Scope) -> list[Choice]:
        """The choices that hold for data of `where`, the most specific first."""
        ...

    async def put(self, owner: scope.Scope, which: Which, sources: Sequence[str], by: str) -> None:
        """Let exactly this owner have this choice."""
        ...


class Mongo:
    """Implements `Registry`: one document per owner."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._rows = database[COLLECTION]
        self._clock = clock

    async def holding(self, where: scope.Scope) -> list[Choice]:
        with mongo.translated():
            rows = [row async for row in self._rows.find(mongo.governing(where))]
        made = [Choice(mongo.owner(row), row["which"], tuple(row["sources"]), row["by"], row["at"]) for row in rows]
        return sorted(made, key=lambda one: _width(one.owner))

    async def put(self, owner: scope.Scope, which: Which, sources: Sequence[str], by: str) -> None:
        said = {**mongo.names(owner), "which": which, "sources": list(sources), "by": by, "at": self._clock()}
        with mongo.translated():
            await self._rows.update_one({"_id": identity.page_choice(owner)}, {"$set": said}, upsert=True)


async def of(registry: Registry, owner: scope.Scope, source_urn: str) -> Which:
    """What holds for a document of this owner and source."""
    for one in await registry.holding(owner):
        return one.which if one.takes(source_urn) else "None"
    return "None"


def _width(owner: scope.Scope) -> int:
    return 0 if owner.project_id else 1 if owner.group_id else 2 if owner.client_id else 3
