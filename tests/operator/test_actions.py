"""An effect that waits for approval: what is shown of it, edits of its arguments, and a request that expires."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.cli import site
from tests.operator import kubelet, process
from tests.operator.conftest import Space
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[process.Operator]]

CHAT = {"type": "UserInputProcessing", "mode": "Foreground", "content": "Tell Ada that the disk is replaced."}
ARGUMENTS = {"to": ["ada@example.com"], "body": "The disk is replaced."}


def asks(_: str, attempt: int) -> dict[str, Any]:
    """The first run wants to send a mail; the next one ends."""
    if attempt > 1:
        return {"exitReason": "Answered", "summary": "It is done.", "ref": {"key": "k"}}
    wanted = {"tool": "send_mail", "connection": "office", "agent": "Email", "why": "It leaves the house."}
    action = {**wanted, "arguments": json.dumps(ARGUMENTS), "shown": "To: ada@example.com"}
    return {"exitReason": "NeedsApproval", "summary": "It wants to send a mail.", "action": action}


def test_the_action_is_shown_and_its_edited_arguments_reach_the_next_run(
    space: Space, start: Start, kubeconfig: Path, database: Any, tmp_path: Path
) -> None:
    command = site.Site(kubeconfig, None, None, space.name).run
    with kubelet.Kubelet(space.api, space.name, asks), start():
        space.submit("mail", **CHAT)
        until(lambda: space.phase("mail") == "UserTask", "the run asks")
        asked = space.status("mail")["userTask"]
        assert (asked["kind"], asked["action"]["tool"], asked["action"]["connection"]) == (
            "Approval",
            "send_mail",
            "office",
        )
        assert json.loads(asked["action"]["arguments"]) == ARGUMENTS
        assert "expiresAt" not in asked
        shown = command("get", "mail")
        assert '"body": "The disk is replaced."' in shown.out
        assert "approve mail (with --arguments FILE to edit them)" in shown.out

        refused = command("approve", "mail", "--arguments", "[]")
        assert (refused.code, "--arguments" in refused.err) != (0, False), refused.err
        # Past the command line, which checks it: the operator names what is wrong and goes on waiting.
        space.edit("mail", {"approval": {"verdict": "Approved", "requestId": asked["requestId"], "arguments": "{]"}})
        until(lambda: space.conditions("mail")["WaitingForUser"] == "ArgumentsUnusable", "the operator says so")
        assert space.phase("mail") == "UserTask"

        edited = tmp_path / "arguments.json"
        edited.write_text(json.dumps({**ARGUMENTS, "to": ["bob@example.com"]}, indent=1))
        done = command("approve", "mail", "--arguments", str(edited))
        assert done.code == 0, done.err
        until(lambda: space.phase("mail") == "Completed", "the next run ends")
        (decided,) = space.status("mail")["approvals"]
        assert json.loads(decided["arguments"])["to"] == ["bob@example.com"]
        (memory,) = database["task_memory"].find()
        assert memory["approvals"] == [decided]


def test_a_request_that_expires_while_the_operator_is_away_is_rejected_when_it_is_back(
    space: Space, start: Start, database: Any
) -> None:
    with kubelet.Kubelet(space.api, space.name, asks):
        with start():
            space.submit("mail", **CHAT, approvalPolicy={"expireAfter": "8760h"})
            space.submit("given-up", **CHAT, approvalPolicy={"expireAfter": "8760h", "default": "GiveUp"})
            until(lambda: set(space.phases().values()) == {"UserTask"}, "both runs ask")
            for name in ("mail", "given-up"):
                assert space.status(name)["userTask"]["expiresAt"]
        # The clock does not wait for a year: the policy is shortened, as a person may do.
        for name in ("mail", "given-up"):
            space.edit(name, {"approvalPolicy": {"expireAfter": "1s"}})
        with start():
            until(lambda: space.phase("mail") == "Completed", "the run went on")
            until(lambda: space.phase("given-up") == "Error", "it is given up")
    (decided,) = space.status("mail")["approvals"]
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
        space.submit(name, **CHAT, suspend=True)
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
        said = next(one for one in space.status("refused")["conditions"] if one["type"] == "FlagsApplied")
        assert "taskFlags" in said["message"]
