"""What delegations took: `delegation_metrics`, kept for ninety days (seed 000 "MongoDB Collections").

{_id: "<task uid>/<delegation>", taskUid, clientId, projectId, round, the fields of DelegationMetrics,
parentDelegationId, depth, status, confidence, needsVerification, createdAt, expiresAt}. Expired ones are deleted at the
end of a run, because not every MongoDB has TTL indexes; they stay when their task goes, and go with its scope.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from crds import leftovers, scope
from orchestrator_job import fence, mongo
from orchestrator_job.delegation import models, progress
from orchestrator_job.delegation.models import DelegationStatus

LIFE = timedelta(days=90)


class Metrics:
    """Those of the task whose fence it is; `now` is in UTC."""

    def __init__(
        self, database: mongo.Database, guard: fence.Fence, owner: scope.Scope, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._guard = guard
        self._owner = {"clientId": owner.client_id, "projectId": owner.project_id}
        self._now = now

    async def record(
        self, made: models.DelegationMetrics, message: models.DelegationMessage, output: models.AgentOutput
    ) -> None:
        """Store them, with how the delegation ended; a later record of it takes the place of an earlier one. Raises
        Fenced."""
        own = {"_id": f"{self._guard.task_uid}/{made.delegation_id}"}
        now = self._now()
        document = {
            "taskUid": self._guard.task_uid,
            **self._owner,
            "round": progress.round_of(made.delegation_id),
            **models.dump(made),
            "parentDelegationId": message.parent_delegation_id,
            "depth": message.depth,
            "status": (DelegationStatus.COMPLETED if output.success else DelegationStatus.FAILED).value,
            "confidence": output.confidence,
            "needsVerification": output.needs_verification,
            "createdAt": now,
            "expiresAt": now + LIFE,
        }
        await self._guard.keep(
            lambda: self._database.update(leftovers.METRICS, own, {"$set": document}, upsert=True),
            lambda: self._database.delete(leftovers.METRICS, own),
        )


async def expire(database: mongo.Database, now: datetime) -> int:
    """Delete the expired ones; returns their number."""
    return await database.delete(leftovers.METRICS, {"expiresAt": {"$lt": now}})
