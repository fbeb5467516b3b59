"""What the sources process is to poll, and what became of it.

The operator alone knows which Connections are valid, admitted and not suspended, and it alone writes their status.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from datetime import datetime, timedelta

import structlog

from crds import connection
from sources.core import assignments
from sources.core.state import State

log = structlog.get_logger(__name__)

EVERY_SECONDS = 5.0
ASKED = timedelta(minutes=10)
Absent = Callable[[str, str, str], Awaitable[bool | None]]
"""(namespace, name, uid) -> whether there is no such Connection; None: this operator may not know."""


class Polling:
    """`changed(uid)`: its state is a new one. `known`: the uids of Connections; a row of none of them is dropped once
    `complete(namespace)`, all objects of its namespace have been listed.

    Rows of other namespaces are those of another release, or left over. They rest once no operator serves them, stop to
    count when `absent` says that their object is gone, and are forgotten after `keeps` without being served. `wall` is
    UTC."""

    def __init__(
        self,
        assigned: assignments.Assignments,
        *,
        known: Container[str],
        complete: Callable[[str], bool],
        changed: Callable[[str], None],
        absent: Absent,
        keeps: timedelta,
        wall: Callable[[], datetime],
    ) -> None:
        self._assigned, self._known, self._complete, self._changed = assigned, known, complete, changed
        self._absent, self._keeps, self._wall = absent, keeps, wall
        self._asked: dict[str, datetime] = {}
        """By uid of what no release serves: when its object was looked for."""
        self._said: dict[str, tuple[object, ...]] = {}
        """By uid: the generation and the wishes that were said; (): it rests."""
        self._states: dict[str, tuple[int, State]] = {}
        self._holders: dict[str, tuple[str, datetime]] = {}
        """By uid of what another release has: which one, and when that was asked."""

    def state(self, uid: str) -> State:
        """As it was read last."""
        return self._states[uid][1] if uid in self._states else State()

    def holder(self, uid: str) -> str:
        """The other release that has it, "" none."""
        return self._holders[uid][0] if uid in self._holders else ""

    async def want(self, conn: connection.Connection) -> None:
        """Have it polled, unless another release has it. Raises `Unavailable`."""
        uid, wanted = conn.metadata.uid, (conn.metadata.generation, assignments.wished(conn))
        if self._said.get(uid) == wanted:
            return
        if other := await self._assigned.holder(uid, self._wall()):
            self._holders[uid] = other, self._wall()
            self._said.pop(uid, None)
            return
        self._holders.pop(uid, None)
        await self._assigned.want(conn)
        self._said[uid] = wanted

    async def rest(self, uid: str) -> None:
        """Have it not polled. Raises `Unavailable`."""
        if self._said.get(uid) != ():
            await self._assigned.rest(uid)
            self._said[uid] = ()

    async def reconcile_once(self) -> None:
        """Read the states once. Raises `Unavailable`."""
        found = await self._assigned.states()
        elsewhere = set[str]()
        for uid, (namespace, revision, state) in found.items():
            if uid not in self._known:
                if self._complete(namespace):
                    await self._assigned.drop(uid)
                    log.info("source forgotten", uid=uid)
                else:
                    elsewhere.add(uid)
            elif self._states.get(uid, (0,))[0] != revision:
                self._states[uid] = revision, state
                self._changed(uid)
        for uid, (_, asked) in self._holders.items():
            if uid in self._known and self._wall() - asked >= assignments.SERVED:
                self._changed(uid)  # the other release may be gone
        self._holders = {uid: one for uid, one in self._holders.items() if uid in self._known}
        await self._assigned.serve([uid for uid in found if uid in self._known], self._wall())
        await self._left_over(elsewhere)
        for uid in await self._assigned.resting([uid for uid, said in self._said.items() if said]):
            # Another release took it for left over: it is said again.
            if self._said.pop(uid, None) and uid in self._known:
                self._changed(uid)
        for uid in set(self._said) - set(found):
            # MongoDB has lost it: it is said again.
            if self._said.pop(uid) and uid in self._known:
                self._changed(uid)
        for uid in set(self._states) - set(found):
            del self._states[uid]

    async def _left_over(self, elsewhere: set[str]) -> None:
        """What is in namespaces that are not served, at least not now and not by this operator."""
        for uid in elsewhere & {uid for uid, said in self._said.items() if said}:
            await self.rest(uid)  # its namespace was served until now, and may come back
        now = self._wall()
        unserved = {one.uid: one for one in await self._assigned.unserved(elsewhere, now)} if elsewhere else {}
        self._asked = {uid: at for uid, at in self._asked.items() if uid in unserved}
        for uid, one in unserved.items():
            if now - one.since >= self._keeps:
                if await self._assigned.expire(one):
                    log.info("source forgotten that no release serves", uid=uid, namespace=one.namespace)
                continue
            if self._said.get(uid) != ():
                await self._assigned.leave(one)
                self._said[uid] = ()
            if not one.absent and now - self._asked.get(uid, one.since - ASKED) >= ASKED:
                self._asked[uid] = now
                if await self._absent(one.namespace, one.name, uid):
                    await self._assigned.absent(one)
                    log.info("source is left over", uid=uid, namespace=one.namespace)
