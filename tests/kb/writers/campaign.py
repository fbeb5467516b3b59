"""A campaign: clients write at random through writers that are killed at random; then its end is compared.

`python -m tests.kb.writers.campaign SEED OPERATIONS KILLS [WRITERS [CLIENTS [HISTORY]]]` runs one of any length; with
HISTORY 1 replaced versions are kept and compared too.

Each client has a project of its own, in which it ingests, indexes, deletes, names aliases and rules and erases, one
operation after the other; an operation that fails for now is repeated at any writer until it is acknowledged. So what
has to be there at the end is known. A few documents are shared: of these one version has to be there that no later
operation was begun after.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pymongo

from crds import scope
from kb import api, client
from kb.vectors.weaviate import Store as Index
from tests import ports, variables, waiting
from tests.fakes.arango import server as arango
from tests.fakes.ollama import process as ollama
from tests.kb import conftest
from tests.nursery import children

TURN_SECONDS = 4.0
_SHARED = scope.Scope(client_id="acme", project_id="shared")
_NAMES = ("Jana Novak", "Petr Svoboda", "Eva Mala", "Karel Velky")
_BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)


@dataclass
class Services:
    """Where the data services are, and names in them that nothing else uses."""

    ollama: str
    weaviate: str
    grpc: int
    mongodb: str
    arango: arango.Server
    history: bool = False
    name: str = field(default_factory=lambda: f"writers{uuid.uuid4().hex[:10]}")

    def settings(self) -> dict[str, str]:
        """The settings of a writer."""
        given = {
            "HOST": "127.0.0.1",
            "MODE": "write",
            "ROUTER_URL": self.ollama,
            "WEAVIATE_URL": self.weaviate,
            "WEAVIATE_GRPC_PORT": str(self.grpc),
            "INDEX": self.name,
            "EMBED_MODEL": "qwen3-embedding:8b",
            "MONGODB_URI": self.mongodb,
            "MONGODB_DATABASE": self.name,
            "ARANGO_URL": self.arango.url,
            "ARANGO_DATABASE": self.name,
            "CHUNK_CHARS": "300",
            "CHUNK_OVERLAP": "20",
            "ERASURE_INTERVAL": "0.3",
            "RECOVERY_INTERVAL": "1",
            "RECOVERY_PATIENCE": "2",
            "RECONCILE_INTERVAL": "2",
            # With a history, documents have times of their own, and none of them is long ago for that many days.
            "HISTORY_DAYS": "3650" if self.history else "0",
            "HISTORY_VERSIONS": "3",
            "LOG_LEVEL": "info",
        }
        return {f"JERVIS_KB_{name}": value for name, value in given.items()} | {"TURN_SECONDS": str(TURN_SECONDS)}

    @asynccontextmanager
    async def index(self, model: str = "qwen3-embedding:8b") -> AsyncIterator[Index]:
        """The index of a model; it is made when it is not there."""
        store = Index(self.weaviate, self.grpc, model, index=self.name)
        try:
            yield store
        finally:
            await store.close()


@contextmanager
def graphs() -> Iterator[arango.Server]:
    """A killed writer leaves a transaction; the real server gives it up after a minute."""
    with arango.Server() as server:
        server.idle_seconds = 2.0
        yield server


class Writer:
    """One writing process, which is started again after it was killed."""

    def __init__(self, services: Services, folder: Path, number: int) -> None:
        self._settings = services.settings()
        self._folder = folder / f"writer{number}"
        self._folder.mkdir()
        self._port = ports.free()
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = self._folder / "kb.log"
        self._process: children.Child | None = None

    async def start(self) -> None:
        """Return when it listens."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JERVIS_")}
        place = {"JERVIS_KB_PORT": str(self._port), "JERVIS_KB_DATA_DIR": str(self._folder / "data")}
        variables.check(self._settings | place, "kb.settings")
        program = str(Path(__file__).with_name("process.py"))
        self._process = children.of(program).start(kept | self._settings | place, self.log)
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:

            async def listens() -> bool:
                assert self._process is not None
                assert self._process.returncode is None, self.log.read_text(errors="replace")[-3000:]
                try:
                    return (await http.get(f"{self.url}/startedz")).is_success
                except httpx.TransportError:
                    return False

            await waiting.eventually(listens)

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait, 30)


@asynccontextmanager
async def writers(services: Services, folder: Path, count: int) -> AsyncIterator[list[Writer]]:
    """So many of them; killed at the end."""
    made = [Writer(services, folder, number) for number in range(count)]
    try:
        await asyncio.gather(*(one.start() for one in made))
        yield made
    finally:
        await asyncio.gather(*(one.kill() for one in made))


@dataclass
class Wanted:
    """What is there when all that was acknowledged holds: of documents their versions in order, by owner and URN."""

    documents: dict[tuple[scope.Scope, str], list[api.IngestRequest]] = field(default_factory=dict)
    aliases: dict[tuple[scope.Scope, str], str] = field(default_factory=dict)
    rules: dict[tuple[scope.Scope, str], str] = field(default_factory=dict)

    def add(self, asked: api.IngestRequest) -> None:
        self.documents.setdefault((asked.scope, asked.source_urn), []).append(asked)

    def erase(self, where: scope.Scope) -> None:
        for kept in (self.documents, self.aliases, self.rules):
            for key in [key for key in kept if where.covers(key[0])]:
                del kept[key]


class AnyWriter:
    """Asks any writer, and another one while it fails for now."""

    def __init__(self, fleet: list[Writer], http: httpx.AsyncClient, dice: random.Random) -> None:
        self._clients = [client.Client(one.url, http, attempts=1) for one in fleet]
        self._dice = dice
        self.acknowledged = 0
        self.repeated = 0

    async def reached(self, number: int) -> None:
        """Return when so many operations are acknowledged."""
        await waiting.eventually(lambda: self.acknowledged >= number, pause=0.02, patience=1000)

    async def ask(self, work: Callable[[client.Client], Awaitable[Any]], *, gone_is_done: bool = False) -> Any:
        """What the writer that acknowledged it answered; with `gone_is_done`, "not found" is an acknowledgement."""
        until = time.monotonic() + waiting.PATIENCE
        while True:
            try:
                answer = await work(self._dice.choice(self._clients))
            except client.Unavailable as error:
                if time.monotonic() >= until:
                    raise AssertionError("never acknowledged") from error
                self.repeated += 1
                await asyncio.sleep(0.05 + 0.2 * self._dice.random())
            except client.Rejected as error:
                if not gone_is_done or error.code != "not_found":
                    raise
                self.acknowledged += 1
                return None
            else:
                self.acknowledged += 1
                return answer


def text(dice: random.Random) -> str:
    """A short document: names that aliases rename, and a relationship that it states itself."""
    who, other = dice.sample(_NAMES, 2)
    number = dice.randrange(5)
    said = [
        f"{who} wrote module{number}.py for Globex.",
        f"{other} reviewed module{dice.randrange(5)}.py last week.",
        f"jira:JERV-{number}|AFFECTS|file:module{number}.py",
    ]
    return "\n\n".join(one + " Filler follows here." * 5 for one in said[: 1 + dice.randrange(3)])


def request(owner: scope.Scope, urn: str, content: str) -> api.IngestRequest:
    return api.IngestRequest(scope=owner, source_urn=urn, kind="note", title="A note", content=content)


def rule(owner: scope.Scope, key: str, content: str) -> api.RuleDraft:
    return api.RuleDraft(
        scope=owner, rule_key=key, rule_type=api.RuleType.CUSTOM, rule_content=content, created_by="jana"
    )


class Client:
    """One client with its own project; `steps` operations one after the other."""

    def __init__(
        self,
        number: int,
        any_writer: AnyWriter,
        seed: int,
        shared: list[tuple[float, float, api.IngestRequest]],
        *,
        history: bool,
    ) -> None:
        self.owner = scope.Scope(client_id="acme", project_id=f"p{number}")
        self.wanted = Wanted()
        self._dice = random.Random(f"{seed}/{number}")
        self._any_writer = any_writer
        self._versions = shared
        self._history = history
        self._drafted = 0

    async def run(self, steps: int) -> None:
        kinds = ["ingest", "index", "delete", "alias", "unalias", "rule", "shared", "erase"]
        # What a version in the history says of its names and relationships depends on whether the queue had come to it
        # and which aliases held then, and of a shared document on who came first: there is one right end without these.
        weights = [12, 0, 2, 0, 0, 1, 0, 1] if self._history else [5, 5, 3, 2, 1, 2, 2, 1]
        for _ in range(steps):
            kind = self._dice.choices(kinds, weights=weights)[0]
            await getattr(self, f"_{kind}")()

    async def _ingest(self) -> None:
        asked = self._draft()
        reply = await self._any_writer.ask(lambda writer: writer.ingest(asked))
        assert reply.superseded_by is None, reply
        self.wanted.add(asked)

    async def _index(self) -> None:
        asked = self._draft()
        await self._any_writer.ask(lambda writer: writer.learning.index(asked))
        self.wanted.add(asked)

    def _draft(self) -> api.IngestRequest:
        asked = request(self.owner, f"note::{self._dice.randrange(3)}", text(self._dice))
        if not self._history:
            return asked
        self._drafted += 1
        return asked.model_copy(update={"observed_at": _BEGIN + timedelta(minutes=self._drafted)})

    async def _delete(self) -> None:
        urn = f"note::{self._dice.randrange(3)}"
        await self._any_writer.ask(lambda writer: writer.forget(self.owner, urn), gone_is_done=True)
        self.wanted.documents.pop((self.owner, urn), None)

    async def _alias(self) -> None:
        # The same name never stands on both sides, and each means one thing only: no chain, no second meaning.
        alias, canonical = self._dice.choice([("jana novak", "eva mala"), ("petr svoboda", "karel velky")])
        merge = api.Merge(scope=self.owner, alias=f"person:{alias}", canonical=f"person:{canonical}")
        await self._any_writer.ask(lambda writer: writer.aliases.merge(merge))
        self.wanted.aliases[self.owner, merge.alias] = merge.canonical

    async def _unalias(self) -> None:
        alias = f"person:{self._dice.choice(['jana novak', 'petr svoboda'])}"
        await self._any_writer.ask(lambda writer: writer.aliases.unmerge(self.owner, alias), gone_is_done=True)
        self.wanted.aliases.pop((self.owner, alias), None)

    async def _rule(self) -> None:
        draft = rule(self.owner, f"r{self._dice.randrange(2)}", f"Be kind {self._dice.randrange(10)}.")
        await self._any_writer.ask(lambda writer: writer.rules.put(draft))
        self.wanted.rules[self.owner, draft.rule_key] = draft.rule_content

    async def _shared(self) -> None:
        asked = request(_SHARED, f"note::{self._dice.randrange(2)}", text(self._dice))
        begun = time.monotonic()
        reply = await self._any_writer.ask(lambda writer: writer.ingest(asked))
        # One that was superseded while models read it was never stored.
        if reply.superseded_by is None:
            self._versions.append((begun, time.monotonic(), asked))

    async def _erase(self) -> None:
        asked = await self._any_writer.ask(lambda writer: writer.erasing.ask(self.owner, "jana"))

        async def running() -> list[Any]:
            listed = await self._any_writer.ask(lambda writer: writer.erasing.listed(self.owner))
            return [one for one in listed if one.requested_at >= asked.requested_at and one.state != "Done"]

        await waiting.eventually(running, "the erasure is done", good=lambda left: not left, pause=0.1)
        self.wanted.erase(self.owner)


def possible(done: list[tuple[float, float, api.IngestRequest]], urn: str) -> list[api.IngestRequest]:
    """The versions of a shared document that may be the last: no other one was begun after they were acknowledged."""
    versions = [one for one in done if one[2].source_urn == urn]
    return [one for begun, ended, one in versions if not any(later > ended for later, _, _ in versions)]


async def settled(services: Services) -> None:
    """Return when nothing is open, queued, merging or erasing any more."""
    with pymongo.MongoClient[dict[str, Any]](services.mongodb) as connection:
        database = connection[services.name]

        def still() -> bool:
            waits: dict[str, dict[str, Any]] = {
                "kb_intents": {"state": "Open"},
                "kb_jobs": {},
                "graph_entity_registry": {"state": {"$ne": "Merged"}},
                "kb_erasures": {"state": "Running"},
            }
            return not any(database[name].count_documents(query) for name, query in waits.items())

        await waiting.eventually(still, pause=0.2)


async def state(services: Services) -> dict[str, Any]:
    """All that is there: the graph's documents and edges, chunks with their references, sentences, aliases, rules."""
    database = services.arango.databases[services.name]
    found: dict[str, Any] = {}
    for name, rows in sorted(database.collections.items()):
        if name != "jervis_fences":
            found[name] = {
                key: {field: value for field, value in row.items() if field not in ("_rev", "_id")}
                for key, row in rows.documents.items()
            }
    async with services.index() as store:
        chunks, _ = await store.audit("acme", limit=10_000)
        found["chunks"] = {one.chunk_id: (one.owner, one.document_id, sorted(one.graph_refs)) for one in chunks}
        lines, _ = await store.audit_sentences("acme", limit=10_000)
        found["sentences"] = {one.sentence_id: (one.owner, one.chunk_id) for one in lines}
    with pymongo.MongoClient[dict[str, Any]](services.mongodb) as connection:
        rows_of = connection[services.name]
        found["aliases"] = {
            (row["projectId"], row["aliasKey"]): row["canonicalKey"]
            for row in rows_of["graph_entity_registry"].find({})
        }
        in_force = {"supersededAt": None, "deletedAt": None}
        found["rules"] = {
            (row["projectId"], row["ruleKey"]): row["ruleContent"]
            for row in rows_of["clientProjectRules"].find(in_force)
        }
    return found


async def clean(services: Services) -> None:
    """Take away what the services keep of it."""
    async with services.index() as store:
        await store.destroy()
    with pymongo.MongoClient[dict[str, Any]](services.mongodb) as connection:
        connection.drop_database(services.name)


@dataclass
class Report:
    """What a campaign did."""

    acknowledged: int
    repeated: int
    killed: int
    documents: int
    seconds: float


async def run(
    many: Services,
    alone: Services,
    folder: Path,
    *,
    seed: int,
    steps: int,
    kills: int,
    fleet: int = 4,
    clients: int = 8,
) -> Report:
    """Write through `fleet` writers over `many`, then once more what has to be there through one over `alone`.

    Raises AssertionError when the two ends differ.
    """
    dice = random.Random(seed)
    started = time.monotonic()
    versions: list[tuple[float, float, api.IngestRequest]] = []
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False, timeout=120))
        (folder / "many").mkdir()
        made = await stack.enter_async_context(writers(many, folder / "many", fleet))
        any_writer = AnyWriter(made, http, dice)
        actors = [Client(number, any_writer, seed, versions, history=many.history) for number in range(clients)]
        expected = steps * clients

        async def kill_some() -> int:
            for number in range(kills):
                # Spread over the campaign, at no particular moment of a request.
                await any_writer.reached((number + 1) * expected // (kills + 1))
                await asyncio.sleep(0.3 * dice.random())
                one = dice.choice(made)
                await one.kill()
                await asyncio.sleep(dice.random())
                await one.start()
            return kills

        async with asyncio.TaskGroup() as group:
            killed = group.create_task(kill_some())
            for actor in actors:
                group.create_task(actor.run(steps))
        await settled(many)
        await asyncio.sleep(3)  # a round of the reconciler, which must not change what is right
        await settled(many)
        there = await state(many)
        report = Report(any_writer.acknowledged, any_writer.repeated, killed.result(), 0, 0.0)
    (folder / "alone").mkdir()
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False, timeout=120))
        made = await stack.enter_async_context(writers(alone, folder / "alone", 1))
        any_writer = AnyWriter(made, http, dice)
        versions_of = [each for actor in actors for each in actor.wanted.documents.values()]
        # Without a history the last version is all that is left of the others.
        wanted = [asked for each in versions_of for asked in (each if many.history else each[-1:])]
        for urn in {one.source_urn for _, _, one in versions}:
            wanted.append(_found(there, possible(versions, urn)))
        for asked in wanted:
            await any_writer.ask(functools.partial(_ingest, asked))
        for actor in actors:
            for (owner, alias), canonical in actor.wanted.aliases.items():
                merge = api.Merge(scope=owner, alias=alias, canonical=canonical)
                await any_writer.ask(functools.partial(_merge, merge))
            for (owner, key), content in actor.wanted.rules.items():
                draft = rule(owner, key, content)
                await any_writer.ask(functools.partial(_rule, draft))
        await settled(alone)
        right = await state(alone)
    report.documents, report.seconds = len(wanted), time.monotonic() - started
    for name in sorted({*there, *right}):
        assert there.get(name) == right.get(name), f"{name}: {_difference(there.get(name), right.get(name))}"
    return report


async def _ingest(asked: api.IngestRequest, writer: client.Client) -> None:
    await writer.ingest(asked)


async def _merge(asked: api.Merge, writer: client.Client) -> None:
    await writer.aliases.merge(asked)


async def _rule(asked: api.RuleDraft, writer: client.Client) -> None:
    await writer.rules.put(asked)


def _found(there: dict[str, Any], candidates: list[api.IngestRequest]) -> api.IngestRequest:
    """The one of them whose chunks are there."""
    from kb import identity
    from kb.extract import draft

    ids = set(there["chunks"])
    for one in candidates:
        made = draft.make(one, one.content or "", size=300, overlap=20)
        if {piece.id for piece in made.pieces} <= ids:
            return one
    document = identity.document(candidates[0].scope, candidates[0].source_urn)
    raise AssertionError(f"none of {len(candidates)} possible last versions of the shared document {document} is there")


def _difference(there: Any, right: Any) -> str:
    there, right = there or {}, right or {}
    more = {key: there[key] for key in there if key not in right}
    less = {key: right[key] for key in right if key not in there}
    other = {key: (there[key], right[key]) for key in there if key in right and there[key] != right[key]}
    return f"too much {more}; missing {less}; different (is, should be) {other}"[:4000]


async def main(seed: int, steps: int, kills: int, fleet: int = 4, clients: int = 8, history: int = 0) -> None:
    """One campaign over the data services of the test environment."""
    import tempfile

    with ollama.running(num_parallel=8) as fake, graphs() as graph:
        place = (fake.url, *conftest.stores(), graph)
        many, alone = (Services(*place, history=bool(history)) for _ in range(2))
        try:
            folder = Path(tempfile.mkdtemp(prefix="writers"))
            sys.stdout.write(f"logs: {folder}\n")
            done = await run(many, alone, folder, seed=seed, steps=steps, kills=kills, fleet=fleet, clients=clients)
            sys.stdout.write(f"{done}\n")
        finally:
            await clean(many)
            await clean(alone)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
