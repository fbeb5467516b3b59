"""What language models are for: the roles, the model of each, and what a role needs of its model. Pure.

The chart has the same rules in `templates/_models.tpl`; `tests/chart/test_models.py` compares both. A role without a
model of its own has that of `models.chat`; where that is empty, the name in `ROLES`, which Ollama's public library has
(https://ollama.com/library).

Source: seed 000 "Model Sets", seed 002 "Model Selection", docs/decisions/0175.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from crds import modelaliases, modelnames

CHAT_WINDOW = 16_384
"""Tokens: the default of `models.numCtx.chat`."""
CHAT_LEAST = 8192
"""Tokens: the least of `models.numCtx.chat`, of small models; runs show less evidence then."""
PLANNER_WINDOW = 8192
"""Tokens: the default of `models.numCtx.planner`."""


class Need(StrEnum):
    """What a model must be able to do, as Ollama's /api/show names it under `capabilities`."""

    COMPLETION = "completion"
    TOOLS = "tools"
    VISION = "vision"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    """Ollama has no such models: a server with /v1/rerank serves them."""


@dataclass(frozen=True, slots=True)
class Role:
    """One use of models. `window` is the number of tokens below which it works with less, 0 for any."""

    name: str
    default: str
    """The model where the values name none; empty: the role is off, or another role's model does its work."""
    chat: bool
    """Whether it asks for words: `models.numCtx.chat` is for it, and `models.chat` if it has a default."""
    window: int
    needs: tuple[Need, ...]
    """Without one of them nothing of the role works."""
    wishes: tuple[Need, ...]
    """Without one of them the role works with less."""
    stops: str
    """What does not happen without its model."""


ROLES: tuple[Role, ...] = (
    Role(
        "orchestrator", "qwen3-coder:30b", chat=True, window=16_384, needs=(Need.COMPLETION,), wishes=(Need.TOOLS,),
        stops="no run answers: tasks that need one end in Error",
    ),
    Role(
        "planner", "qwen3:14b", chat=True, window=4096, needs=(Need.COMPLETION,), wishes=(),
        stops="Background runs go on without a plan, and agents are chosen by the orchestrator's model",
    ),
    Role(
        "qualifier", "qwen2.5:7b", chat=True, window=8192, needs=(Need.COMPLETION,), wishes=(),
        stops="no document is read: tasks stay in Qualifying",
    ),
    Role(
        "fast", "", chat=True, window=2048, needs=(Need.COMPLETION,), wishes=(),
        stops="each small answer costs a refused call before the qualifier's model gives it",
    ),
    Role(
        "decision", "gpt-oss:120b", chat=True, window=8192, needs=(Need.COMPLETION,), wishes=(),
        stops="POST /api/v1/agentic_search answers no question",
    ),
    Role(
        "embedding", "qwen3-embedding:8b", chat=False, window=0, needs=(Need.EMBEDDING,), wishes=(),
        stops="nothing is stored in the knowledge base and nothing is found in it",
    ),
    Role(
        "vision", "qwen3-vl:8b", chat=False, window=4096, needs=(Need.COMPLETION, Need.VISION), wishes=(),
        stops="images are stored without a description",
    ),
    Role(
        "reranker", "", chat=False, window=0, needs=(Need.RERANK,), wishes=(),
        stops="evidence stays in the order of the search",
    ),
)  # fmt: skip
"""In the order of the chart's README."""

_BY_NAME: Mapping[str, Role] = {role.name: role for role in ROLES}


def role(name: str) -> Role:
    """The role of that name. Raises KeyError."""
    return _BY_NAME[name]


class Assigned(BaseModel):
    """The model of one role, and the window in tokens that each of its requests asks for; None: the GpuBackend's."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    role: Annotated[str, Field(pattern=f"^({'|'.join(_BY_NAME)})$")]
    model: Annotated[str, Field(min_length=1, max_length=256)]
    num_ctx: Annotated[int, Field(ge=1)] | None = None


def assigned(models: Mapping[str, Any], aliases: modelaliases.Aliases = modelaliases.NONE) -> tuple[Assigned, ...]:
    """The roles that have a model, by the value `models` of the chart, without what is its default. A null takes a
    default away, as in Helm.

    Another window loads a model anew, so roles that share a model, by whatever alias, ask for the largest of their
    windows, and for no less than the prompts of each of them need.
    """
    windows = {"chat": CHAT_WINDOW, "planner": PLANNER_WINDOW} | dict(models.get("numCtx") or {})
    present = _present(models)
    named = {one.name: str(present.get(one.name, _usual(one, present))) for one in ROLES}
    own = {
        one.name: int(windows.get(one.name) or (one.chat and windows.get("chat")) or 0)
        for one in ROLES
        if named[one.name]
    }
    shared: dict[str, list[str]] = {}
    for name in own:
        shared.setdefault(aliases.resolve(named[name]), []).append(name)
    found = []
    for name in own:
        sharing = shared[aliases.resolve(named[name])]
        largest = max(own[each] for each in sharing)
        if largest and len(sharing) > 1:
            largest = max(largest, *(min(_BY_NAME[each].window, CHAT_LEAST) for each in sharing))
        found.append(Assigned(role=name, model=named[name], num_ctx=largest or None))
    return tuple(found)


def windows(roles: tuple[Assigned, ...]) -> dict[str, int]:
    """Tokens by normalised model, of those for which a role asks for a window."""
    return {modelnames.normalise(one.model): one.num_ctx for one in roles if one.num_ctx is not None}


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _usual(one: Role, models: Mapping[str, Any]) -> str:
    return (one.chat and one.default and str(models.get("chat") or "")) or one.default
