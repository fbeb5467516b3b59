"""What delegations took: `delegation_metrics`, kept for ninety days (seed 000 "MongoDB Collections").

{_id: "<task uid>/<delegation>", taskUid, release, clientId, projectId, round, the fields of DelegationMetrics,
parentDelegationId, depth, status, confidence, needsVerification, stopped, escalated, retries, effects, createdAt,
expiresAt, counted?}. `counted` is the operator's, which counts those of its `release` once (`controllers.delegations`).
Expired ones are deleted at the end of a run, because not every MongoDB has TTL indexes; they stay when their task goes,
and go with its scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from contracts import mongo_collections
from crds import scope
from orchestrator_job.store import delegation_models, delegation_progress, fence, mongo
from orchestrator_job.store.delegation_models import DelegationStatus

LIFE = timedelta(days=90)
_log = structlog.get_logger("orchestrator_job.agents.metrics")


@dataclass(frozen=True, slots=True)
class End:
    """How a delegation went. `began` is ISO 8601. `reported`: by its agent; else it was stopped. `escalates`: another
    agent takes it over. `retries`: how often its agent was asked for another report. `effects`: how many were done, by
    what allowed them (`crds.approvals.AllowedBy`)."""

    agent: str
    began: str
    tokens: int
    calls: int
    subs: int
    reported: bool = True
    escalates: bool = False
    retries: int = 0
    effects: Mapping[str, int] = field(default_factory=dict)


class Metrics:
    """Those of the task whose fence it is; `release` is that of the operator that started the run, `now` is in UTC."""

    def __init__(
        self,
        database: mongo.Database,
        guard: fence.Fence,
        owner: scope.Scope,
        release: str,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._guard = guard
        self._owner = {"clientId": owner.client_id, "projectId": owner.project_id}
        self._release = release
        self._now = now

    async def record(
        self, message: delegation_models.DelegationMessage, output: delegation_models.AgentOutput, end: End
    ) -> None:
        """Store what it took and how it ended; a later record of it takes the place of an earlier one. Raises
        Fenced."""
        own = {"_id": f"{self._guard.task_uid}/{message.delegation_id}"}
        now = self._now()
        made = delegation_models.DelegationMetrics(
            delegation_id=message.delegation_id,
            agent_name=end.agent,
            start_time=end.began,
            end_time=now.isoformat(),
            token_count=end.tokens,
            llm_calls=end.calls,
            sub_delegation_count=end.subs,
            success=output.success,
        )
        document = {
            "taskUid": self._guard.task_uid,
            "release": self._release,
            **self._owner,
            "round": delegation_progress.round_of(made.delegation_id),
            **delegation_models.dump(made),
            "parentDelegationId": message.parent_delegation_id,
            "depth": message.depth,
            "status": (DelegationStatus.COMPLETED if output.success else DelegationStatus.FAILED).value,
            "confidence": output.confidence,
            "needsVerification": output.needs_verification,
            "stopped": not end.reported,
            "escalated": end.escalates,
            "retries": end.retries,
            "effects": dict(end.effects),
            "createdAt": now,
            "expiresAt": now + LIFE,
        }
        await self._guard.keep(
            lambda: self._database.update(mongo_collections.METRICS, own, {"$set": document}, upsert=True),
            lambda: self._database.delete(mongo_collections.METRICS, own),
        )
        _log.info(
            "delegation ended",
            delegation=message.delegation_id,
            agent=end.agent,
            success=output.success,
            confidence=output.confidence,
            calls=end.calls,
        )


async def expire(database: mongo.Database, now: datetime) -> int:
    """Delete the expired ones; returns their number."""
    return await database.delete(mongo_collections.METRICS, {"expiresAt": {"$lt": now}})
