"""The decision agent over a test's world: real stores in memory or files, the model scripted at the wire."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from crds import scope
from crds.priority import Priority
from kb import api, metrics
from kb.agent import answering, orchestrator, relating, retrieving, tree, voice
from kb.retrieve import search
from router import client as router_client
from tests.kb import scopes, world

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


def offered(request: dict[str, Any]) -> list[str]:
    """The tools that a request for a decision has shapes for; `text_response` is chosen by saying that it is enough."""
    shapes = [shape["properties"] for shape in request["body"]["format"]["anyOf"]]
    named = [shape["tool"]["enum"][0] for shape in shapes if "tool" in shape]
    return named + ["text_response" for shape in shapes if "enough" in shape]


async def no_pause(seconds: float) -> None:
    """Time does not pass in a test."""


def voiced(router: router_client.Client) -> voice.Voice:
    return voice.Voice(router, MODEL, no_pause)


def tools(made: world.ObservedState, router: router_client.Client, **limits: int) -> list[tree.Tool]:
    """Those that need no code."""
    model = voiced(router)
    return [
        retrieving.FastVectorSearchTool(made.finder(search.Breadth())),
        relating.GraphExploreTool(made.graph, made.vectors, made.aliases),
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


def asked(question: str, viewer: scope.Scope = scopes.SHOP, rules: Sequence[api.Rule] = ()) -> tree.TreeData:
    data = tree.TreeData(question, viewer, Priority.P1)
    retrieving.in_force(rules, data, 16_000)
    return data


async def events(made: orchestrator.AgentOrchestrator, data: tree.TreeData, **more: Any) -> list[api.AgentEvent]:
    return [one async for one in made.run(data, **more)]


def kinds(found: Sequence[api.AgentEvent]) -> list[str]:
    """The types in their order, equal ones behind each other as one."""
    return [kind for kind, _ in itertools.groupby(one.type for one in found)]


def text(found: Sequence[api.AgentEvent]) -> str:
    return "".join(one.content or "" for one in found if one.type == "token")
