"""The registry in MongoDB: collection `graph_entity_registry` with the fields of seed 001, and the owner's scope.

Every ingest asks the collection; there is no cache in between. One indexed query of a millisecond per document buys
that a merge holds for the very next document, in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from crds import scope
from kb import identity, mongo
from kb.aliases import registry
from kb.graph import model

COLLECTION = "graph_entity_registry"
_BATCH = 2000


class Registry:
    """Implements `kb.aliases.registry.Registry`."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._aliases = database[COLLECTION]
        self._clock = clock
        self._indexed = False

    async def resolve(self, owner: scope.Scope, keys: Collection[str]) -> Mapping[str, str]:
        wanted = sorted(keys)
        found: list[registry.Alias] = []
        with mongo.translated():
            await self._index()
            for start in range(0, len(wanted), _BATCH):
                query = {
                    **mongo.governing(owner),
                    "aliasKey": {"$in": wanted[start : start + _BATCH]},
                    "state": {"$ne": registry.State.RETIRING.value},
                }
                found += [_alias(row) async for row in self._aliases.find(query)]
        return registry.effective(found)

    async def seen(self, owner: scope.Scope, aliases: Collection[str]) -> None:
        query = {**mongo.governing(owner), "aliasKey": {"$in": sorted(aliases)}}
        with mongo.translated():
            await self._aliases.update_many(query, {"$inc": {"seenCount": 1}, "$set": {"lastSeenAt": self._clock()}})

    async def listed(self, viewer: scope.Scope, *, key: str | None = None, limit: int = 200) -> list[registry.Alias]:
        query: dict[str, Any] = mongo.governing(viewer)
        if key is not None:
            query = {"$and": [query, {"$or": [{"aliasKey": key}, {"canonicalKey": key}]}]}
        with mongo.translated():
            await self._index()
            cursor = self._aliases.find(query).sort([("aliasKey", 1), ("_id", 1)]).limit(limit)
            return [_alias(row) async for row in cursor]

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> Mapping[str, list[str]]:
        wanted = sorted(names)
        found: list[registry.Alias] = []
        with mongo.translated():
            await self._index()
            for start in range(0, len(wanted), _BATCH):
                query = {
                    **mongo.governing(viewer),
                    "aliasName": {"$in": wanted[start : start + _BATCH]},
                    "state": {"$ne": registry.State.RETIRING.value},
                }
                found += [_alias(row) async for row in self._aliases.find(query)]
        return registry.by_name(found)

    async def find(self, owner: scope.Scope, alias: str) -> registry.Alias | None:
        with mongo.translated():
            row = await self._aliases.find_one({"_id": _id(owner, alias)})
        return None if row is None else _alias(row)

    async def related(self, owner: scope.Scope, key: str) -> list[registry.Alias]:
        query = {"clientId": owner.client_id, "$or": [{"aliasKey": key}, {"canonicalKey": key}]}
        with mongo.translated():
            await self._index()
            found = [_alias(row) async for row in self._aliases.find(query)]
        return [one for one in found if registry.meet(one.owner, owner)]

    async def put(self, alias: registry.Alias) -> None:
        document = {
            **mongo.names(alias.owner),
            "state": alias.state.value,
            "aliasKey": alias.alias,
            "aliasName": model.name_of(alias.alias),
            "formerKeys": list(alias.former),
            "canonicalKey": alias.canonical,
            "area": alias.area,
            "seenCount": alias.seen_count,
            "lastSeenAt": alias.last_seen_at,
            "createdAt": alias.created_at,
            "createdBy": alias.created_by,
        }
        with mongo.translated():
            await self._index()
            await self._aliases.replace_one({"_id": _id(alias.owner, alias.alias)}, document, upsert=True)

    async def retire(self, owner: scope.Scope, alias: str) -> registry.Alias | None:
        with mongo.translated():
            row = await self._aliases.find_one_and_update(
                {"_id": _id(owner, alias)},
                {"$set": {"state": registry.State.RETIRING.value}},
                return_document=mongo.AFTER,
            )
        return None if row is None else _alias(row)

    async def settle(self, alias: registry.Alias) -> None:
        # Only as it was repaired: one that was pointed elsewhere meanwhile is another one's to settle.
        mine = {
            "_id": _id(alias.owner, alias.alias),
            "canonicalKey": alias.canonical,
            "state": alias.state.value,
            "createdAt": alias.created_at,
            **({f"formerKeys.{len(alias.former) - 1}": alias.former[-1]} if alias.former else {}),
            f"formerKeys.{len(alias.former)}": {"$exists": False},
        }
        with mongo.translated():
            if alias.state is registry.State.RETIRING:
                await self._aliases.delete_one(mine)
            else:
                await self._aliases.update_one(mine, {"$set": {"state": registry.State.MERGED.value, "formerKeys": []}})

    async def pending(self) -> list[registry.Alias]:
        with mongo.translated():
            cursor = self._aliases.find({"state": {"$ne": registry.State.MERGED.value}}).limit(_BATCH)
            return [_alias(row) async for row in cursor]

    async def _index(self) -> None:
        if not self._indexed:
            await self._aliases.create_index([("clientId", 1), ("aliasKey", 1)])
            await self._aliases.create_index([("clientId", 1), ("canonicalKey", 1)])
            await self._aliases.create_index([("clientId", 1), ("aliasName", 1)])
            self._indexed = True


def _id(owner: scope.Scope, alias: str) -> str:
    return identity.alias(owner, alias)


def _alias(row: dict[str, Any]) -> registry.Alias:
    return registry.Alias(
        state=registry.State(row["state"]),
        owner=mongo.owner(row),
        alias=row["aliasKey"],
        canonical=row["canonicalKey"],
        area=row["area"],
        seen_count=row["seenCount"],
        last_seen_at=row["lastSeenAt"],
        created_at=row["createdAt"],
        created_by=row["createdBy"],
        former=tuple(row["formerKeys"]),
    )
