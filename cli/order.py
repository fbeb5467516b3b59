"""Where tasks stand: the operator's own order (`crds.order`), and which phases wait for a turn."""

from __future__ import annotations

from crds import order, pendingtask
from crds.phases import Phase

foreground = order.foreground
of = order.of

WAITING = frozenset({Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU})
"""Nothing but their turn is missing."""


def phase(task: pendingtask.PendingTask) -> Phase:
    """A task without a phase is New."""
    return task.status.phase or Phase.NEW
