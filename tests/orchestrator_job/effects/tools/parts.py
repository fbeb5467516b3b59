"""What tools stand on, all of it real: the knowledge base's application with the token of the run, the sources process'
application, and MongoDB."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import prometheus_client

from contracts.rules import enforce_lines
from contracts.tokens import runtoken
from crds.priority import Priority
from kb import client as kb_client
from kb import metrics
from kb import mongo as kb_mongo
from kb.retrieve import search
from kb.service.access import rates
from kb.service.http import access, exploring
from orchestrator_job.effects.tools import port, settings, toolbox
from orchestrator_job.store import fence, mongo, retry
from router import client as router_client
from sources import metrics as sources_metrics
from sources.api import routes
from sources.core import limits
from sources.providers.git import clone, command, reading
from sources.providers.git import polling as git
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.ingest import trees
from tests.kb.service import whole
from tests.orchestrator_job import job
from tests.sources.api import serving
from tests.sources.effects.pushing import Pushing

SCOPE = serving.ACME
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Contents(dict[str, bytes]):
    """What the knowledge base stores, for the sources process of a test."""

    def __init__(self, kept: memory.Content) -> None:
        super().__init__()
        self._kept = kept

    def get(self, key: str, default: Any = None) -> Any:
        found = self._kept._kept.get(key)
        return default if found is None else found[1]


@dataclass
class Parts:
    """A run's means. `attempt` counts its processes: `again` is the next one, with nothing in its memory."""

    known: world.ObservedState
    content: memory.Content
    kb: kb_client.Client
    folder: Path
    store: job.Store
    uid: str
    http: httpx.AsyncClient
    kb_url: str
    sources_url: str = ""
    attempt: int = 0
    rules: str = ""

    async def box(self, **given: Any) -> tuple[toolbox.Toolbox, fence.Fence]:
        """The tools of another process of the run, and its fence."""
        self.attempt += 1
        database = mongo.Database(self.store.client, self.store.name, retry.Retry(5))
        guard = fence.Fence(database, self.uid, self.attempt, f"holder-{self.attempt}")
        await guard.claim(NOW)

        async def sleep(_: float) -> None:
            """Time passes by itself."""

        means = toolbox.Means(
            settings=settings.Settings(
                sources_url=self.sources_url, work_dir=self.folder / f"work-{self.attempt}", **given
            ),
            viewer=SCOPE,
            rules=enforce_lines.Provisions.together([self.rules]),
            namespace="team-a",
            urgency=Priority.P1,
            kb=self.kb,
            http=self.http,
            token=self.token,
            database=database,
            guard=guard,
            now=lambda: NOW,
            sleep=sleep,
        )
        return await toolbox.Toolbox.open(means), guard

    def token(self) -> str:
        return token(self.uid)


def token(uid: str) -> str:
    """Of a run in whose task a person has approved the rule `citations`, and answered a question."""
    return serving.run_token(uid=uid, rules=("citations",), teaches=True)


Opening = Callable[..., contextlib.AbstractAsyncContextManager[Parts]]
"""`parts` of a test: with the uid of the run, or without one."""


@contextlib.asynccontextmanager
async def parts(
    folder: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: kb_mongo.Database,
    store: job.Store,
    uid: str = "0b7f",
) -> AsyncIterator[Parts]:
    """Without a sources process."""
    content = memory.Content()
    verifier = runtoken.Verifier(lambda: serving.KEYS, lambda: serving.NOW, runtoken.KNOWLEDGE_BASE)
    async with (
        world.opened(folder / "kb", router, clock, meters, memory.Vectors(), content) as known,
        contextlib.AsyncExitStack() as stack,
    ):
        gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0, known.shut, verifier)
        looking = exploring.Exploring(known.finder(search.Breadth()), known.graph, known.vectors, known.aliases)
        more = [*looking.routes(), *trees.routes(known, meters, clock, database, stack)]
        async with (
            whole.over(known, meters, clock, database=database, gate=gate, ingests=True, more=more) as (_, raw),
            httpx.AsyncClient(trust_env=False, timeout=60) as http,
        ):
            base = str(raw.base_url).rstrip("/")
            own = kb_client.Client(base, http, token(uid), attempts=1)
            yield Parts(known, content, own, folder, store, uid, http, base)


@contextlib.asynccontextmanager
async def sourced(made: Parts, served: Sequence[routes.Served], **more: Any) -> AsyncIterator[None]:
    """With a sources process; `more` as `serving` takes it."""
    async with serving.serving(served, max_body=4 << 20, **more) as client:
        made.sources_url = str(client.base_url).rstrip("/")
        yield


def reads(pushed: Pushing) -> reading.Reading:
    """Repositories for runs, from clones in `pushed.workspace` that have all that was committed before they were
    made."""
    pushed.workspace = clone.Workspace(pushed.folder / "reads", 1 << 30, 1 << 30)

    async def opens(claim: Any) -> git.Repository:
        at = command.remote(claim.spec.url, pushed.login, plain=True, authorities="", seconds=60)
        bucket = limits.Bucket(6000, 1000)
        return git.Repository(pushed.workspace.clone(claim.uid), at, claim.spec, bucket, monotonic=time.monotonic)

    measured = sources_metrics.Metrics(prometheus_client.CollectorRegistry())
    return reading.Reading(
        pushed.assigned, pushed.workspace, opens, measured, width=4, seconds=60.0, wall=lambda: serving.NOW
    )


async def called(tools: toolbox.Toolbox, name: str, ordinal: int = 1, /, **given: object) -> port.Result:
    """Call a reading tool, as the `ordinal`th call of a delegation."""
    tool = tools.tools[name]
    assert isinstance(tool, port.Reading), name
    return await tool.read(port.parse(tool, given), place(ordinal))


def acting(tools: toolbox.Toolbox, name: str) -> port.Acting:
    """A tool with effects."""
    tool = tools.tools[name]
    assert isinstance(tool, port.Acting), name
    return tool


def place(ordinal: int = 1) -> port.Place:
    """Of a call."""
    return port.Place(SCOPE, "r1.d1", ordinal, 1, "en")
