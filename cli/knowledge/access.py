"""What every command has in common: which service, which scope, and how one call is made and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import pydantic
import typer

from cli import errors, output, services
from crds import scope
from kb import client

_Answer = TypeVar("_Answer")
_SECONDS = 300.0

Url = Annotated[str, typer.Option(envvar="JERVIS_KB_URL", help="URL of the knowledge base.")]
Token = services.KbToken
Client = Annotated[str, typer.Option("--client", help='Client that owns the data; "" for global knowledge.')]
Project = Annotated[str, typer.Option("--project", help="Project of the client that owns the data.")]
Group = Annotated[str, typer.Option("--group", help="Group that owns the data.")]
URL = "http://127.0.0.1:8080"
Output = Annotated[output.Format, typer.Option("--output", "-o", help="Output format.")]
By = Annotated[str, typer.Option(help="Name of the person who decided; stored in the erasure record.")]


def where(owner: str, project: str, group: str) -> scope.Scope:
    """The scope of the options. Raises `cli.errors.Unusable`."""
    try:
        return scope.Scope(client_id=owner, project_id=project, group_id=group)
    except ValueError as error:
        raise errors.Unusable(
            f"Invalid client, project or group: {first(error)}.",
            field="--client",
            remedy="Use the IDs of spec.clientId, spec.projectId and spec.groupId.",
        ) from error


def first(error: ValueError) -> str:
    """The first problem in words."""
    if isinstance(error, pydantic.ValidationError):
        problem = error.errors(include_url=False, include_input=False)[0]
        return ": ".join([*map(str, problem["loc"]), problem["msg"]])
    return str(error)


def through(
    url: str,
    token: str,
    work: Callable[[client.Client], Awaitable[_Answer]],
    *,
    attempts: int = 3,
    principals: Sequence[str] = (),
) -> _Answer:
    """Do the work with a client of its own connection."""

    async def run() -> _Answer:
        async with services.knowledge(url, token, _SECONDS, attempts=attempts, principals=principals) as opened:
            return await work(opened)

    return asyncio.run(run())
