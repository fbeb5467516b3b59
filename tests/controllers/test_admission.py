"""What a namespace may have, as the operator sees it: the same answers as those of the chart's policies.

A task that its namespace may not have is claimed in no phase, says why, and goes on once it is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from controllers import admission, settings
from controllers.admission import Refusal
from controllers.pendingtask import decision, task_index
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState
from controllers.pendingtask.transitions import batched
from crds import conditions, pendingtask
from crds.flags import Flag
from crds.pendingtask import NotAllowed
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import GPU, NOW, apply, decided, job, pod, present, routed, task

MARKED = {"jervis.dev/clients": "acme, beta", "jervis.dev/modes": "Background"}
MAIL = [{"tool": "sendMail", "targets": ["ann@example.com"]}]
CHART = """
limits:
  types: []
  clients: [shared]
  modes: []
  queuePosition: true
  permits: [{tools: ["*"], targets: ["*@example.com", acme/*]}]
namespaces:
  listed: {clients: [acme], modes: [Background], queuePosition: 1000, types: [EmailProcessing, UserInputProcessing]}
  open: {clients: [], modes: [], permits: [{tools: ["*"], targets: ["*"], mayShare: true}]}
  never-first: {clients: [acme], queuePosition: false, permits: []}
"""


def judge(annotations: Mapping[str, Mapping[str, str] | None]) -> admission.Admission:
    return present(settings.Settings.model_validate({"admission": CHART}).admitted(annotations.get))


def reason(known: admission.Admission, namespace: str, **spec: Any) -> NotAllowed | None:
    found = known.refuses(build.task(spec=spec, namespace=namespace))
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("namespace", "annotations", "spec", "refused"),
    [
        ("listed", {}, {"clientId": "acme"}, None),
        ("listed", {}, {"clientId": "victim"}, NotAllowed.CLIENT),
        ("listed", {"jervis.dev/clients": "victim"}, {"clientId": "victim"}, NotAllowed.CLIENT),
        ("listed", {}, {"clientId": "acme", "mode": "Foreground"}, NotAllowed.MODE),
        ("listed", {}, {"clientId": "acme", "type": "UserInputProcessing"}, NotAllowed.MODE),
        ("listed", {}, {"clientId": "acme", "type": "ScheduledTask"}, NotAllowed.TYPE),
        ("listed", {}, {"clientId": "acme", "queuePosition": 999}, NotAllowed.POSITION),
        ("listed", {}, {"clientId": "acme", "queuePosition": 1000}, None),
        ("never-first", {}, {"clientId": "acme", "queuePosition": 1_000_000}, NotAllowed.POSITION),
        ("open", {}, {"clientId": "anybody", "mode": "Foreground", "queuePosition": 1}, None),
        ("open", MARKED, {"clientId": "anybody", "mode": "Foreground"}, None),
        ("other", {}, {"clientId": "shared", "mode": "Foreground"}, None),
        ("other", {}, {"clientId": "acme"}, NotAllowed.CLIENT),
        ("other", MARKED, {"clientId": "beta"}, None),
        ("other", MARKED, {"clientId": "shared"}, NotAllowed.CLIENT),
        ("other", MARKED, {"clientId": "beta", "mode": "Foreground"}, NotAllowed.MODE),
        ("other", {"jervis.dev/clients": ""}, {"clientId": "shared"}, NotAllowed.CLIENT),
        ("other", None, {"clientId": "shared"}, NotAllowed.UNKNOWN),
        ("listed", None, {"clientId": "acme"}, None),
        ("other", {}, {"clientId": "shared", "permits": MAIL}, None),
        ("other", {}, {"clientId": "shared", "permits": [{**MAIL[0], "mayShare": True}]}, NotAllowed.PERMIT),
        (
            "other",
            {},
            {"clientId": "shared", "permits": [*MAIL, {"tool": "editPage", "targets": ["7"]}]},
            NotAllowed.PERMIT,
        ),
        ("other", {}, {"clientId": "shared", "permits": [{**MAIL[0], "targets": ["*"]}]}, NotAllowed.PERMIT),
        ("other", {}, {"clientId": "shared", "permits": [{**MAIL[0], "targets": ["*@example.com", "acme/*"]}]}, None),
        ("open", {}, {"clientId": "acme", "permits": [{**MAIL[0], "targets": ["*"], "mayShare": True}]}, None),
        ("never-first", {}, {"clientId": "acme", "permits": MAIL}, NotAllowed.PERMIT),
    ],
    ids=lambda value: str(value)[:50],
)
def test_the_order_of_the_limits_is_that_of_the_policies(
    namespace: str, annotations: Mapping[str, str] | None, spec: dict[str, Any], refused: NotAllowed | None
) -> None:
    """admission.namespaces, then the annotation, then admission.limits. An unread namespace allows nothing."""
    assert reason(judge({namespace: annotations}), namespace, **spec) is refused


def test_a_permit_that_is_refused_is_named() -> None:
    spec = {"clientId": "acme", "permits": [{"tool": "sendMail", "targets": ["*"], "most": 3}]}
    refusal = present(judge({"never-first": {}}).refuses(build.task(spec=spec, namespace="never-first")))
    assert refusal.message == (
        "spec.permits[0]: tool=sendMail targets='*' most=3 is more than namespace never-first may permit; leave it out"
        " and approve what waits, or ask for it in the chart value admission.namespaces."
    )


def test_a_refusal_names_field_and_remedy() -> None:
    known = judge({"other": MARKED})
    told = present(known.refuses(build.task(spec={"clientId": "victim"}, namespace="other")))
    assert told.message == (
        "spec.clientId: victim is not a client of namespace other; create it anew with one of [acme, beta], or ask for"
        " it in the chart value admission.namespaces or the annotation jervis.dev/clients of the namespace."
    )
    told = present(known.refuses(build.task(spec={"clientId": "acme", "mode": "Foreground"}, namespace="other")))
    assert told.message.startswith("spec.mode: Foreground is not for namespace other; use mode Background, or ask")
    chat = {"clientId": "acme", "type": "UserInputProcessing"}
    told = present(known.refuses(build.task(spec=chat, namespace="other")))
    assert told.message.startswith("spec.type: UserInputProcessing is always Foreground, which is not for namespace")


def test_a_client_alone_is_judged_for_connections_and_outcomes() -> None:
    known = judge({"other": MARKED})
    assert known.refuses_client("other", "acme") is None
    found = present(known.refuses_client("other", "victim"))
    assert found.reason is NotAllowed.CLIENT


def test_without_the_chart_s_limits_there_are_none() -> None:
    assert settings.Settings().admitted(lambda _: MARKED) is None


def test_the_limits_of_the_chart_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JERVIS_OPERATOR_ADMISSION", '{"limits": {"clients": ["a"]}, "namespaces": {"n": {"mode": []}}}')
    with pytest.raises(settings.Invalid, match=r"JERVIS_OPERATOR_ADMISSION.namespaces.n.mode: Extra inputs"):
        settings.read()
    monkeypatch.setenv("JERVIS_OPERATOR_ADMISSION", '{"limits": {"clients": ["a"], "queuePosition": 1000000}}')
    known = present(settings.read().admitted(lambda _: {}))
    assert reason(known, "n", clientId="a", queuePosition=999_999) is NotAllowed.POSITION
    assert reason(known, "n", clientId="b") is NotAllowed.CLIENT


def test_a_task_chooses_flags_where_a_limit_permits_it() -> None:
    chart = "{limits: {}, namespaces: {open: {taskFlags: true}}}"
    known = settings.Settings.model_validate({"admission": chart}).admitted(lambda _: {})
    said = {"jervis.dev/use-dag-execution": "true"}
    permitted = admission.flags_of(known, build.task(namespace="open", annotations=said))
    assert (dict(permitted.values), permitted.ignored) == ({Flag.DAG_EXECUTION: True}, ())
    for found in (known, None):
        refused = admission.flags_of(found, build.task(namespace="other", annotations=said))
        assert (dict(refused.values), len(refused.ignored)) == ({}, 1)


REFUSED = Refusal(NotAllowed.CLIENT, "spec.clientId: victim is not a client of namespace default; create it anew.")
OPEN = ObservedState(slots=GPU)
HELD = replace(OPEN, refusal=REFUSED)


def accepted(found: pendingtask.PendingTask) -> conditions.Condition | None:
    return conditions.find(found.status.conditions, "Accepted")


@pytest.mark.parametrize(
    "phase", [None, Phase.NEW, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU, Phase.USER_TASK]
)
def test_it_waits_where_it_is_says_why_and_goes_on_when_allowed(phase: Phase | None) -> None:
    before = routed(phase) if phase is Phase.READY_FOR_GPU else task(phase)
    made = batched(before, HELD, NOW).decision
    assert made.phase is None
    assert made.effects == ()
    assert made.requeue_after == 60
    assert (present(made.note).reason, present(made.note).warning) == ("ClientNotAllowed", True)
    held = apply(before, made.status_patch)
    said = present(accepted(held))
    assert (said.status.value, said.reason, said.message) == ("False", "ClientNotAllowed", REFUSED.message)
    assert pendingtask.held(held)
    assert decide(held, HELD, NOW) == decision.wait(60), "nothing is written twice"
    free = decided(held, OPEN)
    said = present(accepted(free))
    assert (said.status.value, said.reason) == ("True", "Allowed")
    assert not pendingtask.held(free)


def test_a_recurring_task_makes_no_copy() -> None:
    spec = {"type": "ScheduledTask", "schedule": {"cron": "0 * * * *"}}
    plan = {"recurrence": {"cron": "0 * * * *"}, "scheduledFor": "2027-03-01T12:00:00Z"}
    assert decide(task(Phase.SCHEDULED, spec=spec, status=plan), HELD, NOW).effects == ()


@pytest.mark.parametrize("known", [{}, {"route": {"decision": "Execute"}}], ids=["unread", "read"])
def test_one_that_claims_to_be_read_gives_its_place_back(known: dict[str, object]) -> None:
    """A user may write any status while the namespace is not served."""
    made = decide(task(Phase.QUALIFYING, status=known), HELD, NOW)
    assert made.effects == ()
    assert made.phase is (Phase.READY_FOR_GPU if known else Phase.READY_FOR_QUALIFICATION)
    held = apply(task(Phase.QUALIFYING, status=known), made.status_patch)
    assert pendingtask.held(held)
    assert decide(held, HELD, NOW) == decision.wait(60)


def test_one_that_claims_a_slot_without_a_run_gives_it_back() -> None:
    claimed = routed(Phase.DISPATCHED_GPU)
    made = batched(claimed, HELD, NOW).decision
    assert (made.phase, made.effects) == (Phase.READY_FOR_GPU, ())
    held = apply(claimed, made.status_patch)
    assert held.status.dispatch is None
    assert pendingtask.held(held)
    assert decide(held, HELD, NOW) == decision.wait(60)
    lost = apply(routed(Phase.ORCHESTRATING), batched(routed(Phase.ORCHESTRATING), HELD, NOW).decision.status_patch)
    assert lost.status.phase is Phase.READY_FOR_GPU
    assert pendingtask.held(lost) or decide(lost, HELD, NOW).status_patch["conditions"]


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_a_run_that_is_under_way_ends(phase: Phase) -> None:
    """A limit that is lowered takes nothing away from what works already; Jobs are of the release's namespace."""
    running = ObservedState(job=job(), pods=(pod(),), refusal=REFUSED)
    assert decide(routed(phase), running, NOW).effects == ()
    suspended = replace(running, job=job(JobState.SUSPENDED), pods=())
    assert decide(routed(phase), suspended, NOW) == decide(routed(phase), replace(suspended, refusal=None), NOW)


def test_a_job_of_one_that_is_held_stops() -> None:
    """Created late, or let go by hand."""
    waiting = routed(
        Phase.READY_FOR_GPU, attempt=1, dispatch={"jobName": "mail-1-0f9a1c2e-1", "backend": "gpu-0", "threadId": "x"}
    )
    assert decide(waiting, replace(HELD, job=job(), pods=(pod(),)), NOW).effects == (
        decision.SuspendJob("mail-1-0f9a1c2e-1"),
    )


def test_a_finished_task_is_left_alone() -> None:
    assert decide(task(Phase.DONE), HELD, NOW) == decision.Decision()


def test_a_held_user_s_task_holds_back_no_other() -> None:
    """Neither by its mode nor in the line for a slot."""
    spec = {"mode": "Foreground"}
    free = routed(Phase.READY_FOR_GPU, spec=spec)
    tasks = task_index.Tasks(lambda: NOW)
    tasks.observe(free.wire())
    assert tasks.user_active
    assert len(tasks.bookings.user_waiters) == 1
    held = apply(free, decide(free, HELD, NOW).status_patch, version=8)
    tasks.observe(held.wire())
    assert not tasks.user_active
    assert tasks.bookings.user_waiters == {}
    entry = present(tasks.entry(held.metadata.uid))
    assert (entry.held, entry.noted) == (True, "NotAllowed")
