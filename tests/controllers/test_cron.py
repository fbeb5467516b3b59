"""Moments of cron expressions: in every zone, over both jumps of the clock, the same wherever counting begins."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pendingtask.policy import cron
from crds.schedule import Schedule
from tests import thorough
from tests.controllers.strategies import ZONES, expressions

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
