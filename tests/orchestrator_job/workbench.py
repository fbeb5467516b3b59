"""What tests of agents' loops work with: real stores, the simulator, tools of their own, and a target of effects."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
from aiohttp import web

from contracts import otel_spans
from crds import errors as base
from crds import pendingtask, permits, scope
from crds.priority import Priority
from orchestrator_job.agents import executor, loop, metrics, registry
from orchestrator_job.effects import effect_digest, journal, ledger, ledger_entries, seen_texts
from orchestrator_job.effects.tools import port
from orchestrator_job.model import budget, model_calls, rules_context, telemetry
from orchestrator_job.store import artifacts, delegation_models, fence, mongo, retry, task_memory
from router import client as router_client
from tests import httpserver
from tests.fakes.ollama import process
from tests.fakes.ollama.server import generation
from tests.orchestrator_job import job

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RELEASE = "jervis/jervis-operator"
VIEWER = scope.Scope(client_id="acme", project_id="jervis", group_id="")
ANN = {"tool": "sendMail", "targets": ["a@example.com"], "most": 9}
"""A permit."""
REPORT = """STATUS: 1
RESULT: {result}
ARTIFACTS: none
ISSUES: none
CONFIDENCE: 0.9
NEEDS_VERIFICATION: false"""


def report(result: str = "The release is on Friday.") -> str:
    """A report that is taken as it is."""
    return REPORT.format(result=result)


def calls(*made: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A turn of the scripted model that calls tools."""
    return {"toolCalls": [{"name": name, "arguments": dict(arguments)} for name, arguments in made]}


def heard(fake: process.Fake, tag: str) -> list[tuple[str, str]]:
    """The calls of an agent with what they were answered, as its model saw them at the end."""
    said = fake.requests(tag=tag)[-1]["body"]["messages"]
    return [(one["tool_name"], one["content"]) for one in said if one["role"] == "tool"]


def parts(text: str, window: int = 16_384) -> list[str]:
    """What a model answers that is asked on until the whole text is there: each answer ends at its bound."""
    cut = generation.tokens(text)
    return ["".join(cut[start:]) for start in range(0, len(cut), window // 4)]


class Query(port.Arguments):
    """A question."""

    query: str


class Lookup:
    """A tool that reads: `texts` by question, or one for every other question."""

    description = "Search."
    arguments: type[port.Arguments] = Query

    def __init__(self, name: str = "search_knowledge", texts: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.texts = dict(texts or {})
        self.asked: list[str] = []

    async def read(self, given: Query, place: port.Place) -> port.Result:
        """What was found."""
        self.asked.append(given.query)
        text = self.texts.get(given.query, f"About {given.query}: nothing special.")
        return port.Result(text, sources=(f"doc::{given.query}",))


class Slow(Lookup):
    """One that never answers what `texts` does not have."""

    async def read(self, given: Query, place: port.Place) -> port.Result:
        """What was found."""
        if given.query not in self.texts:
            await asyncio.Event().wait()
        return await super().read(given, place)


class Edit(Lookup):
    """A tool that changes the workspace."""

    async def read(self, given: Query, place: port.Place) -> port.Result:
        """The file is another one."""
        return port.Result("Changed.", changed_files=(given.query,))


class Letter(port.Arguments):
    """A mail."""

    to: str
    text: str = ""


class Target:
    """Where effects happen: an HTTP server that counts by key. `lose`: the answers of so many are lost."""

    def __init__(self) -> None:
        self.url = ""
        self.done: dict[str, dict[str, Any]] = {}
        self.count: Counter[str] = Counter()
        self.lose = 0

    async def put(self, request: web.Request) -> web.Response:
        """PUT /effects/{key}"""
        key = request.match_info["key"]
        self.count[key] += 1
        self.done[key] = await request.json()
        if self.lose:
            self.lose -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({})

    async def get(self, request: web.Request) -> web.Response:
        """GET /effects/{key}"""
        key = request.match_info["key"]
        return web.json_response({}, status=200 if key in self.done else 404)


@contextlib.asynccontextmanager
async def target() -> AsyncIterator[Target]:
    """A target on a free port of loopback."""
    made = Target()
    app = web.Application()
    app.router.add_put("/effects/{key:.*}", made.put)
    app.router.add_get("/effects/{key:.*}", made.get)
    async with httpserver.serving(app) as made.url:
        yield made


class Away(base.Operational):
    """The target did not answer."""


class Gone(Lookup):
    """What it asks stays away."""

    async def read(self, given: Query, place: port.Place) -> port.Result:
        """Raises `Away`."""
        self.asked.append(given.query)
        raise Away("The host did not answer.")


class Spared(Gone):
    """The run can do without it."""

    away_seconds = 1.0


class Delivery:
    """The effect: one request to the target."""

    def __init__(self, url: str, letter: Letter, repeatable: bool) -> None:
        self._url, self._letter, self.repeatable = url, letter, repeatable

    def intent(self) -> Mapping[str, Any]:
        """For the ledger."""
        letter = self._letter
        digest = effect_digest.digest("send_mail", "office", letter.model_dump())
        return {"tool": "sendMail", "connection": "office", "aims": {"to": letter.to}, effect_digest.DIGEST: digest}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """By asking the target."""
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                found = await http.get(f"{self._url}/effects/{key}")
        except httpx.HTTPError as error:
            raise Away(f"The target did not answer: {error!r}.") from error
        return {"text": "Sent."} if found.status_code == 200 else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Send it."""
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                await http.put(f"{self._url}/effects/{key}", json=self._letter.model_dump())
        except httpx.HTTPError as error:
            raise Away(f"The target did not answer: {error!r}.") from error
        return {"text": "Sent."}


class Deliver:
    """A tool that acts."""

    description = "Send a mail."
    arguments: type[port.Arguments] = Letter

    def __init__(
        self, url: str, name: str = "send_mail", tier: port.Tier = port.Tier.PERMIT, *, repeatable: bool = False
    ) -> None:
        self.url, self.name, self.tier, self._repeatable = url, name, tier, repeatable

    def aims(self, given: Letter) -> Mapping[str, str]:
        """The recipient."""
        return {"to": given.to}

    def reach(self, given: Letter) -> port.Reach:
        """A mail to the recipient, by the Connection `office`."""
        return port.Reach(permits.tool_name(self.name), "office", (given.to,), given.text)

    def shown(self, given: Letter) -> str:
        """The mail."""
        return f"To: {given.to}\n\n{given.text}"

    def effect(self, given: Letter, place: port.Place) -> ledger_entries.Effect:
        """The request."""
        return Delivery(self.url, given, self._repeatable)


def _hurried() -> retry.Retry:
    """Some tries, of which none waits."""
    passed = [0.0]

    async def sleep(seconds: float) -> None:
        passed[0] += seconds

    return retry.Retry(2.0, clock=lambda: passed[0], sleep=sleep, draw=lambda: 0.5)


class Bench:
    """The means of one process that works on one task. Another bench of the same task is the next process."""

    def __init__(
        self,
        store: job.Store,
        router: router_client.Client,
        task: task_memory.TaskMemory,
        *tools: port.Tool,
        attempt: int = 1,
        limits: budget.Limits | None = None,
        specialists: bool = True,
        left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        limits = limits or budget.Limits(llm_calls=60)
        self.task = task
        self.database = mongo.Database(store.client, store.name, retry.Retry(5))
        self.guard = fence.Fence(self.database, task.task_uid, attempt, "bench")
        retries = _hurried()
        self.store = artifacts.Artifacts(self.database, self.guard, lambda: NOW)
        self.pool = budget.Budget(self.guard, limits, left)
        self.book = ledger.Ledger(self.database, self.guard, lambda: NOW, task.approvals)
        self.means = loop.Means(
            agents=registry.Registry.load(),
            tools={one.name: one for one in tools},
            asks=model_calls.Asking(router, self.pool, retries),
            pool=self.pool,
            records=journal.Journal(self.database, self.guard, self.store, lambda: NOW),
            book=self.book,
            counts=metrics.Metrics(self.database, self.guard, VIEWER, RELEASE, lambda: NOW),
            retries=retries,
            recorder=telemetry.Recorder(otel_spans.Off()),
            viewer=VIEWER,
            model=job.MODEL,
            urgency=Priority.P0,
            window=16_384,
            now=lambda: NOW,
            specialists=specialists,
            permits=task.permits,
        )

    async def work(
        self,
        message: delegation_models.DelegationMessage,
        *,
        held: rules_context.Standing | None = None,
        retrieved: tuple[str, ...] = (),
        earlier: tuple[delegation_models.AgentOutput, ...] = (),
    ) -> delegation_models.AgentOutput | loop.Waiting:
        """Claim the task and carry one delegation out, behind those that handed back `earlier`."""
        if not self.guard.epoch:
            await self.guard.claim(NOW)
        passages = [seen_texts.Passage(one, "doc::1") for one in retrieved]
        known = seen_texts.SeenTexts.of(self.task, self.task.content or "", self.means.internal).more(passages)
        return await executor.Executor(self.means, held or rules_context.Standing(), known, earlier).work(message)


class Benches:
    """The processes that work on one task, one after the other."""

    def __init__(self, store: job.Store, router: router_client.Client, fake: process.Fake, uid: str) -> None:
        self.store, self.router, self.fake, self.uid = store, router, fake, uid
        self.attempt = 0

    def next(
        self,
        *tools: port.Tool,
        content: str = "When is the release?",
        limits: budget.Limits | None = None,
        specialists: bool = True,
        left: Callable[[], float] = lambda: math.inf,
        **fields: Any,
    ) -> Bench:
        """The bench of the next process; `fields` are the task's."""
        self.attempt += 1
        asked = task(self.uid, content, **fields)
        settings: dict[str, Any] = {"limits": limits, "specialists": specialists, "left": left}
        return Bench(self.store, self.router, asked, *tools, attempt=self.attempt, **settings)


def task(uid: str, content: str = "When is the release?", **fields: Any) -> task_memory.TaskMemory:
    """A task memory: a user's question, unless `type` says otherwise, with a permit for mails to a@example.com."""
    given = {
        "task_uid": uid, "type": pendingtask.Type.USER_INPUT, "scope": VIEWER, "content": content, "permits": [ANN],
        **fields,
    }  # fmt: skip
    return task_memory.TaskMemory.model_validate(given)


def message(
    agent: str = "Research", summary: str = "Find the date.", **fields: Any
) -> delegation_models.DelegationMessage:
    """A delegation of the plan."""
    given: dict[str, Any] = {"delegation_id": "r1.d1", "depth": 1, "client_id": "acme", **fields}
    return delegation_models.DelegationMessage(agent_name=agent, task_summary=summary, **given)
