"""Entity types of a client's own, beside those that the extraction knows: the port, and the registry in MongoDB.

A set of types belongs to an owner and holds where that one says (`kb.visibility.governs`), as rules and aliases do. For
a document the sets of its client, group and project count together with the global one; of two types of one name the
more specific owner's description is taken. An owner's former sets are kept for a while, because kept answers were given
with them: what an alias changes in an old document must not have it extracted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from crds import scope
from kb import errors, identity, mongo

COLLECTION = "entityTypes"
_VERSIONS = 10
_ATTEMPTS = 20


@dataclass(frozen=True, order=True)
class EntityType:
    """What a prompt states about a type: its name, as it appears in keys (`name:value`), and one line about it."""

    name: str
    description: str


Types = tuple[EntityType, ...]


@dataclass(frozen=True)
class Version:
    """What an owner's types were from `at` on, and who decided."""

    at: datetime
    by: str
    types: Types


@dataclass(frozen=True)
class Owned:
    """An owner's types: `versions`, the newest first, of which the last may not be the first there was."""

    owner: scope.Scope
    versions: tuple[Version, ...]


class Registry(Protocol):
    """Raises `kb.errors.Away` when it does not answer."""

    async def holding(self, where: scope.Scope) -> list[Owned]:
        """The sets that hold for data of `where`."""
        ...

    async def put(self, owner: scope.Scope, types: Collection[EntityType], by: str) -> None:
        """Let exactly this owner have these types and no others. Raises `kb.errors.Crowded`."""
        ...


class Nothing:
    """A registry without any type, for a knowledge base that keeps none."""

    async def holding(self, where: scope.Scope) -> list[Owned]:
        return []

    async def put(self, owner: scope.Scope, types: Collection[EntityType], by: str) -> None:
        raise errors.Misconfigured("this knowledge base keeps no entity types", field="types")


class Mongo:
    """Implements `Registry`: one document per owner, found by the owner's fields."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._rows = database[COLLECTION]
        self._clock = clock
        self._indexed = False

    async def holding(self, where: scope.Scope) -> list[Owned]:
        with mongo.translated():
            await self._index()
            return [_owned(row) async for row in self._rows.find(mongo.governing(where))]

    async def put(self, owner: scope.Scope, types: Collection[EntityType], by: str) -> None:
        key = identity.entity_types(owner)
        made: dict[str, Any] = {
            "by": by,
            "types": [{"name": one.name, "description": one.description} for one in sorted(types)],
        }
        with mongo.translated():
            await self._index()
            for _ in range(_ATTEMPTS):
                row = await self._rows.find_one({"_id": key})
                known = row["versions"] if row else []
                if known and known[0]["types"] == made["types"]:
                    return
                # What MongoDB keeps: whole milliseconds. Two versions of one moment could not be distinguished.
                now = self._clock()
                made["at"] = now.replace(microsecond=now.microsecond // 1000 * 1000)
                if known and known[0]["at"] == made["at"]:
                    known = known[1:]
                change = {**mongo.names(owner), "versions": [made, *known][:_VERSIONS]}
                if row is None:
                    try:
                        await self._rows.insert_one({"_id": key, "revision": 1, **change})
                    except mongo.DuplicateKey:
                        continue
                    return
                same = {"_id": key, "revision": row["revision"]}
                put = await self._rows.update_one(same, {"$set": {**change, "revision": row["revision"] + 1}})
                if put.matched_count:
                    return
        raise errors.Crowded("the entity types are being changed by many writers", retry_after=1)

    async def _index(self) -> None:
        if not self._indexed:
            await self._rows.create_index([("clientId", 1), ("projectId", 1)])
            self._indexed = True


def effective(holding: Sequence[Owned]) -> list[tuple[scope.Scope, Version, EntityType]]:
    """The types that count now, each with whose it is, in order of their names."""
    found: dict[str, tuple[scope.Scope, Version, EntityType]] = {}
    for one in sorted(holding, key=lambda one: _width(one.owner), reverse=True):
        for entry in one.versions[0].types:
            found[entry.name] = (one.owner, one.versions[0], entry)
    return [found[name] for name in sorted(found)]


def sets(holding: Sequence[Owned]) -> list[Types]:
    """The types that counted, now and after each earlier change as far as it is known, the latest first."""
    moments = sorted({version.at for one in holding for version in one.versions}, reverse=True)
    made = [_merged(holding, moment) for moment in moments]
    # Before the first change there were none; where that is not known any more, it does no harm to look.
    return list(dict.fromkeys([*made, ()]))


def _merged(holding: Sequence[Owned], moment: datetime) -> Types:
    found: dict[str, EntityType] = {}
    for one in sorted(holding, key=lambda one: _width(one.owner), reverse=True):
        then = next((version for version in one.versions if version.at <= moment), None)
        found |= {entry.name: entry for entry in then.types} if then is not None else {}
    return tuple(found[name] for name in sorted(found))


def _width(owner: scope.Scope) -> int:
    return 0 if owner.project_id else 1 if owner.group_id else 2 if owner.client_id else 3


def _owned(row: dict[str, Any]) -> Owned:
    versions = [
        Version(one["at"], one["by"], tuple(EntityType(entry["name"], entry["description"]) for entry in one["types"]))
        for one in row["versions"]
    ]
    return Owned(mongo.owner(row), tuple(versions))
