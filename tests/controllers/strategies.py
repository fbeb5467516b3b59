"""What can be stored and what the state can look like, drawn by hypothesis: also what no operator would write."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from controllers.admission import Refusal
from controllers.pendingtask import observed
from controllers.pendingtask.observed import JobState, JobView, ObservedState, Outcome, PodView, Trouble
from crds import pendingtask
from crds.exit_reasons import ExitReason
from crds.pendingtask import Hints
from crds.phases import Phase
from kb import api
from tests.controllers.build import GPU, NOW, task

moments = st.integers(-(10**6), 10**6).map(lambda seconds: NOW + timedelta(seconds=seconds))
texts = moments.map(lambda at: at.isoformat())
hints = st.builds(
    Hints,
    has_actionable_content=st.booleans(),
    is_assigned_to_me=st.booleans(),
    has_future_deadline=st.booleans(),
    suggested_deadline=st.none() | moments,
)
outcomes = st.builds(Outcome, st.sampled_from(ExitReason), st.text(max_size=50))
troubles = st.builds(
    Trouble, st.text(max_size=30), operational=st.booleans(), retry_after=st.none() | st.floats(0, 999)
)
copied = st.builds(observed.CopyMade, moments) | st.just(observed.NoCopy())
tokens = st.builds(observed.TokenNotWritten, troubles)
_said = st.text(min_size=1, max_size=40).filter(lambda text: bool(text.strip()))


@st.composite
def directives(draw: st.DrawFn) -> api.QualifierDirective:
    """Any that a knowledge base can send."""
    action = draw(st.sampled_from(api.DirectiveAction))
    asked = draw(st.lists(_said, min_size=1, max_size=16)) if action is api.DirectiveAction.ASK else None
    minutes = draw(st.integers(1, 527_040)) if action is api.DirectiveAction.DEFER else None
    tags = draw(st.lists(_said, max_size=5))
    return api.QualifierDirective(action=action, message=draw(_said), questions=asked, defer_minutes=minutes, tags=tags)


readings = st.builds(observed.Ingested, hints, directive=st.none() | directives())
observations = st.none() | readings | troubles | tokens | copied
jobs = st.none() | st.sampled_from(JobState).map(
    lambda state: JobView("j", "u", state, suspended=state is JobState.SUSPENDED)
)
foreign = JobView("j", "u", JobState.SUSPENDED, suspended=True, foreign=True)
pods = st.builds(
    PodView,
    st.just("p"),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
    st.just("Waiting"),
    st.sampled_from(["", "no image"]),
    st.none() | st.integers(0, 255),
    st.just(""),
    st.none() | outcomes,
    given_up_at=st.none() | moments,
)
REFUSED = Refusal(pendingtask.NotAllowed.CLIENT, "spec.clientId: not here; create it anew.")
worlds = st.builds(
    ObservedState,
    qualifying=st.integers(0, 12),
    working=st.booleans(),
    observed=observations,
    job=jobs | st.just(foreign),
    pods=st.lists(pods, max_size=3).map(tuple),
    recorded=st.none() | outcomes,
    slots=st.sampled_from([GPU, observed.Slots(), observed.Slots(total=3)]),
    user_active=st.booleans(),
    last_user=st.none() | moments,
    dispatch_open=st.booleans(),
    claimant=st.none()
    | st.builds(observed.Claimant, st.sampled_from(["u", "v"]), st.integers(1, 2), st.just("n/user")),
    backend_gone_in=st.none() | st.sampled_from([0.0, 5.0]),
    in_doubt_since=st.none() | moments,
    refusal=st.none() | st.just(REFUSED),
)
entries = st.lists(
    st.sampled_from([{"id": one, "text": "t"} for one in "abc"]), max_size=3, unique_by=lambda entry: entry["id"]
)


@st.composite
def tasks(draw: st.DrawFn) -> pendingtask.PendingTask:
    """Also what no operator of ours would have written: the API lets people edit."""
    phase = draw(st.sampled_from(Phase))
    spec: dict[str, Any] = {
        "type": draw(st.sampled_from(pendingtask.Type)).value,
        "mode": draw(st.sampled_from(pendingtask.Mode)).value,
        "suspend": draw(st.booleans()),
        "messages": draw(entries),
        "answers": draw(entries),
    }
    plan = draw(st.none() | texts.map(lambda at: {"at": at}) | st.sampled_from([{"cron": "*/7 * * * *"}, {}]))
    if plan is not None:
        spec["schedule"] = plan
    if draw(st.booleans()):
        spec["approval"] = {"verdict": draw(st.sampled_from(pendingtask.Verdict)).value}
    status: dict[str, Any] = {
        "attempt": draw(st.integers(0, 4)),
        "messagesSeen": draw(st.integers(0, 3)),
        "answersSeen": draw(st.integers(0, 3)),
        "phaseTimes": draw(st.dictionaries(st.just(phase.value), texts)),
    }
    if phase not in (Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING) and (
        phase is not Phase.SCHEDULED or draw(st.booleans())
    ):
        status["route"] = {"decision": "Execute"}
    if draw(st.booleans()):
        status["dispatch"] = {"jobName": "j", "backend": "gpu-0"}
    if draw(st.booleans()):
        status["retry"] = {"count": draw(st.integers(0, 9)), "nextAt": draw(texts), "reason": "WorkerLost: x"}
    if draw(st.booleans()):
        status["preemption"] = {"by": "u", "run": draw(st.integers(1, 2)), "at": draw(texts)}
    if draw(st.booleans()):
        status["scheduledFor"] = draw(texts)
    if draw(st.booleans()):
        status["userTask"] = {"kind": draw(st.sampled_from(pendingtask.UserTaskKind)).value, "questions": draw(entries)}
    leaving = {"deletionTimestamp": draw(texts)} if draw(st.integers(0, 9)) == 0 else {}
    return task(phase, spec=spec, status=status, **leaving)


ZONES = (
    "UTC", "Europe/Prague", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata",
    "Africa/Casablanca", "Pacific/Apia", "Pacific/Chatham",
)  # fmt: skip
"""Time zones whose clocks jump, by an hour or by half of one, at other times of the year, or not at all."""


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}")
    step = st.tuples(st.just("*") | span, st.integers(1, high)).map(lambda two: f"{two[0]}/{two[1]}")
    return st.just("*") | st.lists(number.map(str) | span | step, min_size=1, max_size=3).map(",".join)


expressions = st.tuples(_field(0, 59), _field(0, 23), st.just("*") | _field(1, 28), st.just("*"), st.just("*")).map(
    " ".join
)
"""Cron expressions; those that name a day of the month name one that every month has."""
