"""The place of a measurement: a database, the simulated models, a knowledge base on the wire, where effects happen, and
processes of a run that can be killed at a point."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymongo
from aiohttp import web

from bench import variables
from bench.agents import shapes
from clients import mongo
from controllers.archive import mongo as archives
from sources.effects import wire
from tests.fakes.ollama import process
from tests.nursery import children
from tests.orchestrator_job import job, knowledge, mongowire

PATIENCE_SECONDS = 300.0
_WARM = (
    "orchestrator_job.run.graph",
    "orchestrator_job.run.checkpoints",
    "orchestrator_job.run.delegation_wiring",
    "orchestrator_job.effects.tools.toolbox",
    "orchestrator_job.effects.tools.calculate",
    "orchestrator_job.effects.tools.calendar",
    "orchestrator_job.effects.tools.checkout",
    "orchestrator_job.effects.tools.code",
    "orchestrator_job.effects.tools.command",
    "orchestrator_job.effects.tools.drafts",
    "orchestrator_job.effects.tools.connections",
    "orchestrator_job.effects.tools.scan",
    "orchestrator_job.effects.tools.workspace",
)
_DELEGATION = re.compile(r"[^/]*/r\d+\.d[\d.]+/\d+$")
"""Keys of the ledger that are those of an agent's call."""
_KINDS = {
    "orchestrator_checkpoints": "checkpoint",
    "checkpoints": "checkpoint",
    "orchestrator_checkpoint_writes": "node result",
    "checkpoint_writes": "node result",
    "orchestrator_journal": "journal",
    "orchestrator_prepared": "prepared",
    "task_results": "result",
    "session_memory": "result",
    "chat_history": "result",
}
PERMITTED = ("sendMail", "createIssue", "addComment", "editPage")
"""Effects that tasks permit, at any target."""


@dataclass(frozen=True)
class Point:
    """Where a process dies: at the `number`th (from 1) event of a kind. `reached`: what it wrote is done, and it does
    not learn that. Kinds are those of `kind_of`, and `sent` and `performed` of effects: the request has come, the
    effect has happened."""

    kind: str
    number: int
    reached: bool

    @property
    def name(self) -> str:
        """For the report."""
        if self.kind == "done" and not self.reached:
            return "acknowledged"
        return self.kind


def kind_of(collection: str, command: Mapping[str, Any]) -> str:
    """What a change of MongoDB is about."""
    if collection != "orchestrator_ledger":
        return _KINDS.get(collection, "other")
    if "documents" in command:
        return "intent" if _DELEGATION.match(str(command["documents"][0]["_id"])) else "result"
    if not _DELEGATION.match(str(command.get("query", {}).get("_id", ""))):
        return "result"
    return str(command["update"]["$set"]["state"])


@dataclass(frozen=True)
class Losses:
    """Which share of the answers to effects, and to changes of MongoDB, does not come back; `seed` says which."""

    seed: str = ""
    effects: float = 0.0
    changes: float = 0.0


class Watch:
    """What one process does, as far as it can be seen from outside: `counts` of events by kind. It dies at `point`."""

    def __init__(self, proxy: mongowire.Proxy, point: Point | None, losses: Losses) -> None:
        self.counts: Counter[str] = Counter()
        self.died = False
        self.lost = 0
        self.running: children.Process | None = None
        self._proxy, self._point, self._losses, self._chance = proxy, point, losses, random.Random(losses.seed)
        self._numbers: dict[tuple[str, int], tuple[str, int]] = {}
        proxy.before, proxy.after = self._before, self._after

    def event(self, kind: str) -> bool:
        """Count it; True: the process has died of it."""
        self.counts[kind] += 1
        return self._dies(kind, self.counts[kind], reached=kind == "performed")

    def loses_effect(self) -> bool:
        """Whether the answer to this effect is lost."""
        return self._loses(self._losses.effects)

    def _loses(self, share: float) -> bool:
        if self.died or self._chance.random() >= share:
            return False
        self.lost += 1
        return True

    def _before(self, collection: str, number: int) -> bool:
        kind = kind_of(collection, self._proxy.command)
        self.counts[kind] += 1
        self._numbers[collection, number] = kind, self.counts[kind]
        return self._dies(kind, self.counts[kind], reached=False)

    def _after(self, collection: str, number: int) -> bool:
        return self._dies(*self._numbers.pop((collection, number)), reached=True) or self._loses(self._losses.changes)

    def _dies(self, kind: str, number: int, *, reached: bool) -> bool:
        if self.died:
            return True
        if self._point == Point(kind, number, reached) and self.running is not None:
            self.running.kill()
            self.died = self._proxy.closed = True
        return self.died


class Endpoint:
    """The sources process on the wire: an effect happens once for each key of a token. `happened` is by token."""

    def __init__(self) -> None:
        self.url = ""
        self.happened: dict[str, Counter[tuple[str, str]]] = {}
        self.watches: dict[str, Watch] = {}
        self._done: dict[tuple[str, str], wire.Outcome] = {}

    async def post(self, request: web.Request) -> web.Response:
        """POST /api/v1/effects/{tool}"""
        asked = wire.Request.model_validate_json(await request.read())
        token = request.headers["Authorization"].removeprefix("Bearer ")
        watch, place, tool = self.watches[token], (token, asked.key), request.match_info["name"]
        if watch.event("sent"):
            return self._silent(request)
        if place not in self._done:
            found = shapes.marked(asked.arguments)
            self.happened.setdefault(token, Counter())[tool, found] += 1
            self._done[place] = wire.Outcome(
                key=asked.key,
                tool=tool,
                connection=asked.connection,
                state=wire.State.DONE,
                result={"messageId": f"<{found}@example.com>"},
                asked_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
            )
        if watch.event("performed") or watch.loses_effect():
            return self._silent(request)
        return web.json_response(text=self._done[place].model_dump_json(by_alias=True))

    async def get(self, request: web.Request) -> web.Response:
        """GET /api/v1/effects/{key}"""
        token = request.headers["Authorization"].removeprefix("Bearer ")
        found = self._done.get((token, request.match_info["name"]))
        if found is None:
            problem = {"error": {"code": "not_found", "message": "no such key", "field": "key"}}
            return web.json_response(problem, status=404)
        return web.json_response(text=found.model_dump_json(by_alias=True))

    def _silent(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()


class Task(job.Job):
    """A delegating task. `start` forks a process that has what it imports."""

    def start(self, attempt: int = 1, **environment: str) -> job.Running:
        """A process of this attempt."""
        log = self._log()
        nursery = children.of("orchestrator_job", *_WARM)
        return job.Running(nursery.start(self._environment(attempt, environment), log), log)


@dataclass(frozen=True)
class Site:
    """All of it. `store` is a database of its own."""

    folder: Path
    uri: str
    store: job.Store
    fake: process.Fake
    known: knowledge.Knowledge
    outside: Endpoint

    def task(self, content: str, client: str, **environment: str) -> Task:
        """A task whose memory is written, with all flags of delegation but the procedures."""
        made = Task(self.folder, self.uri, self.store.name, self.known.url, self.fake.url)
        token = self.folder / f"token-{made.uid}"
        token.write_text(made.uid)
        made.environment.update(
            JERVIS_USE_DELEGATION_GRAPH="true",
            JERVIS_USE_SPECIALIST_AGENTS="true",
            JERVIS_USE_DAG_EXECUTION="true",
            JERVIS_MAX_LLM_CALLS="500",
            JERVIS_SOURCES_URL=self.outside.url,
            JERVIS_MAIL_CONNECTION="office",
            JERVIS_TRACKER_CONNECTION="tracker",
            JERVIS_WIKI_CONNECTION="wiki",
            JERVIS_RUN_TOKEN_FILE=str(token),
            JERVIS_WORK_DIR=str(self.folder / "work"),
            JERVIS_UNAVAILABLE_SECONDS="60",
            **environment,
        )
        owner = {"clientId": client, "projectId": "jervis", "groupId": ""}
        permits = [{"tool": tool, "targets": ["*"], "most": 1000} for tool in PERMITTED]
        self.store.remember(made.memory(content=content, scope=owner, correlationId=made.uid, permits=permits))
        return made

    @contextlib.asynccontextmanager
    async def watched(
        self, token: str, start: Callable[[str], children.Process], point: Point | None, losses: Losses
    ) -> AsyncIterator[Watch]:
        """A process that `start` starts with the address of its database; it has ended when the block begins."""
        async with mongowire.proxying(self.uri) as proxy:
            watch = Watch(proxy, point, losses)
            self.outside.watches[token] = watch
            watch.running = start(proxy.url)
            try:
                await asyncio.to_thread(watch.running.wait, PATIENCE_SECONDS)
            finally:
                watch.running.kill()
            yield watch


@contextlib.asynccontextmanager
async def opened(folder: Path | None = None, **flags: Any) -> AsyncIterator[Site]:
    """A site whose data goes at the end. `flags` are the simulator's. SystemExit without JERVIS_TEST_MONGODB_URI."""
    uri = variables.required("JERVIS_TEST_MONGODB_URI")
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(uri, tz_aware=True)
    name = f"bench_agents_{uuid.uuid4().hex[:12]}"
    with contextlib.ExitStack() as closing:
        directory = folder or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="bench-agents-")))
        closing.callback(client.close)
        closing.callback(client.drop_database, name)
        await _indexed(uri, name)
        fake = closing.enter_context(process.running(**{"num_parallel": 16, **flags}))
        async with knowledge.serving() as known, _listening() as outside:
            yield Site(directory, uri, job.Store(client, name), fake, known, outside)


async def _indexed(uri: str, name: str) -> None:
    """The indexes of what runs write are the operator's."""
    client = mongo.client(uri, 60)
    await archives.Archive(client[name], fence=lambda: None, timeout=60).prepare()
    client.close()


@contextlib.asynccontextmanager
async def _listening() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/api/v1/effects/{name}", endpoint.post)
    app.router.add_get("/api/v1/effects/{name}", endpoint.get)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield endpoint
    finally:
        await runner.cleanup()


def stop(running: children.Process) -> None:
    """SIGTERM, as the kubelet sends it."""
    running.send_signal(signal.SIGTERM)
