"""What the index keeps of a task between two reconciliations."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from hypothesis import given

from controllers.pendingtask import task_index
from crds import pendingtask
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.strategies import tasks


def kept(task: pendingtask.PendingTask) -> tuple[pendingtask.PendingTask, int]:
    """The task as the index gives it back, and the bytes that it takes."""
    index = task_index.Tasks(lambda: datetime.now(UTC))
    assert index.observe(task.wire())
    found, entry = index.get(task.metadata.uid), index.entry(task.metadata.uid)
    assert found is not None
    assert entry is not None
    return found, len(entry.document)


@given(task=tasks())
def test_everything_comes_back_but_what_people_wrote(task: pendingtask.PendingTask) -> None:
    found, _ = kept(task)
    assert found.status == task.status
    assert found.metadata == task.metadata.model_copy(update={"annotations": found.metadata.annotations})
    assert [one.id for one in found.spec.messages] == [one.id for one in task.spec.messages]
    assert [one.id for one in found.spec.answers] == [one.id for one in task.spec.answers]
    texts: dict[str, object] = {"content": None, "content_ref": None, "messages": [], "answers": []}
    assert found.spec.model_copy(update=texts) == task.spec.model_copy(update=texts)


def test_ten_thousand_tasks_that_all_differ_take_fifteen_megabytes() -> None:
    total = 0
    for number in range(10_000):
        spec = {
            "content": f"Please look into {number}. " * 50,
            "clientId": f"client-{number % 97}",
            "sourceUrn": f"imap:acme/handlers/{number}",
        }
        raw = build.routed(Phase.READY_FOR_GPU, spec=spec).wire()
        raw["metadata"] |= {"name": f"mail-{number}", "uid": str(uuid.UUID(int=number * 7919)), "resourceVersion": "9"}
        total += kept(pendingtask.PendingTask.model_validate(raw))[1]
    assert total <= 15_000_000
