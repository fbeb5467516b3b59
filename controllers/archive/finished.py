"""A finished PendingTask reduced to what the sweep decides by. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from crds import labels, phases

ARCHIVED_LABEL = labels.ARCHIVED
ARCHIVED = "true"
ARCHIVED_SELECTOR = f"{ARCHIVED_LABEL}={ARCHIVED}"
UNARCHIVED_SELECTOR = f"{ARCHIVED_LABEL}!={ARCHIVED}"

FAILED = frozenset({phases.Phase.ERROR})
"""Terminal phases that count as failures; the others are successes."""

_TERMINAL = {phase.value: phase for phase in phases.TERMINAL}


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished object at one version.

    generation  counts the changes of its spec
    completed  when it reached its terminal phase; None when its status does not say, and then no TTL runs
    ttl        spec.ttlSecondsAfterFinished; None: the settings' default
    archived   it carries the label; the archive itself is asked again before anything is deleted
    leaving    it is deleted already and a finalizer keeps it
    """

    uid: str
    namespace: str
    name: str
    version: str
    generation: int
    client: str
    phase: phases.Phase
    completed: datetime | None = None
    ttl: int | None = None
    archived: bool = False
    leaving: bool = False

    @property
    def failed(self) -> bool:
        """It ended in a failure."""
        return self.phase in FAILED


def of(raw: Mapping[str, Any]) -> Finished | None:
    """The object as the API serves it; None when its phase is not terminal, whatever its labels say."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    phase = str(status.get("phase"))
    ended = _TERMINAL.get(phase)
    if ended is None:
        return None
    return Finished(
        uid=meta["uid"],
        namespace=sys.intern(meta["namespace"]),
        name=meta["name"],
        version=meta["resourceVersion"],
        generation=int(meta.get("generation", 1)),
        client=sys.intern(spec["clientId"]),
        phase=ended,
        completed=moment(status.get("completedAt") or (status.get("phaseTimes") or {}).get(phase)),
        ttl=spec.get("ttlSecondsAfterFinished"),
        archived=marked(meta),
        leaving=bool(meta.get("deletionTimestamp")),
    )


def again(known: Finished, meta: Mapping[str, Any]) -> Finished:
    """The same version by its metadata: a sweep also notes what it has archived and did not mark."""
    archived, leaving = marked(meta), bool(meta.get("deletionTimestamp"))
    if (known.archived, known.leaving) == (archived, leaving):
        return known
    return replace(known, archived=archived, leaving=leaving)


def marked(meta: Mapping[str, Any]) -> bool:
    """The object has the mark of the archive."""
    return (meta.get("labels") or {}).get(ARCHIVED_LABEL) == ARCHIVED


def moment(text: str | None) -> datetime | None:
    """metav1.Time as an aware datetime."""
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
