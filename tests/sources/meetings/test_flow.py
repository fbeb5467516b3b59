"""From a transcript to a task and a document, and away again: the pod's calls, the poll, INDEXED, the sweep."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from contracts import mongo_collections
from contracts.api import meeting
from contracts.api.meeting import Change, Segment, State, Told, Transcript
from controllers.connection import removals
from crds import connection, scope
from kb.erasure.tasks import Tasks
from orchestrator_job.transcribe import __main__ as pod
from orchestrator_job.transcribe import calls
from sources.core import assignments, poller
from sources.providers.meetings import reading as protocol
from sources.providers.meetings import store
from tests.sources import parts
from tests.sources.meetings.test_upload import Rig, digest, make, part, recording
from tests.sources.model import World

MEETINGS: dict[str, Any] = {
    "namespace": "team", "type": "Meeting", "url": "https://meetings.example.com", "pollInterval": "10s",
}  # fmt: skip
HEARD = Transcript(
    engine="faster-whisper",
    model="small",
    language="cs",
    duration_seconds=3725.4,
    segments=(
        Segment(start=0, end=4.2, text=" Dobrý den. ", speaker="Ada"),
        Segment(start=3661.9, end=3725, text="GP you tři\nje zpět.\x00"),
        Segment(start=3725, end=3725, text="  "),
    ),
)


def test_a_transcript_is_markdown() -> None:
    said = {
        "id": "a" * 32, "namespace": "team", "connection": "meetings", "clientId": "acme", "title": "Weekly\n# review",
        "state": "TRANSCRIBED", "createdAt": datetime(2026, 11, 26, tzinfo=UTC), "type": "standup",
        "date": datetime(2026, 11, 25, 9, 30, tzinfo=UTC), "participants": ("Ada", "Petra"),
    }  # fmt: skip
    one = meeting.Meeting.model_validate(said)
    corrected = (HEARD.segments[0], HEARD.segments[1].model_copy(update={"text": "gpu-3 je zpět."}))
    change = Change(segment=1, at=3661.9, before="GP you tři", after="gpu-3")
    text = protocol.markdown(one, Told(transcript=HEARD, corrected=corrected, changes=(change,)))
    assert text == (
        "# Weekly # review\n\n- Date: 2026-11-25 09:30 UTC\n- Duration: 01:02:05\n- Type: standup\n"
        "- Participants: Ada, Petra\n- Language: cs\n- Transcribed by: faster-whisper small\n- Corrected words: 1\n\n"
        "## Transcript\n\n[00:00:00] Ada: Dobrý den.\n\n[01:01:01] gpu-3 je zpět.\n\n"
    )
    simulated = HEARD.model_copy(update={"simulated": True, "segments": ()})
    text = protocol.markdown(one, Told(transcript=simulated))
    assert "- Transcribed by: faster-whisper small (simulated)\n" in text
    assert text.endswith("Nothing was heard.\n")
    made = protocol.item(one, Told(transcript=HEARD))
    assert made.urn == f"meeting::id:{'a' * 32},title:Weekly # review"
    assert "[01:01:01] GP you tři je zpět.\n" in made.text
    assert made.version != protocol.item(one, Told(transcript=HEARD, corrected=corrected)).version


async def uploaded(rig: Rig, body: bytes = b"", **more: Any) -> str:
    """A meeting with a recording."""
    body = body or recording(5000)
    async with rig.client() as client:
        one = await make(client, **more)
        said = await part(client, one, 0, body, **{"Upload-Length": str(len(body))}, **digest(body))
        assert said.status_code == 204
    return one


async def begun(rig: Rig, meeting_id: str) -> store.Row:
    """Its attempt, whose Job would be made now."""
    row = await rig.meetings.begin(await rig.row(meeting_id), "jervis")
    assert row is not None
    return row


@pytest.mark.services
async def test_the_token_of_an_attempt_opens_its_recording_alone(rig: Rig) -> None:
    one, other = await uploaded(rig, recording(3_000_000)), await uploaded(rig)
    row, second = await begun(rig, one), await begun(rig, other)
    audio, transcript = f"/api/v1/meetings/{one}/audio", f"/api/v1/meetings/{one}/transcript"
    heard = HEARD.model_dump(mode="json", by_alias=True)
    async with rig.client("") as anonymous:
        for token in ("", "acme", "x" * 43, second["token"]):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            assert (await anonymous.get(audio, headers=headers)).status_code == 404
            assert (await anonymous.put(transcript, headers=headers, json=heard)).status_code == 404
        mine = {"Authorization": f"Bearer {row['token']}"}
        loaded = await anonymous.get(audio, headers=mine)
        assert hashlib.sha256(loaded.content).hexdigest() == row["sha256"]
        assert loaded.headers["Content-Type"] == "audio/wav"
        wrong = await anonymous.put(transcript, headers=mine, json={**heard, "segments": [{"start": -1}]})
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "segments.0.start")
        assert (await anonymous.put(transcript, headers=mine, json=heard)).status_code == 204
        # The attempt is over, and its token with it.
        assert (await anonymous.put(transcript, headers=mine, json=heard)).status_code == 404
        assert (await anonymous.get(audio, headers=mine)).status_code == 404
    async with rig.client() as client:
        assert (await client.get(f"/api/v1/meetings/{one}")).json()["state"] == "TRANSCRIBED"
        told = (await client.get(transcript)).json()
    assert told["transcript"]["segments"][1]["start"] == 3661.9


@pytest.mark.services
async def test_a_late_transcript_neither_outlives_its_meeting_nor_takes_the_place_of_a_later_one(rig: Rig) -> None:
    one = await uploaded(rig)
    first = await begun(rig, one)
    await rig.meetings.missed(first, "It was slow.", rig.now)
    second = await begun(rig, one)
    late = HEARD.model_copy(update={"model": "late"})
    with pytest.raises(store.Unknown):
        await rig.meetings.transcribed(first, late, False)
    for transcript in (HEARD, HEARD):
        # What was kept before a kill is no hindrance to the same attempt.
        await rig.meetings.transcribed(second, transcript, False)
        await rig.database[mongo_collections.MEETINGS].update_one(
            {"_id": one}, {"$set": {"state": State.TRANSCRIBING.value}}
        )
    with pytest.raises(store.Unknown):
        await rig.meetings.transcribed(first, late, False)
    told = await rig.meetings.told(one)
    assert told is not None
    assert told.transcript.model == HEARD.model
    await rig.meetings.drop(one)
    with pytest.raises(store.Unknown):
        await rig.meetings.transcribed(second, HEARD, False)
    assert await rig.meetings.told(one) is None


@pytest.mark.services
async def test_tries_are_bounded_and_a_person_may_ask_again(rig: Rig) -> None:
    one = await uploaded(rig)
    for number in range(1, store.MOST_ATTEMPTS + 1):
        rig.now += timedelta(hours=1)
        assert [row["_id"] for row in await rig.meetings.waiting(9, rig.now)] == [one]
        row = await begun(rig, one)
        assert (row["attempt"], row["job"]) == (number, f"transcribe-{one}-{number}")
        assert await rig.meetings.begin(row, "jervis") is None
        await rig.meetings.missed(row, "The engine broke.", rig.now)
        assert await rig.meetings.waiting(9, rig.now) == []
    async with rig.client() as client:
        shown = (await client.get(f"/api/v1/meetings/{one}")).json()
        assert (shown["state"], shown["reason"]) == ("FAILED", "The engine broke.")
        assert (await client.post(f"/api/v1/meetings/{one}/retry")).json()["state"] == "UPLOADED"
        assert (await client.post(f"/api/v1/meetings/{one}/retry")).status_code == 409
    row = await begun(rig, one)
    assert row["attempt"] == store.MOST_ATTEMPTS + 1
    # What another try would meet again ends at once.
    async with rig.client("") as anonymous:
        mine = {"Authorization": f"Bearer {row['token']}"}
        problem = {"reason": "The recording cannot be decoded.", "permanent": True}
        said = await anonymous.post(f"/api/v1/meetings/{one}/problem", headers=mine, json=problem)
        assert said.status_code == 204
    assert (await rig.row(one))["state"] == "FAILED"


@asynccontextmanager
async def polling(rig: Rig, world: World) -> AsyncIterator[poller.Poller]:
    async with parts.clients(world.url) as (api, knowledge):
        yield await parts.polling(
            api, knowledge, rig.database, assignments.Assignments(rig.database), {}, wall=lambda: rig.now,
            stored_here={connection.Type.MEETING: partial(protocol.Meetings, rig.meetings)},
        )  # fmt: skip


@pytest.mark.services
async def test_a_meeting_becomes_one_task_and_leaves_with_its_document(rig: Rig) -> None:
    conn = parts.connected("meetings", uid="uid-meetings", generation=2, **MEETINGS)
    world, assigned = World(), assignments.Assignments(rig.database)
    await rig.database[assignments.CONNECTIONS].delete_many({})

    async def round_(polls: poller.Poller) -> None:
        rig.now += timedelta(seconds=90)
        claim = await parts.claimed(assigned, rig.now)
        await polls.serve(claim)

    async with world.serving(), polling(rig, world) as polls:
        await assigned.want(conn)
        one, other = await uploaded(rig), await uploaded(rig, title="Other")
        await rig.meetings.transcribed(await begun(rig, one), HEARD, False)
        assert await rig.meetings.index() == 0
        for _ in range(3):
            await round_(polls)
        [urn] = world.created
        assert urn == f"meeting::id:{one},title:Weekly"
        [task] = world.tasks.values()
        assert task["spec"]["type"] == "MeetingProcessing"
        assert "[00:00:00] Ada: Dobrý den." in task["spec"]["content"]
        assert await rig.meetings.index() == 1
        row = await rig.row(one)
        assert (row["state"], row["task"]) == (State.INDEXED, task["metadata"]["name"])
        await round_(polls)
        assert world.created == [urn]
        await rig.meetings.transcribed(await begun(rig, other), HEARD, False)
        await round_(polls)
        assert len(world.created) == 2
        world.work()
        assert len(world.documents) == 2
        async with rig.client() as client:
            assert (await client.delete(f"/api/v1/meetings/{one}")).status_code == 204
        for _ in range(4):
            await round_(polls)
            await removals.Removals(polls._api, assigned).reconcile_once()
        assert world.documents == {f"meeting::id:{other},title:Other"}


@pytest.mark.services
async def test_a_connection_of_another_client_does_not_inherit_meetings_by_its_name(rig: Rig) -> None:
    """A namespace may have several clients, and a Connection may be deleted and made again."""
    one = await uploaded(rig)
    await rig.meetings.transcribed(await begun(rig, one), HEARD, False)
    await rig.database[assignments.CONNECTIONS].delete_many({})
    world, assigned = World(), assignments.Assignments(rig.database)

    async def replaced(polls: poller.Poller, client: str, project: str) -> None:
        uid = f"uid-{client}-{project}"
        conn = parts.connected("meetings", uid=uid, clientId=client, projectId=project, **MEETINGS)
        await assigned.want(conn)
        claim = await parts.claimed(assigned, rig.now)
        await polls.serve(claim)
        await assigned.drop(conn.metadata.uid)

    async with world.serving(), polling(rig, world) as polls:
        await replaced(polls, "other", "apollo")
        await replaced(polls, "acme", "zeus")
        assert (world.created, (await rig.row(one))["state"]) == ([], State.TRANSCRIBED)
        await replaced(polls, "acme", "apollo")
        assert world.created == [f"meeting::id:{one},title:Weekly"]


@pytest.mark.services
async def test_the_pod_hands_over_what_a_scripted_engine_says(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0" * 8000 * 12)
    one = await uploaded(rig, made.getvalue())
    row = await begun(rig, one)
    (tmp_path / "token").write_text(row["token"])
    async with rig.client("") as client:
        for name, value in {
            "URL": str(client.base_url), "MEETING": one, "TOKEN_FILE": str(tmp_path / "token"), "ENGINE": "scripted",
            "PATIENCE": "0", "DIRECTORY": str(tmp_path),
        }.items():  # fmt: skip
            monkeypatch.setenv(f"JERVIS_TRANSCRIBE_{name}", value)
        assert await asyncio.to_thread(pod.main) == 0
        # The attempt is over: a second pod of it changes nothing.
        assert await asyncio.to_thread(pod.main) == 3
        monkeypatch.setenv("JERVIS_TRANSCRIBE_URL", "http://127.0.0.1:1")
        assert await asyncio.to_thread(pod.main) == 1
    told = await rig.meetings.told(one)
    assert told is not None
    assert (told.transcript.simulated, told.transcript.duration_seconds) == (True, 12)
    assert [(piece.start, piece.end) for piece in told.transcript.segments] == [(0, 5), (5, 10), (10, 12)]
    assert "no words were recognized" in told.transcript.segments[0].text
    assert [name for name in os.listdir(tmp_path) if name.startswith("recording-")] == []


def test_a_call_is_repeated_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    said, now = [503, 429, 204], [0.0]

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(said.pop(0))

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        way = calls.Calls(
            "http://s", "a" * 32, str(tmp_path / "token"), http, patience=10, monotonic=lambda: now[0], sleep=sleep
        )
        way.failed(meeting.Problem(reason="r"))
        assert (said, now) == ([], [2 * calls.PAUSE])
        said[:] = [500] * 9
        with pytest.raises(calls.Unavailable):
            way.failed(meeting.Problem(reason="r"))
        said[:] = [422]
        with pytest.raises(calls.Refused):
            way.failed(meeting.Problem(reason="r"))


@pytest.mark.services
async def test_an_erased_scope_has_no_meetings(rig: Rig) -> None:
    await rig.meetings.transcribed(await begun(rig, await uploaded(rig)), HEARD, False)
    kept = Tasks(rig.database)
    await kept.erase(scope.Scope(client_id="acme", project_id="zeus"))
    await kept.erase(scope.Scope(client_id="other"))
    names = (
        mongo_collections.MEETINGS,
        mongo_collections.TRANSCRIPTS,
        mongo_collections.RECORDINGS,
        mongo_collections.RECORDING_CHUNKS,
    )
    assert [await rig.database[name].count_documents({}) for name in names] == [1, 1, 1, 1]
    await kept.erase(scope.Scope(client_id="acme"))
    assert [await rig.database[name].count_documents({}) for name in names] == [0, 0, 0, 0]
