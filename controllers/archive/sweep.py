"""Which finished tasks to delete: a pure decision over all of them at one moment.

Source: operator.md point 9 ("TTL on by default, from persisted completion time; archive acknowledged
before delete; deletes rate-limited").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from controllers.archive.finished import Finished


class Why(StrEnum):
    """What ends a finished object's stay."""

    EXPIRED = "Expired"
    CROWDED = "Crowded"


@dataclass(frozen=True, slots=True)
class Terms:
    """`success` and `failure` are the default TTLs. At most `per_client` finished objects of one client in one
    namespace and `total` of all may stay, those that are leaving apart. `jobs`: how long the Jobs of a finished task
    stay, so that their logs can be read.
    """

    success: timedelta = timedelta(days=1)
    failure: timedelta = timedelta(days=7)
    per_client: int = 1000
    total: int = 10_000
    jobs: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Removal:
    """One object to delete, at exactly the version that was listed."""

    task: Finished
    why: Why


@dataclass(frozen=True, slots=True)
class Plan:
    """What to delete, in order. `due`: how many there are, beyond the bound too."""

    delete: tuple[Removal, ...] = ()
    due: int = 0


def expiry(task: Finished, terms: Terms) -> datetime | None:
    """When its time is over; None when its completion is not known."""
    if task.completed is None:
        return None
    default = terms.failure if task.failed else terms.success
    return task.completed + (default if task.ttl is None else timedelta(seconds=task.ttl))


def over(task: Finished, terms: Terms, now: datetime) -> bool:
    """Its time is over, and it is not on its way out already."""
    end = expiry(task, terms)
    return end is not None and end <= now and not task.leaving


def plan(tasks: Collection[Finished], terms: Terms, now: datetime, most: int) -> Plan:
    """What to delete now, at most `most`. An object that is not archived is never deleted, nor one that is leaving."""
    removals = sorted(_removals(tasks, terms, now), key=lambda one: (one.why is Why.CROWDED, _age(one.task)))
    return Plan(tuple(removals[:most]), len(removals))


def jobs(tasks: Iterable[Finished], terms: Terms, now: datetime) -> list[Finished]:
    """Tasks whose Jobs have stayed long enough; an end without a known time is not waited for."""
    return [task for task in tasks if task.completed is None or task.completed + terms.jobs <= now]


def _removals(tasks: Collection[Finished], terms: Terms, now: datetime) -> Iterable[Removal]:
    staying = []
    for task in tasks:
        if task.leaving:
            continue
        if task.archived and over(task, terms, now):
            yield Removal(task, Why.EXPIRED)
        else:
            staying.append(task)
    counts = Counter(map(_holder, staying))
    most = share(counts.values(), terms)
    excess = {holder: number - most for holder, number in counts.items()}
    for task in sorted(staying, key=_age):
        if task.archived and task.completed is not None and excess[_holder(task)] > 0:
            excess[_holder(task)] -= 1
            yield Removal(task, Why.CROWDED)


def share(numbers: Iterable[int], terms: Terms) -> int:
    """How many objects each client may keep: `per_client`, or less so that all together keep at most `total`.

    The largest bound that does: clients with few objects keep all of them.
    """
    wanted = sorted(min(number, terms.per_client) for number in numbers)
    left = terms.total
    for place, number in enumerate(wanted):
        fair = left // (len(wanted) - place)
        if number > fair:
            return fair
        left -= number
    return terms.per_client


def _holder(task: Finished) -> tuple[str, str]:
    """A client of another namespace is another one: its tasks push out none here."""
    return task.namespace, task.client


def _age(task: Finished) -> tuple[datetime, str]:
    """Oldest first; one whose completion is not known comes last."""
    return task.completed or datetime.max.replace(tzinfo=UTC), task.uid
