"""What the sources process is to poll, and what became of it.

The operator alone knows which Connections are valid, admitted and not suspended, and it alone writes their status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

import structlog

from controllers.sources import assignments
from controllers.sources.state import State
from crds import connection, errors

log = structlog.get_logger(__name__)

EVERY_SECONDS = 5.0


class Polling:
    """`changed(uid)`: its state is a new one. `known`: the uids of Connections; a row of none of them is dropped once
    `complete(namespace)`, all objects of its namespace have been listed."""

    def __init__(
        self,
        assigned: assignments.Assignments,
        *,
        known: Container[str],
        complete: Callable[[str], bool],
        changed: Callable[[str], None],
    ) -> None:
        self._assigned, self._known, self._complete, self._changed = assigned, known, complete, changed
        self._said: dict[str, tuple[object, ...]] = {}
        """By uid: the generation and the wishes that were said; (): it rests."""
        self._states: dict[str, tuple[int, State]] = {}

    def state(self, uid: str) -> State:
        """As it was read last."""
        return self._states[uid][1] if uid in self._states else State()

    async def want(self, conn: connection.Connection) -> None:
        """Have it polled. Raises `Unavailable`."""
        wanted = conn.metadata.generation, assignments.wished(conn)
        if self._said.get(conn.metadata.uid) != wanted:
            await self._assigned.want(conn)
            self._said[conn.metadata.uid] = wanted

    async def rest(self, uid: str) -> None:
        """Have it not polled. Raises `Unavailable`."""
        if self._said.get(uid) != ():
            await self._assigned.rest(uid)
            self._said[uid] = ()

    async def run(self, may_act: asyncio.Event) -> None:
        """Read the states again and again once `may_act` is set, until cancelled."""
        await may_act.wait()
        while True:
            try:
                await self.look()
            except errors.Operational as error:
                log.info("states of sources not read", reason=error.message)
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        """Read the states once. Raises `Unavailable`."""
        found = await self._assigned.states()
        for uid, (namespace, revision, state) in found.items():
            if uid not in self._known:
                if self._complete(namespace):
                    await self._assigned.drop(uid)
                    log.info("source forgotten", uid=uid)
                else:
                    await self.rest(uid)  # its namespace is not served now, and may come back
            elif self._states.get(uid, (0,))[0] != revision:
                self._states[uid] = revision, state
                self._changed(uid)
        for uid in set(self._said) - set(found):
            # MongoDB has lost it: it is said again.
            if self._said.pop(uid) and uid in self._known:
                self._changed(uid)
        for uid in set(self._states) - set(found):
            del self._states[uid]
