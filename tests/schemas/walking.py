"""All schemas that the product can send to a model: answers, parameters of tools, calls of tools as answers."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from hack.packages import PACKAGES
from router.client import schema
from tests.schemas import foreign

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = tuple(range(1, 41))
"""Numbers of pieces of evidence."""


@dataclass(frozen=True)
class Sample:
    """A schema as it is sent. `own`: it is made of classes of ours, not of what another server lists. `listed`: what
    it is made of, with all its bounds, where that is one schema."""

    name: str
    schema: Mapping[str, Any]
    own: bool = True
    listed: Mapping[str, Any] | None = None


@functools.cache
def modules() -> tuple[str, ...]:
    """Every module of the product but the programs, which do their work when they are imported; all are imported."""
    names = tuple(
        found.name
        for package in PACKAGES
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}.")
        if not found.name.endswith("__main__")
    )
    for name in names:
        importlib.import_module(name)
    return names


@functools.cache
def shapes() -> list[type[schema.Shape]]:
    """The classes of answers in the order of their names."""
    modules()
    return sorted(
        {shape for shape in _below(schema.Shape) if shape.__module__.partition(".")[0] in PACKAGES},
        key=lambda shape: (shape.__module__, shape.__qualname__),
    )


@functools.cache
def arguments() -> dict[str, type[pydantic.BaseModel]]:
    """The arguments of every tool, by its package and name."""
    modules()
    from kb.agent import tree
    from kb.extract.tools import registry
    from kb.service.http import tools as http
    from orchestrator_job.effects.tools import port

    listed: dict[str, type[pydantic.BaseModel]] = {f"job.{one.__name__}": one for one in _below(port.Arguments)}
    listed |= {f"qualify.{one.name}": one.arguments for one in registry.ALL}
    listed |= {f"mcp.{one.name}": one.arguments for one in http.ALL}
    listed |= {f"agent.{one.__name__}": one.inputs for one in _below(tree.Chosen) if hasattr(one, "inputs")}
    return {name: one for name, one in sorted(listed.items()) if one.__module__.partition(".")[0] in PACKAGES}


@functools.cache
def names() -> Mapping[str, list[str]]:
    """Agents, and the tools of the agent that has most: by the part of a property's name that says which it is."""
    from orchestrator_job.agents import registry

    agents = registry.Registry.load()
    tools = max((agent.capability.tool_names for agent in (*agents.specialists, agents.legacy)), key=len)
    return {"agent": [agent.name for agent in agents.specialists], "tool": list(tools)}


@functools.cache
def answers() -> list[Sample]:
    """What is sent as `format`: each shape as it is, with choices, with bounds, and those of a module as a choice."""
    samples, beside = [], defaultdict[str, list[type[schema.Shape]]](list)
    for shape in shapes():
        whole = schema.whole(shape)
        if not whole.get("properties"):
            continue
        name = f"{shape.__module__}.{shape.__qualname__}"
        if whole.get("required"):
            # A shape that demands nothing is read, and is no choice beside others that are sent.
            beside[shape.__module__].append(shape)
        listed = shape.model_json_schema(by_alias=True)
        samples.append(Sample(name, schema.wire(shape), listed=listed))
        if choices := dict(_choices(whole)):
            samples.append(Sample(f"{name}, chosen", schema.wire(shape, choices=choices), listed=listed))
        if lists := [key for key, part in whole["properties"].items() if part.get("type") == "array"]:
            most = dict.fromkeys(lists, schema.LONGEST_LIST)
            samples.append(Sample(f"{name}, bounded", schema.wire(shape, most=most), listed=listed))
    samples += [Sample(f"{name}, any", schema.wire(*some)) for name, some in beside.items() if len(some) > 1]
    return samples


@functools.cache
def built() -> dict[str, list[Sample]]:
    """What each function of the product makes as `format`, by the function's name."""
    modules()
    from kb.agent import decision, tree
    from orchestrator_job.agents import registry
    from orchestrator_job.answer import model_answer
    from orchestrator_job.model import intent
    from orchestrator_job.plan import execution_plan, procedure_question, run_plan

    agents = registry.Registry.load().specialists
    own: list[Any] = [one for one in _below(tree.Chosen) if hasattr(one, "inputs")]
    available = {f"{one.__module__}.{one.__qualname__}": [one] for one in own if one.__module__.startswith("kb.")}
    available |= {"any": [one for some in available.values() for one in some]}
    available |= {one.name: [one] for one in served(*foreign.LISTED)}
    steps = {count: [procedure_question.Line("a step")] * count for count in (1, 2, execution_plan.MOST)}
    made: dict[str, dict[str, schema.Wire]] = {
        "kb.agent.decision.schema": {name: decision.schema(some) for name, some in available.items()},
        "orchestrator_job.answer.model_answer.wire": {
            str(len(some)): model_answer.wire(some) for some in ((), (1,), EVIDENCE)
        },
        "orchestrator_job.model.intent.order": {
            "all": intent.order(intent.WORKED),
            "one": intent.order(intent.WORKED[:1]),
        },
        "orchestrator_job.plan.execution_plan.wire": {
            "all": execution_plan.wire(agents),
            "one": execution_plan.wire(agents[:1]),
        },
        "orchestrator_job.plan.procedure_question.wire": {
            str(count): procedure_question.wire(some, agents) for count, some in steps.items()
        },
        "orchestrator_job.plan.run_plan.wire": {"all": run_plan.wire(names()["tool"]), "none": run_plan.wire(())},
    }
    return {
        function: [Sample(f"{function} {name}", wire) for name, wire in some.items()] for function, some in made.items()
    }


def served(*listed: str) -> list[Any]:
    """The tools of `foreign` with these names, as the decision agent has them."""
    from clients import toolservers
    from crds import tools as allowed
    from kb.agent import servers

    server = allowed.Server(name="foreign", url="http://mcp", clients=(), tools=())
    return [servers.ServerTool(toolservers.Offered(server, name, "", foreign.LISTED[name])) for name in listed]


@functools.cache
def tools() -> list[Sample]:
    """What is sent as `parameters` of a tool."""
    own = [
        Sample(name, schema.parameters(one), listed=one.model_json_schema(by_alias=True))
        for name, one in arguments().items()
    ]
    return own + [
        Sample(f"foreign {name}", schema.parameters(one), own=False, listed=one) for name, one in foreign.LISTED.items()
    ]


@functools.cache
def calls() -> list[Sample]:
    """What is sent as `format` where a model has no tools: each tool alone, and those of a package as a choice."""
    samples, beside = [], defaultdict[str, list[tuple[str, schema.Parameters]]](list)
    for tool in tools():
        one = (tool.name, schema.Parameters(dict(tool.schema)))
        samples.append(Sample(f"call of {tool.name}", schema.functions([one]), tool.own, tool.listed))
        beside[tool.name.partition(".")[0] if tool.own else "foreign"].append(one)
    return samples + [
        Sample(f"call of any of {name}", schema.functions(some), name != "foreign") for name, some in beside.items()
    ]


def formats() -> list[Sample]:
    """All of which a grammar is made."""
    return [*answers(), *(sample for some in built().values() for sample in some), *calls()]


def enums(part: object) -> list[list[Any]]:
    """The values of each choice in a schema, a constant being one of one value."""
    if isinstance(part, Mapping):
        if "enum" in part or "const" in part:
            return [part["enum"] if "enum" in part else [part["const"]]]
        return [values for value in part.values() for values in enums(value)]
    return [values for value in part for values in enums(value)] if isinstance(part, list) else []


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _named(name: str) -> list[str | int]:
    return next((list(some) for word, some in names().items() if word in name.lower()), [])


def _choices(part: Mapping[str, Any]) -> Iterator[tuple[str, list[str | int]]]:
    """Values for the properties that are numbers, or names of agents and tools, at any depth."""
    for name, value in part.get("properties", {}).items():
        leaf = value.get("items", value) if value.get("type") == "array" else value
        if leaf.get("type") == "integer":
            yield name, list(EVIDENCE)
        elif leaf.get("type") == "string" and "enum" not in leaf and (some := _named(name)):
            yield name, some
        else:
            yield from _choices(leaf)
    for several in part.get("anyOf", ()):
        yield from _choices(several)
