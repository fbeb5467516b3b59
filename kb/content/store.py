"""The port of the content store. Raises `kb.errors.Away` when it does not answer."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from crds import scope
from kb import api


class Store(Protocol):
    """Bytes by key; a key is only ever shown to viewers of its owner."""

    async def ready(self) -> None:
        """Return when the store answers."""
        ...

    async def save(self, owner: scope.Scope, body: bytes, media_type: str, *, part_of: str = "") -> api.ContentRef:
        """Keep `body`; the same body of the same owner is kept once and has the same key.

        With `part_of`, the id of a document, it belongs to that one alone: no other content has its key, it is never
        idle, and it goes with `drop_parts`.
        """
        ...

    async def drop_parts(
        self,
        document_id: str,
        *,
        keep: Collection[str] = (),
        only: Collection[str] | None = None,
        before: datetime | None = None,
    ) -> int:
        """Delete the parts of a document, or `only` those with these keys, but for those with the keys `keep` and those
        that were used since `before`; how many that were."""
        ...

    async def parts(self, client_id: str, *, before: datetime) -> list[str]:
        """The ids of the client's documents that have parts which were not used since then."""
        ...

    async def part_clients(self) -> list[str]:
        """The clients that have parts of documents."""
        ...

    async def load(self, viewer: scope.Scope, key: str) -> bytes:
        """The bytes under `key`, checked against their SHA-256. Raises `kb.errors.NotFound`."""
        ...

    async def regroup(self, owner: scope.Scope) -> int:
        """Let all content of the owner's project belong to the owner's group; how many entries changed."""
        ...
