"""One collection for ever: listed, then watched from there on; listed anew when its place in the history is lost.

Each object goes to `on_object` as it arrives, synchronously and in the order of the wire. A deletion between two
watches is in no event: after a list, every object that was known before it began and is not on it is reported as
deleted, because a list is at least as new as its request. Bookmarks advance the place, so that a quiet collection does
not lose it.

kopf would have a queue, a task and a dozen of its own steps for every object; here an event costs its JSON and its
handler (docs/decisions/0018). Source: Kubernetes "API concepts", efficient detection of changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

import kube
from crds import errors
from kube import beats

log = structlog.get_logger(__name__)

PAGE = 100
"""Objects per list request. A page is parsed as a whole and dropped at once; larger ones leave more holes in memory."""
BREATH = 10
"""Objects taken in between two turns of the loop."""
SERVER_SECONDS = 60
"""After which the server is asked to end a watch; the next one goes on where it stood. Not longer, because a
collection in which nothing has happened since the apiserver's start gets no bookmarks: it would be taken for dead."""
PAUSE_SECONDS = 0.2
"""Between two watches, so that a server that ends each of them at once is not run over."""
LONGEST_PAUSE_SECONDS = 4.0
"""After repeated failures. For ever: an apiserver that is away must not end the process."""

OnObject = Callable[[str, kube.Object], None]
"""(ADDED, MODIFIED or DELETED; the object). What a list brings is ADDED."""


@dataclass(frozen=True, slots=True)
class Source:
    """What to watch: a kind in one namespace, by label and field selectors of the server."""

    resource: kube.Resource
    namespace: str | None
    labels: str = ""
    fields: str = ""
    metadata: bool = False

    @property
    def path(self) -> str:
        """URL path of the collection, its name in the metrics and in the probes' answers."""
        return self.resource.path(self.namespace)


class Stream:
    """`read` it once, then `run` it. `silence`: seconds without a byte after which a watch is dead.

    `known` answers the objects of this collection that are remembered, each with as much of its metadata as `on_object`
    needs for its deletion. `listed` is called when a list is complete, `failed` when `on_object` raises an exception.
    """

    def __init__(
        self,
        api: kube.Kube,
        source: Source,
        *,
        on_object: OnObject,
        known: Callable[[], Iterable[Mapping[str, Any]]],
        answers: beats.Beats,
        silence: float,
        listed: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._api, self._source, self._beats = api, source, answers
        self._on_object, self._known, self._silence, self._failed = on_object, known, silence, failed
        self._listed = listed
        self._place = ""
        self._failures = 0
        self.path = source.path

    async def read(self) -> None:
        """All that is there now. Raises `crds.errors.JervisError`; then nothing is said about what is not."""
        one = self._source
        before = {raw["metadata"]["uid"]: raw for raw in self._known()}
        place = ""
        pages = self._api.pages(
            one.resource, one.namespace, one.labels, fields=one.fields, page=PAGE, metadata=one.metadata
        )
        async with aclosing(pages):
            async for items, version in pages:
                place = version
                for number, raw in enumerate(items):
                    if number % BREATH == 0:
                        await asyncio.sleep(0)  # a turn for the wire: the next page is being asked for
                    before.pop(raw["metadata"]["uid"], None)
                    self._tell("ADDED", raw)
        for gone in before.values():
            self._tell("DELETED", dict(gone))
        self._place = place
        self._listed()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            pause = PAUSE_SECONDS
            try:
                if not self._place:
                    await self.read()
                await self._watch()
                self._failures = 0
            except errors.JervisError as error:
                if isinstance(error, (kube.Forbidden, kube.NotFound)):
                    self._beats.beat(self.path)  # it has answered: a restart would not help
                self._failures += 1
                pause = min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 10))
                if isinstance(error, errors.Operational):
                    pause = max(pause, error.retry_after or 0.0)
                if isinstance(error, kube.Expired):
                    self._place = ""
                log.info("watch begins again", watch=self.path, reason=error.message)
            await asyncio.sleep(pause)

    async def _watch(self) -> None:
        one = self._source
        events = self._api.watch(
            one.resource,
            one.namespace,
            self._place,
            one.labels,
            fields=one.fields,
            seconds=SERVER_SECONDS,
            silence=self._silence,
            metadata=one.metadata,
        )
        async with aclosing(events):
            async for some in events:
                self._beats.beat(self.path)
                for event in some:
                    raw = event["object"]
                    if event["type"] != "BOOKMARK":
                        self._tell(event["type"], raw)
                    self._place = raw["metadata"]["resourceVersion"]
                    self._failures = 0

    def _tell(self, kind: str, raw: kube.Object) -> None:
        try:
            self._on_object(kind, raw)
        except Exception:
            # The edge of an event: one object that triggers a bug of ours must not hold up the others.
            self._failed()
            log.exception("event not taken in", watch=self.path, name=raw["metadata"].get("name"))
