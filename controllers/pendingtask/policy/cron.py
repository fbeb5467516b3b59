"""When a recurring task runs: a cron expression in a time zone -> times in UTC. Pure.

The expression is matched against the wall clock of the zone. Where that clock jumps, Debian's rules apply (cron(8)):

- an expression with fixed minute and hour still runs once a day: at the first moment after a gap, and at the first of
  two equal times;
- an expression with a wildcard minute or hour follows elapsed time: times in a gap are skipped, and times that the
  clock shows twice run twice.

The next run depends on the present time only, not on the start of the search. This keeps the names of copies, which
contain the time of the run, unique.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import cronsim

from crds import schedule

_JUMP = timedelta(hours=3)
"""More than any daylight saving shift."""
_DAY = timedelta(hours=26)
_MINUTE = timedelta(minutes=1)
_FIRST_SPAN = timedelta(hours=1)


class ImpossibleError(ValueError):
    """The expression or zone yields no run at all."""


def next_run(plan: schedule.Schedule, after: datetime) -> datetime:
    """The first run strictly after `after` (UTC). Raises `ImpossibleError` with a sentence naming the field."""
    zone = _zone(plan)
    for run in _runs(plan, zone, after, _margin(zone, after, after)):
        return run
    raise ImpossibleError(f"spec.schedule.cron {plan.cron!r} never matches a date")


def last_run(plan: schedule.Schedule, since: datetime, now: datetime) -> datetime | None:
    """The latest run after `since` and not after `now`; None without one. Raises `ImpossibleError`.

    Searches short spans before long ones: a run every minute has many in a day.
    """
    zone, span = _zone(plan), _FIRST_SPAN
    while True:
        start = max(since, now - span)
        latest = None
        margin = _margin(zone, start, now) if span == _FIRST_SPAN else _JUMP
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
    """By how much times near a span below a day may be out of order; 0 if the zone's clock does not jump there."""
    offsets = {at.astimezone(zone).utcoffset() for at in (start - _DAY, start, end, end + _DAY)}
    return timedelta() if len(offsets) == 1 else _JUMP


def _runs(plan: schedule.Schedule, zone: ZoneInfo, after: datetime, margin: timedelta) -> Iterator[datetime]:
    """All runs after `after`, in order, each once. With margin 0 only the first one is guaranteed to be right."""
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
    """The UTC times at which the zone's clock shows `time` (naive): none, one or two; exactly one if `fixed`."""
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
    """Whether the zone's clock ever shows this time."""
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None, fold=0) == local.replace(tzinfo=None)
