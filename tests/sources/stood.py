"""A process that stands still at one of its writes while its successor works on the same item."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bench.connectors.database import Database
from crds import access, pendingtask, scope
from sources.core import assignments, items, missing_items, port
from sources.core.assignments import ITEMS

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
OWNER = scope.Scope(client_id="acme")
ANN, BOB = (access.restricted([access.principal("user", name)]) for name in ("ann", "bob"))


def item(version: str, readers: access.Access | None = None, *, recurs: bool = False) -> port.Item:
    return port.Item(
        source_id="1", version=version, type=pendingtask.Type.WIKI, urn="wiki::1", title=version, text=version,
        place="A/1", access=readers, recurs=recurs,
    )  # fmt: skip


class Stood:
    """A process that stands still at one of its writes while its successor works; `fences` are 2 and 3."""

    def __init__(self, database: Any, write: int) -> None:
        self.rows, self.halting = database[ITEMS], Database(database)
        self.stored, self.left, self.older = (
            items.Items(database),
            missing_items.MissingItems(database),
            items.Items(self.halting),
        )
        self.halting.arm(None, write)

    async def find(self, stored: items.Items, one: port.Item, fence: int, minute: int) -> None:
        """As a poll does."""
        if await stored.unknown("uid", [one]):
            told = {"content": one.version, "access": one.access and one.access.model_dump()}
            await stored.keep("uid", OWNER, [(one, told)], NOW + timedelta(minutes=minute), fence)
        else:
            await stored.found("uid", [one], fence)

    async def known(self, *some: port.Item) -> None:
        """Found one after another under claim 1, each with its task."""
        for minute, one in enumerate(some):
            await self.find(self.stored, one, 1, minute)
            await self.indexed()

    async def indexed(self) -> list[str]:
        """Make the tasks that wait; the versions and readers that they have."""
        found = await self.stored.waiting("uid", 10, NOW)
        await self.stored.indexed("uid", [(one, f"task-{one.id}-{one.nonce}") for one in found])
        return [" ".join([one.title, *((one.content["access"] or {}).get("principals") or ())]) for one in found]

    async def begun(self) -> Callable[[], Awaitable[None]]:
        """The tasks that wait are noted and on their way; what to call when they are made."""
        tasks = [(one, f"task-{one.id}-{one.nonce}") for one in await self.stored.waiting("uid", 10, NOW)]
        assert await self.stored.indexing(tasks)
        return partial(self.stored.indexed, "uid", tasks)

    async def outrun(self, one: port.Item, successor: Callable[[], Awaitable[object]], *, lost: bool = True) -> bool:
        """The older process finds `one` under claim 2, which it loses meanwhile; whether it stood still."""
        work = asyncio.create_task(self.find(self.older, one, 2, 10))
        frozen = asyncio.create_task(self.halting.frozen.wait())
        await asyncio.wait({work, frozen}, return_when=asyncio.FIRST_COMPLETED)
        frozen.cancel()
        stood = self.halting.frozen.is_set()
        if stood:
            await successor()
        self.halting.thawed.set()
        with contextlib.suppress(assignments.Lost):
            await work
        if lost:
            # As a poll does that cannot store its cursor any more.
            await self.stored.take_back("uid", [one], 2)
        return stood

    async def leaves(self) -> None:
        """All that is known left its source under claim 1; its tasks are settled."""
        await self.rows.update_many({}, {"$set": {"state": "Gone", "settled": True, "task": "task", "leftBy": 1}})

    async def dropped(self, fence: int) -> None:
        """The documents of what left are forgotten under this claim."""
        for one in await self.left.settled("uid", 10, NOW):
            assert await self.left.take(one.item_id, fence)
            await self.left.drop(one.item_id, fence)

    async def current(self) -> list[str]:
        """The versions that are there and were not followed by another one."""
        wanted = {"superseded": None, "state": {"$ne": "Gone"}}
        return sorted([row["title"] async for row in self.rows.find(wanted)])
