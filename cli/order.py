"""The order in which the operator takes tasks: Foreground, then `queuePosition` with nulls last, then the older one.

The operator's own words for it are in `controllers.pendingtask.order`, which nothing here may import; a test holds the
two together. Source: seed 000 "Qualification Loop".
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from crds import pendingtask
from crds.phases import Phase

_LAST = 1 << 62
_NEVER = datetime.max.replace(tzinfo=UTC)

WAITING = frozenset({Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU})
"""Nothing but their turn is missing."""

Place = tuple[int, int, int, str]
"""Lane (0 Foreground, 1 Background), position, seconds since the epoch, namespace/name. Smaller is sooner."""


def foreground(spec: pendingtask.Spec) -> bool:
    """Does a person wait? A chat message is always in the foreground."""
    return spec.mode is pendingtask.Mode.FOREGROUND or spec.type is pendingtask.Type.USER_INPUT


def place(task: pendingtask.PendingTask) -> Place:
    """Where it stands."""
    meta, position = task.metadata, task.spec.queue_position
    return (
        0 if foreground(task.spec) else 1,
        _LAST if position is None else position,
        int((meta.creation_timestamp or _NEVER).timestamp()),
        f"{meta.namespace}/{meta.name}",
    )


def phase(task: pendingtask.PendingTask) -> Phase:
    """A task without a phase is New."""
    return task.status.phase or Phase.NEW


def queue(tasks: Iterable[pendingtask.PendingTask]) -> list[pendingtask.PendingTask]:
    """The given tasks, first come first."""
    return sorted(tasks, key=place)
