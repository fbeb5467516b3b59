"""What is kept in MongoDB of a scope's tasks: memories, results, checkpoints, the archive, and items of sources that
become tasks. Objects are the apiserver's.

A run that still lives loses its fence first, and so may write nothing from then on; its task, if that is still an
object, begins anew from its own content.
"""

from __future__ import annotations

from typing import Any

from contracts import mongo_collections
from crds import scope
from kb import mongo
from kb.erasure import closed

_AT_ONCE = 200
# Where a task's memory, and an archived task, say whose they are.
_MEMORY, _ARCHIVE = "scope.", "object.spec."


class Tasks:
    """Raises `kb.errors.Away`. The list of the tasks goes last, so that what breaks off is gone on from."""

    def __init__(self, database: mongo.Database) -> None:
        self._database = database

    async def erase(self, where: scope.Scope) -> int:
        """Delete what is kept of the scope's tasks; how many tasks that were."""
        if where.is_global:
            return 0  # a task belongs to a client
        gone: set[str] = set()
        with mongo.translated():
            # Items that are no tasks yet: what is erased must not become one.
            await self._database[mongo_collections.SOURCE_ITEMS].delete_many(chosen(where, _MEMORY))
            await self._meetings(where)
        archived = chosen(where, _ARCHIVE)
        # It is indexed at the archive's own level.
        archived["clientId"] = archived.pop(f"{_ARCHIVE}clientId")
        for collection, query in (
            (mongo_collections.MEMORY, chosen(where, _MEMORY)),
            (mongo_collections.ARCHIVE, archived),
        ):
            rows = self._database[collection]
            while True:
                with mongo.translated():
                    uids = [row["_id"] async for row in rows.find(query, {"_id": 1}).limit(_AT_ONCE)]
                    if not uids:
                        break
                    for name, field in mongo_collections.OF_RUNS.items():
                        if name != collection:
                            await self._database[name].delete_many({field: {"$in": uids}})
                    await rows.delete_many({"_id": {"$in": uids}})
                gone.update(uids)
        return len(gone)

    async def _meetings(self, where: scope.Scope) -> None:
        """Recordings and transcripts; the meeting itself last. An upload or a Job that still runs then has none."""
        rows = self._database[mongo_collections.MEETINGS]
        async for row in rows.find(chosen(where, ""), {"file": 1}):
            if row.get("file") is not None:
                await self._database[mongo_collections.RECORDINGS].delete_one({"_id": row["file"]})
                await self._database[mongo_collections.RECORDING_CHUNKS].delete_many({"files_id": row["file"]})
            await self._database[mongo_collections.TRANSCRIPTS].delete_one({"_id": row["_id"]})
            await rows.delete_one({"_id": row["_id"]})


def chosen(where: scope.Scope, place: str) -> dict[str, Any]:
    """`closed.query` over fields of which an empty one may be missing; `place` stands before their names."""
    query: dict[str, Any] = {
        f"{place}{name}": value if value else {"$in": ["", None]} for name, value in closed.query(where).items()
    }
    return query
