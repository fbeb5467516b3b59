"""What a run asks for and what it is answered: the JSON of /api/v1/effects and /api/v1/connections."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

READ_REPOSITORY, READ_CHECKS = "readRepository", "readChecks"
"""Uses of a Connection beside effects."""
KEY = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"


class State(StrEnum):
    """Pending: it is being done. NotDone: nothing happened at the target, and the same key may be sent again. Done: it
    happened, once. Unknown: it may have happened; it is never done again by itself."""

    PENDING = "Pending"
    NOT_DONE = "NotDone"
    DONE = "Done"
    UNKNOWN = "Unknown"


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Request(_Wire):
    """`connection` is a Connection of the run's namespace and scope. `key` names the effect within its task: the same
    key is the same effect. `arguments` are the tool's."""

    connection: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
    key: Annotated[str, Field(pattern=KEY)]
    arguments: dict[str, Any]


class Problem(_Wire):
    """Why it did not happen, or may have."""

    message: str
    field: str | None = None
    remedy: str | None = None


class Outcome(_Wire):
    """What became of an effect. `result` names what was made, where it is Done."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    key: str
    tool: str
    connection: str
    state: State
    result: dict[str, str] = {}
    problem: Problem | None = None
    asked_at: AwareDatetime
    settled_at: AwareDatetime | None = None


class Named(_Wire):
    """A Connection, and what a run may use it for: names of effects, `readRepository`, `readChecks`. `host` is that of
    a tracker, wiki or repository; `internalDomains` are domains of the client's own (`crds.domains`)."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    name: str
    type: str
    uses: tuple[str, ...] = ()
    host: str = ""
    internal_domains: tuple[str, ...] = ()


class Connections(_Wire):
    """Those of a run's namespace and scope, by name."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    connections: tuple[Named, ...] = ()
