"""Jobs and pods as the API serves them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings

from controllers.pendingtask import views
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState
from crds import pendingtask
from crds.exit_reasons import ExitReason
from crds.phases import Phase
from tests import thorough
from tests.controllers import build, hostile
from tests.controllers.build import present


def raw_job(*conditions: dict[str, str], suspend: bool = False, **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "j", "uid": "u", "namespace": "n", "resourceVersion": "1", **meta},
        "spec": {"suspend": suspend},
        "status": {"conditions": list(conditions)},
    }


def yes(type_: str, **more: str) -> dict[str, str]:
    return {"type": type_, "status": "True", **more}


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (raw_job(), JobState.ACTIVE),
        (raw_job(yes("SuccessCriteriaMet")), JobState.ACTIVE),
        (raw_job(yes("FailureTarget", reason="PodFailurePolicy")), JobState.ACTIVE),
        (raw_job(yes("SuccessCriteriaMet"), yes("Complete")), JobState.COMPLETE),
        (raw_job(yes("Failed", reason="BackoffLimitExceeded")), JobState.FAILED),
        (raw_job({"type": "Failed", "status": "False"}), JobState.ACTIVE),
        (raw_job(yes("Suspended"), suspend=True), JobState.SUSPENDED),
        (raw_job(deletionTimestamp="2027-03-01T12:00:00Z"), JobState.DELETING),
        (raw_job(yes("Complete"), deletionTimestamp="2027-03-01T12:00:00Z"), JobState.COMPLETE),
    ],
)
def test_job_states(raw: dict[str, Any], state: JobState) -> None:
    assert views.job_view(raw).state is state


def raw_pod(state: dict[str, Any] | None, phase: str = "Running", **status: Any) -> dict[str, Any]:
    containers = [] if state is None else [{"name": "orchestrator", "state": state}]
    labels = {"jervis.dev/task-uid": "t", "jervis.dev/attempt": "2"}
    return {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2027-03-01T12:00:00Z",
            "labels": labels,
        },
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        pytest.param(
            raw_pod({"running": {}}), {"live": True, "started": True, "exit_code": None, "attempt": 2}, id="runs"
        ),
        pytest.param(
            raw_pod({"waiting": {"reason": "ErrImagePull", "message": "no"}}, phase="Pending"),
            {"live": True, "started": False, "waiting_reason": "ErrImagePull", "waiting_message": "no"},
            id="cannot pull its image",
        ),
        pytest.param(
            raw_pod(None, phase="Pending", conditions=[UNSCHEDULABLE]),
            {"started": False, "waiting_reason": "Unschedulable", "waiting_message": "0/1 nodes"},
            id="cannot be scheduled",
        ),
        pytest.param(
            raw_pod({"waiting": {"reason": "no reason!", "message": "no"}}, phase="Pending"),
            {"waiting_reason": "Waiting"},
            id="a reason that no condition could hold",
        ),
        pytest.param(
            raw_pod(None, phase="Failed", reason="Evicted"), {"live": False, "ended_reason": "Evicted"}, id="evicted"
        ),
    ],
)
def test_a_pod_says_whether_it_lives_and_why_it_waits(raw: dict[str, Any], seen: dict[str, object]) -> None:
    found = views.pod_view(raw)
    assert {name: getattr(found, name) for name in seen} == seen


def test_the_termination_message_is_read() -> None:
    said = {
        "exitReason": "NeedsInput",
        "summary": "Which account?",
        "ref": {"store": "mongodb", "collection": "task_results", "key": "t"},
        "questions": [{"id": "r1-q1", "text": "Which?"}, "And when?"],
    }
    found = views.pod_view(raw_pod({"terminated": {"exitCode": 0, "message": json.dumps(said)}}, phase="Succeeded"))
    assert found.outcome is not None
    assert (found.live, found.outcome.exit_reason, found.outcome.key) == (False, ExitReason.NEEDS_INPUT, "t")
    assert [(q.id, q.text) for q in found.outcome.questions] == [("r1-q1", "Which?"), ("2", "And when?")]


NO_EFFECTS: list[object] = [
    *(None, "x", {}, {"id": "r/0"}, {"id": "", "tool": "t"}, {"id": "r/0", "tool": "t", "arguments": ["x"]}),
    *({"id": "r/0", "tool": ""}, {"id": "r/0", "tool": 7}, {"id": "r" * 254, "tool": "t"}),
]
PLAN = {"version": 2, "amendments": [{"version": 2, "reason": "r"}]}


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        *(({"plan": name}, {"plan": name}) for name in ("Made", "Failed")),
        ({"plan": {"version": 1, "steps": [], "amendments": [], "failure": None}}, {"plan": "Made"}),
        ({"plan": PLAN}, {"plan": "Amended"}),
        ({"plan": {**PLAN, "failure": "no model"}}, {"plan": "Failed"}),
        *(({"plan": plan}, {"plan": None}) for plan in ("Perhaps", 7, None)),
        # The name of a request is whole or absent.
        *(({"about": name}, {"about": name}) for name in ("r1.d3/2", "r" * 253)),
        *(({"about": about}, {"about": ""}) for about in ("r" * 254, 7, None)),
        *(({"messagesRead": count}, {"messages_read": count}) for count in (0, 7)),
        *(({"messagesRead": read}, {"messages_read": None}) for read in (-1, True, "2", 1.5)),
        ({}, {"messages_read": None}),
        *(({"waiting": [effect]}, {"effects": (), "waiting": 1}) for effect in NO_EFFECTS),
        *(({"waiting": count}, {"effects": (), "waiting": 0}) for count in (0, -1, True, "3", None, 1.5)),
        ({"waiting": 10**30}, {"waiting": 1_000_000}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_a_run_has_said_is_read_or_left_out(said: dict[str, Any], seen: dict[str, object]) -> None:
    reason = "NeedsApproval" if said.keys() & {"about", "waiting"} else "Answered"
    read = present(views.recorded({"exitReason": reason, **said}))
    assert {name: getattr(read, name) for name in seen} == seen


def test_the_effects_that_wait_are_counted_in_the_message_and_read_from_the_result() -> None:
    read = present(views.recorded({"exitReason": "NeedsApproval", "waiting": 2}))
    assert (read.waiting, read.effects) == (2, ())
    mail = {"tool": "sendMail", "targets": ["ada@example.com"], "arguments": {"body": "x" * 9000}, "later": 1}
    whole = [
        {"id": "r1/0", **mail, "shown": "y" * 9000, "why": "\ud800"},
        {"id": "r1/1", **mail, "copies": [{"text": "w" * 900, "source": "mail::1"}]},
        {"id": "r1/1", **mail},
        {"id": "r1/2", "tool": ""},
    ]
    read = present(views.recorded({"exitReason": "NeedsApproval", "waiting": whole}))
    first, second = read.effects
    assert (read.waiting, first.id, first.shortened, first.targets) == (4, "r1/0", True, ("ada@example.com",))
    assert (first.shown[-2:], first.why) == ("y…", "?")
    assert [(copy.text[-2:], copy.source) for copy in second.copies] == [("w…", "mail::1")]


def test_a_request_has_a_bounded_size_however_many_effects_it_has() -> None:
    copies = [{"text": "ř" * 900, "source": "s" * 900, "why": "w"}] * 20
    mail = {"tool": "sendMail", "targets": [f"{n}@example.com" for n in range(50)], "copies": copies}
    whole = [{"id": f"r1/{n}", **mail, "shown": "y" * 9000, "arguments": {"t": "ř" * 9000}} for n in range(200)]
    read = present(views.recorded({"exitReason": "NeedsApproval", "waiting": whole}))
    assert (read.waiting, len(read.effects)) == (200, 64)
    assert len(orjson.dumps([effect.wire() for effect in read.effects])) < 300_000
    assert all(effect.shortened for effect in read.effects)


@pytest.mark.parametrize("text", ["", "Killed", "{", "[]", '{"exitReason": "Sleepy"}', '{"summary": "x"}', "null"])
def test_a_message_that_is_not_ours_is_none(text: str) -> None:
    found = views.pod_view(raw_pod({"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": text}}, "Failed"))
    assert (found.outcome, found.exit_code, found.ended_reason) == (None, 137, "OOMKilled")


def test_owner_and_attempt() -> None:
    owners = [{"uid": "x"}, {"uid": "t", "controller": True}]
    raw = raw_job(ownerReferences=owners, labels={"jervis.dev/attempt": "7"})
    assert (views.owner_uid(raw), views.attempt(raw)) == ("t", 7)
    assert (views.owner_uid(raw_job()), views.attempt(raw_job())) == ("", 0)


@given(hostile.messages)
@example('{"exitReason": "Answered", "ref": {"key": "' + "k" * 254 + '"}}')
@example('{"exitReason": "Answered", "ref": {"key": "k", "collection": "' + "c" * 64 + '"}}')
@example('{"exitReason": "Stuck", "summary": "\\ud800"}')
@settings(max_examples=thorough.examples(300), deadline=None)
def test_no_message_breaks_the_decision_about_its_run_or_leaves_the_bounds_of_the_status(text: str) -> None:
    pod = views.pod_view(raw_pod({"terminated": {"exitCode": 1, "message": text}}, phase="Failed"))
    current = build.routed(Phase.ORCHESTRATING)
    state = ObservedState(job=build.job(JobState.FAILED), pods=(replace(pod, attempt=1),))
    made = decide(current, state, build.NOW)
    assert made.phase in (Phase.COMPLETED, Phase.USER_TASK, Phase.READY_FOR_GPU)
    status = build.apply(current, made.status_patch).status  # validates every bound of the CRD
    orjson.dumps(status.wire())
    if status.user_task is not None:
        assert all(pendingtask.Answer(id=one.id, text="t") for one in status.user_task.questions), "can be answered"


def test_a_reference_that_is_too_long_is_left_out_and_not_cut() -> None:
    found = present(views.outcome(json.dumps({"exitReason": "Answered", "ref": {"key": "k" * 254}})))
    assert found.key == ""


def test_what_was_away_and_what_to_change_is_read() -> None:
    said = {
        "exitReason": "Unavailable",
        "summary": "router stayed unavailable",
        "unavailable": "router",
        "retryAfterSeconds": 77,
        "field": "spec.content",
        "remedy": "Wait.",
    }
    found = present(views.outcome(json.dumps(said)))
    assert (found.retry_after, found.unavailable) == (77, "router")
    assert found.sentence() == "router stayed unavailable Field: spec.content. Wait."
