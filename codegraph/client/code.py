"""The structure of a branch, sent until it is known, and questions about it.

Calls raise `clients.kb_transport.Unavailable` or `Rejected`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

from clients import kb_transport
from codegraph import api, routes
from contracts.api import observations
from crds import priority

BATCH_BYTES, BATCH_FILES = 4 << 20, 500
"""Contents of one request."""
_JSON_BYTES = 7 << 20
"""Of them as JSON, in which a NUL has six bytes: with the tree it is less than a request may have (16 MiB)."""
_TRIES = 3
"""Of contents of which none is taken."""
Read = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""The contents of files by path; what cannot be read is not in it."""


class CodeGraph:
    """The endpoints below /code, /ingest/git-structure and /ingest/cpg."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def structure(
        self,
        request: api.GitStructure,
        *,
        urgency: priority.Priority = priority.Priority.P3,
        on: observations.Observation | None = None,
    ) -> api.GitStructureReply:
        """One request; the reply's `state` says what is to be sent next. Safe to repeat. `on`: see `Client.observe`."""
        return await self._way.request(routes.GIT_STRUCTURE, body=request, urgency=urgency, repeatable=True, on=on)

    async def send(
        self,
        tree: api.GitStructure,
        read: Read,
        *,
        on: observations.Observation | None = None,
        shown: Callable[[api.GitStructureReply], None] | None = None,
    ) -> api.GitStructureReply:
        """Send a tree without contents, then what is missing of them, until the structure is known.

        `on` is what each request is based on, `shown` is called with each reply. A file whose content cannot be read,
        or is not taken, is left out of the tree and named in `skipped`. Safe to repeat: a call that broke off goes on
        where it was.
        """
        sizes = {one.path: one.size for one in tree.files}
        contents: Mapping[str, str] = {}
        tries = 0
        while True:
            reply = await self.structure(_filled(tree, contents), on=on)
            if shown is not None:
                shown(reply)
            if reply.state == "Done":
                return reply
            sent, contents = contents, {}
            if reply.state == "Wanted":
                tries = tries + 1 if sent and set(reply.missing).issuperset(sent) else 0
                if tries >= _TRIES:
                    tree, tries = _without(tree, [*sent], "not-taken"), 0
                    continue
                some = _some(reply.missing, sizes)
                found = await read(some)
                contents = _fitting(some, found)
                unread = [path for path in some if path not in found]
                if unread:
                    tree = _without(tree, unread, "unreadable")

    async def enrich(
        self,
        request: api.Cpg,
        *,
        shown: Callable[[api.CpgReply], None] | None = None,
        urgency: priority.Priority = priority.Priority.P3,
    ) -> api.CpgReply:
        """Have what Joern says put beside the structure of a branch, until it is written; `shown` is called with each
        reply. Safe to repeat. Rejected with 409: the structure is that of another commit."""
        while True:
            reply = await self._way.request(routes.CPG, body=request, urgency=urgency, repeatable=True)
            if shown is not None:
                shown(reply)
            if reply.state == "Done":
                return reply
            request = request.model_copy(update={"export": None})

    async def callers(self, asked: api.Callers) -> api.CallsReply:
        """Who calls a declaration."""
        return await self._way.request(routes.CALLERS, body=asked, repeatable=True)

    async def callees(self, asked: api.Callers) -> api.CallsReply:
        """What a declaration calls."""
        return await self._way.request(routes.CALLEES, body=asked, repeatable=True)

    async def impact(self, asked: api.Impact) -> api.ImpactReply:
        """What may break when a declaration changes."""
        return await self._way.request(routes.IMPACT, body=asked, repeatable=True)

    async def path(self, asked: api.CodePath) -> api.PathReply:
        """The shortest way by calls."""
        return await self._way.request(routes.PATH, body=asked, repeatable=True)

    async def where(self, asked: api.CodeWhere) -> api.WhereReply:
        """Files and functions for a text."""
        return await self._way.request(routes.WHERE, body=asked, repeatable=True)

    async def map(self, asked: api.CodeMap) -> api.MapReply:
        """An outline within a number of tokens."""
        return await self._way.request(routes.MAP, body=asked, repeatable=True)

    async def history(self, asked: api.CodeHistory) -> api.HistoryReply:
        """Which commits changed a declaration or a file."""
        return await self._way.request(routes.HISTORY, body=asked, repeatable=True)

    async def neighbourhood(self, asked: api.CodeNeighbourhood) -> api.NeighbourhoodReply:
        """Callers and callees, one or two steps away."""
        return await self._way.request(routes.NEIGHBOURHOOD, body=asked, repeatable=True)


def _some(missing: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
    """The first of the missing files, as many as go into one request."""
    some: list[str] = []
    total = 0
    for path in missing[:BATCH_FILES]:
        total += sizes.get(path, 0)
        if some and total > BATCH_BYTES:
            break
        some.append(path)
    return some


def _filled(tree: api.GitStructure, contents: Mapping[str, str]) -> api.GitStructure:
    if not contents:
        return tree
    files = [
        one.model_copy(update={"content": contents[one.path]}) if one.path in contents else one for one in tree.files
    ]
    return tree.model_copy(update={"files": files})


def _fitting(some: Sequence[str], found: Mapping[str, str]) -> dict[str, str]:
    """The first of the contents, as many as one request may have as JSON; at least one."""
    fitting: dict[str, str] = {}
    total = 0
    for path in some:
        if path not in found:
            continue
        total += len(json.dumps(found[path], ensure_ascii=False).encode(errors="replace"))
        if fitting and total > _JSON_BYTES:
            break
        fitting[path] = found[path]
    return fitting


def _without(tree: api.GitStructure, paths: Sequence[str], reason: str) -> api.GitStructure:
    gone = set(paths)
    skipped = [*tree.skipped, *(api.SkippedFile(path=path, reason=reason) for path in paths)][-api.MOST_SOURCES :]
    return tree.model_copy(update={"files": [one for one in tree.files if one.path not in gone], "skipped": skipped})
