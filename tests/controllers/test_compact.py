"""What is kept of a task between two looks."""

from __future__ import annotations

import uuid

from hypothesis import given

from controllers.pendingtask import task_index
from crds import pendingtask
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.decide.test_properties import tasks


@given(task=tasks())
def test_everything_comes_back_but_what_people_said(task: pendingtask.PendingTask) -> None:
    kept, raw = task_index.unpack(task_index.pack(task.wire())), task.wire()
    assert kept.status == task.status
    assert kept.metadata == task.metadata.model_copy(update={"annotations": kept.metadata.annotations})
    assert [one.id for one in kept.spec.messages] == [one.id for one in task.spec.messages]
    assert [one.id for one in kept.spec.answers] == [one.id for one in task.spec.answers]
    said: dict[str, object] = {"content": None, "content_ref": None, "messages": [], "answers": []}
    assert kept.spec.model_copy(update=said) == task.spec.model_copy(update=said)
    assert raw == task.wire(), "and the object itself is as it was"


def test_ten_thousand_tasks_that_all_differ_take_three_megabytes() -> None:
    total = 0
    for number in range(10_000):
        spec = {
            "content": f"Please look into {number}. " * 50,
            "clientId": f"client-{number % 97}",
            "sourceUrn": f"imap:acme/handlers/{number}",
        }
        raw = build.routed(Phase.READY_FOR_GPU, spec=spec).wire()
        raw["metadata"] |= {
            "name": f"mail-{number}",
            "uid": str(uuid.UUID(int=number * 7919)),
            "resourceVersion": str(number),
        }
        total += len(task_index.pack(raw))
    assert total <= 3_000_000
