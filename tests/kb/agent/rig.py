"""The decision agent over a test's world: real stores in memory or files, the model scripted at the wire."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from crds import scope
from crds.priority import Priority
from kb import api, client, metrics, mongo
from kb.agent import answering, decision_model, environment, graph_tool, orchestrator, retrieving, running, store, tree
from kb.erasure import closed
from kb.retrieve import search
from kb.rules import mongo as rules_mongo
from kb.service.http import access, agentic, app, content, health
from router import client as router_client
from tests import httpserver
from tests.fakes.ollama import process
from tests.kb import memory, scopes, world
from tests.kb.rules import test_enforce

MODEL = "qwen2.5:7b"
"""Of the simulator; its script answers for it."""
DECIDE, ANSWER, SUMMARY = "kb.agent.decide/v1", "kb.agent.answer/v1", "kb.agent.summary/v1"


def decided(tool: str, reasoning: str = "r", **inputs: Any) -> dict[str, Any]:
    """A decision as a model writes it; `should_end`, `impossible` and `enough` by `with_`."""
    return {
        "enough": False,
        "tool": tool,
        "inputs": inputs,
        "reasoning": reasoning,
        "should_end": False,
        "impossible": False,
    }


MANUAL = """The operating voltage of the pump P-7 is 230 volts. Switch it off before the filter is changed.

Jana Novak maintains the pump P-7 in the northern hall since last spring."""
FENCED = "manual::pump"
SEARCH = decided("fast_vector_search", "User asked factual question", query="operating voltage")
WRITE = decided("text_response", "Have enough context")
SAID = "The operating voltage is 230 volts [1]."
STALL = {"fault": {"stall": {"gate": "never"}}}
"""Instead of a decision: the model is silent until the call is cancelled."""


def rule(content: str, key: str = "r") -> api.Rule:
    return test_enforce.rule(content, scopes.SHOP, key, rule_type=api.RuleType.CUSTOM)


def offered(request: dict[str, Any]) -> list[str]:
    """The tools that a request for a decision has shapes for; `text_response` is chosen by saying that it is enough."""
    shapes = [shape["properties"] for shape in request["body"]["format"]["anyOf"]]
    named = [shape["tool"]["enum"][0] for shape in shapes if "tool" in shape]
    return named + ["text_response" for shape in shapes if "enough" in shape]


async def no_pause(seconds: float) -> None:
    """Time does not pass in a test."""


def voiced(router: router_client.Client) -> decision_model.DecisionModel:
    return decision_model.DecisionModel(router, MODEL, no_pause)


def tools(made: world.ObservedState, router: router_client.Client, **limits: int) -> list[tree.Tool]:
    """Those that need no code."""
    model = voiced(router)
    return [
        retrieving.FastVectorSearchTool(made.finder(search.Breadth())),
        graph_tool.GraphExploreTool(made.graph, made.vectors, made.aliases),
        retrieving.RulesTool(),
        answering.TextResponseTool(model),
        answering.SummarizeTool(model, **limits),
    ]


def agent(
    given: Sequence[tree.Tool],
    router: router_client.Client,
    meters: metrics.Metrics,
    pages: orchestrator.Pages | None = None,
    **limits: Any,
) -> orchestrator.AgentOrchestrator:
    ticks = itertools.count()
    return orchestrator.AgentOrchestrator(
        given, voiced(router), meters, lambda: float(next(ticks)), limits=orchestrator.Limits(**limits), pages=pages
    )


class Desk:
    """The agent over a world; its model answers by a script. `tools` are those that need no code, or what a test sets
    instead."""

    def __init__(
        self, kb: world.ObservedState, router: router_client.Client, fake: process.Fake, meters: metrics.Metrics
    ) -> None:
        self.kb, self.router, self.fake, self.meters = kb, router, fake, meters
        self.tools: Sequence[tree.Tool] = tools(kb, router)

    def script(self, decisions: Sequence[Any], *answers: Any, summaries: Sequence[str] = ()) -> None:
        """What the model says from now on; what it was asked before is forgotten."""
        self.fake.forget()
        lines = {DECIDE: list(decisions), ANSWER: list(answers), SUMMARY: list(summaries)}
        self.fake.set_script({tag: said for tag, said in lines.items() if said})

    async def ask(
        self,
        question: str | tree.TreeData = "voltage?",
        viewer: scope.Scope = scopes.SHOP,
        rules: Sequence[api.Rule] = (),
        rounds: int | None = None,
        **limits: Any,
    ) -> list[api.AgentEvent]:
        """What a question gets, which asks for so many rounds."""
        data = asked(question, viewer, rules) if isinstance(question, str) else question
        return await events(agent(self.tools, self.router, self.meters, **limits), data, iterations=rounds)


Committed = Callable[[scope.Scope, Collection[str]], Awaitable[set[str]]]


class Questions:
    """A process that takes questions of a person: what it keeps, and `questions` over an agent. Several may stand on
    one database; the ids of each begin with its `name`."""

    def __init__(
        self,
        made: orchestrator.AgentOrchestrator,
        database: mongo.Database,
        meters: metrics.Metrics,
        committed: Committed,
        *,
        name: str = "a",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pages: Committed | None = None,
        **bounds: Any,
    ) -> None:
        numbers = itertools.count()
        life = timedelta(minutes=10)

        def clock() -> datetime:
            return datetime.now(UTC)

        def fresh_id() -> str:
            return f"{ord(name):016x}{next(numbers):016x}"

        self.client: client.Client
        self.http: httpx.AsyncClient
        self.shut, self.meters = closed.Closed(), meters
        self.rules = rules_mongo.Rules(database, clock)
        self.conversations = store.Conversations(database, clock, self.shut, fresh_id, life=life)
        self.streams = store.Streams(database, clock, self.shut, life=life)
        kept = (self.rules, self.streams, self.conversations)
        self.questions = running.Questions(
            made, *kept, meters, clock, fresh_id, sleep, committed, bounds=running.Bounds(**bounds), pages=pages
        )

    @asynccontextmanager
    async def over(self, gate: access.Gate | None = None) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
        """The typed client and a raw one, which are in `client` and `http` as well. As production does
        (`kb.service.http.starting`): a handler goes on when its reader hangs up."""
        stored, alive = content.Content(memory.Content(), limit=1000), health.Health({}, self.meters)
        faces = app.Faces(None, None, stored, alive, agentic.Agentic(self.questions).routes())
        built = app.build(faces, self.meters, max_body=50_000, version="1", gate=gate)
        async with httpserver.serving(built, shutdown_seconds=1) as base:
            try:
                async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60, verify=False) as self.http:
                    self.client = client.Client(base, self.http, attempts=1)
                    yield self.client, self.http
            finally:
                await self.questions.close()


def asked(question: str, viewer: scope.Scope = scopes.SHOP, rules: Sequence[api.Rule] = ()) -> tree.TreeData:
    data = tree.TreeData(question, viewer, Priority.P1)
    retrieving.in_force(rules, data, 16_000)
    return data


async def given(tool: tree.Tool, data: tree.TreeData, **inputs: Any) -> list[tree.Given]:
    """What a call of a tool gives; its results are in the environment afterwards."""
    found = [one async for one in tool(data, inputs)]
    for one in found:
        if isinstance(one, environment.Result):
            data.environment.add(tool.name, one)
    return found


def result(found: Sequence[tree.Given]) -> environment.Result:
    """The one thing that was given, which is a result."""
    [only] = found
    assert isinstance(only, environment.Result), only
    return only


def error(found: Sequence[tree.Given]) -> environment.Error:
    """The one thing that was given, which is an error."""
    [only] = found
    assert isinstance(only, environment.Error), only
    return only


async def events(made: orchestrator.AgentOrchestrator, data: tree.TreeData, **more: Any) -> list[api.AgentEvent]:
    return [one async for one in made.run(data, **more)]


def kinds(found: Sequence[api.AgentEvent]) -> list[str]:
    """The types in their order, equal ones behind each other as one."""
    return [kind for kind, _ in itertools.groupby(one.type for one in found)]


def text(found: Sequence[api.AgentEvent]) -> str:
    return "".join(one.content or "" for one in found if one.type == "token")
