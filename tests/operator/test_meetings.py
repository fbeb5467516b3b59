"""Recordings that become tasks: operator, sources process, apiserver and MongoDB's wire; the pod's module is a process.

The kubelet's part is played here: a Job's pod is `python -m orchestrator_job.transcribe` with the environment of its
manifest and the token of its Secret.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from crds import meeting
from tests import ports, waiting
from tests.operator.conftest import Space
from tests.operator.process import Start
from tests.operator.test_code_analysis import Played
from tests.operator.test_polling import Begin, condition, sources, status
from tests.sources.meetings.test_upload import book, digest
from tests.waiting import until

__all__ = ["sources"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]
ROOT = Path(__file__).resolve().parents[2]


def silence(seconds: int) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0" * 8000 * seconds)
    return made.getvalue()


class Transcribing(Played):
    """Its pods are processes."""

    def __init__(self, space: Space, folder: Path) -> None:
        super().__init__(space, meeting.MEETING_LABEL)
        self._folder = folder

    def run(self, name: str, **changed: str) -> int:
        """Its pod: the exit code."""
        [container] = self.jobs()[name].spec.template.spec.containers
        token = self._folder / f"{name}.token"
        token.write_text(self.secret(name)["token"])
        told = {one.name: one.value or "" for one in container.env}
        own = {"JERVIS_TRANSCRIBE_TOKEN_FILE": str(token), "JERVIS_TRANSCRIBE_PATIENCE": "0", **changed}
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **told, **own}
        command = [sys.executable, *container.command[1:]]
        return subprocess.run(command, env=environment, timeout=120, check=False).returncode  # ours


@pytest.fixture
def played(space: Space, tmp_path: Path) -> Transcribing:
    return Transcribing(space, tmp_path)


@pytest.fixture
def begun(space: Space, start: Start, sources: Begin, tmp_path: Path) -> Callable[..., Any]:
    """Operator and sources process with a Connection; the API's client."""

    @contextmanager
    def begin(**settings: object) -> Iterator[httpx.Client]:
        book(tmp_path)
        port = ports.free()
        base = f"http://127.0.0.1:{port}"
        api = {"API_HOST": "127.0.0.1", "API_PORT": port, "TOKENS_FILE": tmp_path / "tokens.yaml"}
        known = {"SOURCES": True, "SOURCES_URL": base, "TRANSCRIPTION_ENGINE": "scripted", **settings}
        with start(**known), sources(**api):
            spec = {"type": "Meeting", "clientId": "acme", "url": "https://meetings.example.com", "pollInterval": "10s"}
            space.create("connections", "Connection", "meetings", spec)
            until(lambda: condition(space, "Ready", "meetings") == ("True", "Polled"), "the Connection is polled")
            with httpx.Client(
                base_url=base, headers={"Authorization": "Bearer acme"}, timeout=waiting.PATIENCE, trust_env=False
            ) as client:
                yield client

    return begin


def upload(client: httpx.Client, space: Space, body: bytes, title: str = "Weekly") -> str:
    made = client.post("/api/v1/meetings", json={"namespace": space.name, "connection": "meetings", "title": title})
    assert made.status_code == 201, made.text
    one = str(made.json()["id"])
    headers = {
        "Content-Type": "application/offset+octet-stream",
        "Upload-Offset": "0",
        "Upload-Length": str(len(body)),
        **digest(body),
    }
    assert client.patch(f"/api/v1/meetings/{one}/audio", content=body, headers=headers).status_code == 204
    return one


def state(client: httpx.Client, one: str) -> tuple[str, int, str]:
    shown = client.get(f"/api/v1/meetings/{one}").json()
    return shown["state"], shown["attempt"], shown["reason"]


def test_a_recording_becomes_a_task(space: Space, begun: Callable[..., Any], played: Transcribing) -> None:
    body = silence(12)
    with begun() as client:
        one = upload(client, space, body)
        name = f"transcribe-{one}-1"
        until(lambda: list(played.jobs()) == [name], "the operator makes its Job")
        until(lambda: state(client, one)[:2] == ("TRANSCRIBING", 1), "it is being transcribed")
        made = played.jobs()[name]
        assert made.spec.backoff_limit == 0
        assert made.spec.active_deadline_seconds == 14_400
        [owner] = made.metadata.owner_references
        assert (owner.kind, owner.name) == ("Connection", "meetings")
        pod = made.spec.template.spec
        assert pod.automount_service_account_token is False
        assert not any("MONGODB" in each.name for each in pod.containers[0].env)
        until(lambda: played.run(name) == 0, "the pod hands the transcript over")
        until(lambda: state(client, one)[0] == "INDEXED", "its task exists")
        [task] = space.every()
        assert task["spec"]["sourceUrn"] == f"meeting::id:{one},title:Weekly"
        assert task["metadata"]["name"] == client.get(f"/api/v1/meetings/{one}").json()["task"]
        assert "Transcribed by: scripted (simulated)" in task["spec"]["content"]
        assert "[00:00:10] Scripted segment 3: no words were recognized." in task["spec"]["content"]
        until(lambda: status(space, "meetings").get("items", {}).get("indexed") == 1, "counted")
        # The pod comes again: nothing is made twice.
        assert played.run(name) == 3
        assert client.get(f"/api/v1/meetings/{one}").json()["sha256"] == hashlib.sha256(body).hexdigest()
    assert list(played.jobs()) == [name]


def test_what_fails_or_vanishes_is_repeated_and_bounded(
    space: Space, begun: Callable[..., Any], played: Transcribing, database: Any
) -> None:
    def due() -> None:
        """A minute passes."""
        database["meetings"].update_many({}, {"$set": {"retryAt": datetime(1970, 1, 1, tzinfo=UTC)}})

    with begun() as client:
        one = upload(client, space, silence(1))
        first, second, third = (f"transcribe-{one}-{number}" for number in (1, 2, 3))
        until(lambda: first in played.jobs(), "a Job")
        until(lambda: database["meetings"].find_one({"_id": one})["jobMade"], "its Secret")
        played.delete(first)
        until(lambda: state(client, one) == ("UPLOADED", 1, "Its Job vanished."), "it is noticed")
        due()
        until(lambda: second in played.jobs(), "the next one")
        played.end(second, "DeadlineExceeded")
        until(lambda: state(client, one)[:2] == ("UPLOADED", 2), "its deadline is over")
        due()
        until(lambda: third in played.jobs(), "the last one")
        until(lambda: database["meetings"].find_one({"_id": one})["jobMade"], "its Secret")
        assert played.run(third, JERVIS_TRANSCRIBE_ENGINE="faster-whisper", JERVIS_TRANSCRIBE_MODEL="/nothing") == 0
        until(lambda: state(client, one)[0] == "FAILED", "no more")
        assert "'/nothing' is no model" in state(client, one)[2]
        assert client.post(f"/api/v1/meetings/{one}/retry").status_code == 200
        until(lambda: f"transcribe-{one}-4" in played.jobs(), "a person asks again")
    assert space.every() == []


def test_no_more_jobs_than_allowed_and_a_deleted_meeting_has_no_transcript(
    space: Space, begun: Callable[..., Any], played: Transcribing
) -> None:
    with begun(TRANSCRIPTION_AT_ONCE=1) as client:
        one, other = upload(client, space, silence(1)), upload(client, space, silence(1), "Other")
        until(lambda: list(played.jobs()) == [f"transcribe-{one}-1"], "the first one's Job")
        assert client.delete(f"/api/v1/meetings/{one}").status_code == 204
        until(lambda: f"transcribe-{other}-1" in played.jobs(), "its place is free")
        assert played.run(f"transcribe-{one}-1") == 3
        until(lambda: played.run(f"transcribe-{other}-1") == 0, "the other one is transcribed")
        until(lambda: state(client, other)[0] == "INDEXED", "and indexed")
    assert [each["metadata"]["annotations"]["jervis.dev/title"] for each in space.every()] == ["Other"]
