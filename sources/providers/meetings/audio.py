"""Recordings in MongoDB's GridFS (bucket `recordings`), uploaded in parts of any size and read in chunks.

An upload is at `offset`: what lies before it is stored, so after a kill it goes on there. One process at a time writes
to a recording, by a claim that ends by itself. A process that was frozen meanwhile may still write a chunk; what counts
is the digest of the whole, which is read back at the end, and GridFS' own entry is written after that. Memory: one
chunk, whatever the length. Source: tus 1.0.0 "Core Protocol" (offsets), GridFS specification "Chunks".
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from clients.mongo import AFTER, ASCENDING, translate_errors
from contracts import mongo_collections
from contracts.api import meeting
from contracts.api.meeting import State
from crds import errors
from sources.api import problems
from sources.providers.meetings.store import Row, Unknown

CHUNK = 1 << 20
LASTS = timedelta(seconds=60)
"""Without a chunk for so long, another upload may go on."""


class Busy(problems.Locked):
    """Another upload writes to the recording."""


class Moved(problems.Conflict):
    """The part does not begin where the recording ends, or the recording is complete."""

    def __init__(self, message: str) -> None:
        super().__init__(message, field="Upload-Offset", remedy="Ask with HEAD where it ends, and go on there.")


class Unusable(errors.Permanent):
    """The bytes are no recording that can be read, or not those that were announced."""


class TooLarge(problems.TooLarge):
    """More bytes than a recording may have, or than were announced."""


class Full(problems.Full):
    """The recordings of the namespace have as many bytes as they may have."""

    def __init__(self, quota: int) -> None:
        super().__init__(
            f"The recordings of this namespace may have {quota} bytes together, and this one exceeds them.",
            field="sources.settings.recordingNamespaceBytes",
            remedy="Delete meetings (DELETE /api/v1/meetings/ID), or have sources.settings.recordingNamespaceBytes of"
            " the chart raised.",
        )


class Audio:
    """`database` is one of `mongo.client`; `wall` the time in UTC; `quota` bytes are for all recordings of a namespace.
    Every method raises `mongo.Unavailable`."""

    def __init__(
        self, database: Any, *, wall: Callable[[], datetime], most: int = meeting.MOST_BYTES, quota: int = 100 << 30
    ) -> None:
        self._rows = database[mongo_collections.MEETINGS]
        self._files, self._chunks = database[mongo_collections.RECORDINGS], database[mongo_collections.RECORDING_CHUNKS]
        self._wall, self._most, self._quota = wall, most, quota

    async def prepare(self) -> None:
        """Make the index that GridFS asks for, and that of meetings by their recording."""
        with translate_errors("make an index"):
            await self._chunks.create_index([("files_id", ASCENDING), ("n", ASCENDING)], unique=True)
            await self._rows.create_index([("file", ASCENDING)])

    async def write(
        self, meeting_id: str, offset: int, length: int | None, body: AsyncIterable[bytes], sha256: str = ""
    ) -> Row:
        """Append `body` at `offset`, which is where the recording ends; the meeting after that.

        `length`: of the whole recording, given once or each time alike. `sha256`: of the whole, needed with the part
        that completes it: the meeting is UPLOADED then. What arrived before the connection broke is stored. Raises
        `Busy`, `Moved`, `Unusable`, `TooLarge`, `Full`, `Unknown`.
        """
        row = await self._claim(meeting_id, offset, length)
        try:
            row = await self._append(row, body, await self._room(row))
            if row.get("length") is not None and row["offset"] == row["length"]:
                return await self._complete(row, sha256)
        finally:
            await self._release(row)
        return row

    async def read(self, row: Row) -> AsyncGenerator[bytes]:
        """The recording, chunk by chunk. Raises `Unusable` if a part of it is missing."""
        left, file = int(row["offset"]), row.get("file")
        with translate_errors("read a recording"):
            number = 0
            async for chunk in self._chunks.find({"files_id": file}).sort("n", ASCENDING).batch_size(4):
                piece = bytes(chunk["data"])[:left]
                if chunk["n"] != number or len(piece) != min(CHUNK, left):
                    break
                number, left = number + 1, left - len(piece)
                if piece:
                    yield piece
        if left:
            raise Unusable("A part of the recording is missing.", field="audio", remedy="Upload it again.")

    async def delete(self, row: Row) -> None:
        """Forget the recording."""
        if row.get("file") is not None:
            with translate_errors("forget a recording"):
                await self._files.delete_one({"_id": row["file"]})
                await self._chunks.delete_many({"files_id": row["file"]})

    async def _claim(self, meeting_id: str, offset: int, length: int | None) -> Row:
        now, writer = self._wall(), ObjectId()
        if length is not None and length > self._most:
            raise TooLarge(f"A recording has at most {self._most} bytes.", field="Upload-Length", remedy="Compress it.")
        free = {"$or": [{"writingUntil": None}, {"writingUntil": {"$lt": now}}]}
        wanted: dict[str, Any] = {"_id": meeting_id, "state": State.RECORDING.value, "offset": offset, **free}
        said: dict[str, Any] = {"writer": writer, "writingUntil": now + LASTS, "touchedAt": now}
        if length is not None:
            wanted["length"] = {"$in": [None, length]}
            said["length"] = length
        with translate_errors("claim a recording"):
            row: Row | None = await self._rows.find_one_and_update(wanted, {"$set": said}, return_document=AFTER)
            if row is None:
                raise await self._refusal(meeting_id, offset, length, now)
            if row.get("file") is None:
                # Chunks of a claim that ended before this was written belong to no recording: there are none.
                row = {**row, "file": ObjectId()}
                await self._rows.update_one({"_id": meeting_id, "writer": writer}, {"$set": {"file": row["file"]}})
        return row

    async def _refusal(self, meeting_id: str, offset: int, length: int | None, now: datetime) -> errors.JervisError:
        row = await self._rows.find_one({"_id": meeting_id})
        if row is None:
            return Unknown(f"There is no meeting {meeting_id!r}.", field="id")
        has = int(row["offset"])
        if row["state"] != State.RECORDING.value:
            return Moved(f"The recording is complete: the meeting is {row['state']}.")
        if has != offset:
            return Moved(f"The recording ends at {has}, not at {offset}.")
        if length is not None and row.get("length") not in (None, length):
            return Moved(f"Upload-Length was {row['length']} before, and is {length} now.")
        left = (row["writingUntil"] - now).total_seconds() if row.get("writingUntil") else 1.0
        return Busy("Another upload writes to this recording.", retry_after=max(1.0, left))

    async def _room(self, row: Row) -> int:
        """Bytes that the recording may have as far as its namespace goes. A length that was announced counts as used:
        it is written before this looks, so of two that exceed the quota together not both go on. Raises `Full`."""
        others = {"namespace": row["namespace"], "_id": {"$ne": row["_id"]}}
        total = {"$group": {"_id": None, "bytes": {"$sum": {"$max": ["$offset", "$length"]}}}}
        with translate_errors("count the bytes of recordings"):
            used = [one["bytes"] async for one in self._rows.aggregate([{"$match": others}, total])]
            room = self._quota - int(sum(used))
            if max(int(row["offset"]), int(row.get("length") or 0)) <= room:
                return room
            mine = {"_id": row["_id"], "writer": row["writer"]}
            await self._rows.update_one(mine, {"$set": {"length": None}})
        raise Full(self._quota)

    async def _append(self, row: Row, body: AsyncIterable[bytes], room: int) -> Row:
        most = self._most if row.get("length") is None else int(row["length"])
        buffer, at = bytearray(await self._tail(row)), int(row["offset"])
        at -= len(buffer)
        try:
            async for piece in body:
                if at + len(buffer) + len(piece) > room:
                    raise Full(self._quota)
                if at + len(buffer) + len(piece) > most:
                    raise TooLarge(f"The recording has at most {most} bytes.", field="Upload-Length")
                buffer += piece
                while len(buffer) >= CHUNK:
                    row = await self._put(row, at, bytes(buffer[:CHUNK]))
                    del buffer[:CHUNK]
                    at += CHUNK
        finally:
            # Also when the connection broke: what has arrived need not be sent again.
            if at + len(buffer) > row["offset"]:
                row = await self._put(row, at, bytes(buffer))
        return row

    async def _tail(self, row: Row) -> bytes:
        """What of the last chunk is stored, if it is not full."""
        number, size = divmod(int(row["offset"]), CHUNK)
        if not size:
            return b""
        with translate_errors("read a recording"):
            chunk = await self._chunks.find_one({"files_id": row["file"], "n": number})
        found = bytes(chunk["data"])[:size] if chunk else b""
        if len(found) != size:
            raise Unusable("A part of the recording is missing.", field="audio", remedy="Make the meeting again.")
        return found

    async def _put(self, row: Row, at: int, piece: bytes) -> Row:
        if at == 0 and row["offset"] == 0 and not row.get("mediaType") and len(piece) >= _SNIFFED:
            row = {**row, "mediaType": _usable(piece)}
        end = at + len(piece)
        with translate_errors("keep a part of a recording"):
            chunk = {"files_id": row["file"], "n": at // CHUNK, "data": piece}
            await self._chunks.replace_one({"files_id": row["file"], "n": at // CHUNK}, chunk, upsert=True)
            mine = {"_id": row["_id"], "writer": row["writer"], "offset": row["offset"]}
            now = self._wall()
            said = {
                "offset": end, "writingUntil": now + LASTS, "touchedAt": now, "mediaType": row.get("mediaType", "")
            }  # fmt: skip
            done = await self._rows.update_one(mine, {"$set": said})
        if not done.matched_count:
            await self._tidy(row)
            raise Busy("Another upload has gone on with this recording, or the meeting was deleted.")
        return {**row, **said}

    async def _complete(self, row: Row, sha256: str) -> Row:
        if not sha256:
            raise Unusable(
                "The recording is complete, and its digest is not said.",
                field="Repr-Digest",
                remedy="Send an empty part at its end with the header Repr-Digest: sha-256=:BASE64: of the whole.",
            )
        found, beginning, read = hashlib.sha256(), b"", 0
        async for piece in self.read(row):
            found.update(piece)
            beginning = beginning or piece[:4096]
            read += 1
            if read % 64 == 0:
                await self._keep(row)
        media_type = _usable(beginning)
        if found.hexdigest() != sha256:
            await self._again(row)
            raise Unusable(
                f"The recording that arrived has the SHA-256 {found.hexdigest()}, not {sha256}.",
                field="Repr-Digest",
                remedy="Upload it again, from offset 0.",
            )
        said = {"state": State.UPLOADED.value, "sha256": sha256, "mediaType": media_type}
        entry = {
            "_id": row["file"],
            "length": row["offset"],
            "chunkSize": CHUNK,
            "uploadDate": self._wall(),
            "filename": row["_id"],
            "metadata": {"sha256": sha256, "mediaType": media_type},
        }
        with translate_errors("complete a recording"):
            await self._files.replace_one({"_id": row["file"]}, entry, upsert=True)
            mine = {"_id": row["_id"], "writer": row["writer"], "state": State.RECORDING.value}
            done = await self._rows.update_one(mine, {"$set": said})
        if not done.matched_count:
            await self._tidy(row)
            raise Busy("Another upload has gone on with this recording, or the meeting was deleted.")
        return {**row, **said}

    async def _tidy(self, row: Row) -> None:
        """What was written after the meeting was deleted, or after its upload began anew, belongs to nothing."""
        with translate_errors("forget a recording"):
            if await self._rows.find_one({"_id": row["_id"], "file": row["file"]}, {"_id": 1}) is None:
                await self._files.delete_one({"_id": row["file"]})
                await self._chunks.delete_many({"files_id": row["file"]})

    async def _again(self, row: Row) -> None:
        """The upload begins anew, in another file: what a frozen process still writes belongs to this one."""
        with translate_errors("forget a recording"):
            said = {"offset": 0, "length": None, "file": None, "mediaType": ""}
            mine = {"_id": row["_id"], "writer": row["writer"], "state": State.RECORDING.value}
            await self._rows.update_one(mine, {"$set": said})
            await self._chunks.delete_many({"files_id": row["file"]})

    async def _keep(self, row: Row) -> None:
        with translate_errors("claim a recording"):
            mine = {"_id": row["_id"], "writer": row["writer"]}
            await self._rows.update_one(mine, {"$set": {"writingUntil": self._wall() + LASTS}})

    async def _release(self, row: Row) -> None:
        with translate_errors("give a recording back"):
            await self._rows.update_one(
                {"_id": row["_id"], "writer": row["writer"]}, {"$set": {"writer": None, "writingUntil": None}}
            )


_SNIFFED = 12
_MAGIC: Mapping[bytes, str] = {
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
    b"ID3": "audio/mpeg",
    b"\x1aE\xdf\xa3": "video/webm",
}


def sniff(beginning: bytes) -> str:
    """The media type that the first bytes say; "" for none that is taken. The file name and headers do not count."""
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WAVE":
        return "audio/wav"
    if beginning[4:8] == b"ftyp":
        return "audio/mp4" if beginning[8:11] == b"M4A" else "video/mp4"
    # A frame of MPEG audio: eleven set bits, a layer, and neither of the two values that are reserved.
    if len(beginning) > 3 and beginning[0] == 0xFF and beginning[1] & 0xE6 in (0xE2, 0xE4, 0xE6):
        return "audio/mpeg" if beginning[2] & 0xF0 != 0xF0 and beginning[2] & 0x0C != 0x0C else ""
    return next((media for magic, media in _MAGIC.items() if beginning.startswith(magic)), "")


def _usable(beginning: bytes) -> str:
    found = sniff(beginning)
    if not found:
        raise Unusable(
            "The file is no recording: its first bytes are none of WAV, FLAC, Ogg, MP3, MP4 (M4A) and WebM (Matroska).",
            field="audio",
            remedy="Upload the recording itself, in one of these formats.",
        )
    return found
