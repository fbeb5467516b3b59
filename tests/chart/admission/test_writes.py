"""A table of writes: who, to what, and what the apiserver says. Then every pair of phases: exactly what the operator
writes goes through, and for it alone. The operator is down all the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from controllers.pendingtask import phases
from crds.phases import Phase
from hack.chart import admission
from tests.chart.admission import callers
from tests.chart.admission.callers import EPOCH, HOME, OUTSIDE, TEAM, Caller

pytestmark = pytest.mark.apiserver

REF = {"store": "gridfs", "key": "other", "sha256": "0" * 64, "bytes": 10}
FILE = {"name": "a.txt", "mediaType": "text/plain", "contentRef": REF}
MESSAGE = {"id": "m1", "text": "Please hurry."}
ANSWER = {"id": "q1", "text": "Yes."}
EARLY, READY, RUNS, ASKS = Phase.QUALIFYING, Phase.READY_FOR_GPU, Phase.ORCHESTRATING, Phase.USER_TASK
ENDED = "cannot change in a finished task (phase {}), only spec.ttlSecondsAfterFinished can; create a new PendingTask"
MAY_BE_READ = "cannot change once the task may be read (phase {}), what was read would stay where it was"
READ = "cannot change once it was qualified (phase {}); add spec.messages, or create a new PendingTask"


@dataclass(frozen=True)
class Write:
    """`who` sends `patch` to a task in `phase`; `refused` is what the message must hold, "" when it must go through."""

    who: str
    phase: Phase
    patch: dict[str, Any]
    refused: str = ""
    namespace: str = HOME

    def __str__(self) -> str:
        fields = "-".join(key for part in self.patch.values() for key in part)
        return f"{self.who}-{self.namespace}-{self.phase}-{fields}-{'no' if self.refused else 'yes'}"


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


WRITES = [
    # -- who may write a status
    Write("operator", EARLY, callers.status(READY)),
    Write("operator", EARLY, callers.status(READY), namespace=TEAM),
    Write("operator", RUNS, callers.status(attempt=1, messagesSeen=0)),
    Write("tenant", EARLY, callers.status(READY), "status: is written by system:serviceaccount:admission:"),
    Write("tenant", EARLY, callers.status(READY), "alone, not by tess; steer a task by its spec", namespace=TEAM),
    Write("tenant", EARLY, {"status": {"traceId": "00"}}, "not by tess"),
    Write("admin", EARLY, callers.status(READY), "not by admin"),
    Write("admin", Phase.COMPLETED, callers.status(READY), "not by admin"),
    Write("router", EARLY, callers.status(READY), "not by system:serviceaccount:admission:jervis-router"),
    # -- epochs
    Write("operator", READY, callers.status(epoch=EPOCH)),
    Write("operator", READY, callers.status(epoch=EPOCH + 1)),
    Write("operator", READY, callers.status(epoch=EPOCH - 1), "status.leaderEpoch: may not go down from 5 to 4"),
    # -- until it is qualified a spec is its author's
    Write("tenant", Phase.NEW, spec(content="Something else")),
    Write("tenant", EARLY, spec(content="Something else")),
    Write("tenant", EARLY, spec(correlationId="other")),
    Write("tenant", Phase.SCHEDULED, spec(schedule={"at": "2030-01-01T00:00:00Z"})),
    # -- whose it is and what it is known by, from the moment that it may be read
    Write("tenant", Phase.NEW, spec(projectId="other"), f"spec.projectId: {MAY_BE_READ.format(Phase.NEW)}"),
    Write("tenant", Phase.NEW, spec(groupId="other", sourceUrn="wiki::2"), "spec.groupId, spec.sourceUrn: cannot"),
    Write("admin", Phase.READY_FOR_QUALIFICATION, spec(sourceUrn="wiki::2"), "spec.sourceUrn: cannot change"),
    Write("tenant", EARLY, spec(projectId="other"), f"spec.projectId: {MAY_BE_READ.format(EARLY)}"),
    Write("tenant", EARLY, spec(sourceUrn="wiki::2"), "spec.sourceUrn: cannot change"),
    Write("tenant", Phase.SCHEDULED, spec(projectId="other", groupId="other", sourceUrn="wiki::2")),
    # -- what the knowledge base or a run has read
    Write("tenant", READY, spec(content="Something else"), f"spec.content: {READ.format(READY)}"),
    Write("tenant", READY, spec(sourceUrn="email::<other@example.com>"), "spec.sourceUrn: "),
    Write("tenant", READY, spec(attachments=[FILE]), "spec.attachments: "),
    Write("tenant", READY, spec(schedule={"at": "2030-01-01T00:00:00Z"}), "spec.schedule: "),
    Write("operator", READY, spec(content="Something else"), "spec.content: "),
    Write("tenant", READY, spec(queuePosition=1)),
    Write("tenant", READY, spec(messages=[MESSAGE])),
    Write("tenant", Phase.DISPATCHED_GPU, spec(content="Something else"), f"spec.content: {READ[:30]}"),
    Write("tenant", RUNS, spec(content=None, contentRef=REF), f"spec.content, spec.contentRef: {READ.format(RUNS)}"),
    Write("tenant", RUNS, spec(projectId="other"), "spec.projectId: "),
    Write("tenant", RUNS, spec(groupId="other"), "spec.groupId: "),
    Write("tenant", RUNS, spec(sourceUrn="email::<other@example.com>"), "spec.sourceUrn: "),
    Write("tenant", RUNS, spec(correlationId="other"), "spec.correlationId: "),
    Write("tenant", RUNS, spec(timeZone="Asia/Tokyo"), "spec.timeZone: "),
    Write("tenant", RUNS, spec(attachments=[FILE]), "spec.attachments: "),
    Write("tenant", RUNS, spec(facts={"nodes": [{"key": "user:jana", "type": "user"}]}), "spec.facts: "),
    Write("tenant", RUNS, spec(access={"visibility": "Public"}), "spec.access: "),
    Write("tenant", RUNS, spec(schedule={"at": "2030-01-01T00:00:00Z"}), "spec.schedule: "),
    Write("admin", RUNS, spec(content="Something else"), "spec.content: "),
    Write("operator", RUNS, spec(content="Something else"), "spec.content: "),
    Write("tenant", RUNS, spec(content="Something else"), "spec.content: ", namespace=TEAM),
    Write("tenant", RUNS, spec(content=callers.CONTENT)),
    # -- what steers a run
    Write("tenant", RUNS, spec(messages=[MESSAGE])),
    Write("tenant", RUNS, spec(answers=[ANSWER])),
    Write("tenant", RUNS, spec(approval={"verdict": "Approved"})),
    Write("tenant", RUNS, spec(approvalPolicy={"expireAfter": "24h", "default": "Reject"})),
    Write("tenant", RUNS, spec(permits=[{"tool": "sendMail", "targets": ["ann@example.com"]}])),
    Write("tenant", RUNS, spec(suspend=True)),
    Write("tenant", RUNS, spec(queuePosition=1)),
    Write("tenant", RUNS, spec(mode="Foreground")),
    Write("tenant", RUNS, spec(activeDeadlineSeconds=60)),
    Write("tenant", RUNS, spec(budget={"maxSteps": 3})),
    Write("tenant", RUNS, spec(ttlSecondsAfterFinished=60)),
    # -- the end
    *(
        Write("tenant", end, spec(content="Something else"), f"spec.content: {ENDED.format(end)}")
        for end in (Phase.DONE, Phase.COMPLETED, Phase.ERROR)
    ),
    Write("tenant", Phase.COMPLETED, spec(messages=[MESSAGE]), "spec.messages: cannot change in a finished task"),
    Write("tenant", Phase.COMPLETED, spec(suspend=True, mode="Foreground"), "spec.mode, spec.suspend: cannot change"),
    Write("admin", Phase.DONE, spec(answers=[ANSWER]), "spec.answers: cannot change in a finished task"),
    Write("tenant", Phase.COMPLETED, spec(ttlSecondsAfterFinished=60)),
    Write("tenant", Phase.COMPLETED, {"metadata": {"annotations": {"note": "read"}}}),
    Write("operator", Phase.COMPLETED, {"metadata": {"labels": {"jervis.dev/archived": "true"}, "finalizers": []}}),
]  # fmt: skip


@pytest.fixture
def people(operator: Caller, router: Caller, tenant: Caller, admin: Caller) -> dict[str, Caller]:
    return {"operator": operator, "router": router, "tenant": tenant, "admin": admin}


@pytest.mark.parametrize("write", WRITES, ids=str)
def test_write(write: Write, people: dict[str, Caller]) -> None:
    path = callers.at(people["operator"], people["tenant"], write.namespace, write.phase)
    target = f"{path}/status" if "status" in write.patch else path
    answer = people[write.who].patch(write.namespace, target, write.patch)
    if write.refused:
        assert write.refused in callers.refusal(answer)
    else:
        callers.succeed(answer)


def test_the_table_covers_every_field_of_a_spec() -> None:
    """Each that freezes is refused once, each that steers is let through once; the CRD's own are not ours to test."""
    refused = {field for w in WRITES if w.refused and w.phase is RUNS for field in w.patch.get("spec", {})}
    allowed = {field for w in WRITES if not w.refused and w.phase is RUNS for field in w.patch.get("spec", {})}
    assert refused == set(admission.READ_BY_A_RUN)
    early = {field for w in WRITES if w.refused and w.phase is Phase.NEW for field in w.patch.get("spec", {})}
    assert early == set(admission.PLACE) <= refused
    assert allowed >= {*admission.STEERING, *admission.AFTER_THE_END}
    assert len(WRITES) >= 40


def test_a_task_that_waits_again_keeps_what_its_checkpoint_rests_on(operator: Caller, tenant: Caller) -> None:
    """Preempted, it is ReadyForGpu with an attempt; a message is what a user may still say."""
    path = callers.at(operator, tenant, HOME, RUNS)
    callers.succeed(operator.patch(HOME, f"{path}/status", callers.status(READY)))
    assert f"spec.content: {READ.format(READY)}" in callers.refusal(tenant.patch(HOME, path, spec(content="Other")))
    callers.succeed(tenant.patch(HOME, path, spec(messages=[MESSAGE])))


def test_an_answer_brings_a_task_on(operator: Caller, tenant: Caller) -> None:
    path = callers.at(operator, tenant, HOME, RUNS)
    callers.succeed(operator.patch(HOME, f"{path}/status", callers.status(ASKS)))
    callers.succeed(tenant.patch(HOME, path, spec(answers=[ANSWER], approval={"verdict": "Approved"})))
    callers.succeed(operator.patch(HOME, f"{path}/status", callers.status(READY)))


def test_a_decision_on_a_request_that_is_not_open_is_refused(operator: Caller, tenant: Caller) -> None:
    def decided(request: str, **more: Any) -> dict[str, Any]:
        return spec(approval={"verdict": "Approved", "requestId": request, **more})

    path = callers.at(operator, tenant, HOME, RUNS)
    late = "spec.approval.requestId: run-1-7 is not open (phase"
    assert f"{late} {RUNS}); look" in callers.refusal(tenant.patch(HOME, path, decided("run-1-7")))
    waiting = {"kind": "Approval", "requestId": "run-1-8"}
    callers.succeed(operator.patch(HOME, f"{path}/status", callers.status(ASKS, userTask=waiting)))
    assert f"{late} UserTask, run-1-8 is); look" in callers.refusal(tenant.patch(HOME, path, decided("run-1-7")))
    callers.succeed(tenant.patch(HOME, path, decided("run-1-8")))
    callers.succeed(operator.patch(HOME, f"{path}/status", callers.status(READY)))
    # The same once more is no change; another one comes too late.
    callers.succeed(tenant.patch(HOME, path, decided("run-1-8")))
    callers.succeed(tenant.patch(HOME, path, spec(queuePosition=3)))
    assert "run-1-8 is not open" in callers.refusal(tenant.patch(HOME, path, decided("run-1-8", comment="or not")))


def test_a_finished_task_can_be_deleted_by_its_author(operator: Caller, tenant: Caller) -> None:
    callers.succeed(tenant.delete(HOME, callers.at(operator, tenant, HOME, Phase.DONE)))


def test_other_namespaces_are_none_of_our_business(admin: Caller, tenant: Caller) -> None:
    """Where no release works, a status is a field like any other."""
    body = callers.task(content="x" * 1000)
    callers.succeed(tenant.create(OUTSIDE, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    callers.succeed(admin.patch(OUTSIDE, f"{path}/status", callers.status(Phase.COMPLETED)))
    callers.succeed(tenant.patch(OUTSIDE, path, spec(content="Something else")))
    callers.succeed(tenant.patch(OUTSIDE, f"{path}/status", callers.status(Phase.NEW, epoch=0)))


def test_the_largest_task_costs_no_more_than_the_apiserver_allows(operator: Caller, tenant: Caller) -> None:
    """Over a megabyte of messages and answers is compared at each update of a finished task: CEL has a budget."""
    messages = [{"id": f"m{number}", "text": "x" * 8192} for number in range(64)]
    answers = [{"id": f"a{number}", "text": "x" * 8192} for number in range(64)]
    files = [{**FILE, "name": f"{number}.txt"} for number in range(32)]
    large = {"content": "x" * 32768, "messages": messages, "answers": answers, "attachments": files}
    path = callers.at(operator, tenant, HOME, Phase.COMPLETED, **large)
    callers.succeed(tenant.patch(HOME, path, {"metadata": {"labels": {"seen": "yes"}}}))
    callers.succeed(tenant.patch(HOME, path, spec(ttlSecondsAfterFinished=60)))
    assert "spec.content: " in callers.refusal(tenant.patch(HOME, path, spec(content="y" * 32768)))


# -- every pair of phases ----------------------------------------------------------------------------------------------

ROUTE = {"decision": "Execute"}


@pytest.mark.parametrize("source", list(Phase), ids=str)
def test_what_may_follow(source: Phase, operator: Caller, admin: Caller) -> None:
    path = callers.at(operator, admin, HOME, source)
    wrong = []
    for target in Phase:
        for qualified in (False, True):
            moved = callers.status(target, route=ROUTE if qualified else None)
            answer = operator.patch(HOME, f"{path}/status", moved, dry=True)
            # New is the absence of a phase, so that staying in a phase is never a step.
            reached = target in phases.reach(source) and not (qualified and target in phases.BEFORE_ROUTE)
            expected = source is target or reached
            if answer.is_success is not expected:
                wrong.append((target.value, qualified, answer.text))
            if not answer.is_success:
                assert "status.phase: " in callers.refusal(answer)
    assert not wrong


def test_a_task_cannot_be_made_new_again(operator: Caller, admin: Caller) -> None:
    path = callers.at(operator, admin, HOME, Phase.READY_FOR_GPU)
    message = callers.refusal(operator.patch(HOME, f"{path}/status", {"status": {"phase": None}}))
    assert "status.phase: a task cannot go from ReadyForGpu to New; possible is DispatchedGpu" in message


def test_the_end_is_the_end(operator: Caller, admin: Caller) -> None:
    path = callers.at(operator, admin, HOME, Phase.COMPLETED)
    message = callers.refusal(operator.patch(HOME, f"{path}/status", callers.status(Phase.READY_FOR_GPU)))
    assert "cannot go from Completed to ReadyForGpu; nothing follows, create a new PendingTask" in message


def test_a_frozen_leader_loses(operator: Caller, admin: Caller) -> None:
    """Its write would be fine but for the epoch; the leader of today, and one after it, go on."""
    path = f"{callers.at(operator, admin, HOME, Phase.READY_FOR_GPU)}/status"
    message = callers.refusal(operator.patch(HOME, path, callers.status(Phase.DISPATCHED_GPU, epoch=callers.EPOCH - 1)))
    assert f"status.leaderEpoch: may not go down from {callers.EPOCH} to {callers.EPOCH - 1}" in message
    assert f"raises its Lease {HOME}/jervis-operator beyond {callers.EPOCH} by itself" in message
    assert "down from 5 to 0" in callers.refusal(operator.patch(HOME, path, {"status": {"leaderEpoch": None}}))
    callers.succeed(operator.patch(HOME, path, callers.status(Phase.DISPATCHED_GPU, epoch=callers.EPOCH + 1)))
    late = operator.patch(HOME, path, callers.status(Phase.ORCHESTRATING))
    assert "down from 6 to 5" in callers.refusal(late)
