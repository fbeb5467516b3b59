"""Uploads that are not finished, meetings without a Connection, recordings without a meeting, and the quota."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from contracts import mongo_collections
from sources.core import assignments
from sources.providers.meetings import audio, expiry
from tests.sources.meetings.test_upload import Rig, connection, digest, make, part, recording

pytestmark = pytest.mark.services
EVERYTHING = (
    mongo_collections.MEETINGS,
    mongo_collections.TRANSCRIPTS,
    mongo_collections.RECORDINGS,
    mongo_collections.RECORDING_CHUNKS,
)


def expires(rig: Rig) -> expiry.Expiry:
    week = timedelta(days=7)
    return expiry.Expiry(rig.database, uploads=week, orphaned=week, wall=lambda: rig.now)


async def counts(rig: Rig) -> list[int]:
    return [await rig.database[name].count_documents({}) for name in EVERYTHING]


async def whole(client: Any, size: int = 100) -> str:
    """A meeting with a complete recording."""
    one, body = await make(client), recording(size)
    assert (await part(client, one, 0, body, **{"Upload-Length": str(size)}, **digest(body))).status_code == 204
    return one


async def test_an_upload_that_is_not_finished_is_forgotten_a_week_after_its_last_part(rig: Rig) -> None:
    one = expires(rig)
    async with rig.client() as client:
        await whole(client)
        idle, going = await make(client), await make(client)
        for each in (idle, going):
            assert (await part(client, each, 0, recording(100))).status_code == 204
        rig.now += timedelta(days=6)
        assert (await part(client, going, 100, b"more")).status_code == 204
        rig.now += timedelta(days=2)
        assert (await one.uploads(), await one.uploads()) == (1, 0)
        assert (await client.get(f"/api/v1/meetings/{idle}")).status_code == 404
        assert (await client.get(f"/api/v1/meetings/{going}")).status_code == 200
    assert await counts(rig) == [2, 0, 1, 3]
    assert (await one.recordings(), await one.recordings()) == (1, 0)
    assert await counts(rig) == [2, 0, 1, 2]


async def test_an_upload_that_is_being_written_stays(rig: Rig) -> None:
    async with rig.client() as client:
        await make(client)
    claimed = {"touchedAt": rig.now, "writingUntil": rig.now + timedelta(days=30)}
    await rig.database[mongo_collections.MEETINGS].update_one({}, {"$set": claimed})
    rig.now += timedelta(days=20)
    assert await expires(rig).uploads() == 0


async def test_a_meeting_whose_connection_is_gone_for_a_week_leaves_with_its_recording(rig: Rig) -> None:
    one, connections = expires(rig), rig.database[assignments.CONNECTIONS]
    async with rig.client() as client:
        await whole(client, audio.CHUNK + 9)
    assert await one.meetings() == 0
    await connections.delete_one({"name": "meetings"})
    assert await one.meetings() == 0
    rig.now += timedelta(days=6)
    await connections.insert_one(connection())
    assert await one.meetings() == 0, "made again, it finds them"
    rig.now += timedelta(days=6)
    await connections.update_one({"name": "meetings"}, {"$set": {"spec.projectId": "zeus"}})
    assert await one.meetings() == 0, "one of another project is another one"
    rig.now += timedelta(days=7)
    assert await one.meetings() == 1
    assert await one.recordings() == 1
    assert await counts(rig) == [0, 0, 0, 0]


async def test_a_recording_without_a_meeting_leaves_and_others_stay(rig: Rig) -> None:
    async with rig.client() as client:
        await whole(client)
        lost = await whole(client)
    await rig.database[mongo_collections.MEETINGS].delete_one({"_id": lost})  # a kill after this
    assert await expires(rig).recordings() == 1
    assert await counts(rig) == [1, 0, 1, 1]


async def test_a_transcript_without_a_meeting_leaves_and_others_stay(rig: Rig) -> None:
    async with rig.client() as client:
        mine = await whole(client)
    told = rig.database[mongo_collections.TRANSCRIPTS]
    # One came between the two steps of a deletion.
    await told.insert_many([{"_id": one, "told": {}} for one in (mine, "of-no-meeting")])
    assert (await expires(rig).transcripts(), await expires(rig).transcripts()) == (1, 0)
    assert [row["_id"] async for row in told.find()] == [mine]


async def test_a_namespace_has_so_many_bytes_of_recordings(rig: Rig) -> None:
    rig.audio._quota = 1000
    async with rig.client() as client:
        await whole(client, 600)
        second = await make(client)
        said = await part(client, second, 0, recording(100), **{"Upload-Length": "401"})
        problem = said.json()["error"]
        assert (said.status_code, problem["code"], problem["field"]) == (
            507,
            "full",
            "sources.settings.recordingNamespaceBytes",
        )
        fits = recording(400)
        said = await part(client, second, 0, fits[:100], **{"Upload-Length": "400"})
        assert said.status_code == 204, "a smaller one begins"
        third = await make(client)
        assert (await part(client, third, 0, recording(100))).status_code == 507, "what is announced counts"
        said = await part(client, second, 100, fits[100:], **{"Upload-Length": "400"}, **digest(fits))
        assert said.status_code == 204
        assert (await client.delete(f"/api/v1/meetings/{second}")).status_code == 204
        assert (await part(client, third, 0, recording(100))).status_code == 204, "what was deleted makes room"


async def test_a_recording_without_a_length_ends_at_the_quota(rig: Rig) -> None:
    rig.audio._quota = 1000
    async with rig.client() as client:
        one = await make(client)

    async def body() -> AsyncIterator[bytes]:
        yield recording(900)
        yield b"x" * 101

    with pytest.raises(audio.Full):
        await rig.audio.write(one, 0, None, body())
    assert (await rig.row(one))["offset"] == 900
    assert (await rig.row(one))["writer"] is None


async def test_another_namespace_has_a_quota_of_its_own(rig: Rig) -> None:
    rig.audio._quota = 1000
    await rig.database[assignments.CONNECTIONS].insert_one({**connection(), "_id": "uid-b", "namespace": "b"})
    async with rig.client() as client:
        await whole(client, 1000)
        other = await make(client, namespace="b")
        assert (await part(client, other, 0, recording(1000))).status_code == 204
