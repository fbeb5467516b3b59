"""A tool that agents call over the Model Context Protocol: what it is called, takes, calls and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pydantic

from contracts import http_routes
from kb import errors
from kb.extract.tools import registry
from kb.service.http import body

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)


class Call(Protocol):
    """Calls a route of the API for the caller of a tool. Raises `crds.errors.JervisError` as the route answers it."""

    async def __call__(
        self,
        route: http_routes.Route[Any],
        reply: type[_Reply],
        *,
        given: Mapping[str, Any] | None = None,
        query: Sequence[tuple[str, str]] = (),
    ) -> _Reply:
        """`given` is the body without its scope; `query` are parameters beside the scope."""
        ...


@dataclass(frozen=True)
class Answer:
    """What a tool gives back: the text for the model, and the same as a JSON object."""

    text: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Tool:
    """`routes` are all that it calls: who may not call one of them is not offered the tool."""

    name: str
    title: str
    description: str
    arguments: type[pydantic.BaseModel]
    routes: tuple[http_routes.Route[Any], ...]
    work: Callable[[Any, Call], Awaitable[Answer]]
    writes: bool = False

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, without what says nothing to a model."""
        return registry.schema_of(self.arguments)

    def parse(self, given: Mapping[str, Any]) -> pydantic.BaseModel:
        """Raises `kb.errors.Invalid`, which names the argument."""
        try:
            return body.validate(given, self.arguments)
        except errors.Invalid as error:
            raise errors.Invalid(
                error.message, field=error.field, remedy=f"See the input schema of the tool {self.name}."
            ) from error
