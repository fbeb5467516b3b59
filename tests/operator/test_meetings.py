"""Recordings that become tasks: operator, sources process, apiserver and MongoDB's wire; the pod's module is a process.

The kubelet's part is played here: a Job's pod is `python -m orchestrator_job.transcribe` with the environment of its
manifest and the token of its Secret.

Commands of agents: the record in MongoDB's wire, the operator, the apiserver; the nodes' part is played.
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

from contracts.api import meeting
from crds import labels
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


REF = {"store": "gridfs", "key": "content/1", "sha256": "a" * 64, "bytes": 7}


def request(database: Any, uid: str, number: int, **more: Any) -> str:
    id_ = f"{uid}/r1.d{number}.1"
    known = {"taskUid": uid, "namespace": "team", "scope": {"clientId": "acme", "projectId": "", "groupId": ""}}
    asked = {"image": "python", "argv": ["pytest"], "workspace": REF, "limits": {"seconds": 60, "memory": "1Gi"}}
    stored = {"_id": id_, **known, **asked, "state": "Requested", "requestedAt": datetime.now(UTC), **more}
    database["sandbox_commands"].insert_one(stored)
    return id_


@pytest.fixture
def configured(keys: Path) -> dict[str, Any]:
    return {
        "SANDBOX_ENABLED": True, "SANDBOX_IMAGES": '{"python": "registry.test/python:3"}', "SANDBOX_MAX_JOBS": 1,
        "RUN_TOKEN_KEYS": keys,
    }  # fmt: skip


def task(space: Space, name: str) -> str:
    """The uid of a task that waits, so that its commands have a reader."""
    space.submit(name, "Run the tests.", suspend=True)
    return str(space.get(name)["metadata"]["uid"])


def test_a_task_that_is_deleted_gives_the_place_of_its_command_back(
    space: Space, start: Start, database: Any, configured: dict[str, Any]
) -> None:
    played, records = Played(space, labels.SANDBOX), database["sandbox_commands"]
    deleted, waiting = task(space, "deleted"), task(space, "waiting")
    asked = [(deleted, 1), (deleted, 2), (waiting, 3)]
    runs, never, next_one = (request(database, uid, number, namespace=space.name) for uid, number in asked)

    def state(id_: str) -> str:
        return str(records.find_one({"_id": id_})["state"])

    with start(**configured):
        until(lambda: bool(records.find_one({"_id": runs}).get("jobMade")), "its Job is made")
        (name,) = played.jobs()
        space.delete("deleted")
        until(lambda: [state(one) for one in (runs, never, next_one)] == ["Failed", "Failed", "Running"], "it is free")
        until(lambda: len(played.jobs()) == 1 and name not in played.jobs(), "another Job is there")
    assert "gone" in records.find_one({"_id": never})["message"]


def test_commands_from_request_to_result_over_a_restart(
    space: Space, start: Start, database: Any, configured: dict[str, Any]
) -> None:
    played, records = Played(space, labels.SANDBOX), database["sandbox_commands"]

    def state(id_: str) -> str:
        return str(records.find_one({"_id": id_})["state"])

    # Of another release that uses the same database: what its tasks wait for is not known here.
    uid = "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"
    first, second = request(database, uid, 1), request(database, uid, 2)
    odd = request(database, uid, 3, image="rust")
    broken = request(database, uid, 4, argv=[])
    with start(**configured):
        until(lambda: state(first) == "Running", "its Job is made")
        until(lambda: bool(records.find_one({"_id": first}).get("jobMade")), "and known")
        until(lambda: state(broken) == "Failed", "a record that cannot be read holds up no other")
        (name,) = played.jobs()
        assert list(played.secret(name)) == ["token"]
        assert state(second) == "Requested", "one at a time"
    played.pod(
        name, {"fetch": (0, "", ""), "command": (0, "", ""), "report": (0, "", {"exitCode": 1, "patchRef": REF})}
    )
    played.end(name)
    with start(**configured):
        until(lambda: state(first) == "Done", "the end is read after a restart")
        until(lambda: state(second) == "Running", "the next one has its place")
        until(lambda: bool(set(played.jobs()) - {name}), "and its Job")
        ended = records.find_one({"_id": first})
        assert (ended["exitCode"], ended["patchRef"]["key"], "outputRef" in ended) == (1, "content/1", False)
        (other,) = set(played.jobs()) - {name}
        until(lambda: bool(records.find_one({"_id": second}).get("jobMade")), "its Job is known")
        played.delete(other)
        until(lambda: state(second) == "Failed", "a Job that vanished is not made again")
        until(lambda: state(odd) == "Failed", "there is no such image")
        assert "There is no image 'rust'" in records.find_one({"_id": odd})["message"]
