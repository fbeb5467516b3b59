"""SIGTERM: the node in flight may end, then the run stops at its checkpoint with status 42; the next run goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests import waiting
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services


async def test_the_model_may_finish_and_is_not_asked_again(desk: Desk) -> None:
    desk.fake.set_faults([{"match": {"tag": job.TAG}, "nth": 1, "stall": {"afterBytes": 0, "gate": "finish"}}])
    desk.fake.set_script({job.TAG: [job.reply()]})
    running = desk.task.start(JERVIS_DRAIN_GRACE_SECONDS="60")
    await waiting.eventually(lambda: desk.calls() == 1)
    running.process.send_signal(signal.SIGTERM)
    await running.logged("draining")
    desk.fake.open_gate("finish")
    drained = await desk.task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    assert desk.store.all("task_results") == []
    await desk.ends("Answered")
    assert desk.calls() == 1
    assert len(desk.known.asked) == 1


async def test_after_the_grace_period_the_call_is_hung_up(desk: Desk) -> None:
    await desk.stops([job.STALL, job.reply()])
    await desk.ends("Answered")
    assert desk.calls() == 2


async def test_a_stop_before_anything_is_imported(desk: Desk) -> None:
    running = desk.task.start_from_nothing()
    # The handler is the first thing that the root does; the environment is read long after it.
    await waiting.eventually(lambda: _catches(running.process.pid, signal.SIGTERM))
    running.process.send_signal(signal.SIGTERM)
    drained = await desk.task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    assert desk.store.all("task_results") == []


async def test_a_drain_while_mongodb_is_away(desk: Desk) -> None:
    running = desk.task.start(JERVIS_MONGODB_URI="mongodb://127.0.0.1:9", JERVIS_DRAIN_GRACE_SECONDS="0.2")
    await running.logged("waiting")
    running.process.send_signal(signal.SIGTERM)
    assert (await desk.task.end(running)).message["exitReason"] == "Drained"


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal: proc(5), SigCgt."""
    status = Path(f"/proc/{pid}/status").read_bytes()
    [mask] = [line.split()[1] for line in status.splitlines() if line.startswith(b"SigCgt")]
    return bool(int(mask, 16) >> (number - 1) & 1)
