"""The tree of a run from what runs leave behind, whatever of it is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.archive import traces
from orchestrator_job.run import node_records as run_steps

AT = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
OWNER = {"namespace": "team", "name": "mail-1"}
FENCE = {
    "attempt": 2,
    "spent": {
        "r1": {"llmCalls": 3, "tokens": 100, "delegations": ["r1.d1"]},
        "r2": {"llmCalls": 9, "tokens": 2000, "delegations": ["r2.d1", "r2.d2", "r2.d10", "r2.d1.1"]},
    },
}


def measured(name: str, **more: Any) -> dict[str, Any]:
    ended = {"startTime": "2027-03-01T12:00:00Z", "endTime": "2027-03-01T12:01:00Z", "success": True}
    return {"delegationId": name, "agentName": "Coding", **ended, **more}


def entry(name: str, kind: str, seconds: int) -> dict[str, Any]:
    return {"delegation": name, "kind": kind, "at": AT + timedelta(seconds=seconds)}


def test_a_tree_of_what_has_ended_what_runs_and_what_waits() -> None:
    stored = traces.Stored(
        fence=FENCE,
        metrics=[
            measured("r1.d1", llmCalls=3, tokenCount=90),
            measured("r2.d1", llmCalls=4, tokenCount=800, confidence=0.9, needsVerification=True),
            measured("r2.d1.1", agentName="Test", success=False, parentDelegationId="r2.d1"),
        ],
        journal=[
            entry("r2.plan", "reply", 0),
            {**entry("r2.d2", "begun", 5), "value": '{"agent": "Git"}'},
            entry("r2.d2", "reply", 9),
            entry("r2.d2", "result", 10),
            entry("r2.d2", "reply", 12),
        ],
        ledger=[
            {"step": "r2.d1", "ordinal": 4, "state": "done", "intent": {"tool": "push_branch"}},
            {"step": "r2.d1.approval", "ordinal": 4, "state": "done", "intent": {"tool": "push_branch"}},
            {"step": "r2.d1.approval", "ordinal": 6, "state": "started", "intent": {"tool": "send_mail"}},
            {"step": "r2.d1.4.proposal", "ordinal": 1, "state": "done", "intent": {"collection": "task_results"}},
            {"step": "r2.finalize", "ordinal": 0, "state": "done", "intent": {"collection": "task_results"}},
        ],
    )
    found = traces.of("u", OWNER, stored)
    assert (found.namespace, found.name, found.attempt, found.round) == ("team", "mail-1", 2, 2)
    assert (found.llm_calls, found.tokens) == (9, 2000)
    assert [(one.id, one.parent, one.status) for one in found.steps] == [
        ("r1.d1", "", "COMPLETED"),
        ("r2.plan", "", "RUNNING"),
        ("r2.d1", "", "COMPLETED"),
        ("r2.d1.1", "r2.d1", "FAILED"),
        ("r2.d2", "", "RUNNING"),
        ("r2.d10", "", "PENDING"),
    ]
    plan, done, _, runs = found.steps[1:5]
    assert (plan.agent, plan.llm_calls) == ("plan_delegations", 1)
    assert (done.llm_calls, done.tokens, done.confidence, done.needs_verification) == (4, 800, 0.9, True)
    assert [(one.ordinal, one.what, one.state, one.asked) for one in done.effects] == [
        (4, "push_branch", "done", True),
        (6, "send_mail", "asked", True),
    ]
    assert (runs.agent, runs.llm_calls, runs.tool_calls) == ("Git", 2, 1)
    assert runs.started_at == "2027-03-01T12:00:05Z"


def test_a_status_that_was_written_stands_above_what_follows_from_times() -> None:
    waits = measured("r1.d1", status="INTERRUPTED", endTime=None)
    odd = measured("r1.d2", status="Perhaps")
    found = traces.of("u", OWNER, traces.Stored(metrics=[waits, odd]))
    assert [one.status for one in found.steps] == ["INTERRUPTED", "COMPLETED"]


def noted(begun: int, ended: int | None = None, status: str = "COMPLETED", **more: Any) -> dict[str, Any]:
    over = {} if ended is None else {"endedAt": AT + timedelta(seconds=ended), "status": status}
    return {"startedAt": AT + timedelta(seconds=begun), **over, **more}


def test_the_nodes_stand_around_the_delegations_in_the_order_of_the_graph() -> None:
    steps = {
        "r1": {"intake": noted(0, 1), "respond": noted(2, 5, llmCalls=1, tokens=640), "finalize": noted(5, 6)},
        "r2": {
            "finalize": noted(70),
            "approve": noted(60, 69, "INTERRUPTED"),
            "synthesize": noted(50, 60, llmCalls=1, tokens=900),
            "evidence": noted(11, 12, "FAILED"),
            "plan_delegations": noted(13, 19, llmCalls=2, tokens=300),
            "intake": noted(10, 11),
        },
    }
    fence = {**FENCE, "steps": steps, "spent": {"r2": {"llmCalls": 9, "tokens": 2000}}}
    stored = traces.Stored(
        fence=fence,
        result={"round": 2, "confidence": 0.7},
        metrics=[measured("r2.d1"), measured("r2.d1.1")],
        journal=[entry("r2.plan", "reply", 14)],
    )
    found = traces.of("u", OWNER, stored)
    assert [(one.id, one.agent, one.status) for one in found.steps] == [
        ("r1.intake", "intake", "COMPLETED"),
        ("r1.respond", "respond", "COMPLETED"),
        ("r1.finalize", "finalize", "COMPLETED"),
        ("r2.intake", "intake", "COMPLETED"),
        ("r2.evidence", "evidence", "FAILED"),
        ("r2.plan", "plan_delegations", "COMPLETED"),
        ("r2.d1", "Coding", "COMPLETED"),
        ("r2.d1.1", "Coding", "COMPLETED"),
        ("r2.synthesis", "synthesize", "COMPLETED"),
        ("r2.approve", "approve", "INTERRUPTED"),
        ("r2.finalize", "finalize", "RUNNING"),
    ]
    by = {one.id: one for one in found.steps}
    assert (by["r2.intake"].started_at, by["r2.intake"].ended_at) == ("2027-03-01T12:00:10Z", "2027-03-01T12:00:11Z")
    assert (by["r2.plan"].llm_calls, by["r2.plan"].tokens) == (2, 300)
    assert [by[name].confidence for name in ("r1.respond", "r2.synthesis", "r2.finalize")] == [None, 0.7, None]
    assert by["r2.finalize"].ended_at == ""


def test_the_nodes_of_an_order_stand_around_its_steps() -> None:
    nodes = ("intake", "evidence", "design", "goals", "plan_steps", "evaluate", "respond", "finalize")
    fence = {"steps": {"r1": {name: noted(at, at + 1) for at, name in enumerate(nodes)}}}
    found = traces.of("u", OWNER, traces.Stored(fence=fence, metrics=[measured("r1.d2"), measured("r1.d1")]))
    assert [one.id for one in found.steps] == [
        *(f"r1.{name}" for name in nodes[:5]), "r1.d1", "r1.d2", *(f"r1.{name}" for name in nodes[5:]),
    ]  # fmt: skip
    assert set(nodes) <= run_steps.NOTED


def test_notes_that_are_none_are_left_out() -> None:
    steps = {
        "r1": {"intake": {"status": "COMPLETED"}, "other": noted(0), "respond": 7},
        "x": {"intake": noted(0)},
        "r2": 1,
    }
    assert traces.of("u", OWNER, traces.Stored(fence={"steps": steps})).steps == ()
    odd = {"r1": {"intake": noted(0, 1, "Perhaps"), "evidence": noted(1, status="Perhaps")}}
    found = traces.of("u", OWNER, traces.Stored(fence={"steps": odd}))
    assert [one.status for one in found.steps] == ["COMPLETED", "RUNNING"]


def test_nothing_is_an_empty_tree_and_odd_documents_are_no_steps() -> None:
    assert traces.of("u", OWNER, traces.Stored()).steps == ()
    odd = traces.Stored(
        metrics=[{"agentName": "Coding"}], journal=[{"delegation": "x"}], ledger=[{"step": "r1.answer"}]
    )
    assert traces.of("u", OWNER, odd).steps == ()


def test_artifacts_of_a_result_each_once_with_who_made_them() -> None:
    result = {
        "artifacts": ["k1", "k2", "k1"],
        "delegations": [
            {"delegationId": "r1.d1", "artifacts": ["k2", "k3"], "changedFiles": ["a.py"]},
            {"delegationId": "r1.d2", "artifacts": None, "changedFiles": ["b.py", "a.py"]},
        ],
        "changedFiles": ["b.py"],
        "waiting": [{"tool": "pushBranch", "detailsRef": "diff"}, {"tool": "sendMail"}],
    }
    assert traces.artifacts(result) == {"k1": "", "k2": "r1.d1", "k3": "r1.d1", "diff": ""}
    assert traces.changed_files(result) == ("b.py", "a.py")
    assert [one.bytes for one in traces.listed(traces.artifacts(result), {"k3": 7})] == [None, None, None, 7]
    assert traces.artifacts({"answer": "x", "waiting": []}) == {}


def test_the_scope_of_a_task_that_lives_and_of_one_that_is_archived() -> None:
    live = traces.scope_of({"scope": {"clientId": "acme", "projectId": "p", "groupId": ""}})
    ended = traces.scope_of({"object": {"spec": {"clientId": "acme", "projectId": "p"}}})
    assert live == ended
    assert (live.client_id, live.project_id) == ("acme", "p")
