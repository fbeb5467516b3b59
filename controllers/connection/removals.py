"""Tasks of items that left their source: those that were not begun are deleted, the others stay.

The sources process may only list and create tasks; it writes which items left, and the operator deletes for it. The
document of an item is deleted after that (`sources.core.sweep`), so no task brings it back.
"""

from __future__ import annotations

import structlog

import kube
from crds import errors, labels, phases
from sources.core import assignments

log = structlog.get_logger(__name__)

EVERY_SECONDS = 5.0
_NOT_BEGUN = frozenset(
    {
        phases.Phase.NEW,
        phases.Phase.SCHEDULED,
        phases.Phase.READY_FOR_QUALIFICATION,
        phases.Phase.READY_FOR_GPU,
        phases.Phase.USER_TASK,
    }
)


class Removals:
    """Settles the tasks of what left."""

    def __init__(self, api: kube.Kube, assigned: assignments.Assignments) -> None:
        self._api, self._assigned = api, assigned

    async def reconcile_once(self) -> None:
        """Settle what can be settled now; one task that cannot be deleted holds up no other. Raises `Unavailable`."""
        for one in await self._assigned.leaving():
            try:
                settled = await self._settled(one)
            except errors.JervisError as error:
                log.info("task not deleted", task=one.task, namespace=one.namespace, reason=error.message)
                continue
            if settled:
                await self._assigned.settle(one)

    async def _settled(self, one: assignments.Leaving) -> bool:
        try:
            raw = await self._api.get(kube.TASKS, one.namespace, one.task)
        except kube.NotFound:
            return True
        meta, status = raw["metadata"], raw.get("status") or {}
        if (meta.get("labels") or {}).get(labels.CONNECTION_UID) != one.connection:
            return True  # another task of that name
        phase = phases.Phase(status.get("phase") or phases.Phase.NEW)
        if phase is phases.Phase.QUALIFYING:
            return False  # its document is being made now
        if phase in _NOT_BEGUN and not status.get("attempt") and not meta.get("deletionTimestamp"):
            # A task that is begun meanwhile is another version: it is looked at once more.
            await self._api.delete(
                kube.TASKS, one.namespace, one.task, uid=meta["uid"], version=meta["resourceVersion"]
            )
            log.info("task deleted, its item left the source", task=one.task, namespace=one.namespace)
        return True
