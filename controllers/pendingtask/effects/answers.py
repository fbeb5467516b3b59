"""The tasks that a document answers: each is ended by its own reconciliation, before that document's task goes on.

So a crash in between loses nothing: the answering task is read again and finds what is left. What runs meanwhile, or
is not open any more for another reason, is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from controllers.pendingtask.observed import Answered, Observation, Trouble
from controllers.pendingtask.policy import answered
from crds import pendingtask
from kb import api

log = structlog.get_logger(__name__)
LOOK_SECONDS = 0.1
LOOKS = 100
_NAMED = 3

Find = Callable[[str], pendingtask.PendingTask | None]
"""An unfinished task by its uid, as the index has it."""


def sentence(found: Sequence[api.Answered]) -> str:
    """What a document answers, for the condition of its task; "" where it answers nothing."""
    named = ", ".join(one.source_urn[:200] for one in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"It answers {named}{more}." if found else ""


async def supersede(
    found: Sequence[api.Answered],
    by: pendingtask.PendingTask,
    source: str,
    *,
    find: Find,
    observed: Callable[[str, Observation | None], None],
) -> Trouble | None:
    """Have those tasks ended that the document of `by` answers; a trouble if one is open still."""
    for one in found:
        for look in range(LOOKS):
            task = find(one.task_uid)
            if task is None or not answered.answers(by, task):
                break
            if look % 10 == 0:
                log.info("answered", task=task.metadata.name, by=by.metadata.name)
                observed(one.task_uid, Answered(by.metadata.name, source))
            await asyncio.sleep(LOOK_SECONDS)
        else:
            return Trouble(f"the task that it answers, {one.task_uid}, is not ended yet", operational=True)
    return None
