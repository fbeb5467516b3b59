"""From stored items to PendingTasks: created once each, at most as many unfinished ones as the Connection allows.

The name of a task is made of its item, so a creation that is repeated after a lost answer or a kill meets the task that
is there. Source: seed 000 "Continuous Indexers".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog

import kube
from clients import backoff, mongo
from contracts import link_tasks
from crds import labels, pendingtask, phases, scope
from kb import api
from sources import metrics
from sources.core import assignments, items

log = structlog.get_logger("sources")

AGAIN = backoff.Doubling(first=60.0, cap=6 * 3600.0)
"""An item whose task the apiserver refuses is tried again without an end: a right, a quota or a policy may be missing
for days, and the mail is not fetched a second time."""
PAGE = 100
"""Items in one write; after a write that MongoDB did not end in time half as many, after each other one twice."""


class Indexer:
    """`wall` gives the time in UTC."""

    def __init__(
        self, api: kube.Kube, stored: items.Items, measured: metrics.Metrics, *, wall: Callable[[], datetime]
    ) -> None:
        self._api, self._items, self._metrics, self._wall = api, stored, measured, wall
        self._page = PAGE

    async def run(self, claim: assignments.Claim) -> bool:
        """Create tasks while there are items and room; False: items are left because there is no room.

        Raises `crds.errors.Operational`.
        """
        room = claim.spec.max_in_flight_tasks - await self._unfinished(claim)
        while room > 0:
            found = await self._items.waiting(claim.uid, min(room, self._page), self._wall())
            if not found:
                return True
            try:
                room -= await self._several(claim, found)
            except mongo.Unavailable:
                self._page = max(1, self._page // 2)
                raise
            self._page = min(PAGE, 2 * self._page)
        return not await self._items.waiting(claim.uid, 1, self._wall())

    async def _unfinished(self, claim: assignments.Claim) -> int:
        selector = f"{labels.CONNECTION_UID}={claim.uid}"
        count = 0
        pages = self._api.pages(kube.TASKS, claim.namespace, selector, fields=phases.UNFINISHED, metadata=True)
        async for found, _ in pages:
            count += len(found)
        return count

    async def _several(self, claim: assignments.Claim, some: Sequence[items.Stored]) -> int:
        """How many have a task now."""
        bodies = [(one, task(claim, one)) for one in some]
        wait = await self._items.indexing([(one, body["metadata"]["name"]) for one, body in bodies])
        made: list[tuple[items.Stored, str]] = []
        try:
            for one, body in bodies:
                if one.id in wait and await self._create(claim, one, body):
                    made.append((one, body["metadata"]["name"]))
        finally:
            # A kill before this write repeats the creations, which meet the tasks that are there.
            await self._items.indexed(claim.uid, made)
            self._metrics.items.labels(claim.spec.type.value, "indexed").inc(len(made))
        return len(made)

    async def _create(self, claim: assignments.Claim, one: items.Stored, body: dict[str, Any]) -> bool:
        try:
            await self._api.create(kube.TASKS, claim.namespace, body)
        except kube.AlreadyExists:
            pass  # created before a kill, or by another request of this one
        except (kube.Forbidden, kube.NotFound, kube.Refused) as error:
            again = self._wall() + timedelta(seconds=AGAIN.delay(one.tries + 1))
            await self._items.failed(one, error.message, again)
            self._metrics.items.labels(claim.spec.type.value, "refused").inc()
            log.info("no task of an item", connection=claim.name, item=one.id, reason=error.message)
            return False
        return True


def name(connection: str, item_id: str, nonce: str) -> str:
    """Of the task of an item."""
    digest = hashlib.sha256(f"{item_id}\0{nonce}".encode()).hexdigest() if nonce else item_id
    return f"{connection[:32].rstrip('.-')}-{digest[:20]}"


def _name(claim: assignments.Claim, one: items.Stored) -> str:
    if one.type == pendingtask.Type.LINK:
        # Mails and pages of a project with the same link make the same task.
        spec = claim.spec
        owner = scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)
        return link_tasks.name(owner, one.urn.removeprefix(api.LINK_URN))
    return name(claim.name, one.id, one.nonce)


def task(claim: assignments.Claim, one: items.Stored) -> dict[str, Any]:
    """The PendingTask of an item."""
    spec = claim.spec
    said = {
        "type": one.type,
        "clientId": spec.client_id,
        "projectId": spec.project_id,
        "groupId": spec.group_id,
        "sourceUrn": one.urn,
        "mode": "Background",
        **one.content,
    }
    return {
        "apiVersion": "jervis.dev/v1alpha1",
        "kind": "PendingTask",
        "metadata": {
            "name": _name(claim, one),
            "labels": {labels.CONNECTION_UID: claim.uid},
            "annotations": {labels.TITLE: one.title, labels.CONNECTION: claim.name},
        },
        "spec": {key: value for key, value in said.items() if value not in ("", None)},
    }
