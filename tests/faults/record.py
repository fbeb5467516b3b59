"""The store's own record: every version of every object of some namespaces, read from etcd itself.

A watch through the apiserver would lose what happens while it restarts; etcd's watch goes on at the revision where it
was broken off. The apiserver of this suite stores JSON. The record is also the suite's informer: listeners hear of
every version once, in order, per kind.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

KINDS = {
    "pendingtasks": "/registry/jervis.dev/pendingtasks/",
    "jobs": "/registry/jobs/",
    "pods": "/registry/pods/",
    "leases": "/registry/leases/",
}
_PAUSE = 0.1


class GapError(AssertionError):
    """The store has forgotten versions that were not read yet: nothing can be said about this run."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one object; `revision` is its resourceVersion, `at` when it was heard (monotonic seconds).

    A deletion carries the last version's content.
    """

    revision: int
    kind: str
    raw: dict[str, Any]
    deleted: bool
    at: float

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.raw["metadata"]["uid"])

    @property
    def name(self) -> str:
        """Of the object."""
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Of the object."""
        return str(self.raw["metadata"]["namespace"])


class Record:
    """Versions by kind, in order, of the namespaces whose names begin with `prefix`. `listen` before `running`."""

    def __init__(self, store: str, prefix: str) -> None:
        self._store, self._prefix = store, prefix
        self._listeners: list[Callable[[Version], None]] = []
        self._crew: list[asyncio.Task[None]] = []
        self._next: dict[str, int] = dict.fromkeys(KINDS, 1)
        self.versions: dict[str, list[Version]] = {kind: [] for kind in KINDS}
        self.now: dict[str, dict[str, Version]] = {kind: {} for kind in KINDS}
        """The present objects by kind and uid."""

    def listen(self, heard: Callable[[Version], None]) -> None:
        """Call `heard` with every version from now on."""
        self._listeners.append(heard)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Record]:
        """Follow all kinds; a gap or a bug in a listener ends the block with an error."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(self._store, timeout=timeout, read_bufsize=2**20) as http:
            # What was before this namespace is none of its business, and may be forgotten by now.
            self._next = dict.fromkeys(KINDS, await self._revision(http) + 1)
            self._crew = [asyncio.create_task(self._follow(http, kind)) for kind in KINDS]
            try:
                yield self
                self.check()
            finally:
                for one in self._crew:
                    one.cancel()
                await asyncio.gather(*self._crew, return_exceptions=True)

    def check(self) -> None:
        """Raise what has ended one of the watches."""
        for one in self._crew:
            if one.done():
                one.result()

    async def _revision(self, http: aiohttp.ClientSession) -> int:
        """The store's present one."""
        nothing = {"key": base64.b64encode(b"/nothing").decode(), "count_only": True}
        async with http.post("/v3/kv/range", data=json.dumps(nothing)) as answer:
            answer.raise_for_status()
            return int(json.loads(await answer.read())["header"]["revision"])

    async def _follow(self, http: aiohttp.ClientSession, kind: str) -> None:
        while True:
            try:
                await self._watch(http, kind)
            except (aiohttp.ClientError, TimeoutError):
                # etcd is being restarted; it goes on where this was broken off.
                await asyncio.sleep(_PAUSE)

    async def _watch(self, http: aiohttp.ClientSession, kind: str) -> None:
        prefix = f"{KINDS[kind]}{self._prefix}".encode()
        wanted = {
            "key": base64.b64encode(prefix).decode(),
            "range_end": base64.b64encode(prefix[:-1] + bytes([prefix[-1] + 1])).decode(),
            "start_revision": str(self._next[kind]),
            "prev_kv": True,
        }
        async with http.post("/v3/watch", data=json.dumps({"create_request": wanted})) as answer:
            answer.raise_for_status()
            rest = b""
            async for part in answer.content.iter_any():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self._take(kind, json.loads(line))

    def _take(self, kind: str, said: dict[str, Any]) -> None:
        result = said.get("result")
        if result is None or result.get("canceled"):
            if result is not None and int(result.get("compact_revision", 0)) >= self._next[kind]:
                raise GapError(f"etcd has compacted {kind} from {self._next[kind]} on")
            raise aiohttp.ClientPayloadError(str(said))
        for event in result.get("events", ()):
            version = _version(kind, event)
            self._next[kind] = version.revision + 1
            self.versions[kind].append(version)
            if version.deleted:
                self.now[kind].pop(version.uid, None)
            else:
                self.now[kind][version.uid] = version
            for heard in self._listeners:
                heard(version)


def _version(kind: str, event: dict[str, Any]) -> Version:
    deleted = event.get("type") == "DELETE"
    raw = json.loads(base64.b64decode(event["prev_kv" if deleted else "kv"]["value"]))
    revision = int(event["kv"]["mod_revision"])
    raw["metadata"].pop("managedFields", None)
    raw["metadata"]["resourceVersion"] = str(revision)
    return Version(revision, kind, raw, deleted, time.monotonic())
