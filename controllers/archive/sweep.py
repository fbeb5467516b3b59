"""Which finished tasks to archive and which to delete: a pure decision over all of them at one moment.

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
    """`success` and `failure` are the default TTLs; `per_client` finished objects may stay, leaving ones apart.

    `jobs`: how long the Jobs of a finished task stay, for whoever wants to read their logs.
    """

    success: timedelta = timedelta(days=1)
    failure: timedelta = timedelta(days=7)
    per_client: int = 1000
    jobs: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Budget:
    """How many objects one sweep may archive and delete at the most."""

    archive: int
    delete: int


@dataclass(frozen=True, slots=True)
class Removal:
    """One object to delete, at exactly the version that was looked at."""

    task: Finished
    why: Why


@dataclass(frozen=True, slots=True)
class Plan:
    """In order. `more`: the budget left something undone. `unarchived`: how many there are, beyond the budget too."""

    archive: tuple[Finished, ...] = ()
    delete: tuple[Removal, ...] = ()
    more: bool = False
    unarchived: int = 0


def expiry(task: Finished, terms: Terms) -> datetime | None:
    """When its time is over; None when its completion is not known."""
    if task.completed is None:
        return None
    default = terms.failure if task.failed else terms.success
    return task.completed + (default if task.ttl is None else timedelta(seconds=task.ttl))


def plan(tasks: Collection[Finished], terms: Terms, now: datetime, budget: Budget) -> Plan:
    """What to do now. An object that is not archived is never deleted; one that is leaving is archived all the same."""
    unarchived = sorted((task for task in tasks if not task.archived), key=_age)
    removals = sorted(_removals(tasks, terms, now), key=lambda one: (one.why is Why.CROWDED, _age(one.task)))
    return Plan(
        archive=tuple(unarchived[: budget.archive]),
        delete=tuple(removals[: budget.delete]),
        more=len(unarchived) > budget.archive or len(removals) > budget.delete,
        unarchived=len(unarchived),
    )


def jobs(tasks: Iterable[Finished], terms: Terms, now: datetime) -> list[Finished]:
    """Tasks whose Jobs have stayed long enough; an end without a known time is not waited for."""
    return [task for task in tasks if task.completed is None or task.completed + terms.jobs <= now]


def _removals(tasks: Collection[Finished], terms: Terms, now: datetime) -> Iterable[Removal]:
    staying = []
    for task in tasks:
        over = expiry(task, terms)
        if task.leaving:
            continue
        if task.archived and over is not None and over <= now:
            yield Removal(task, Why.EXPIRED)
        else:
            staying.append(task)
    excess = {client: number - terms.per_client for client, number in Counter(one.client for one in staying).items()}
    for task in sorted(staying, key=_age):
        if task.archived and task.completed is not None and excess[task.client] > 0:
            excess[task.client] -= 1
            yield Removal(task, Why.CROWDED)


def _age(task: Finished) -> tuple[datetime, str]:
    """Oldest first; one whose completion is not known comes last."""
    return task.completed or datetime.max.replace(tzinfo=UTC), task.uid
