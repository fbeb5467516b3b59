"""The MongoDB-wire server keeps what it acknowledged; the running services answer as their clients expect."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pymongo
import pytest

from hack.cluster import jars, process, progress, standalone

pytestmark = pytest.mark.services
_WRITES = 500


@pytest.fixture
def mongod(tmp_path: Path) -> Iterator[tuple[process.Daemon, list[str], str]]:
    """A server of our own on loopback, so that nobody else's is killed: (process, command line, URI)."""
    (port,) = standalone.free_ports(1)
    daemon = process.Daemon("mongodb", tmp_path)
    yield (
        daemon,
        [*jars.mongodb(progress.Progress()), "127.0.0.1", str(port), str(tmp_path / "data.mv")],
        f"mongodb://127.0.0.1:{port}",
    )
    daemon.stop()


def test_an_acknowledged_write_survives_kill_9(mongod: tuple[process.Daemon, list[str], str]) -> None:
    daemon, command, uri = mongod
    daemon.start(command)
    with pymongo.MongoClient[dict[str, int]](uri) as client:
        for number in range(_WRITES):
            client.test.kept.insert_one({"_id": number})
        client.test.kept.update_one({"_id": 0}, {"$set": {"changed": 1}})
        client.test.kept.delete_one({"_id": 1})
        identity = daemon.identity()
        assert identity is not None
        os.kill(identity.pid, signal.SIGKILL)
    identity.stop(grace=5)
    daemon.start(command)
    with pymongo.MongoClient[dict[str, int]](uri) as client:
        assert client.test.kept.count_documents({}) == _WRITES - 1
        assert client.test.kept.find_one({"_id": 0}) == {"_id": 0, "changed": 1}


def test_the_running_services_answer() -> None:
    if "JERVIS_TEST_MONGODB_URI" not in os.environ:
        pytest.skip('JERVIS_TEST_* is not set: make services-up, then eval "$(python -m hack.cluster env)"')
    with pymongo.MongoClient[dict[str, object]](os.environ["JERVIS_TEST_MONGODB_URI"]) as client:
        assert client.admin.command("ping")["ok"] == 1
    with urllib.request.urlopen(f"{os.environ['JERVIS_TEST_WEAVIATE_URL']}/v1/.well-known/ready") as answer:
        assert answer.status == 200
