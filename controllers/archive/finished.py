"""A finished PendingTask reduced to what the sweep decides by. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import kube
from crds import errors, labels, phases

ARCHIVED_LABEL = labels.ARCHIVED
ARCHIVED = "true"
UNARCHIVED_SELECTOR = f"{ARCHIVED_LABEL}!={ARCHIVED}"

FAILED = frozenset({phases.Phase.ERROR})
"""Terminal phases that count as failures; the others are successes."""

CLIENT, PHASE, ENDED, TTL = "Client", "Phase", "Ended", "Ttl"
"""Printer columns of PendingTask (`crds.definitions`) that a row of a list is read from."""

_TERMINAL = {phase.value: phase for phase in phases.TERMINAL}


class OldDefinitionError(errors.Permanent):
    """The cluster's CustomResourceDefinition lacks a column."""


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
    spec, status = raw["spec"], raw.get("status") or {}
    phase = str(status.get("phase"))
    completed = status.get("completedAt") or (status.get("phaseTimes") or {}).get(phase)
    return _of(raw["metadata"], phase, spec["clientId"], completed, spec.get("ttlSecondsAfterFinished"))


def of_row(row: kube.Row) -> Finished | None:
    """The same from a row of a list. Raises `OldDefinitionError`."""
    cells = row.cells
    try:
        return _of(row.metadata, cells[PHASE], cells[CLIENT], cells[ENDED], cells[TTL])
    except KeyError as error:
        raise OldDefinitionError(
            f"the PendingTasks of this cluster have no column {error}",
            field="spec.versions[0].additionalPrinterColumns",
            remedy="Apply the CustomResourceDefinitions of this release (crds/*.yaml).",
        ) from error


def _of(meta: Mapping[str, Any], phase: str, client: str, completed: str | None, ttl: int | None) -> Finished | None:
    ended = _TERMINAL.get(phase)
    if ended is None:
        return None
    return Finished(
        uid=meta["uid"],
        namespace=sys.intern(meta["namespace"]),
        name=meta["name"],
        version=meta["resourceVersion"],
        generation=int(meta.get("generation", 1)),
        client=sys.intern(client),
        phase=ended,
        completed=moment(completed),
        ttl=ttl,
        archived=(meta.get("labels") or {}).get(ARCHIVED_LABEL) == ARCHIVED,
        leaving=bool(meta.get("deletionTimestamp")),
    )


def moment(text: str | None) -> datetime | None:
    """metav1.Time as an aware datetime."""
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
