"""The times of a run's nodes, on its fence: while it runs, after it was stopped, and in no one's way."""

from __future__ import annotations

import signal
import uuid
from typing import Any

import pytest

from orchestrator_job import errors
from orchestrator_job.model import telemetry
from orchestrator_job.run import node_records
from orchestrator_job.store import fence, mongo, retry
from tests import waiting
from tests.orchestrator_job import job, workbench
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services


@pytest.fixture
def uid() -> str:
    """A task of its own."""
    return uuid.uuid4().hex


def noted(store: job.Store, uid: str) -> dict[str, dict[str, Any]]:
    """The notes of round 1 by node."""
    [found] = store.all(fence.COLLECTION, _id=uid)
    return dict(found["steps"]["r1"])


def statuses(found: dict[str, dict[str, Any]]) -> dict[str, str | None]:
    """In the order in which the nodes began."""
    return {name: found[name].get("status") for name in sorted(found, key=lambda name: found[name]["startedAt"])}


async def test_a_run_notes_its_nodes_and_what_they_took(desk: Desk) -> None:
    await desk.ends("Answered", ["no json", job.reply()])
    found = noted(desk.store, desk.task.uid)
    done = dict.fromkeys(("intake", "evidence", "respond", "approve", "finalize"), "COMPLETED")
    assert list(statuses(found).items()) == list(done.items())
    assert all(one["startedAt"] <= one["endedAt"] for one in found.values())
    assert [name for name, one in found.items() if "llmCalls" in one] == ["respond"]
    [spent] = [one["spent"]["r1"] for one in desk.store.all(fence.COLLECTION, _id=desk.task.uid)]
    assert (found["respond"]["llmCalls"], found["respond"]["tokens"]) == (spent["llmCalls"], spent["tokens"])
    assert spent["llmCalls"] == 2


async def test_a_node_is_there_while_it_runs_and_goes_on_in_the_next_run(desk: Desk) -> None:
    desk.fake.set_script({job.TAG: [job.STALL, job.reply()]})
    running = desk.task.start(JERVIS_DRAIN_GRACE_SECONDS="0.2")
    await waiting.eventually(lambda: bool(desk.store.all(fence.COLLECTION, **{"steps.r1.respond": {"$exists": True}})))
    live = noted(desk.store, desk.task.uid)
    assert statuses(live) == {"intake": "COMPLETED", "evidence": "COMPLETED", "respond": None}
    await job.reached(desk.fake)
    running.process.send_signal(signal.SIGTERM)
    assert (await desk.task.end(running)).message["exitReason"] == "Drained"
    stopped = noted(desk.store, desk.task.uid)
    assert statuses(stopped)["respond"] == "INTERRUPTED"
    await desk.ends("Answered")
    ended = noted(desk.store, desk.task.uid)
    assert set(statuses(ended).values()) == {"COMPLETED"}
    assert ended["evidence"] == stopped["evidence"]
    assert ended["respond"]["startedAt"] > stopped["respond"]["startedAt"]
    assert ended["respond"]["llmCalls"] == 1


async def test_a_node_that_fails_and_one_that_waits_for_a_person(store: job.Store, uid: str) -> None:
    bench = workbench.Bench(store, None, workbench.task(uid))  # type: ignore[arg-type]  # no model is asked here
    await bench.guard.claim(workbench.NOW)
    made = node_records.Steps(bench.database, bench.guard, lambda: workbench.NOW)
    with pytest.raises(errors.InvalidInput), made.around("intake", 1, telemetry.Usage()):
        raise errors.InvalidInput("no", field="x")
    with pytest.raises(errors.NeedsApproval), made.around("approve", 1, telemetry.Usage()):
        raise errors.NeedsApproval("ask")
    with made.around("execute_delegation", 1, telemetry.Usage(calls=3)):
        pass
    await made.flush()
    found = noted(store, uid)
    assert {name: one["status"] for name, one in found.items()} == {"intake": "FAILED", "approve": "INTERRUPTED"}
    with made.around("intake", 1, telemetry.Usage(calls=1, tokens=10)):
        pass
    with made.around("intake", 1, telemetry.Usage(calls=2, tokens=20)):
        pass
    await made.flush()
    again = noted(store, uid)["intake"]
    assert (again["status"], again["llmCalls"], again["tokens"]) == ("COMPLETED", 3, 30)


async def test_a_run_that_was_overtaken_notes_nothing(store: job.Store, uid: str) -> None:
    old, new = (workbench.Bench(store, None, workbench.task(uid)) for _ in range(2))  # type: ignore[arg-type]
    await old.guard.claim(workbench.NOW)
    await new.guard.claim(workbench.NOW)
    made = node_records.Steps(old.database, old.guard, lambda: workbench.NOW)
    with made.around("finalize", 1, telemetry.Usage()):
        pass
    await made.flush()
    assert "steps" not in store.all(fence.COLLECTION, _id=uid)[0]


async def test_a_mongodb_that_is_away_fails_no_node(uid: str) -> None:
    database = mongo.Database(mongo.connect("mongodb://127.0.0.1:9"), "x", retry.Retry(0))
    made = node_records.Steps(database, fence.Fence(database, uid, 1, "x"), lambda: workbench.NOW)
    with made.around("intake", 1, telemetry.Usage()):
        pass
    await made.flush()
    database.client.close()
