"""The order of tasks in every queue: Foreground first, then `queuePosition` with nulls last, then urgent, then oldest.

Tasks of links come after all others of their lane and position: a mail with twenty links makes twenty, and the next
mail does not wait for them.

Among tasks of one lane and position clients take turns (`controllers.pendingtask.slots.fair_share`); the rest of the
order applies within a client.

Source: seed 000 "Qualification Loop" (`queuePosition ASC NULLS LAST, createdAt ASC`) and "Three-Way Task Routing": a
task that is assigned to us goes to the GPU with high priority, before others without a position.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import NamedTuple

from crds import pendingtask

_LAST = 1 << 62
HIGH, USUAL, LINK = 0, 1, 2
"""The values of `Order.urgency`."""
_NEVER = datetime.max.replace(tzinfo=UTC)

CHAT = frozenset({pendingtask.Type.USER_INPUT})
"""Types that are questions: they are not ingested, and a person waits for the answer."""


class Order(NamedTuple):
    """Smaller comes first. `lane` is 0 for Foreground and 1 for Background; `created` in seconds since the epoch.

    `client` is last and never decides, because names are unique.
    """

    lane: int
    position: int
    urgency: int
    created: int
    name: str
    client: str = ""

    @property
    def given(self) -> int | None:
        """`spec.queuePosition`."""
        return None if self.position == _LAST else self.position


def foreground(spec: pendingtask.Spec) -> bool:
    """Whether a person waits for the task. A chat message is always Foreground, whatever its mode."""
    return spec.mode is pendingtask.Mode.FOREGROUND or spec.type in CHAT


def mode(spec: pendingtask.Spec) -> pendingtask.Mode:
    """The mode that counts: `foreground` as a mode."""
    return pendingtask.Mode.FOREGROUND if foreground(spec) else pendingtask.Mode.BACKGROUND


def of(task: pendingtask.PendingTask) -> Order:
    """The place of a task in every queue."""
    position, route = task.spec.queue_position, task.status.route
    return Order(
        0 if foreground(task.spec) else 1,
        _LAST if position is None else position,
        _urgency(task.spec, route),
        int((task.metadata.creation_timestamp or _NEVER).timestamp()),
        f"{task.metadata.namespace}/{task.metadata.name}",
        sys.intern(task.spec.client_id),
    )


def _urgency(spec: pendingtask.Spec, route: pendingtask.Route | None) -> int:
    if route is not None and route.decision is pendingtask.Decision.EXECUTE_HIGH:
        return HIGH
    return LINK if spec.type is pendingtask.Type.LINK else USUAL
