"""The access token of a Secret: from memory while it is good, renewed before it ends.

A refresh token is spent only while MongoDB is there and the turn is ours; what replaced it is written before the turn
ends. A kill between the answer and that write leaves the old one, which Microsoft takes on and Atlassian for ten
minutes. Ends of tokens are counted by the monotonic clock from before the request, so no wall clock matters.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from clients import mongo
from sources.core import port
from sources.oauth import exchange, grant, vault

log = structlog.get_logger("sources")

MARGIN = 600.0
"""Seconds before the end of a token in which a new one is fetched; at most half of its time, as a poll may last."""
TURN_SECONDS = 60.0
"""Seconds that the turn of another process is waited for."""
_LOOK_SECONDS = 0.2
_WRITES = 5
OF_OAUTH = frozenset({"client_secret", "refresh_token", "private_key"})
"""Keys of a Secret that no protocol is given."""


@dataclass(frozen=True, slots=True)
class _Kept:
    access: str
    renew: float
    end: float


class Tokens:
    """The access tokens of a process. `plain` allows token endpoints without TLS."""

    def __init__(
        self,
        kept: vault.Vault,
        asks: exchange.Exchange,
        *,
        plain: bool,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._vault, self._exchange, self._plain = kept, asks, plain
        self._wall, self._monotonic, self._sleep = wall, monotonic, sleep
        self._known: dict[str, _Kept] = {}
        self._of: dict[tuple[str, str], str] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unsaved: dict[str, tuple[vault.Turn, str]] = {}
        """Refresh tokens that MongoDB did not take when they came."""

    async def fresh(self, of: tuple[str, str], values: Mapping[str, str]) -> dict[str, str]:
        """The values of a Secret with an access token under `port.ACCESS_KEY` where it is one of OAuth. `of` is its
        namespace and name. Raises `Rejected`, `Misconfigured`, `Unreachable`, `mongo.Unavailable`."""
        asked = grant.of(values, plain=self._plain)
        if asked is None:
            return dict(values)
        last = self._of.get(of)
        if last is not None and last != asked.id:
            self._forget(last)
        self._of[of] = asked.id
        async with self._locks[asked.id]:
            found = await self._access(asked)
        return {**{key: value for key, value in values.items() if key not in OF_OAUTH}, port.ACCESS_KEY: found}

    def forget(self, of: tuple[str, str]) -> None:
        """The source refuses its access token: the next one is had anew."""
        self._known.pop(self._of.get(of, ""), None)

    def _forget(self, name: str) -> None:
        if name not in self._of.values():
            self._known.pop(name, None)

    async def _access(self, asked: grant.Grant) -> str:
        now, kept = self._monotonic(), self._known.get(asked.id)
        if kept is not None and now < kept.renew:
            return kept.access
        try:
            got = await (self._exchange.install(asked) if asked.provider == grant.APP else self._spent(asked))
        except (port.Unreachable, mongo.Unavailable) as error:
            if kept is None or now >= kept.end:
                raise
            log.info("access token not renewed yet", reason=error.message)
            return kept.access
        except port.Rejected:
            self._known.pop(asked.id, None)
            raise
        margin = min(MARGIN, got.seconds / 2)
        self._known[asked.id] = _Kept(got.access, now + got.seconds - margin, now + got.seconds)
        return got.access

    async def _spent(self, asked: grant.Grant) -> exchange.Fresh:
        turn = await self._turn(asked)
        try:
            got = await self._exchange.spend(asked, turn.refresh)
        except BaseException:
            await self._ended(turn)
            raise
        new = got.refresh if got.refresh != turn.refresh else ""
        # Not to be cancelled between the answer and the write.
        await asyncio.shield(asyncio.ensure_future(self._saved(turn, new)))
        return got

    async def _turn(self, asked: grant.Grant) -> vault.Turn:
        left = self._unsaved.get(asked.id)
        if left is not None:
            await self._vault.end(*left)
            del self._unsaved[asked.id]
        holder, waited = uuid.uuid4().hex, 0.0
        while (turn := await self._vault.claim(asked, holder, self._wall())) is None:
            if waited >= TURN_SECONDS:
                raise port.Unreachable("Another process renews the access token of this Secret.")
            await self._sleep(_LOOK_SECONDS)
            waited += _LOOK_SECONDS
        return turn

    async def _saved(self, turn: vault.Turn, refresh: str) -> None:
        for last in range(_WRITES, 0, -1):
            try:
                if not await self._vault.end(turn, refresh) and refresh:
                    log.warning("a refresh token was not kept: another process had its turn")
                return
            except mongo.Unavailable as error:
                if last > 1:
                    await self._sleep(1.0)
                elif refresh:
                    log.warning("a refresh token is not stored yet", reason=error.message)
                    self._unsaved[turn.of.id] = turn, refresh

    async def _ended(self, turn: vault.Turn) -> None:
        try:
            await self._vault.end(turn)
        except mongo.Unavailable as error:
            log.info("a turn ends by itself", reason=error.message)
