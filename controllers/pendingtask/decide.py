"""`decide(task, world, now) -> Decision`: pure, total, level-based.

For each phase an ordered chain of small policies; the first that has an opinion decides. The last one of every chain
always has an opinion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from controllers.pendingtask import (
    dispatch,
    drain,
    finish,
    hold,
    launch,
    lost,
    observe,
    qualify,
    recur,
    schedule,
    waiting,
)
from controllers.pendingtask.decision import Decision, View
from controllers.pendingtask.world import World
from crds import pendingtask
from crds.phases import Phase

Policy = Callable[[View], Decision | None]

_HELD: tuple[Policy, ...] = (hold.suspended, hold.resumed)

CHAINS: Mapping[Phase, tuple[Policy, ...]] = {
    Phase.NEW: (*_HELD, schedule.admit),
    Phase.SCHEDULED: (recur.on_record, *_HELD, schedule.fire),
    Phase.READY_FOR_QUALIFICATION: (*_HELD, hold.retry_later, qualify.claim),
    # A reading under way is not interrupted by suspend: it holds no GPU, and its result is wanted in any case.
    Phase.QUALIFYING: (qualify.chat, qualify.postpone, qualify.refuse, qualify.route, qualify.restart),
    Phase.READY_FOR_GPU: (
        lost.stray,
        drain.loose,
        *_HELD,
        drain.foreign_still,
        drain.foreign_over,
        dispatch.over,
        dispatch.running,
        hold.retry_later,
        dispatch.bystanders,
        dispatch.breaker,
        dispatch.refused,
        dispatch.idle,
        dispatch.slot,
        dispatch.claim,
    ),
    Phase.DISPATCHED_GPU: (
        launch.trouble,
        lost.stray,
        launch.started,
        drain.claimed,
        drain.stop,
        drain.foreign,
        lost.unserved,
        lost.stranded,
        launch.stale,
        launch.launch,
        launch.starting,
    ),
    Phase.ORCHESTRATING: (
        lost.stray,
        observe.ended,
        drain.claimed,
        drain.stop,
        drain.foreign,
        lost.unserved,
        lost.stranded,
        drain.resume,
        observe.running,
    ),
    Phase.USER_TASK: (
        lost.stray,
        *_HELD,
        waiting.messages,
        waiting.question,
        waiting.approval,
        waiting.failure,
        waiting.still,
    ),
    Phase.DONE: (finish.over,),
    Phase.COMPLETED: (finish.over,),
    Phase.ERROR: (finish.over,),
}


def decide(task: pendingtask.PendingTask, world: World, now: datetime) -> Decision:
    """What to do about `task` as it stands, given `world` at `now` (aware, UTC)."""
    view = View(task, world, now)
    if task.metadata.deletion_timestamp is not None:
        return finish.deleted(view)
    for policy in CHAINS[view.phase]:
        decision = policy(view)
        if decision is not None:
            return decision
    raise AssertionError(f"no policy decided about a task in {view.phase}")
