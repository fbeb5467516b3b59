"""Answers of TokenReviews, kept: for services that let the apiserver say whose a token is. Pure but for what is given.

A caller can show a service unknown tokens. Such a token costs one review for as long as it is kept as bad,
and reviews of tokens that are not known to be good are bounded: of one source, and of all together. Tokens that are
good are renewed without that bound, and bad ones displace none of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from crds import errors

T = TypeVar("T")
_K = TypeVar("_K")
_V = TypeVar("_V")

SOURCE_BURST, SOURCE_A_SECOND = 50, 5.0
"""Reviews for one source, an address: that of a proxy, such as the apiserver's, is shared by all who come by it."""
ALL_BURST, ALL_A_SECOND = 200, 25.0
_SOURCES = 4096
"""Sources that are remembered; who is forgotten begins anew."""


class Busy(errors.Operational):
    """More unknown tokens were shown than are looked at."""


class Reviewed(Generic[T]):
    """What `ask` says of tokens; it raises `errors.Operational` while the apiserver is away. None is kept for `bad`
    seconds, anything else for `fresh`, and believed up to `stale` while the apiserver is away. `most` of each kind are
    kept, `at_once` tokens are under review. `now` counts seconds."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[T | None]],
        *,
        now: Callable[[], float],
        fresh: float = 60.0,
        bad: float = 10.0,
        stale: float = 0.0,
        most: int = 4096,
        at_once: int = 64,
    ) -> None:
        self._ask, self._now = ask, now
        self._fresh, self._bad, self._stale, self._most, self._at_once = fresh, bad, stale, most, at_once
        self._kept: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        # Apart, because invalid tokens would displace the valid ones.
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[T | None]] = {}
        self._all = _Bucket(ALL_BURST, ALL_A_SECOND, now())
        self._sources: OrderedDict[str, _Bucket] = OrderedDict()

    def recall(self, key: bytes) -> tuple[bool, T | None]:
        """(known, whose) from what is kept and still fresh. `key` is the token's `digest`."""
        kept, now = self._kept.get(key), self._now()
        if kept is not None and now - kept[0] < self._fresh:
            return True, kept[1]
        refused_at = self._refused.get(key)
        return refused_at is not None and now - refused_at < self._bad, None

    async def find(self, token: str, source: str) -> T | None:
        """Whose token it is; many who ask at once about one token cause one review. `source` is where it came from.
        Raises `Busy`, and what `ask` raises."""
        key = digest(token)
        known, whose = self.recall(key)
        if known:
            return whose
        task = self._asking.get(key)
        if task is None:
            # A token that was good is renewed whatever others show.
            if key not in self._kept and not (len(self._asking) < self._at_once and self._take(source)):
                return self._believed(key, Busy("too many unknown tokens at once", retry_after=2))
            task = self._asking[key] = asyncio.get_running_loop().create_task(self._review(key, token))
            task.add_done_callback(lambda done: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _review(self, key: bytes, token: str) -> T | None:
        try:
            whose = await self._ask(token)
        except errors.Operational as error:
            return self._believed(key, error)
        if whose is None:
            self._kept.pop(key, None)
            _keep(self._refused, key, self._now(), self._most)
        else:
            self._refused.pop(key, None)
            _keep(self._kept, key, (self._now(), whose), self._most)
        return whose

    def _believed(self, key: bytes, error: errors.Operational) -> T:
        """What is not so long ago. Raises `error`."""
        kept = self._kept.get(key)
        if kept is None or self._now() - kept[0] > self._stale:
            raise error
        return kept[1]

    def _take(self, source: str) -> bool:
        now = self._now()
        bucket = self._sources.get(source) or _Bucket(SOURCE_BURST, SOURCE_A_SECOND, now)
        _keep(self._sources, source, bucket, _SOURCES)
        # Neither pays where the other has nothing left.
        if not (bucket.has(now) and self._all.has(now)):
            return False
        bucket.take()
        self._all.take()
        return True


class _Bucket:
    __slots__ = ("_a_second", "_at", "_burst", "_left")

    def __init__(self, burst: int, a_second: float, now: float) -> None:
        self._burst, self._a_second, self._left, self._at = burst, a_second, float(burst), now

    def has(self, now: float) -> bool:
        self._left = min(self._left + (now - self._at) * self._a_second, float(self._burst))
        self._at = now
        return self._left >= 1

    def take(self) -> None:
        self._left -= 1


def digest(token: str) -> bytes:
    """What tokens are kept and compared by: it says nothing about them, and how long a look-up takes neither."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def _keep(into: OrderedDict[_K, _V], key: _K, value: _V, most: int) -> None:
    into[key] = value
    into.move_to_end(key)
    while len(into) > most:
        into.popitem(last=False)
