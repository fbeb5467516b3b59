"""When a recurring task runs: a cron expression in a time zone as moments of UTC. Pure, and the same from any start.

The expression is matched against the wall clock of the zone; where that clock jumps, Debian's rules hold (cron(8)):

- an expression whose minute and hour are fixed runs once a day all the same: at the first moment after a gap, and at
  the first of two equal times;
- one whose minute or hour is a wildcard goes by elapsed time: what falls into a gap is left out, and what the clock
  shows twice runs twice.

So the next run depends on the present moment only, not on where somebody began to count: that is what makes the name
of a copy, which is made of its moment, unique.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import cronsim

from crds import schedule

_JUMP = timedelta(hours=3)
"""More than any clock is moved by daylight saving."""
_DAY = timedelta(hours=26)
_MINUTE = timedelta(minutes=1)
_FIRST_LOOK = timedelta(hours=1)


class ImpossibleError(ValueError):
    """The expression or zone names no moment at all."""


def next_run(plan: schedule.Schedule, after: datetime) -> datetime:
    """The first run strictly after `after` (UTC). Raises `ImpossibleError` with a sentence naming the field."""
    zone = _zone(plan)
    for run in _runs(plan, zone, after, _margin(zone, after, after)):
        return run
    raise ImpossibleError(f"spec.schedule.cron {plan.cron!r} names no date that ever comes")


def last_run(plan: schedule.Schedule, since: datetime, now: datetime) -> datetime | None:
    """The latest run after `since` and not after `now`; None when there is none. Raises `ImpossibleError`.

    Looks at short spans before long ones: a run every minute has many in a day.
    """
    zone, span = _zone(plan), _FIRST_LOOK
    while True:
        start = max(since, now - span)
        latest = None
        margin = _margin(zone, start, now) if span == _FIRST_LOOK else _JUMP
        for run in _runs(plan, zone, start, margin):
            if run > now:
                break
            latest = run
        if latest is not None or start == since:
            return latest
        span *= 24


def _zone(plan: schedule.Schedule) -> ZoneInfo:
    try:
        return ZoneInfo(plan.time_zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ImpossibleError(f"spec.schedule.timeZone {plan.time_zone!r} is not a known IANA zone") from error


def _margin(zone: ZoneInfo, start: datetime, end: datetime) -> timedelta:
    """How far around to look for times that come out of order; none where no clock jumps. For spans below a day."""
    offsets = {at.astimezone(zone).utcoffset() for at in (start - _DAY, start, end, end + _DAY)}
    return timedelta() if len(offsets) == 1 else _JUMP


def _runs(plan: schedule.Schedule, zone: ZoneInfo, after: datetime, margin: timedelta) -> Iterator[datetime]:
    """All runs after `after`, in order, each once. With no margin only the first is sure to be the first."""
    assert plan.cron is not None
    wall = after.astimezone(zone).replace(tzinfo=None)
    minute, hour = plan.cron.split()[:2]
    fixed = not minute.startswith("*") and not hour.startswith("*")
    try:
        times = cronsim.CronSim(plan.cron, wall - margin)
    except cronsim.CronSimError as error:
        raise ImpossibleError(f"spec.schedule.cron {plan.cron!r} cannot be used: {error}") from error
    waiting: list[datetime] = []
    last = after
    for time in times:
        for moment in _moments(time, zone, fixed):
            heapq.heappush(waiting, moment)
        sure = time.replace(tzinfo=zone).astimezone(UTC) - margin
        while waiting and waiting[0] <= sure:
            moment = heapq.heappop(waiting)
            if moment > last:
                last = moment
                yield moment
    for moment in sorted(set(waiting)):
        if moment > last:
            yield moment


def _moments(time: datetime, zone: ZoneInfo, fixed: bool) -> tuple[datetime, ...]:
    """The moments at which the zone's clock shows `time` (naive): none, one or two; one if `fixed`."""
    first = time.replace(tzinfo=zone)
    if not _shown(first):
        if not fixed:
            return ()
        while not _shown(first):
            first += _MINUTE
        return (first.astimezone(UTC),)
    second = first.replace(fold=1)
    if fixed or first.utcoffset() == second.utcoffset():
        return (first.astimezone(UTC),)
    return first.astimezone(UTC), second.astimezone(UTC)


def _shown(local: datetime) -> bool:
    """Does the zone's clock ever show this time?"""
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None, fold=0) == local.replace(tzinfo=None)
