"""The agents: nineteen specialists in four tiers and the LegacyAgent, as data on one executor.

`agents.toml` has what an agent can do and may use, `prompts/agents/NAME.v1.txt` how it works, and
`prompts/agents/all.v1.txt` what holds for all of them. `load` validates this, so that no run starts with an agent that
names a tool which does not exist. Source: seed 000 "Agent Tiers", "AgentCapability".
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from contracts.rules import enforce_lines
from crds import errors
from crds.priority import Priority
from orchestrator_job.store import delegation_models

LEGACY = "LegacyAgent"
SPECIALISTS = 19
VERSION = "v1"
"""Of all prompts of agents: a change of wording is a new file."""
DELEGATE = "delegate"

KNOWN_TOOLS = enforce_lines.AGENT_TOOLS
"""The tools of `orchestrator_job.effects.tools`, and `delegate`, which the executor has itself."""

_SEARCHING = frozenset(
    (
        *("search_knowledge", "related", "code_where", "code_callers", "code_callees", "code_impact", "code_outline"),
        "read_source",
    )
)
"""What `enforce: never-use-tool search` forbids: all that asks the knowledge base for what the team knows."""


class Unusable(errors.Permanent):
    """The data of the agents is wrong; the text names the agent and the field."""


@dataclass(frozen=True, slots=True)
class Agent:
    """`prompt` begins with the tag `[prompt:job.agent.NAME/v1]`; the executor adds rules, task and
    `protocol.INSTRUCTIONS`. `model_calls`: the most for one delegation, those of its sub-delegations not counted.
    `context_tokens`: the most of a `DelegationMessage.context`."""

    capability: delegation_models.AgentCapability
    tier: int
    prompt: str
    priority: Priority
    model_calls: int
    context_tokens: int

    @property
    def name(self) -> str:
        return self.capability.name


@dataclass(frozen=True, slots=True)
class Registry:
    """`specialists` are in the order of their tiers."""

    specialists: tuple[Agent, ...]
    legacy: Agent

    @classmethod
    def load(cls) -> Registry:
        """From the package's data. Raises Unusable."""
        return _loaded()

    def agent(self, name: str) -> Agent:
        """The agent of that name, in any case, with or without "Agent" at its end, as procedures write it. Raises
        KeyError."""
        wanted = _plain(name)
        for one in (*self.specialists, self.legacy):
            if _plain(one.name) == wanted:
                return one
        raise KeyError(name)

    def visible(self, held: enforce_lines.Provisions) -> Registry:
        """The same without the tools that rules forbid; a specialist that has none left is left out."""
        kept = (_without(one, held) for one in self.specialists)
        return Registry(tuple(one for one in kept if one.capability.tool_names), _without(self.legacy, held))


def permitted(tools: Iterable[str], held: enforce_lines.Provisions) -> tuple[str, ...]:
    """The tools that no rule forbids."""
    return tuple(
        name for name in tools if held.permits_tool(name) and (name not in _SEARCHING or held.permits_tool("search"))
    )


def parse(text: str, prompts: Mapping[str, str]) -> Registry:
    """The registry from the text of `agents.toml` and the prompts by name. Pure. Raises Unusable."""
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unusable(f"agents.toml cannot be read: {error}", field="agents.toml") from error
    agents = [_agent(name, row, prompts) for name, row in table.items()]
    unused = sorted(prompts.keys() - table.keys() - {"all"})
    if unused:
        raise Unusable(f"There are prompts of no agent: {', '.join(unused)}.", field="prompts/agents")
    specialists = tuple(sorted((one for one in agents if one.name != LEGACY), key=lambda one: one.tier))
    legacy = [one for one in agents if one.name == LEGACY]
    if len(specialists) != SPECIALISTS or not legacy:
        raise Unusable(f"agents.toml has {len(specialists)} specialists; there are {SPECIALISTS} and the {LEGACY}.")
    return Registry(specialists, legacy[0])


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    tier: Annotated[int, Field(ge=1, le=4)]
    description: Annotated[str, Field(min_length=20, max_length=300)]
    domains: Annotated[tuple[delegation_models.DomainType, ...], Field(min_length=1)]
    tools: Annotated[tuple[str, ...], Field(min_length=1)]
    max_depth: Annotated[int, Field(ge=1, le=delegation_models.MAX_DEPTH)] = delegation_models.MAX_DEPTH
    priority: Priority = Priority.P0
    model_calls: Annotated[int, Field(ge=1, le=60)]
    context_tokens: Annotated[int, Field(ge=500, le=32_000)]

    @model_validator(mode="after")
    def _tools_exist(self) -> _Row:
        unknown = sorted(set(self.tools) - KNOWN_TOOLS)
        if unknown or len(set(self.tools)) != len(self.tools):
            raise ValueError(f"tools: unknown {unknown}" if unknown else "tools: one is named twice")
        if DELEGATE in self.tools and self.max_depth == delegation_models.MAX_DEPTH:
            # Below the deepest level nothing can be delegated.
            raise ValueError("tools: an agent that delegates has a max_depth below the deepest level")
        return self


def _agent(name: str, row: object, prompts: Mapping[str, str]) -> Agent:
    try:
        given = _Row.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in (name, *first["loc"]))
        raise Unusable(f"agents.toml: {where}: {first['msg']}", field=where) from error
    for needed in (name, "all"):
        if not prompts.get(needed, "").strip():
            raise Unusable(f"There is no prompt {needed}.{VERSION}.txt.", field=f"prompts/agents/{needed}")
    capability = delegation_models.AgentCapability(
        name=name,
        description=given.description,
        domains=given.domains,
        can_sub_delegate=DELEGATE in given.tools,
        max_depth=given.max_depth,
        tool_names=given.tools,
    )
    prompt = f"[prompt:job.agent.{name}/{VERSION}]\n{prompts[name].strip()}\n\n{prompts['all'].strip()}"
    return Agent(capability, given.tier, prompt, given.priority, given.model_calls, given.context_tokens)


def _without(agent: Agent, held: enforce_lines.Provisions) -> Agent:
    tools = permitted(agent.capability.tool_names, held)
    if tools == agent.capability.tool_names:
        return agent
    changed = {"tool_names": tools, "can_sub_delegate": DELEGATE in tools}
    return replace(agent, capability=agent.capability.model_copy(update=changed))


def _plain(name: str) -> str:
    return name.strip().replace(" ", "").replace("_", "").casefold().removesuffix("agent")


@functools.cache
def _loaded() -> Registry:
    ending = f".{VERSION}.txt"
    folder: Traversable = resources.files("orchestrator_job.model.prompts") / "agents"
    files = (one for one in folder.iterdir() if one.name.endswith(ending))
    prompts = {one.name.removesuffix(ending): one.read_text(encoding="utf-8") for one in files}
    table = (resources.files("orchestrator_job.agents") / "agents.toml").read_text(encoding="utf-8")
    return parse(table, prompts)
