"""A finished PendingTask reduced to what the sweep decides by. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crds import labels, phases

ARCHIVED_LABEL = labels.ARCHIVED
ARCHIVED = "true"

FAILED = frozenset({phases.Phase.ERROR})
"""Terminal phases that count as failures; the others are successes."""

_TERMINAL = {phase.value: phase for phase in phases.TERMINAL}


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished object at one version.

    completed  when it reached its terminal phase; None when its status does not say, and then no TTL runs
    ttl        spec.ttlSecondsAfterFinished; None: the settings' default
    archived   it carries the label; the archive itself is asked again before anything is deleted
    leaving    somebody has deleted it already and a finalizer keeps it
    correlation  spec.correlationId, for the log
    """

    uid: str
    namespace: str
    name: str
    version: str
    client: str
    phase: phases.Phase
    completed: datetime | None = None
    ttl: int | None = None
    archived: bool = False
    leaving: bool = False
    correlation: str = ""

    @property
    def failed(self) -> bool:
        """It ended in a failure."""
        return self.phase in FAILED


def of(raw: Mapping[str, Any]) -> Finished | None:
    """The object as the API serves it; None when its phase is not terminal, whatever its labels say."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    phase = _TERMINAL.get(str(status.get("phase")))
    if phase is None:
        return None
    completed = status.get("completedAt") or (status.get("phaseTimes") or {}).get(phase.value)
    return Finished(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        client=spec["clientId"],
        phase=phase,
        completed=moment(completed),
        ttl=spec.get("ttlSecondsAfterFinished"),
        archived=(meta.get("labels") or {}).get(ARCHIVED_LABEL) == ARCHIVED,
        leaving=bool(meta.get("deletionTimestamp")),
        correlation=spec.get("correlationId", ""),
    )


def moment(text: str | None) -> datetime | None:
    """metav1.Time as an aware datetime."""
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
