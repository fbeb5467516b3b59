"""Commands of agents: the record in MongoDB's wire, the operator, the apiserver; the nodes' part is played."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from crds import labels
from tests.operator.conftest import Space
from tests.operator.process import Start
from tests.operator.test_code_analysis import Played
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
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
