"""Kubernetes Events: one per transition, posted by us, best effort, never in the way of a decision.

The name follows from the object, the resourceVersion that the write made and the number of the transition in it (one
write may make several), so a repeated post is the same Event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from controllers import kube
from crds import errors

log = structlog.get_logger(__name__)

COMPONENT = "jervis-operator"
_MAX_MESSAGE = 1024


def manifest(
    about: kube.Object, reason: str, message: str, *, warning: bool, at: datetime, step: int = 0
) -> kube.Object:
    """A core/v1 Event about `about` (an object as the API serves it): transition `step` of the write that made it."""
    meta = about["metadata"]
    place = f"{meta['resourceVersion']}.{step}" if step else meta["resourceVersion"]
    stamp = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta['name'][:200].rstrip('.-')}.{meta['uid'][:8]}.{place}",
            "namespace": meta["namespace"],
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


class Poster:
    """A bounded line of Events; any number of tasks may `run` to post them."""

    def __init__(
        self, api: kube.Kube, *, clock: Callable[[], datetime], dropped: Callable[[], None], capacity: int = 2000
    ) -> None:
        self._api, self._clock, self._dropped = api, clock, dropped
        self._line: asyncio.Queue[dict[str, Any]] = asyncio.Queue(capacity)

    def post(self, about: kube.Object, reason: str, message: str, *, warning: bool = False, step: int = 0) -> None:
        """Queue one Event; with a full line it is dropped and counted."""
        try:
            self._line.put_nowait(manifest(about, reason, message, warning=warning, at=self._clock(), step=step))
        except asyncio.QueueFull:
            self._dropped()

    async def run(self) -> None:
        """Post until cancelled. An Event that cannot be posted is dropped: the status tells the story as well."""
        while True:
            body = await self._line.get()
            try:
                await self._api.create(kube.EVENTS, body["metadata"]["namespace"], body)
            except kube.AlreadyExists:
                continue
            except errors.JervisError as error:
                self._dropped()
                log.debug("event not posted", reason=error.message)
