"""Recurring tasks: no run twice, at most one caught up, edits plan anew; clocks jump, processes crash.

Moments of cron expressions: in every zone, over both jumps of the clock, the same wherever counting begins.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pendingtask.decide import decide
from controllers.pendingtask.decision import Copy, Decision, Recall
from controllers.pendingtask.effects import copies
from controllers.pendingtask.observed import CopyHeld, CopyMade, Limits, NoCopy, Observation, ObservedState, Trouble
from controllers.pendingtask.policy import cron, scheduled
from crds import pendingtask, schedule
from crds.phases import Phase
from crds.schedule import Schedule
from tests import thorough
from tests.controllers import build
from tests.controllers.build import changed, present
from tests.controllers.strategies import ZONES, expressions

NOW = build.NOW
DAILY = {"type": "ScheduledTask", "schedule": {"cron": "0 12 * * *", "timeZone": "Europe/Prague"}}


def template(spec: dict[str, Any] = DAILY, **status: Any) -> pendingtask.PendingTask:
    """A planned template; its plan is the one of its spec."""
    plan = spec["schedule"]
    known = {"cron": plan["cron"], "timeZone": plan.get("timeZone", ""), **status.pop("recurrence", {})}
    return build.task(Phase.SCHEDULED, spec=spec, status={"recurrence": known, **status})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def look(task: pendingtask.PendingTask, now: datetime, seen: Observation | None = None) -> Decision:
    return decide(task, ObservedState(observed=seen), now)


def test_a_template_is_planned_and_remembers_its_plan() -> None:
    made = look(build.task(spec=DAILY), NOW)
    assert (made.phase, made.status_patch["scheduledFor"]) == (Phase.SCHEDULED, "2027-03-02T11:00:00Z")
    assert made.status_patch["recurrence"]["cron"] == "0 12 * * *"


def test_a_copy_is_made_ten_minutes_ahead_once() -> None:
    known = template(scheduledFor="2027-03-02T11:00:00Z")
    run = at("2027-03-02T11:00")
    assert look(known, run - timedelta(minutes=11)).requeue_after == 60
    assert look(known, run - timedelta(minutes=10)).effects == (Copy(run),)
    made = look(known, run - timedelta(minutes=10), CopyMade(run, "mail-1-x"))
    assert made.status_patch["scheduledFor"] == "2027-03-03T11:00:00Z"
    assert made.status_patch["recurrence"]["lastRun"] == "2027-03-02T11:00:00Z"
    assert present(made.note).reason == "CopyCreated"
    after = build.apply(known, made.status_patch)
    assert look(after, run - timedelta(minutes=10)).effects == ()


def test_runs_that_are_closer_than_ten_minutes_do_not_start_in_a_heap() -> None:
    known = template({"schedule": {"cron": "*/5 * * * *"}}, scheduledFor="2027-03-01T12:05:00Z")
    assert look(known, NOW).effects == (Copy(at("2027-03-01T12:05")),)
    known = template({"schedule": {"cron": "*/5 * * * *"}}, scheduledFor="2027-03-01T12:10:00Z")
    assert look(known, NOW).requeue_after == 300


def test_of_many_missed_runs_the_latest_is_made_up_for() -> None:
    known = template({"schedule": {"cron": "*/5 * * * *"}}, scheduledFor="2027-02-01T00:00:00Z")
    now = NOW + timedelta(minutes=2)
    assert look(known, now).effects == (Copy(NOW),)
    made = look(known, now, CopyMade(NOW, "c"))
    assert made.status_patch["scheduledFor"] == "2027-03-01T12:05:00Z"
    assert (present(made.note).reason, present(made.note).warning) == ("RunsMissed", True)


def test_what_was_missed_for_too_long_is_skipped_with_a_warning() -> None:
    known = template(scheduledFor="2027-03-01T11:00:00Z")
    limits = Limits(catch_up=timedelta(hours=1))
    soon, late = at("2027-03-01T12:00"), at("2027-03-01T12:00:01.5")
    assert decide(known, ObservedState(limits=limits), soon).effects == (Copy(at("2027-03-01T11:00")),)
    made = decide(known, ObservedState(limits=limits), late)
    assert (made.effects, made.status_patch["scheduledFor"]) == ((), "2027-03-02T11:00:00Z")
    assert (present(made.note).reason, present(made.note).warning) == ("RunsMissed", True)


def test_runs_of_a_suspension_are_not_made_up_for() -> None:
    resumed = build.condition("Suspended", "False", "Resumed", lastTransitionTime="2027-03-01T11:30:00Z")
    known = template(scheduledFor="2027-03-01T11:00:00Z", conditions=[resumed])
    made = look(known, NOW)
    assert (made.effects, made.status_patch["scheduledFor"]) == ((), "2027-03-02T11:00:00Z")
    assert (present(made.note).reason, present(made.note).warning) == ("RunsHeldBack", False)
    held = template({**DAILY, "suspend": True}, scheduledFor="2027-03-01T11:00:00Z")
    assert look(held, NOW, NoCopy()).effects == ()


def test_a_copy_is_on_record_before_its_template_is_held() -> None:
    run = at("2027-03-02T11:00")
    known = template({**DAILY, "suspend": True}, scheduledFor="2027-03-02T11:00:00Z")
    now = run - timedelta(minutes=10)
    assert look(known, now) == Decision(effects=(Recall(run + scheduled.CLOCK),)), (
        "the operator that died after its creation did not record it"
    )
    made = look(known, now, CopyMade(run, "mail-1-x"))
    assert (made.status_patch["recurrence"]["lastTask"], made.effects) == ("mail-1-x", ())
    assert present(made.note).reason == "CopyCreated"
    after = build.apply(known, made.status_patch)
    held = look(after, now, CopyMade(run, "mail-1-x"))
    assert [one["type"] for one in held.status_patch["conditions"] if one["status"] == "True"] == [
        "Scheduled",
        "Suspended",
    ]
    assert look(build.apply(after, held.status_patch), now).effects == (), "no second look"


def test_a_copy_of_the_plan_before_an_edit_is_on_record() -> None:
    run = at("2027-03-02T11:00")
    edited = template(
        {**DAILY, "schedule": {"cron": "0 12 * * mon-fri", "timeZone": "Europe/Prague"}},
        scheduledFor="2027-03-02T11:00:00Z",
        recurrence={"cron": "0 12 * * *"},
    )
    now = run - timedelta(minutes=10)
    made = look(edited, now, CopyMade(run, "mail-1-x"))
    after = build.apply(edited, made.status_patch)
    assert after.status.recurrence is not None
    assert (after.status.recurrence.last_task, after.status.recurrence.cron) == ("mail-1-x", "0 12 * * *")
    assert look(after, now).status_patch["scheduledFor"] == "2027-03-03T11:00:00Z", "that run has its copy"
    held = changed(after, spec={"suspend": True})
    assert set(look(held, now, CopyMade(run, "mail-1-x")).status_patch) == {"conditions"}, "it is, once"


def test_an_edit_of_expression_or_zone_plans_anew_and_nothing_else_does() -> None:
    known = template(scheduledFor="2027-03-02T11:00:00Z")
    for change, following in (
        ({"cron": "0 15 * * *", "timeZone": "Europe/Prague"}, "2027-03-01T14:00:00Z"),
        ({"cron": "0 12 * * *"}, "2027-03-02T12:00:00Z"),
    ):
        edited = known.model_copy(update={"spec": build.task(spec={**DAILY, "schedule": change}).spec})
        made = look(edited, NOW)
        assert made.status_patch["scheduledFor"] == following
        assert look(build.apply(edited, made.status_patch), NOW).status_patch == {}
    other = known.model_copy(update={"spec": build.task(spec={**DAILY, "queuePosition": 3}).spec})
    assert look(other, NOW).status_patch == {}


def test_an_edit_never_brings_back_a_run_that_has_its_copy() -> None:
    known = template(
        {**DAILY, "schedule": {"cron": "0 12 * * *"}},
        scheduledFor="2027-03-02T12:00:00Z",
        recurrence={"lastRun": "2027-03-01T12:00:00Z"},
    )
    edited = known.model_copy(update={"spec": build.task(spec={"schedule": {"cron": "0 12 * * mon"}}).spec})
    made = look(edited, NOW - timedelta(minutes=5))
    assert made.status_patch["scheduledFor"] == "2027-03-08T12:00:00Z"


def test_an_edit_into_the_impossible_is_told_and_waits_for_the_next_edit() -> None:
    known = template(scheduledFor="2027-03-02T11:00:00Z")
    edited = known.model_copy(update={"spec": build.task(spec={"schedule": {"cron": "5-3 * * * *"}}).spec})
    made = look(edited, NOW)
    assert made.note is not None
    assert (made.note.reason, made.note.warning, made.status_patch["scheduledFor"]) == ("InvalidCron", True, None)
    assert "spec.schedule.cron" in made.status_patch["conditions"][0]["message"]
    later = look(build.apply(edited, made.status_patch), NOW + timedelta(days=3))
    assert (later.status_patch, later.effects, later.requeue_after) == ({}, (), None)


def test_a_run_that_a_wrong_clock_made_days_ahead_holds_nothing_up() -> None:
    """The clock was ahead by two days and is right again: the plan starts from now, not from then."""
    ahead: dict[str, Any] = {"recurrence": {"lastRun": "2027-03-03T11:00:00Z"}, "scheduledFor": "2027-03-04T11:00:00Z"}
    made = look(template(**ahead), NOW)
    assert (present(made.note).reason, made.status_patch["scheduledFor"]) == ("ClockSetBack", "2027-03-02T11:00:00Z")
    day: dict[str, Any] = {"recurrence": {"lastRun": "2027-03-02T11:00:00Z"}, "scheduledFor": "2027-03-03T11:00:00Z"}
    assert look(template(**day), NOW).status_patch == {}, "within a day it is a run that was made ahead"


def test_word_of_a_copy_for_an_earlier_run_plans_nothing() -> None:
    known, run = template(scheduledFor="2027-03-02T11:00:00Z"), at("2027-03-02T11:00")
    made = look(known, run - timedelta(minutes=10), CopyMade(run - timedelta(days=1), "mail-1-x"))
    assert (made.status_patch, made.effects) == ({}, (Copy(run),))


def test_forbid_skips_a_run_while_an_earlier_copy_works() -> None:
    known = template(scheduledFor="2027-03-02T11:00:00Z")
    run = at("2027-03-02T11:00")
    early = look(known, run - timedelta(minutes=10), CopyHeld(run, "earlier"))
    assert (early.status_patch, early.requeue_after) == ({}, 60), "it may end until then"
    made = look(known, run, CopyHeld(run, "earlier"))
    assert made.status_patch["scheduledFor"] == "2027-03-03T11:00:00Z"
    assert "lastRun" not in {k for k, v in made.status_patch["recurrence"].items() if v}
    assert "earlier has not ended" in present(made.note).message


def test_a_refused_copy_is_told_once_and_tried_again() -> None:
    known = template(scheduledFor="2027-03-01T11:00:00Z")
    refused = Trouble("exceeded quota", operational=True)
    made = look(known, NOW, refused)
    assert made.requeue_after == 60
    assert made.note is not None
    again = look(build.apply(known, made.status_patch), NOW + timedelta(minutes=1), refused)
    assert (again.note, again.status_patch) == (None, {})
    assert look(build.apply(known, made.status_patch), NOW + timedelta(minutes=1)).effects == (
        Copy(at("2027-03-01T11:00")),
    )


def test_one_that_was_taken_for_one_shot_and_deferred_is_no_template() -> None:
    due = build.routed(Phase.SCHEDULED, spec={"schedule": {"cron": "5-3 * * * *"}}, scheduledFor="2027-03-01T12:05:00Z")
    assert look(due, NOW).phase is Phase.READY_FOR_GPU


def test_a_moment_that_is_edited_is_shown() -> None:
    moved = build.task(
        Phase.SCHEDULED,
        spec={"schedule": {"at": "2027-03-01T15:00:00Z"}},
        status={"scheduledFor": "2027-03-01T14:00:00Z"},
    )
    assert look(moved, NOW).status_patch == {"scheduledFor": "2027-03-01T15:00:00Z"}


def test_copies_of_templates_with_long_names_never_meet() -> None:
    names = {
        copies.name({"metadata": {"name": "a" * 245 + end, "uid": uid}}, NOW)
        for end, uid in (("x", "11111111-0000"), ("y", "22222222-0000"))
    }
    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)


def test_a_copy_carries_what_the_template_says_and_not_what_it_was_asked() -> None:
    raw = build.task(spec={**DAILY, "suspend": True, "answers": [{"id": "q", "text": "a"}]}, labels={"a": "b"}).wire()
    made = copies.manifest(raw, NOW)
    assert made["spec"]["schedule"] == {"at": "2027-03-01T12:00:00Z"}
    assert {"answers", "suspend"}.isdisjoint(made["spec"])
    assert made["metadata"]["labels"] == {"a": "b", "jervis.dev/template-uid": build.UID}
    assert made["metadata"]["ownerReferences"][0]["uid"] == build.UID


class Site:
    """One template, the copies that were made of it, and a clock that is set at will."""

    def __init__(self, plan: dict[str, str], now: datetime) -> None:
        self.now = now
        self.task = build.task(spec={"schedule": plan})
        self.there: dict[str, datetime] = {}
        self.made: list[datetime] = []

    def hold(self, held: bool) -> None:
        """Its user suspends it, or lets it go."""
        self.task = changed(self.task, spec={"suspend": held})

    def settle(self, crash: bool = False, held: bool = False) -> None:
        """Look until there is nothing to do.

        `crash`: the process dies right after its first copy was created; `held`: its user suspends it just then.
        """
        seen: Observation | None = None
        for _ in range(20):
            decided = decide(self.task, ObservedState(observed=seen), self.now)
            seen = None
            self.task = build.apply(self.task, decided.status_patch)
            if not decided.status_patch and not decided.effects:
                return
            for effect in decided.effects:
                if isinstance(effect, Recall):
                    seen = self.latest(effect.most)
                    continue
                assert isinstance(effect, Copy)
                assert not self.task.spec.suspend
                name = copies.name(self.task.wire(), effect.due)
                if name not in self.there:
                    self.there[name] = effect.due
                    self.made.append(effect.due)
                if held:
                    self.hold(held)
                if crash:
                    return
                seen = CopyMade(effect.due, name)
        raise AssertionError("it never settles")

    def latest(self, most: datetime) -> Observation:
        """What looking for copies finds."""
        found = [(due, name) for name, due in self.there.items() if due <= most]
        return CopyMade(*max(found)) if found else NoCopy()

    def held(self) -> bool:
        """Does its status say so?"""
        return any(one.type == "Suspended" and one.status == "True" for one in self.task.status.conditions)

    def on_record(self) -> bool:
        """Is each copy that is there one of the past for its plan, as far as the clock can be believed?"""
        planned, credible = self.task.status.scheduled_for, self.now + Limits().advance + scheduled.CLOCK
        return planned is None or not any(planned <= due <= credible for due in self.there.values())

    def clean(self) -> None:
        """Copies whose making is on record are finished, archived and gone."""
        known = self.task.status.recurrence
        if known is not None and known.last_task:
            self.there.pop(known.last_task, None)


moves = st.one_of(st.integers(1, 90), st.integers(60, 7200), st.integers(3600, 3 * 86400), st.integers(-20 * 3600, -1))


@settings(max_examples=thorough.examples(80), deadline=None)
@given(
    expressions,
    st.sampled_from(ZONES),
    st.sampled_from([datetime(2026, 3, 28, 20, tzinfo=UTC), datetime(2026, 10, 24, 20, tzinfo=UTC)]),
    st.lists(st.tuples(moves, st.booleans(), st.booleans(), st.sampled_from(["", "", "hold", "let go"])), max_size=25),
)
def test_no_run_has_two_copies_whatever_the_clock_does(
    text: str, zone: str, start: datetime, steps: list[tuple[int, bool, bool, str]]
) -> None:
    site = Site({"cron": text, "timeZone": zone}, start)
    plan = schedule.Schedule(cron=text, time_zone=zone)
    for seconds, crash, clean, user in steps:
        site.now += timedelta(seconds=seconds)
        before, free = len(site.made), not site.held()
        if user == "let go":
            site.hold(False)
        site.settle(crash, held=user == "hold")
        if free and site.held():
            assert site.on_record(), "a run is planned that has its copy"
        assert len(site.made) <= before + 2, "one that was missed, and the next ahead of time"
        for due in site.made[before:]:
            assert cron.next_run(plan, due - timedelta(seconds=1)) == due, "a moment of the expression"
            assert due - Limits().advance <= site.now
        if clean:
            site.clean()
    assert len(site.made) == len(set(site.made))


@settings(max_examples=25, deadline=None)
@given(expressions, st.sampled_from(ZONES), st.integers(20, 60))
def test_a_clock_that_just_runs_leaves_nothing_out(text: str, zone: str, pace: int) -> None:
    start = datetime(2026, 10, 24, 22, 30, tzinfo=UTC)
    site = Site({"cron": text, "timeZone": zone}, start)
    plan = schedule.Schedule(cron=text, time_zone=zone)
    for _ in range(60):
        site.settle()
        site.now += timedelta(seconds=pace)
    expected, after = [], start
    while (after := cron.next_run(plan, after)) <= site.now:
        expected.append(after)
    assert [due for due in site.made if due <= expected[-1]] == expected if expected else True


# Days on which clocks of these zones jump, and any other.
starts = st.sampled_from(
    [
        datetime(2026, *day, tzinfo=UTC)
        for day in ((3, 8), (3, 28), (4, 4), (9, 26), (10, 3), (10, 24), (11, 1), (6, 15))
    ]
)


def runs(plan: Schedule, after: datetime, until: datetime) -> list[datetime]:
    found = []
    while (after := cron.next_run(plan, after)) <= until:
        found.append(after)
    return found


@settings(max_examples=thorough.examples(60), deadline=None)
@given(expressions, st.sampled_from(ZONES), starts, st.lists(st.integers(0, 48 * 3600), min_size=1, max_size=6))
def test_the_next_run_does_not_depend_on_where_counting_began(
    text: str, zone: str, start: datetime, seconds: list[int]
) -> None:
    plan = Schedule(cron=text, time_zone=zone)
    for shift in seconds:
        now = start + timedelta(seconds=shift)
        following = cron.next_run(plan, now)
        assert following > now
        assert cron.next_run(plan, following - timedelta(seconds=1)) == following
        last = cron.last_run(plan, start, now)
        assert last is None or start < last <= now
        if last is not None:
            assert cron.next_run(plan, last) == following, "nothing lies between"


def test_a_fixed_time_runs_once_a_day_over_both_jumps() -> None:
    plan = Schedule(cron="30 2 * * *", time_zone="Europe/Prague")
    spring = runs(plan, datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC))
    assert [f"{one:%d %H:%M}" for one in spring] == ["28 01:30", "29 01:00", "30 00:30"], "at the end of the gap"
    autumn = runs(plan, datetime(2026, 10, 23, 12, tzinfo=UTC), datetime(2026, 10, 26, 12, tzinfo=UTC))
    assert [f"{one:%d %H:%M}" for one in autumn] == ["24 00:30", "25 00:30", "26 01:30"], "the first of the two"


def test_a_wildcard_goes_by_elapsed_time() -> None:
    plan = Schedule(cron="0,30 * * * *", time_zone="Europe/Prague")
    for day in (datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 10, 24, 23, tzinfo=UTC)):
        found = runs(plan, day, day + timedelta(hours=6))
        assert [b - a for a, b in itertools.pairwise(found)] == [timedelta(minutes=30)] * 11


@pytest.mark.parametrize(
    ("text", "zone", "told"),
    [
        ("0 0 31 2 *", "UTC", "spec.schedule.cron '0 0 31 2 *'"),
        ("5-3 * * * *", "UTC", "spec.schedule.cron"),
        ("0 0 * * *", "Middle/Earth", "spec.schedule.timeZone 'Middle/Earth' is not a known IANA zone"),
    ],
)
def test_what_never_comes_names_its_field(text: str, zone: str, told: str) -> None:
    with pytest.raises(cron.ImpossibleError, match=told.replace("*", r"\*")):
        cron.next_run(Schedule.model_construct(cron=text, time_zone=zone), datetime(2026, 1, 1, tzinfo=UTC))
