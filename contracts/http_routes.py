"""What a route of a service is: path, models, parameters and rights, in one row.

The OpenAPI document, the client and the gate of the knowledge base read the rows: those of `kb.routes` and
`codegraph.routes`. Models are given as functions, so that a client that calls one route constructs the models of that
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

import pydantic

from crds import addresses

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)
Model = type[pydantic.BaseModel] | Callable[[], type[pydantic.BaseModel]]


class Caller(Enum):
    """A caller beside the tokens of the file: which run tokens open a route. A new route is closed to all of them."""

    RUN = auto()
    """A run reads by it, also through the tools at `/mcp`."""
    STORING_RUN = auto()
    """A run stores content by it, which is found by its key alone."""
    ADDING_RUN = auto()
    """The tools of a run add by it; not those of a run on behalf of a user, because others would see it."""
    APPROVED_RUN = auto()
    """Only the run of a task in which a person has approved a rule, and only that rule (`kb.service.http.rules`)."""
    ANALYSIS = auto()
    """A Job that analyzes code hands over what it found."""
    SANDBOX = auto()
    """A Job that runs a command of an agent reads its workspace and stores its result."""


@dataclass(frozen=True)
class Route(Generic[_Reply]):
    """One operation. `body` and `reply` are wire models, or functions that give them; `raw_body` and `raw_reply`: bytes
    travel instead. `lines`: the model of each line of an answer in lines of JSON.

    `query` and `optional` are all its parameters, others are refused; those in `repeated` may be given several times.
    Names that begin with `prefix` are the caller's own. `observed`: a header may name an observation.

    `asks`: it reads although its method is not GET; the rights for it are those of reading. `principals`: its stores
    show to a viewer with principals what these may see; others are closed to a question that has some. `erases`: it
    needs the right to erase. `callers`: the run tokens that open it.
    """

    method: str
    path: str
    summary: str
    status: int = 200
    body: Model | None = None
    reply: type[_Reply] | Callable[[], type[_Reply]] | None = None
    lines: Model | None = None
    raw_body: bool = False
    raw_reply: bool = False
    query: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    prefix: str | None = None
    observed: bool = False
    asks: bool = False
    principals: bool = False
    erases: bool = False
    callers: frozenset[Caller] = frozenset()

    @property
    def reads(self) -> bool:
        """Whether nothing is changed by it."""
        return self.asks or self.method in ("GET", "HEAD")

    @property
    def reply_model(self) -> type[_Reply]:
        """The wire model of the answer, which there must be."""
        assert self.reply is not None
        return self.reply if isinstance(self.reply, type) else self.reply()

    def at(self, *values: str) -> str:
        """The path with these values in the places of its parameters, in their order, each quoted."""
        head, *parts = self.path.split("/{")
        assert len(parts) == len(values)
        return head + "".join(
            addresses.path(value) + part.partition("}")[2] for value, part in zip(values, parts, strict=True)
        )


def model(given: Model) -> type[pydantic.BaseModel]:
    """A wire model that a row gives, or gives by a function."""
    return given if isinstance(given, type) else given()


SCOPE = ("clientId", "projectId", "groupId")
"""The parameters that name a scope."""
