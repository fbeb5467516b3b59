"""The finished tasks as the apiserver has them. Nothing is decided or written here.

They are in no watch, so every sweep lists them anew, and most have not changed since the last one. Their metadata is
listed, without content. What a sweep decides by stands in spec and status too: for that an object is read whole and
remembered until it changes or goes (docs/decisions/0095). One without the mark is read when it is archived, not before.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap, Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

import kube
from controllers import backpressure
from controllers.archive import finished
from controllers.archive.finished import Finished
from crds import errors, phases

log = structlog.get_logger(__name__)

HEADS = 500
"""Objects per list request, without spec and status."""
PAGE = 100
"""Whole objects per list request, with up to 32 KiB of content each: the event loop parses a page in one go."""
SINGLE = 10
"""Whole objects of a list that cost about as much as one that is asked for by its name."""

_SELECTORS = {True: finished.ARCHIVED_SELECTOR, False: finished.UNARCHIVED_SELECTOR}


@dataclass(slots=True)
class Listed:
    """`tasks` by uid; the caller keeps them as they become, and the next listing remembers them. `unread`: the names by
    uid of those in a namespace and phase that have no mark and a version that is not known. `uids` has all, and those
    too that went while they were read. `complete`: the namespaces that were listed to the end."""

    tasks: dict[str, Finished] = field(default_factory=dict)
    unread: dict[tuple[str, phases.Phase], dict[str, str]] = field(default_factory=dict)
    uids: set[str] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)

    @property
    def left(self) -> int:
        """How many are unread."""
        return sum(map(len, self.unread.values()))

    def put(self, raws: Iterable[kube.Object]) -> None:
        """Whole objects, as they were read."""
        for task in filter(None, map(finished.of, raws)):
            self.tasks[task.uid] = task
            self.unread.get((task.namespace, task.phase), {}).pop(task.uid, None)


class Listing:
    """Of these namespaces. `throttle`: live tasks come first; a pause after a page is at most `pause` seconds."""

    def __init__(
        self, api: kube.Kube, namespaces: Collection[str], throttle: backpressure.Backpressure, pause: float
    ) -> None:
        self._api, self._namespaces, self._throttle, self._pause = api, namespaces, throttle, pause
        self._known: Mapping[str, Finished] = {}

    async def all(self) -> Listed:
        """All of them at their present versions."""
        listed = Listed()
        partly = set()
        for namespace in self._namespaces:
            try:
                for phase in sorted(phases.TERMINAL):
                    await self._phase(listed, namespace, phase)
                listed.complete.add(namespace)
            except errors.JervisError as error:
                # With part of a list less is deleted, never more; the other namespaces do not wait for this one.
                log.warning("finished tasks not listed to the end", namespace=namespace, reason=error.message)
                partly.add(namespace)
        # Still the versions that were read: the next listing need not read them again.
        missed = {uid: task for uid, task in self._known.items() if task.namespace in partly}
        self._known = ChainMap(listed.tasks, missed)
        return listed

    async def unmarked(self) -> AsyncGenerator[list[kube.Object]]:
        """Those without the mark of the archive, whole, page by page."""
        for namespace in self._namespaces:
            for phase in sorted(phases.TERMINAL):
                pages = self._whole(namespace, phase, mark=False)
                try:
                    async with aclosing(pages):
                        async for raws in pages:
                            yield raws
                except kube.Unavailable as error:
                    log.warning("finished tasks not listed to the end", namespace=namespace, reason=error.message)

    async def read(self, listed: Listed) -> None:
        """Read what `listed` has unread: while there is no archive that takes them, they are known all the same."""
        unmarked = Counter((task.namespace, task.phase) for task in listed.tasks.values() if not task.archived)
        for (namespace, phase), names in listed.unread.items():
            number = unmarked[namespace, phase] + len(names)
            try:
                await self._read(listed, namespace, phase, dict(names), number, mark=False)
            except errors.JervisError as error:
                log.warning("finished tasks not read to the end", namespace=namespace, reason=error.message)

    async def _phase(self, listed: Listed, namespace: str, phase: phases.Phase) -> None:
        unread: dict[bool, dict[str, str]] = {True: {}, False: {}}
        number = 0
        begun = self._throttle.begin()
        pages = self._api.pages(kube.TASKS, namespace, fields=_fields(phase), page=HEADS, metadata=True)
        async with aclosing(pages):
            async for heads, _ in pages:
                for meta in (one["metadata"] for one in heads):
                    uid, mark = meta["uid"], finished.marked(meta)
                    listed.uids.add(uid)
                    number += mark
                    known = self._known.get(uid)
                    if known is not None and known.version == meta["resourceVersion"]:
                        listed.tasks[uid] = finished.again(known, meta)
                    else:
                        unread[mark][uid] = meta["name"]
                begun = await self._rest(begun)
        if unread[False]:
            listed.unread[namespace, phase] = unread[False]
        await self._read(listed, namespace, phase, unread[True], number, mark=True)

    async def _read(
        self, listed: Listed, namespace: str, phase: phases.Phase, names: Mapping[str, str], number: int, *, mark: bool
    ) -> None:
        """Those of `names` among the `number` that the phase has with the mark, or without it."""
        if not names:
            return
        if SINGLE * len(names) < number:
            objects = self._named(namespace, names.values())
        else:
            objects = self._whole(namespace, phase, mark=mark)
        begun = self._throttle.begin()
        async with aclosing(objects):
            async for raws in objects:
                listed.put(raw for raw in raws if raw["metadata"]["uid"] in names)
                begun = await self._rest(begun)

    async def _whole(self, namespace: str, phase: phases.Phase, *, mark: bool) -> AsyncGenerator[list[kube.Object]]:
        pages = self._api.pages(kube.TASKS, namespace, _SELECTORS[mark], fields=_fields(phase), page=PAGE)
        async with aclosing(pages):
            async for raws, _ in pages:
                yield raws

    async def _named(self, namespace: str, names: Iterable[str]) -> AsyncGenerator[list[kube.Object]]:
        for name in names:
            with contextlib.suppress(kube.NotFound):
                yield [await self._api.get(kube.TASKS, namespace, name)]

    async def _rest(self, begun: float) -> float:
        """Let live tasks go first after a step; the beginning of the next one."""
        await self._throttle.after(begun, self._pause)
        return self._throttle.begin()


def _fields(phase: phases.Phase) -> str:
    return f"status.phase={phase}"
