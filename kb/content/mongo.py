"""Content in MongoDB's GridFS (bucket `content`), through motor.

GridFS writes the chunks of a file first and its entry last, so an upload that breaks off is never visible. Every upload
has a GridFS id of its own and our key as its file name: two uploads of the same bytes at once cannot damage each other.
Needs no transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from gridfs.errors import CorruptGridFile, NoFile

from crds import scope
from kb import api, errors, identity, mongo, visibility
from kb.erasure import closed

_BUCKET = "content"
_ERASED_AT_ONCE = 500


def _now() -> datetime:
    return datetime.now(UTC)


class Store:
    """Implements `kb.content.store.Store` on one database, whose client closes it."""

    def __init__(
        self,
        database: mongo.Database,
        *,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._clock = clock
        self._indexed = False
        self._database = database
        self._files = database[f"{_BUCKET}.files"]
        self._chunks = database[f"{_BUCKET}.chunks"]
        self._bucket = database.bucket(_BUCKET)

    async def ready(self) -> None:
        await self._database.ping()

    async def save(self, owner: scope.Scope, body: bytes, media_type: str, *, part_of: str = "") -> api.ContentRef:
        sha256 = identity.digest_bytes(body)
        key = identity.part(part_of, sha256) if part_of else identity.content(owner, sha256)
        metadata = {
            **owner.model_dump(by_alias=True),
            "sha256": sha256,
            "mediaType": media_type,
            "usedAt": self._clock(),
            **({"partOf": part_of} if part_of else {}),
        }
        reference = api.ContentRef(key=key, sha256=sha256, bytes=len(body))
        with mongo.translated():
            entry = await self._entry(key)
            if entry is not None:
                # Only the group of a project's content can differ: the newest writer knows it best.
                kept = await self._files.update_one({"_id": entry["_id"]}, {"$set": {"metadata": metadata}})
                if kept.matched_count:
                    return reference
                # Swept between the two calls: upload it again.
            mine = await self._bucket.upload_from_stream(key, body, metadata=metadata)
            first = await self._entry(key)
            if first is not None and first["_id"] != mine:
                # Another caller uploaded the same bytes at the same moment; one copy is enough.
                await self._bucket.delete(mine)
        return reference

    async def load(self, viewer: scope.Scope, key: str) -> bytes:
        missing = errors.NotFound(
            f"no content {key!r}", field="key", remedy="Use the key of a contentRef, in the scope it was stored with."
        )
        with mongo.translated():
            entry = await self._entry(key)
            if entry is None:
                raise missing
            metadata = entry.get("metadata") or {}
            owner = scope.Scope(
                client_id=metadata["clientId"], project_id=metadata["projectId"], group_id=metadata["groupId"]
            )
            if not visibility.sees(viewer, owner):
                raise missing
            try:
                stream = await self._bucket.open_download_stream(entry["_id"])
                body: bytes = await stream.read()
            except NoFile:
                raise missing from None
            except CorruptGridFile as error:
                raise _damaged(key) from error
            # What is used is not swept.
            await self._files.update_one({"_id": entry["_id"]}, {"$set": {"metadata.usedAt": self._clock()}})
        if identity.digest_bytes(body) != metadata["sha256"]:
            raise _damaged(key)
        return body

    async def idle(self, *, before: datetime, limit: int = 500) -> list[str]:
        """Keys of what was neither stored nor loaded since `before`, the longest unused first."""
        with mongo.translated():
            cursor = self._files.find(_idle(before), {"filename": 1}).sort([("metadata.usedAt", 1)]).limit(limit)
            return [row["filename"] async for row in cursor]

    async def touch(self, key: str) -> None:
        """Count as used now."""
        with mongo.translated():
            await self._files.update_one({"filename": key}, {"$set": {"metadata.usedAt": self._clock()}})

    async def discard(self, key: str, *, before: datetime) -> bool:
        """Delete the content, unless it was used since `before`. A crash leaves chunks that no caller sees."""
        with mongo.translated():
            gone = await self._files.find_one_and_delete({"filename": key, **_idle(before)}, {"_id": 1})
            if gone is not None:
                await self._chunks.delete_many({"files_id": gone["_id"]})
        return gone is not None

    async def drop_parts(
        self,
        document_id: str,
        *,
        keep: Collection[str] = (),
        only: Collection[str] | None = None,
        before: datetime | None = None,
    ) -> int:
        chosen: dict[str, Any] = {"metadata.partOf": document_id}
        names: dict[str, Any] = {"$nin": sorted(keep)} if keep else {}
        if only is not None:
            names["$in"] = sorted(only)
        if names:
            chosen["filename"] = names
        if before is not None:
            chosen["metadata.usedAt"] = {"$lt": before}
        with mongo.translated():
            await self._index()
        return await self._delete(chosen)

    async def part_clients(self) -> list[str]:
        with mongo.translated():
            return sorted(await self._files.distinct("metadata.clientId", {"metadata.partOf": {"$exists": True}}))

    async def _index(self) -> None:
        """Each deletion of a document asks for its parts."""
        if not self._indexed:
            await self._files.create_index([("metadata.partOf", 1)], sparse=True)
            self._indexed = True

    async def parts(self, client_id: str, *, before: datetime) -> list[str]:
        with mongo.translated():
            await self._index()
            mine: dict[str, Any] = {"metadata.clientId": client_id, "metadata.usedAt": {"$lt": before}}
            mine["metadata.partOf"] = {"$exists": True}
            return sorted(await self._files.distinct("metadata.partOf", mine))

    async def erase(self, where: scope.Scope) -> int:
        """Delete all that a scope owns which is erased; the entries last, so that a crash is gone on from."""
        return await self._delete({f"metadata.{name}": value for name, value in closed.query(where).items()})

    async def _delete(self, chosen: Mapping[str, Any]) -> int:
        with mongo.translated():
            ids = [row["_id"] async for row in self._files.find(chosen, {"_id": 1})]
            for start in range(0, len(ids), _ERASED_AT_ONCE):
                some = {"$in": ids[start : start + _ERASED_AT_ONCE]}
                await self._chunks.delete_many({"files_id": some})
                await self._files.delete_many({"_id": some})
        return len(ids)

    async def regroup(self, owner: scope.Scope) -> int:
        mine = {"metadata.clientId": owner.client_id, "metadata.projectId": owner.project_id}
        other = {**mine, "metadata.groupId": {"$ne": owner.group_id}}
        with mongo.translated():
            changed = await self._files.update_many(other, {"$set": {"metadata.groupId": owner.group_id}})
        return int(changed.modified_count)

    async def _entry(self, key: str) -> dict[str, Any] | None:
        """The oldest complete upload under `key`."""
        entry: dict[str, Any] | None = await self._files.find_one({"filename": key}, sort=[("_id", 1)])
        return entry


def _idle(before: datetime) -> dict[str, Any]:
    # Parts go with their document.
    return {"metadata.partOf": {"$exists": False}, "metadata.usedAt": {"$lt": before}}


def _damaged(key: str) -> errors.Invalid:
    return errors.Invalid(f"the content {key!r} is damaged", field="key", remedy="Store the content again.")
