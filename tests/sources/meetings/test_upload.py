"""Uploads of recordings: resumed, refused, checked, in constant memory; over HTTP against MongoDB's wire."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gridfs
import httpx
import prometheus_client
import pymongo
import pytest

from contracts import mongo_collections
from contracts.api import meeting
from contracts.tokens import token_file
from sources.core import assignments
from sources.providers.meetings import audio, metrics, serving, store
from tests import ports, waiting
from tests.sources import process
from tests.sources.api import serving as api
from tests.sources.git.knowledge import kubeconfig

pytestmark = pytest.mark.services
URI = os.environ.get("JERVIS_TEST_MONGODB_URI", "")
WAV = b"RIFF\xff\xff\xff\xffWAVEfmt "
DRAFT = {"namespace": "team", "connection": "meetings", "title": "Weekly", "participants": ["Ada"]}
TYPE = {"Content-Type": serving.PART_TYPE}


def digest(body: bytes) -> dict[str, str]:
    return {"Repr-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"}


def recording(size: int, seed: int = 1) -> bytes:
    return WAV + random.Random(seed).randbytes(size - len(WAV))


class Rig:
    """A database of its own with one Connection of client acme; `now` is everyone's clock."""

    def __init__(self, database: Any, tokens: token_file.Book) -> None:
        self.database, self.tokens = database, tokens
        self.now = datetime(2026, 11, 26, 12, tzinfo=UTC)
        self.meetings = store.Meetings(database)
        self.audio = audio.Audio(database, wall=lambda: self.now, most=64 << 20)
        measured = metrics.Metrics(prometheus_client.CollectorRegistry())
        self.serving = serving.Serving(self.meetings, self.audio, measured, correct=False, wall=lambda: self.now)

    @asynccontextmanager
    async def client(self, token: str = "acme") -> AsyncIterator[httpx.AsyncClient]:
        async with api.serving(self.serving.served(), token=token, book=self.tokens) as client:
            yield client

    async def row(self, meeting_id: str) -> Any:
        return await self.meetings.get(meeting_id)


def book(folder: Path) -> token_file.Book:
    path = folder / "tokens.yaml"
    lines = [
        f"- {{name: {name}, sha256: {hashlib.sha256(name.encode()).hexdigest()}, write: {write},"
        f" scopes: [{{clientId: {client}}}]}}"
        for name, client, write in (("acme", "acme", "true"), ("reader", "acme", "false"), ("other", "other", "true"))
    ]
    digest_ = hashlib.sha256(b"jana").hexdigest()
    lines.append(f"- {{name: jana, sha256: {digest_}, scopes: [{{clientId: acme}}], principals: [user:jana]}}")
    path.write_text("tokens:\n" + "\n".join(lines))
    return token_file.Book(path)


def connection(name: str = "meetings", kind: str = "Meeting") -> dict[str, Any]:
    spec = {"type": kind, "clientId": "acme", "projectId": "apollo", "url": "https://meetings.example.com"}
    return {"_id": f"uid-{name}", "namespace": "team", "name": name, "wanted": True, "spec": spec}


async def make(client: httpx.AsyncClient, **more: Any) -> str:
    made = await client.post("/api/v1/meetings", json={**DRAFT, **more})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def part(client: httpx.AsyncClient, meeting_id: str, offset: int, body: Any, **headers: str) -> httpx.Response:
    sent = {**TYPE, "Upload-Offset": str(offset), **headers}
    return await client.patch(f"/api/v1/meetings/{meeting_id}/audio", content=body, headers=sent)


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Its status, and the field that it names."""
    return answer.status_code, answer.json()["error"]["field"]


async def test_what_others_have_in_a_namespace_is_neither_counted_nor_told(rig: Rig) -> None:
    theirs = connection("theirs")
    theirs["spec"]["clientId"] = "other"
    await rig.database[assignments.CONNECTIONS].insert_one(theirs)
    async with rig.client() as client, rig.client("other") as other:
        one = await make(client)
        rig.now += timedelta(seconds=1)
        for _ in range(3):
            await make(other, connection="theirs")
        page = (await client.get("/api/v1/meetings?namespace=team&limit=2")).json()
        assert ([row["id"] for row in page["meetings"]], page["truncated"]) == ([one], False)
        page = (await other.get("/api/v1/meetings?namespace=team&limit=2")).json()
        assert (len(page["meetings"]), page["truncated"]) == (2, True)
        said = [
            (await other.post("/api/v1/meetings", json={**DRAFT, "connection": name})).json()["error"]
            for name in ("meetings", "mailbox", "nothing")
        ]
        assert [one["message"].replace("meetings", "nothing").replace("mailbox", "nothing") for one in said] == [
            said[2]["message"]
        ] * 3
        absent = (await other.get(f"/api/v1/meetings/{'0' * 32}")).json()["error"]
        hidden = (await other.get(f"/api/v1/meetings/{one}")).json()["error"]
        assert hidden == {**absent, "message": absent["message"].replace("0" * 32, one)}


async def test_a_token_of_somebody_is_shown_no_meetings(rig: Rig) -> None:
    async with rig.client() as client, rig.client("jana") as jana:
        one = await make(client)
        for path in ("?namespace=team", f"/{one}", f"/{one}/transcript"):
            said = await jana.get(f"/api/v1/meetings{path}")
            assert (said.status_code, said.json()["error"]["code"]) == (403, "forbidden")


async def test_parts_of_any_size_become_one_recording(rig: Rig) -> None:
    body = recording(3 * audio.CHUNK + 12_345)
    sizes = [5, 100, audio.CHUNK, 70_000, audio.CHUNK - 1, 1]
    async with rig.client() as client:
        one, at = await make(client), 0
        for size in sizes:
            said = await part(client, one, at, body[at : at + size], **{"Upload-Length": str(len(body))})
            at += size
            assert (said.status_code, said.headers["Upload-Offset"]) == (204, str(at))
        head = await client.head(f"/api/v1/meetings/{one}/audio")
        assert (head.headers["Upload-Offset"], head.headers["Upload-Length"]) == (str(at), str(len(body)))
        assert (await part(client, one, at, body[at:], **digest(body))).status_code == 204
        shown = (await client.get(f"/api/v1/meetings/{one}")).json()
    assert (shown["state"], shown["bytes"], shown["mediaType"]) == ("UPLOADED", len(body), "audio/wav")
    assert (shown["clientId"], shown["projectId"]) == ("acme", "apollo")
    assert shown["sha256"] == hashlib.sha256(body).hexdigest()
    row = await rig.row(one)
    assert b"".join([piece async for piece in rig.audio.read(row)]) == body
    # An ordinary driver reads it too: it is a file of GridFS.
    with pymongo.MongoClient[dict[str, Any]](URI) as client_:
        kept = gridfs.GridFSBucket(client_[rig.database.name], "recordings").open_download_stream(row["file"])
        assert (kept.read(), (kept.metadata or {})["mediaType"]) == (body, "audio/wav")


async def test_a_part_that_begins_elsewhere_is_refused(rig: Rig, client: httpx.AsyncClient, fresh: str) -> None:
    assert (await part(client, fresh, 0, recording(100))).status_code == 204
    for offset in (0, 99, 101):
        assert problem(await part(client, fresh, offset, b"more")) == (409, "Upload-Offset")
    other = await client.patch(f"/api/v1/meetings/{fresh}/audio", content=b"x", headers={"Upload-Offset": "100"})
    assert problem(other) == (422, "Content-Type")
    assert (await rig.row(fresh))["offset"] == 100


async def test_of_two_uploaders_one_is_refused_and_what_came_stays(rig: Rig) -> None:
    body, going, broken = recording(2 * audio.CHUNK + 500), asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield body[: audio.CHUNK + 200]
        going.set()
        await broken.wait()
        raise httpx.WriteError("the line breaks")

    async with rig.client() as client, rig.client() as second:
        one = await make(client)
        first = asyncio.create_task(part(client, one, 0, slow()))
        await going.wait()
        await waiting.eventually(lambda: rig.row(one), "a chunk is kept", good=lambda row: row["offset"] >= audio.CHUNK)
        said = await part(second, one, audio.CHUNK, body[audio.CHUNK :])
        assert (said.status_code, said.json()["error"]["code"]) == (423, "locked")
        assert int(said.headers["Retry-After"]) >= 1
        broken.set()
        with pytest.raises(httpx.WriteError):
            await first
        row = await waiting.eventually(lambda: rig.row(one), "nobody writes", good=lambda row: row["writer"] is None)
        at = row["offset"]
        assert at == audio.CHUNK + 200
        more = {"Upload-Length": str(len(body)), **digest(body)}
        assert (await part(second, one, at, body[at:], **more)).status_code == 204
    assert (await rig.row(one))["state"] == "UPLOADED"


async def test_a_dead_uploaders_claim_ends_by_itself(rig: Rig, client: httpx.AsyncClient, fresh: str) -> None:
    await rig.database[mongo_collections.MEETINGS].update_one(
        {"_id": fresh}, {"$set": {"writer": "dead", "writingUntil": rig.now + audio.LASTS}}
    )
    assert (await part(client, fresh, 0, recording(50))).status_code == 423
    rig.now += audio.LASTS + timedelta(seconds=1)
    assert (await part(client, fresh, 0, recording(50))).status_code == 204


async def test_a_frozen_writer_changes_no_meeting(rig: Rig, fresh: str) -> None:
    async def frozen() -> AsyncIterator[bytes]:
        yield recording(100)
        rig.now += audio.LASTS + timedelta(seconds=1)

        async def other() -> AsyncIterator[bytes]:
            yield recording(40, seed=2)

        await rig.audio.write(fresh, 0, None, other())

    with pytest.raises(audio.Busy):
        await rig.audio.write(fresh, 0, None, frozen())
    assert (await rig.row(fresh))["offset"] == 40


async def test_another_digest_begins_anew(rig: Rig, client: httpx.AsyncClient, fresh: str) -> None:
    body = recording(audio.CHUNK + 77)
    length = {"Upload-Length": str(len(body))}
    assert problem(await part(client, fresh, 0, body, **length)) == (422, "Repr-Digest")
    assert problem(await part(client, fresh, len(body), b"", **digest(b"something else"))) == (422, "Repr-Digest")
    assert (await rig.row(fresh))["offset"] == 0
    assert await rig.database[mongo_collections.RECORDING_CHUNKS].count_documents({}) == 0
    assert (await part(client, fresh, 0, body, **length, **digest(body))).status_code == 204
    again = await part(client, fresh, len(body), b"", **digest(body))
    assert again.status_code == 409
    assert (await rig.row(fresh))["state"] == "UPLOADED"


@pytest.mark.parametrize("body", [b"%PDF-1.7 and more", b"GIF89a and more and more", b"MZ and a lot of code", b"tiny"])
async def test_what_is_no_recording_is_refused_whatever_it_is_called(rig: Rig, body: bytes) -> None:
    async with rig.client() as client:
        one = await make(client, title="meeting.wav")
        answer = await part(client, one, 0, body, **{"Upload-Length": str(len(body))}, **digest(body))
        assert problem(answer) == (422, "audio")
    assert (await rig.row(one))["state"] == "RECORDING"


async def test_more_than_a_recording_may_have_is_refused(rig: Rig, client: httpx.AsyncClient, fresh: str) -> None:
    large = {"Upload-Length": str((64 << 20) + 1)}
    assert problem(await part(client, fresh, 0, b"", **large)) == (413, "Upload-Length")
    assert (await part(client, fresh, 0, recording(100), **{"Upload-Length": "60"})).status_code == 413
    assert problem(await part(client, fresh, 0, recording(100), **{"Upload-Length": "100"})) == (409, "Upload-Offset")


async def test_tokens_bound_what_is_seen_and_written(rig: Rig, client: httpx.AsyncClient, fresh: str) -> None:
    for field, value in (("clientId", "other"), ("projectId", "zeus")):
        assert problem(await client.post("/api/v1/meetings", json={**DRAFT, field: value})) == (409, field)
    for name in ("mailbox", "nothing"):
        wrong = await client.post("/api/v1/meetings", json={**DRAFT, "connection": name})
        assert wrong.json()["error"]["field"] == "connection"
    listed = await client.get("/api/v1/meetings", params={"namespace": "team", "state": "RECORDING"})
    assert [each["id"] for each in listed.json()["meetings"]] == [fresh]
    async with rig.client("other") as other:
        assert (await other.post("/api/v1/meetings", json=DRAFT)).status_code == 404
        assert (await other.get(f"/api/v1/meetings/{fresh}")).status_code == 404
        assert (await part(other, fresh, 0, recording(100))).status_code == 404
        assert (await other.get("/api/v1/meetings", params={"namespace": "team"})).json()["meetings"] == []
    async with rig.client("reader") as reader:
        assert (await reader.get(f"/api/v1/meetings/{fresh}")).status_code == 200
        assert (await reader.delete(f"/api/v1/meetings/{fresh}")).status_code == 404
    async with rig.client("") as anonymous:
        assert (await anonymous.get(f"/api/v1/meetings/{fresh}")).status_code == 401
    assert (await rig.row(fresh))["offset"] == 0


async def test_a_deleted_meeting_leaves_nothing(rig: Rig, client: httpx.AsyncClient, fresh: str) -> None:
    body = recording(audio.CHUNK + 9)
    await part(client, fresh, 0, body, **{"Upload-Length": str(len(body))}, **digest(body))
    assert (await client.delete(f"/api/v1/meetings/{fresh}")).status_code == 204
    assert (await client.get(f"/api/v1/meetings/{fresh}")).status_code == 404
    for name in (
        mongo_collections.MEETINGS,
        mongo_collections.TRANSCRIPTS,
        mongo_collections.RECORDINGS,
        mongo_collections.RECORDING_CHUNKS,
    ):
        assert await rig.database[name].count_documents({}) == 0


async def test_a_meeting_that_is_deleted_during_an_upload_leaves_nothing(
    rig: Rig, client: httpx.AsyncClient, fresh: str
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield recording(audio.CHUNK)
        assert (await client.delete(f"/api/v1/meetings/{fresh}")).status_code == 204
        yield b"x" * audio.CHUNK

    with pytest.raises(audio.Busy):
        await rig.audio.write(fresh, 0, None, body())
    for name in (mongo_collections.MEETINGS, mongo_collections.RECORDINGS, mongo_collections.RECORDING_CHUNKS):
        assert await rig.database[name].count_documents({}) == 0


@pytest.mark.parametrize(
    ("beginning", "media"),
    [
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\0\0\0\0AVI LIST", ""),
        (b"fLaC\0\0\0\x22", "audio/flac"),
        (b"OggS\0\x02", "audio/ogg"),
        (b"ID3\x04\0\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xff\xff\xff", ""),
        (b"\xff\xd8\xff\xe0", ""),
        (b"\0\0\0\x20ftypM4A \0\0", "audio/mp4"),
        (b"\0\0\0\x20ftypisom\0\0", "video/mp4"),
        (b"\x1aE\xdf\xa3\x9fB\x86", "video/webm"),
        (b"", ""),
    ],
)
def test_the_first_bytes_say_the_media_type(beginning: bytes, media: str) -> None:
    assert audio.sniff(beginning) == media


async def test_a_killed_process_goes_on_at_its_offset_in_constant_memory(tmp_path: Path) -> None:
    size = 192 << 20
    piece = random.Random(3).randbytes(audio.CHUNK)
    whole = hashlib.sha256(WAV)

    def pieces(start: int) -> AsyncIterator[bytes]:
        """The recording from `start` on."""

        async def made() -> AsyncIterator[bytes]:
            at = start
            while at < size:
                part_ = WAV[at:] if at < len(WAV) else piece[(at - len(WAV)) % len(piece) :][: size - at]
                at += len(part_)
                yield part_

        return made()

    async for each in pieces(len(WAV)):
        whole.update(each)
    name = f"jervis_meetings_{uuid.uuid4().hex[:8]}"
    book(tmp_path)
    settings: dict[str, object] = {
        "KUBECONFIG": kubeconfig(tmp_path),
        "MONGODB_URI": URI,
        "MONGODB_DATABASE": name,
        "TOKENS_FILE": tmp_path / "tokens.yaml",
        "API_HOST": "127.0.0.1",
        "API_PORT": ports.free(),
    }
    with pymongo.MongoClient[dict[str, Any]](URI) as server:
        rows = server[name]["meetings"]
        server[name][assignments.CONNECTIONS].insert_one({**connection(), "pollAt": datetime(2100, 1, 1, tzinfo=UTC)})
        try:
            with process.running(tmp_path / "first.log", **settings) as sources:
                base = f"http://127.0.0.1:{settings['API_PORT']}"
                headers = {"Authorization": "Bearer acme"}
                async with httpx.AsyncClient(base_url=base, headers=headers, timeout=120, trust_env=False) as client:
                    one = await make(client)

                    async def until(limit: int) -> AsyncIterator[bytes]:
                        async for each in pieces(0):
                            yield each
                            if rows.find_one({"_id": one})["offset"] >= limit:  # type: ignore[index]
                                sources.kill()

                    with pytest.raises(httpx.TransportError):
                        await part(client, one, 0, until(16 << 20), **{"Upload-Length": str(size)})
            rows.update_one({"_id": one}, {"$set": {"writingUntil": datetime(2020, 1, 1, tzinfo=UTC)}})
            settings["API_PORT"] = ports.free()
            with process.running(tmp_path / "second.log", **settings) as sources:
                base = f"http://127.0.0.1:{settings['API_PORT']}"
                async with httpx.AsyncClient(base_url=base, headers=headers, timeout=300, trust_env=False) as client:
                    at = int((await client.head(f"/api/v1/meetings/{one}/audio")).headers["Upload-Offset"])
                    assert at >= 16 << 20
                    before = _peak(sources.process.pid)
                    checked = {"Repr-Digest": f"sha-256=:{base64.b64encode(whole.digest()).decode()}:"}
                    said = await part(client, one, at, pieces(at), **checked)
                    assert said.status_code == 204, said.text
                    shown = (await client.get(f"/api/v1/meetings/{one}")).json()
                grown = _peak(sources.process.pid) - before
            assert (shown["state"], shown["bytes"]) == ("UPLOADED", size)
            chunks = server[name]["recordings.chunks"]
            assert chunks.count_documents({}) == size // audio.CHUNK
            assert grown < 64 << 20, f"{grown >> 20} MiB more for a recording of {size >> 20} MiB"
        finally:
            server.drop_database(name)


def _peak(pid: int) -> int:
    """The most memory that the process had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_the_longest_recording_is_two_gibibytes() -> None:
    assert meeting.MOST_BYTES == 2 << 30
