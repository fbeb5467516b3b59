"""SIGTERM: the node in flight may end, then the run stops at its checkpoint with status 42; the next run goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests import waiting
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge

pytestmark = pytest.mark.services

_STALL = {"fault": {"stall": {"afterBytes": 0, "gate": "model"}}}


async def test_the_model_may_finish_and_is_not_asked_again(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    fake.set_faults([{"match": {"tag": job.TAG}, "nth": 1, "stall": {"afterBytes": 0, "gate": "finish"}}])
    fake.set_script({job.TAG: [job.reply()]})
    running = task.start(JERVIS_DRAIN_GRACE_SECONDS="60")
    await waiting.eventually(lambda: fake.count(path="/api/chat") == 1)
    running.process.send_signal(signal.SIGTERM)
    await running.logged("draining")
    fake.open_gate("finish")
    drained = await task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    assert store.all("task_results") == []
    ended = await task.run()
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered")
    assert fake.count(path="/api/chat") == 1
    assert len(known.asked) == 1


async def test_after_the_grace_period_the_call_is_hung_up(task: job.Job, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [_STALL, job.reply()]})
    running = task.start(JERVIS_DRAIN_GRACE_SECONDS="0.2")
    await job.reached(fake)
    running.process.send_signal(signal.SIGTERM)
    drained = await task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    assert fake.count(path="/api/chat") == 2


async def test_a_stop_before_anything_is_imported(task: job.Job, store: job.Store) -> None:
    running = task.start_from_nothing()
    # The handler is the first thing that the root does; the environment is read long after it.
    await waiting.eventually(lambda: _catches(running.process.pid, signal.SIGTERM))
    running.process.send_signal(signal.SIGTERM)
    drained = await task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    assert store.all("task_results") == []


async def test_a_drain_while_mongodb_is_away(task: job.Job) -> None:
    running = task.start(JERVIS_MONGODB_URI="mongodb://127.0.0.1:9", JERVIS_DRAIN_GRACE_SECONDS="0.2")
    await running.logged("waiting")
    running.process.send_signal(signal.SIGTERM)
    assert (await task.end(running)).message["exitReason"] == "Drained"


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal: proc(5), SigCgt."""
    status = Path(f"/proc/{pid}/status").read_bytes()
    [mask] = [line.split()[1] for line in status.splitlines() if line.startswith(b"SigCgt")]
    return bool(int(mask, 16) >> (number - 1) & 1)
