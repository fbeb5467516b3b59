"""An approval from its request to its effect: operator, task memory, real run, command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.cli import site
from tests.fakes.ollama import process as ollama
from tests.operator import kubelet, process, runs, test_history
from tests.operator.conftest import Space
from tests.operator.process import Start
from tests.orchestrator_job import job as scripts
from tests.orchestrator_job import knowledge as answers
from tests.orchestrator_job.context.test_rules_context import rule
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
    request = status["userTask"]["requestId"]
    assert space.condition("ask", "WaitingForUser")["message"].endswith(f"spec.approval.requestId {request}.")
    # The same verdict again is no change of the object, with the request's id it is.
    space.edit("ask", {"approval": {"verdict": "Approved"}})
    assert space.phase("ask") == "UserTask"
    space.edit("ask", {"approval": {"verdict": "Approved", "requestId": request}})
    await asyncio.to_thread(until, lambda: space.phase("ask") == "Completed", "the next run answers")
    assert space.status("ask")["result"]["exitReason"] == "Answered"
    again = await asyncio.to_thread(command, kubeconfig, space, "approve", "ask")
    assert (again.code, again.out) == (0, "pendingtask.jervis.dev/ask was approved already\n")


MAIL = {"type": "UserInputProcessing", "mode": "Foreground", "content": "Tell Ada that the disk is replaced."}
LONG = f"{'ě' * 40} " * 150
"""More bytes than a status has of an effect, and not more characters than an approval may have."""
WAITING = [
    {
        "id": f"r1.d{number}.approval/0",
        "tool": "sendMail",
        "connection": "office",
        "targets": [f"{name}@example.com"],
        "agent": "Email",
        "arguments": {"to": [f"{name}@example.com"], "body": LONG},
        "shown": f"To: {name}@example.com",
        "why": "No permit names it.",
        "copies": [{"text": "slot C4", "source": "wiki::7", "why": "Its readers are not known."}],
    }
    for number, name in enumerate(("ada", "bob", "eve"), start=1)
]


@pytest.fixture
def asks(space: Space, database: Any) -> Callable[[str, int], dict[str, Any]]:
    """Each first run wants to send three mails, and stores them as a run does; the next one ends."""

    def said(name: str, attempt: int) -> dict[str, Any]:
        if attempt > 1:
            return {"exitReason": "Answered", "summary": "It is done.", "ref": {"key": "k"}}
        uid = space.get(name)["metadata"]["uid"]
        result = {"attempt": attempt, "exitReason": "NeedsApproval", "waiting": WAITING}
        database["task_results"].replace_one({"_id": uid}, result, upsert=True)
        return {"exitReason": "NeedsApproval", "summary": "It wants to send mails.", "waiting": 3, "ref": {"key": uid}}

    return said


def test_the_effects_are_shown_and_what_is_decided_about_each_reaches_the_next_run(
    space: Space,
    start: Start,
    kubeconfig: Path,
    database: Any,
    asks: Callable[[str, int], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = site.Site(kubeconfig, None, None, space.name).run
    with kubelet.Kubelet(space.api, space.name, asks), start(HISTORY_HOST="0.0.0.0") as operator:
        test_history.expose(space, operator.history_port)
        space.bring("UserTask", "mail", **MAIL)
        request = space.status("mail")["userTask"]
        assert (request["kind"], request["effectsWaiting"]) == ("Approval", 3)
        assert [(one["id"], one["targets"]) for one in request["effects"]] == [
            (one["id"], one["targets"]) for one in WAITING
        ]
        assert "expiresAt" not in request
        assert (
            "3 effects wait for approval: 1 sendMail ada@example.com;"
            in space.condition("mail", "WaitingForUser")["message"]
        )
        shown = run("get", "mail").out
        assert "2. sendMail bob@example.com" in shown
        assert 'Copied from wiki::7: "slot C4"' in shown
        assert "approve mail --all, or --only 1,3, or --edit" in shown
        assert "a person: Approval of 3 effects" in run("queue", "--phase", "UserTask").out
        assert "Effects that wait for approval: 3" in run("result", "mail").out

        refused = run("approve", "mail")
        assert (refused.code, "Say which: kubectl jervis approve mail --all" in refused.err) != (0, False), refused.err
        # Past the command line, which checks it: the operator names what is wrong and goes on waiting.
        answer = {"id": WAITING[0]["id"], "verdict": "Approved", "arguments": "{]"}
        approval = {"verdict": "Approved", "requestId": request["requestId"], "effects": [answer]}
        space.edit("mail", {"approval": approval})
        until(lambda: space.conditions("mail")["WaitingForUser"] == "ApprovalUnusable", "the operator says so")
        space.edit("mail", {"approval": {**approval, "requestId": "run-7", "effects": None}})
        until(lambda: space.conditions("mail")["WaitingForUser"] == "OtherRequest", "the operator says so")
        assert space.phase("mail") == "UserTask"

        # The editor shows each effect whole, of which the status has the beginning.
        editor = tmp_path / "editor.py"
        editor.write_text(
            "import pathlib, sys\n"
            "path = pathlib.Path(sys.argv[1])\n"
            "text = path.read_text()\n"
            "assert '[cut]' not in text\n"
            "text = text.replace('- ada@example.com', '- zoe@example.com')\n"
            "head, tail = text.rsplit('verdict: Approved', 1)\n"
            "path.write_text(head + 'verdict: Rejected' + tail.replace(\"reason: ''\", 'reason: not she', 1))\n"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
        done = run("approve", "mail", "--edit", "--for-task")
        assert done.code == 0, done.err
        until(lambda: space.phase("mail") == "Completed", "the next run ends")
        decided = space.status("mail")["approvals"]
        assert [(one["about"], one["verdict"], one["comment"], one["forTask"]) for one in decided] == [
            ("r1.d1.approval/0", "Approved", "", True),
            ("r1.d2.approval/0", "Approved", "", True),
            ("r1.d3.approval/0", "Rejected", "not she", False),
        ]
        assert json.loads(decided[0]["arguments"]) == {"to": ["zoe@example.com"], "body": LONG}
        assert decided[1]["arguments"] == ""
        (memory,) = database["task_memory"].find()
        assert memory["approvals"] == decided
        assert "PartlyApproved" in space.events("mail")


def test_a_request_that_expires_while_the_operator_is_away_is_rejected_when_it_is_back(
    space: Space, start: Start, asks: Callable[[str, int], dict[str, Any]]
) -> None:
    with kubelet.Kubelet(space.api, space.name, asks):
        with start():
            space.submit("mail", **MAIL, approvalPolicy={"expireAfter": "8760h"})
            space.submit("given-up", **MAIL, approvalPolicy={"expireAfter": "8760h", "default": "GiveUp"})
            until(lambda: set(space.phases().values()) == {"UserTask"}, "both runs ask")
            for name in ("mail", "given-up"):
                assert space.status(name)["userTask"]["expiresAt"]
        # The clock does not wait for a year: the policy is shortened, as a person may do.
        for name in ("mail", "given-up"):
            space.edit(name, {"approvalPolicy": {"expireAfter": "1s"}})
        with start():
            until(lambda: space.phase("mail") == "Completed", "the run went on")
            until(lambda: space.phase("given-up") == "Error", "it is given up")
    for decided in space.status("mail")["approvals"]:
        assert (decided["verdict"], decided["author"], decided["attempt"]) == ("Rejected", "jervis", 1)
    assert space.conditions("mail")["WaitingForUser"] == "ApprovalExpired"
    assert space.conditions("given-up")["Finished"] == "ApprovalExpired"
    assert "ApprovalExpired" in space.events("mail")


def test_flags_by_annotation_where_the_namespace_permits_them(space: Space, start: Start) -> None:
    limits = {"limits": {"taskFlags": False}, "namespaces": {space.name: {"taskFlags": True}}}

    def variables(name: str) -> dict[str, str]:
        (made,) = [one for one in space.jobs() if one.metadata.labels["jervis.dev/task"] == name]
        found = {one.name: one.value for one in made.spec.template.spec.containers[0].env}
        return {key: value for key, value in found.items() if key.startswith("JERVIS_USE_")}

    def submit(name: str, **annotations: str) -> None:
        space.submit(name, **MAIL, suspend=True)
        space.mark(name, {"annotations": {f"jervis.dev/{key}": value for key, value in annotations.items()}})
        space.edit(name, {"suspend": False})

    with kubelet.Kubelet(space.api, space.name):
        flags = json.dumps({"useDelegationGraph": True, "useDagExecution": True})
        with start(ADMISSION=json.dumps(limits), JOB_FLAGS=flags):
            submit(
                "chosen",
                **{"use-dag-execution": "false", "use-specialist-agents": "true", "use-procedural-memory": "1"},
            )
            until(lambda: space.phase("chosen") == "Completed", "it ran")
        assert variables("chosen") == {
            "JERVIS_USE_DELEGATION_GRAPH": "true",
            "JERVIS_USE_SPECIALIST_AGENTS": "true",
            "JERVIS_USE_DAG_EXECUTION": "false",
            "JERVIS_USE_PROCEDURAL_MEMORY": "false",
            "JERVIS_USE_DECISION_AGENT": "false",
        }
        assert space.conditions("chosen")["FlagsApplied"] == "AnnotationIgnored"
        with start():
            submit("refused", **{"use-dag-execution": "true"})
            until(lambda: space.phase("refused") == "Completed", "it ran")
        assert set(variables("refused").values()) == {"false"}
        assert "taskFlags" in space.condition("refused", "FlagsApplied")["message"]
