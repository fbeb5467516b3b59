"""`erase`: forget a client, a project or a group altogether: its tasks here, and then all that is kept of it."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import pydantic
import typer
from typer import Option

from cli import errors, options, services
from cli.knowledge import erase
from cli.reading import Object
from cli.session import Session
from crds import scope
from text import printable

_PAUSE = 1.0
_KB_SECONDS = 60.0


@options.streaming
def run(
    session: Session,
    client: Annotated[str, Option(help="Client whose tasks and knowledge are erased (spec.clientId).")],
    by: Annotated[str, Option(help="Name of the person who decided; stored in the erasure record.")],
    project: Annotated[str, Option(help="Only this project of the client.")] = "",
    group: Annotated[str, Option(help="Only what this group of the client owns itself.")] = "",
    everywhere: Annotated[bool, Option("--all-namespaces", "-A", help="Delete the tasks in all namespaces.")] = False,
    kb: services.KbUrl = "",
    token: services.KbToken = "",
    yes: Annotated[bool, Option("--yes", help="Skip the confirmation prompt.")] = False,
    timeout: Annotated[float, Option(help="Seconds to wait until the tasks are deleted.", min=0.0)] = 300.0,
) -> None:
    """Delete the tasks of a client, a project or a group, and forget all that is kept of it. Nothing brings it back."""
    where = _scope(client, project, group)
    if not yes:
        _asked(where, len(_tasks(session, where, everywhere=everywhere)))
    deleted = _gone(session, where, everywhere=everywhere, seconds=timeout)
    _show(f"{deleted} tasks deleted.")
    _show(asyncio.run(_forget(session, kb, token, where, by)), last=True)


def _scope(client: str, project: str, group: str) -> scope.Scope:
    try:
        where = scope.Scope(client_id=client, project_id=project, group_id=group)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise errors.Unusable(
            f"Invalid client, project or group: {first['msg']}.",
            field="--client",
            remedy="Use the IDs of spec.clientId, spec.projectId and spec.groupId.",
        ) from error
    if where.is_global:
        raise errors.Unusable(
            "Tasks belong to a client.", field="--client", remedy="For global knowledge use: jervis-kb erase"
        )
    return where


def _asked(where: scope.Scope, tasks: int) -> None:
    expected = erase.named(where)
    about = f"This deletes {tasks} tasks and forgets {erase.about(where)}. Type {expected!r} to go on"
    typed = typer.prompt(about, err=True)
    if typed != expected:
        raise errors.Unusable(
            f"{typed!r} is not {expected!r}; nothing was erased.", field="--client", remedy="Type the name."
        )


def _tasks(session: Session, where: scope.Scope, *, everywhere: bool) -> list[Object]:
    """The metadata of the scope's tasks: the apiserver chooses them, no content is read."""
    return list(session.kube.metadata(everywhere=everywhere, fields=selector(where)))


def selector(where: scope.Scope) -> str:
    """The field selector of what `where` covers (`crds.scope.Scope.covers`)."""
    wanted = {"spec.clientId": where.client_id}
    if where.project_id:
        wanted["spec.projectId"] = where.project_id
    elif where.group_id:
        wanted |= {"spec.groupId": where.group_id, "spec.projectId": ""}
    return ",".join(f"{field}={value}" for field, value in wanted.items())


def _gone(session: Session, where: scope.Scope, *, everywhere: bool, seconds: float) -> int:
    """Delete until there is none: a recurring task may have made a copy meanwhile. How many there were."""
    deadline = session.clock() + seconds
    deleted: set[str] = set()
    while found := _tasks(session, where, everywhere=everywhere):
        for raw in found:
            if not raw["metadata"].get("deletionTimestamp"):
                session.kube.delete(raw)
            deleted.add(raw["metadata"]["uid"])
        if session.clock() >= deadline:
            raise errors.Timeout(
                f"{len(found)} tasks are still there after {seconds:g} s, {found[0]['metadata']['name']!r} among them; "
                "nothing else was erased."
            )
        session.sleep(_PAUSE)
    return len(deleted)


async def _forget(session: Session, url: str, token: str, where: scope.Scope, by: str) -> str:
    async with services.knowledge(url, token, _KB_SECONDS, session=session) as kb:
        done = await erase.run(kb, where, by, wait=True, report=lambda one: _show(erase.sentence(one)))
    return erase.sentence(done)


def _show(line: str, *, last: bool = False) -> None:
    (sys.stdout if last else sys.stderr).write(printable.text(line) + "\n")
