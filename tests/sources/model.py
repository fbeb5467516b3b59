"""A mailbox that is a model, and around it the wires that the sources process and the operator use: the outside.

`World` is the apiserver (tasks), the knowledge base (documents) and the operator's qualification of tasks, all in one
HTTP server. `Box` is a source behind the port; it changes while it is listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from crds import pendingtask
from kb import api
from sources.core import port
from tests import httpserver

PAGE = 3
_TASKS = "/apis/jervis.dev/v1alpha1/namespaces/{namespace}/pendingtasks"


class KilledError(Exception):
    """The process ended here."""


class Dying:
    """A database whose `left`-th write is never made; None: all are made."""

    def __init__(self, real: Any) -> None:
        self._real, self.left = real, None  # type: Any, int | None
        self.reading: Callable[[dict[str, Any]], Awaitable[None]] | None = None
        """What happens before one document is looked for by this query."""

    def __getitem__(self, name: str) -> Any:
        return _Collection(self, self._real[name])

    @contextlib.contextmanager
    def killed(self, left: int | None) -> Iterator[None]:
        """The process ends in this block, at the write after so many."""
        self.left = left
        try:
            with pytest.raises(KilledError):
                yield
        finally:
            self.left = None

    def count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KilledError


class _Collection:
    def __init__(self, owner: Dying, real: Any) -> None:
        self._owner, self._real = owner, real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name == "find_one" and self._owner.reading is not None:
            return self._read
        if name == "bulk_write":
            return self._several
        if not name.startswith(("update", "replace", "delete", "find_one_and")):
            return found

        async def write(*arguments: Any, **options: Any) -> Any:
            self._owner.count()
            return await found(*arguments, **options)

        return write

    async def _read(self, wanted: Any, *arguments: Any, **options: Any) -> Any:
        if self._owner.reading is not None:
            await self._owner.reading(wanted)
        return await self._real.find_one(wanted, *arguments, **options)

    async def _several(self, writes: Any, **options: Any) -> Any:
        """The server may have made some of them."""
        left = self._owner.left
        if left is not None and left < len(writes):
            if left > 0:
                await self._real.bulk_write(writes[:left], **options)
            self._owner.left = -1
            raise KilledError
        if left is not None:
            self._owner.left = left - len(writes)
        return await self._real.bulk_write(writes, **options)


class Box:
    """Folders of mails by UID. `fault`: how the next list ends, "" well, "raises", "torn" (without its end) or
    "believed" (an error that is taken for the end: what no source may do)."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.folders: dict[str, tuple[int, dict[int, int]]] = {"INBOX": (1, {}), "Sent": (1, {})}
        self._uids, self._validity = itertools.count(1), itertools.count(2)
        self.absent: set[int] = set()
        """Mails that were in no folder at some time after they first came."""
        self.appearances: dict[int, int] = {}
        self.fault = ""
        self.meanwhile: Callable[[], None] | None = None
        """What changes between two pages."""
        self.requests = 0
        self.certain = False
        """The fault comes at the first page."""

    def present(self) -> set[int]:
        return {one for _, mails in self.folders.values() for one in mails.values()}

    def put(self, number: int, folder: str) -> None:
        if number not in self.present():
            self.appearances[number] = self.appearances.get(number, 0) + 1
        self.folders[folder][1][next(self._uids)] = number

    def take(self, number: int) -> None:
        """Delete every copy of a mail."""
        for _, mails in self.folders.values():
            for uid in [uid for uid, one in mails.items() if one == number]:
                del mails[uid]
        self.absent.add(number)

    def move(self, number: int) -> None:
        """Into the other folder; it is never in none."""
        here = next(name for name, (_, mails) in self.folders.items() if number in mails.values())
        there = next(name for name in self.folders if name != here)
        mails = self.folders[here][1]
        self.folders[there][1][next(self._uids)] = number
        for uid in [uid for uid, one in mails.items() if one == number]:
            del mails[uid]

    def renumber(self, folder: str) -> None:
        """UIDVALIDITY changes."""
        _, mails = self.folders[folder]
        self.folders[folder] = next(self._validity), {next(self._uids): one for one in mails.values()}

    def _between(self) -> None:
        if self.meanwhile is not None and self.dice.random() < 0.3:
            self.meanwhile()

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        places = {name: list(at) for name, at in cursor.items()}
        for name in self.folders:
            validity = self.folders[name][0]
            last = places[name][1] if places.get(name, [0])[0] == validity else 0
            behind = sorted(uid for uid in self.folders[name][1] if uid > last)
            for start in range(0, len(behind), PAGE):
                some = behind[start : start + PAGE]
                now_validity, mails = self.folders[name]
                if now_validity != validity:
                    raise port.Unreachable("the folder was made anew")
                places[name] = [validity, some[-1]]
                found = tuple(_item(name, validity, uid, mails[uid]) for uid in some if uid in mails)
                yield port.Batch(dict(places), str(places), found)
                self._between()

    async def ids(self) -> AsyncGenerator[port.Page]:
        fault, self.fault = self.fault, ""
        for name in self.folders:
            validity, mails = self.folders[name]
            uids = sorted(mails)
            for start in range(0, len(uids), PAGE):
                self.requests += 1
                if fault and (self.certain or self.dice.random() < 0.7):
                    if fault == "raises":
                        raise port.Unreachable("the connection broke")
                    if fault == "believed":
                        yield port.Page((), last=True)
                    return
                yield port.Page(tuple(f"{name}/{validity}/{uid}" for uid in uids[start : start + PAGE]))
                self._between()
        if fault != "torn":
            yield port.Page((), last=True, moving=True)


def _item(folder: str, validity: int, uid: int, number: int) -> port.Item:
    return port.Item(
        source_id=f"m{number}",
        version="v1",
        type=pendingtask.Type.EMAIL,
        urn=f"email::m{number}",
        title=f"Mail {number}",
        text="Text.",
        editable=False,
        place=f"{folder}/{validity}/{uid}",
    )


class World(httpserver.Server):
    """Tasks and documents. `refuses` are URNs that cannot be forgotten now."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, Any]] = {}
        self.documents: set[str] = set()
        self.refuses: set[str] = set()
        self.too_large: set[str] = set()
        """URNs of tasks that etcd does not take; the answer is that of an apiserver."""
        self.created: list[str] = []
        self.deleted: list[str] = []
        """URNs of tasks and documents that were deleted, in order."""
        self.url = ""
        self.forgetting: Callable[[], Awaitable[None]] | None = None
        """What happens while a request to forget a document is on its way."""
        self.observed: dict[str, int] = {}
        """By observer the newest number."""
        self._versions = itertools.count(1)

    def application(self) -> web.Application:
        """What it answers."""
        application = web.Application(client_max_size=64 << 20)
        application.router.add_get(_TASKS, self._list)
        application.router.add_post(_TASKS, self._create)
        application.router.add_get(f"{_TASKS}/{{name}}", self._get)
        application.router.add_delete(f"{_TASKS}/{{name}}", self._delete)
        application.router.add_delete("/api/v1/documents", self._forget)
        application.router.add_post("/api/v1/observations", self._observe)
        return application

    async def _observe(self, request: web.Request) -> web.Response:
        asked = api.Observed.model_validate_json(await request.read()).observation
        return self.outrun(asked.header) or web.Response(status=204)

    def outrun(self, header: str | None) -> web.Response | None:
        """The refusal of what is based on an older observation."""
        if header is None:
            return None
        number, _, observer = header.partition(" ")
        newest = self.observed[observer] = max(self.observed.get(observer, 0), int(number))
        if newest > int(number):
            return web.json_response({"error": {"code": "conflict", "message": "observed since"}}, status=409)
        return None

    def work(self, dice: random.Random | None = None) -> None:
        """Take tasks a phase further, all of them to their end without dice."""
        for one in self.tasks.values():
            for _ in range(3):
                if dice is None or dice.random() < 0.4:
                    self._step(one)

    def _step(self, one: dict[str, Any]) -> None:
        following = {"New": "ReadyForQualification", "ReadyForQualification": "Qualifying", "Qualifying": "Done"}
        phase = one["status"]["phase"]
        if phase in following:
            one["status"]["phase"] = following[phase]
            one["metadata"]["resourceVersion"] = str(next(self._versions))
            if following[phase] == "Done":
                self.documents.add(one["spec"]["sourceUrn"])

    async def _list(self, _: web.Request) -> web.Response:
        unfinished = [one for one in self.tasks.values() if one["status"]["phase"] != "Done"]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": unfinished})

    async def _create(self, request: web.Request) -> web.Response:
        raw = await request.json()
        name = raw["metadata"]["name"]
        if raw["spec"]["sourceUrn"] in self.too_large:
            said = {"kind": "Status", "status": "Failure", "message": "etcdserver: request is too large", "code": 500}
            return web.json_response(said, status=500)
        if name in self.tasks:
            return web.json_response(
                {"kind": "Status", "reason": "AlreadyExists", "message": "it is there"}, status=409
            )
        version = str(next(self._versions))
        raw["metadata"] |= {"uid": f"uid-{version}", "resourceVersion": version}
        self.tasks[name] = {**raw, "status": {"phase": "New"}}
        self.created.append(raw["spec"]["sourceUrn"])
        return web.json_response(self.tasks[name], status=201)

    async def _get(self, request: web.Request) -> web.Response:
        found = self.tasks.get(request.match_info["name"])
        if found is None:
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": "no"}, status=404)
        return web.json_response(found)

    async def _delete(self, request: web.Request) -> web.Response:
        wanted = (await request.json())["preconditions"]["resourceVersion"]
        found = self.tasks[request.match_info["name"]]
        if found["metadata"]["resourceVersion"] != wanted:
            return web.json_response({"kind": "Status", "reason": "Conflict", "message": "changed"}, status=409)
        self.deleted.append(found["spec"]["sourceUrn"])
        del self.tasks[request.match_info["name"]]
        return web.json_response({})

    async def _forget(self, request: web.Request) -> web.Response:
        await asyncio.sleep(0)
        urn = request.query["sourceUrn"]
        if self.forgetting is not None:
            await self.forgetting()
        if refusal := self.outrun(request.headers.get(api.OBSERVATION)):
            return refusal
        if urn in self.refuses:
            return web.json_response({"error": {"code": "invalid", "message": "not now"}}, status=422)
        if urn not in self.documents:
            return web.json_response({"error": {"code": "not_found", "message": "no such document"}}, status=404)
        self.documents.discard(urn)
        self.deleted.append(urn)
        return web.Response(status=204)
