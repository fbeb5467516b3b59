"""An approval from its request to its effect: operator, task memory, real run, command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.cli import site
from tests.fakes.ollama import process as ollama
from tests.operator import kubelet, process, runs
from tests.operator.conftest import Space
from tests.orchestrator_job import job as scripts
from tests.orchestrator_job import knowledge as answers
from tests.orchestrator_job.test_standing import rule
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]

CHAT = {"type": "UserInputProcessing", "mode": "Foreground", "content": "When is the release of the router?"}


@pytest.fixture
def fake() -> Iterator[ollama.Fake]:
    with ollama.running() as simulator:
        simulator.set_script({scripts.TAG: [scripts.reply()]})
        yield simulator


@pytest.fixture
async def nodes(
    space: Space, tmp_path: Path, fake: ollama.Fake, start: Callable[..., AbstractContextManager[process.Operator]]
) -> AsyncIterator[runs.Runs]:
    """An operator, a node whose containers are real runs, and a client whose answers need an approval."""
    async with answers.serving() as known:
        known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
        run = runs.Runs(space, tmp_path, {"JERVIS_KB_URL": known.url, "JERVIS_ROUTER_URL": fake.url})
        with kubelet.Kubelet(space.api, space.name, run) as node, start():
            yield run
            node.says = lambda _, __: None
        run.close()


def command(kubeconfig: Path, space: Space, *words: str) -> site.Done:
    """`kubectl jervis ...` as a process."""
    return site.Site(kubeconfig, None, None, space.name).run(*words)


async def asked(space: Space, name: str = "ask") -> dict[str, Any]:
    """The status once the task waits for a decision."""
    await asyncio.to_thread(until, lambda: space.phase(name) == "UserTask", "the run asks")
    status = space.status(name)
    assert status["userTask"]["kind"] == "Approval"
    assert status["result"]["exitReason"] == "NeedsApproval"
    return status


async def test_an_approved_answer_is_given_by_the_run_that_resumes(
    space: Space, nodes: runs.Runs, kubeconfig: Path, database: Any, fake: ollama.Fake
) -> None:
    space.submit("ask", **CHAT)
    status = await asked(space)
    assert "On Friday [1]." in status["result"]["summary"]
    done = await asyncio.to_thread(command, kubeconfig, space, "approve", "ask", "--comment", "fine")
    assert done.code == 0, done.err
    await asyncio.to_thread(until, lambda: space.phase("ask") == "Completed", "the next run answers")
    status = space.status("ask")
    assert (status["result"]["exitReason"], status["result"]["summary"]) == ("Answered", "On Friday [1].")
    (decided,) = status["approvals"]
    assert (decided["verdict"], decided["attempt"], decided["comment"]) == ("Approved", 1, "fine")
    assert decided["requestId"].startswith("run-1-")
    (memory,) = database["task_memory"].find()
    assert memory["approvals"] == [decided]
    (result,) = database["task_results"].find()
    assert (result["exitReason"], result["attempt"]) == ("Answered", 2)
    assert (nodes.statuses, fake.count(path="/api/chat")) == ([0, 0], 1)


async def test_a_rejected_answer_is_withheld_and_the_task_says_so(
    space: Space, nodes: runs.Runs, kubeconfig: Path
) -> None:
    space.submit("ask", **CHAT)
    await asked(space)
    done = await asyncio.to_thread(command, kubeconfig, space, "reject", "ask", "--comment", "too early")
    assert done.code == 0, done.err
    await asyncio.to_thread(until, lambda: space.phase("ask") == "Completed", "the next run ends")
    status = space.status("ask")
    assert status["result"]["exitReason"] == "Rejected"
    assert "too early" in status["result"]["summary"]
    assert "Friday" not in status["result"]["summary"]
    assert space.conditions("ask")["Succeeded"] == "Rejected"
    assert nodes.statuses == [0, 0]


async def test_an_approval_that_is_older_than_the_request_needs_its_name(
    space: Space, nodes: runs.Runs, kubeconfig: Path
) -> None:
    space.submit("ask", **CHAT, approval={"verdict": "Approved"})
    status = await asked(space)
    waiting = next(one for one in status["conditions"] if one["type"] == "WaitingForUser")
    request = status["userTask"]["requestId"]
    assert waiting["message"].endswith(f"spec.approval.requestId {request}.")
    # The same verdict again is no change of the object, with the request's id it is.
    space.edit("ask", {"approval": {"verdict": "Approved"}})
    assert space.phase("ask") == "UserTask"
    space.edit("ask", {"approval": {"verdict": "Approved", "requestId": request}})
    await asyncio.to_thread(until, lambda: space.phase("ask") == "Completed", "the next run answers")
    assert space.status("ask")["result"]["exitReason"] == "Answered"
    again = await asyncio.to_thread(command, kubeconfig, space, "approve", "ask")
    assert (again.code, again.out) == (0, "pendingtask.jervis.dev/ask was approved already\n")
