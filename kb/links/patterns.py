"""The patterns of clients: the port, how one matches, and the patterns in MongoDB, one document each.

A pattern belongs to an owner and holds where that one says (`kb.visibility.governs`), as rules and aliases do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

from crds import scope
from kb import api, errors, identity, mongo

COLLECTION = "linkPatterns"
_MOST = 5000


class Patterns(Protocol):
    """Raises `kb.errors.Away` when it does not answer."""

    async def holding(self, where: scope.Scope) -> list[api.LinkPattern]:
        """The patterns that hold for links of `where`, in their order."""
        ...

    async def put(self, draft: api.LinkPatternDraft) -> api.LinkPattern:
        """Let exactly this owner have the pattern, in this list and no other. Raises `kb.errors.TooLarge`."""
        ...

    async def delete(self, owner: scope.Scope, pattern: str) -> bool:
        """Forget a pattern of exactly this owner; False when there is none."""
        ...


class Mongo:
    """Implements `Patterns`."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._rows = database[COLLECTION]
        self._clock = clock
        self._indexed = False

    async def holding(self, where: scope.Scope) -> list[api.LinkPattern]:
        with mongo.translated():
            await self._index()
            order = [("pattern", 1), ("projectId", 1), ("groupId", 1)]
            return [_pattern(row) async for row in self._rows.find(mongo.governing(where)).sort(order)]

    async def put(self, draft: api.LinkPatternDraft) -> api.LinkPattern:
        key, now = identity.link_pattern(draft.scope, draft.pattern), self._clock()
        said = {
            "list": draft.list.value,
            "reason": draft.reason,
            "by": draft.by,
            # What MongoDB keeps: whole milliseconds.
            "at": now.replace(microsecond=now.microsecond // 1000 * 1000),
        }
        with mongo.translated():
            await self._index()
            if await self._rows.find_one({"_id": key}) is None:
                await self._check_room(draft.scope)
            change = {"$set": {**mongo.names(draft.scope), "pattern": draft.pattern, **said}}
            await self._rows.update_one({"_id": key}, change, upsert=True)
        return api.LinkPattern(scope=draft.scope, pattern=draft.pattern, **said)

    async def delete(self, owner: scope.Scope, pattern: str) -> bool:
        with mongo.translated():
            gone = await self._rows.delete_one({"_id": identity.link_pattern(owner, pattern)})
        return bool(gone.deleted_count)

    async def _check_room(self, owner: scope.Scope) -> None:
        if await self._rows.count_documents(mongo.names(owner), limit=_MOST) >= _MOST:
            raise errors.TooLarge(
                f"there are {_MOST} patterns of links in this scope",
                field="pattern",
                remedy="Put several into one: a host stands for all that lies below it.",
            )

    async def _index(self) -> None:
        if not self._indexed:
            await self._rows.create_index([("clientId", 1), ("projectId", 1)])
            self._indexed = True


def has_path(pattern: str) -> bool:
    """Whether it means only a part of a host."""
    return "/" in pattern


def first(patterns: Sequence[api.LinkPattern], url: str) -> api.LinkPattern | None:
    """The first pattern that matches a normalised URL."""
    return next((one for one in patterns if matches(one.pattern, url)), None)


def matches(pattern: str, url: str) -> bool:
    """Whether a pattern means a normalised URL. Its time grows with the length of both alone."""
    place, slash, path = pattern.partition("/")
    parts = urlsplit(url)
    usual = 443 if parts.scheme == "https" else 80
    host, bracket, tail = place.removeprefix("*.").rpartition("]")
    named, _, port = tail.partition(":")
    host = f"{host}{bracket}{named}".strip("[]")
    given = parts.hostname or ""
    if int(port or usual) != (parts.port or usual) or not (given == host or given.endswith(f".{host}")):
        return False
    if not slash:
        return True
    written = f"/{path}"
    asked = parts.path + (f"?{parts.query}" if parts.query and "?" in written else "")
    return _glob(written, asked)


def _glob(written: str, text: str) -> bool:
    first, *rest = written.split("*")
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    place, last = len(first), rest.pop()
    for piece in rest:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return text.endswith(last) and len(text) - len(last) >= place


def _pattern(row: dict[str, Any]) -> api.LinkPattern:
    names = ("pattern", "list", "reason", "by", "at")
    return api.LinkPattern.model_validate({"scope": mongo.owner(row), **{name: row[name] for name in names}})
