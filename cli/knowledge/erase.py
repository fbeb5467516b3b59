"""Forgetting a scope from a terminal: asked twice, and followed to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from crds import errors, scope

if TYPE_CHECKING:
    from kb import api, client

_PAUSE = 2.0


def named(where: scope.Scope) -> str:
    """What has to be typed to go on: the narrowest name of the scope."""
    return where.project_id or where.group_id or where.client_id or "global"


def about(where: scope.Scope) -> str:
    """What is going to be forgotten, in words."""
    if where.project_id:
        return f"everything of project {where.project_id} of client {where.client_id}"
    if where.group_id:
        return f"everything that group {where.group_id} of client {where.client_id} owns itself (not its projects)"
    if where.client_id:
        return f"everything of client {where.client_id}, its projects and groups included"
    return "everything that is global"


async def run(
    kb: client.Client,
    where: scope.Scope,
    by: str,
    *,
    wait: bool,
    report: Callable[[api.Erasure], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> api.Erasure:
    """Ask for it and, with `wait`, look until it is done; `report` receives the progress after each look."""
    asked = await kb.erasing.ask(where, by)
    while wait and asked.state == "Running":
        report(asked)
        await sleep(_PAUSE)
        try:
            found = {one.id: one for one in await kb.erasing.listed(where)}
        except errors.Operational:
            continue  # the erasure goes on without its caller
        asked = found.get(asked.id, asked)
    return asked


def sentence(one: api.Erasure) -> str:
    """How far it has come."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(one.erased.items()) if number) or "nothing"
    if one.state == "Done":
        return f"Erased: {counts}."
    why = f" It waits: {one.reason}." if one.reason else ""
    return f"Being erased, so far: {counts}.{why}"
