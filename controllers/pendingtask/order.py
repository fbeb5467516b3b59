"""Who comes first: Foreground, then `queuePosition` ascending with nulls last, then the older one.

Source: seed 000 "Qualification Loop" (`queuePosition ASC NULLS LAST, createdAt ASC`), blueprint section 4.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from controllers.pendingtask import directive
from crds import pendingtask

_LAST = 1 << 62


class Order(NamedTuple):
    """Smaller is sooner. `lane` is 0 for Foreground and 1 for Background; `created` in seconds since the epoch."""

    lane: int
    position: int
    created: int
    name: str


def foreground(spec: pendingtask.Spec) -> bool:
    """Does a person wait? A chat message is always in the foreground, whatever its mode says."""
    return spec.mode is pendingtask.Mode.FOREGROUND or spec.type in directive.CHAT


def of(task: pendingtask.PendingTask) -> Order:
    """The place of a task in every queue."""
    created = task.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    position = task.spec.queue_position
    return Order(
        0 if foreground(task.spec) else 1,
        _LAST if position is None else position,
        int(created.timestamp()),
        f"{task.metadata.namespace}/{task.metadata.name}",
    )
