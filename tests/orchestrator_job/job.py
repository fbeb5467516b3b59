"""Starting the Job as the kubelet would: its own process, its environment, its termination message."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo

from tests import variables, waiting
from tests.fakes.ollama import process
from tests.nursery import children
from tests.orchestrator_job import mongowire

_ROOT = Path(__file__).resolve().parents[2]
MODEL = "qwen3-coder:30b"
TAG = "job.respond/v1"
STALL = {"fault": {"stall": {"afterBytes": 0}}}
"""In the place of an answer of a model: it never comes."""
FEW_SECONDS = "3"
"""JERVIS_UNAVAILABLE_SECONDS of a run whose services stay away: more than the 2 s after which MongoDB's driver finds no
server, so that a call to MongoDB is tried again on a machine that stands still."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit status (negative: the signal), termination message, log lines, and the effects that its
    result asks approval for."""

    status: int
    message: dict[str, Any]
    lines: list[dict[str, Any]]
    waiting: Sequence[dict[str, Any]] = ()

    def events(self) -> list[str]:
        """The log's events in order."""
        return [str(line.get("event")) for line in self.lines]


@dataclass(frozen=True)
class Running:
    """A process of a run; both its outputs are in `log`."""

    process: children.Process
    log: Path

    async def logged(self, event: str) -> None:
        """Return once it has logged that. It must not end without."""

        def said() -> bool:
            return f'"event": "{event}"' in self.log.read_text()

        await waiting.eventually(lambda: said() or self.process.poll() is not None)
        assert said(), f"the job never logged {event!r}"


class Job:
    """One task and the environment of its runs."""

    def __init__(self, folder: Path, mongodb_uri: str, database: str, kb_url: str, router_url: str) -> None:
        self.uid = uuid.uuid4().hex
        self.folder = folder
        self._runs = 0
        self.environment = {
            "JERVIS_TASK_UID": self.uid,
            "JERVIS_TASK_NAME": "ask",
            "JERVIS_TASK_NAMESPACE": "jervis",
            "JERVIS_MONGODB_URI": mongodb_uri,
            "JERVIS_DATABASE": database,
            "JERVIS_KB_URL": kb_url,
            "JERVIS_ROUTER_URL": router_url,
            "JERVIS_MODEL": MODEL,
            "JERVIS_UNAVAILABLE_SECONDS": "20",
        }

    def adopt(self, uid: str) -> None:
        """Run another task: one whose documents were put into the store."""
        self.uid = uid
        self.environment["JERVIS_TASK_UID"] = uid

    def memory(self, **fields: Any) -> dict[str, Any]:
        """A task memory as the operator writes it; a value of None leaves the field out."""
        document: dict[str, Any] = {
            "_id": self.uid,
            "taskUid": self.uid,
            "namespace": "jervis",
            "name": "ask",
            "type": "UserInputProcessing",
            "mode": "Foreground",
            "correlationId": "talk-7",
            "scope": {"clientId": "acme", "projectId": "jervis", "groupId": ""},
            "sourceUrn": f"chat::{self.uid}",
            "content": "When is the release of the router?",
            "messages": [],
            "answers": [],
            "contextSummary": "",
            "graphNodeKeys": [],
            "ragDocumentIds": [],
            "attempt": 1,
        }
        return {key: value for key, value in {**document, **fields}.items() if value is not None}

    def start(self, attempt: int = 1, **environment: str) -> Running:
        """Start a process of this attempt without the seconds that imports take; its message goes to a file of its
        own."""
        log = self._log()
        nursery = children.of("orchestrator_job", "orchestrator_job.run.graph")
        return Running(nursery.start(self._environment(attempt, environment), log), log)

    def start_from_nothing(self) -> Running:
        """Start an interpreter, as the kubelet would."""
        log = self._log()
        return Running(children.interpreted(["orchestrator_job"], self._environment(1, {}), log, _ROOT), log)

    async def end(self, running: Running, attempt: int = 1, patience: float = waiting.PATIENCE) -> Ended:
        """Wait for the process and read what it left; `patience` in seconds bounds a test that fails."""
        try:
            status = await asyncio.to_thread(running.process.wait, patience)
        finally:
            running.process.kill()  # too slow, or the test has failed elsewhere: leave no process behind
        return self._ended(status, running.log.read_text(), attempt)

    async def run(self, attempt: int = 1, **environment: str) -> Ended:
        """Start and wait."""
        return await self.end(self.start(attempt, **environment), attempt)

    async def killed(self, where: tuple[str, int], *, attempt: int = 1, reached: bool = True) -> None:
        """Run, and die at that write (its collection, its number there): before its answer reaches the Job, or, if it
        is not to be `reached`, before it reaches the server."""
        async with mongowire.proxying(self.environment["JERVIS_MONGODB_URI"]) as proxy:
            running = self.start(attempt, JERVIS_MONGODB_URI=proxy.url)

            def die(collection: str, number: int) -> bool:
                if (collection, number) == where:
                    running.process.kill()
                    proxy.closed = True
                return proxy.closed

            if reached:
                proxy.after = die
            else:
                proxy.before = die
            assert (await self.end(running, attempt)).status == -9

    async def run_out_of_time(self, seconds: int, there: Callable[[], bool]) -> Ended:
        """Run with so many seconds until they end behind the point where `there` holds. On a busy machine they may end
        before it; the next attempt goes on from the checkpoint, as the operator's would."""
        for attempt in range(1, 10):
            ended = await self.run(attempt, JERVIS_WALL_CLOCK_SECONDS=str(seconds))
            if there() or ended.message["exitReason"] != "DeadlineExceeded":
                break
        return ended

    def _log(self) -> Path:
        self._runs += 1
        return self.folder / f"log-{self.uid}-{self._runs}"

    def _environment(self, attempt: int, more: Mapping[str, str]) -> dict[str, str]:
        own = {**self.environment, "JERVIS_ATTEMPT": str(attempt), **more}
        own.setdefault("JERVIS_TERMINATION_LOG", str(self._message(attempt)))
        variables.check(own, "orchestrator_job.settings", "orchestrator_job.effects.tools.settings")
        self._message(attempt).write_text("")
        return {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")} | own

    def _ended(self, status: int, text: str, attempt: int) -> Ended:
        lines = [json.loads(line) if line.startswith("{") else {"event": line} for line in text.splitlines()]
        message = self._message(attempt).read_text()
        assert message or status < 0, f"no termination message:\n{text}"
        return Ended(status, json.loads(message) if message else {}, lines)

    def _message(self, attempt: int) -> Path:
        return self.folder / f"termination-{self.uid}-{attempt}"


class Store:
    """What the Job left in MongoDB, read by the test's own client."""

    def __init__(self, client: pymongo.MongoClient[dict[str, Any]], name: str) -> None:
        self.client = client
        self.name = name
        self.database = client[name]

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Write the task memory, as the operator does before it creates a Job."""
        self.database["task_memory"].replace_one({"_id": memory["_id"]}, dict(memory), upsert=True)

    def all(self, collection: str, **query: Any) -> list[dict[str, Any]]:
        """Every document that matches."""
        return list(self.database[collection].find(query))


@contextlib.contextmanager
def stored(mongodb_uri: str, name: str) -> Iterator[Store]:
    """A database of its own, dropped afterwards."""
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(mongodb_uri, tz_aware=True)
    database = f"{name}_{uuid.uuid4().hex[:12]}"
    try:
        yield Store(client, database)
    finally:
        client.drop_database(database)
        client.close()


async def reached(fake: process.Fake, tag: str = TAG) -> None:
    """Return once the model reads a prompt of that tag: what the script says of it is taken, even if the run dies
    now."""
    await waiting.eventually(lambda: any(one["granted"] for one in fake.requests(tag=tag)))


def order(intent: str, sentence: str, *effects: str, not_before: str = "") -> dict[str, Any]:
    """What the model says in the place of an answer to what is worked on."""
    return {"intent": intent, "sentence": sentence, "effects": list(effects), "notBefore": not_before}


def reply(**fields: Any) -> dict[str, Any]:
    """An answer of the model that follows the schema."""
    return {
        "answer": "On Friday [1].",
        "citations": [1],
        "confidence": 0.9,
        "needsInput": False,
        "questions": [],
        **fields,
    }
