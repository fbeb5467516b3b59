"""Who may go now, and which Background run gives its slot to whom. Pure.

- A slot that a run gave up is kept for the user's task that it was claimed for, and for nobody else.
- Other free slots go to users' tasks in the order in which they are given, their clients' turns.
- Each user's task that is left gets one run to wait for: one that is asked to stop already, else the lowest in the
  queue's order, of those the youngest. A run that was claimed `limit` times is left alone from then on.
- A claim whose task has its slot, or does not wait any more, passes to the next task, or lapses: the run goes on.

Source: blueprint section 4 "Preemption"; operator.md point 11.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controllers.pendingtask.bookings import Claim, Newcomer, Run


@dataclass(frozen=True, slots=True)
class Plan:
    """`go`: users' tasks that have a slot now, in order. `claims`: uid of a run -> who gets its slot."""

    go: tuple[str, ...] = ()
    claims: Mapping[str, Newcomer] = field(default_factory=dict)


def plan(
    waiting: Sequence[Newcomer],
    kept: Collection[str],
    free: int,
    runs: Iterable[Run],
    waits: Callable[[Claim], Newcomer | None],
    may_stop: Callable[[Run], bool],
) -> Plan:
    """
    waiting   users' tasks that were seen to find no slot, in order
    kept      uids of the users' tasks for which a free slot is kept, whether they are in `waiting` or being looked at
    free      free slots, the kept ones included; below 0 when more is booked than there is
    runs      all that hold a slot
    waits     whoever a claim is for, while it waits
    may_stop  may this run be claimed that is not claimed yet?
    """
    owners = sorted((one for one in waiting if one.uid in kept), key=lambda one: one.order)
    others = [one for one in waiting if one.uid not in kept]
    unbound = max(0, free - len(kept))
    # Whoever goes must find a slot when looked at: those of the owners that are being looked at are not for others.
    owned = max(0, free - (len(kept) - len(owners)))
    going = [*owners[:owned], *others[:unbound]]
    without = {one.uid: one for one in [*owners[owned:], *others[unbound:]]}
    served = {one.uid for one in going} | set(kept)
    claims: dict[str, Newcomer] = {}
    loose: list[Run] = []
    candidates: list[Run] = []
    for run in runs:
        if not run.background:
            continue
        if run.claim is None:
            candidates.append(run)
            continue
        owner = waits(run.claim)
        if owner is None or owner.uid in served:
            loose.append(run)
            continue
        claims[run.uid] = owner
        served.add(owner.uid)
        without.pop(owner.uid, None)
    loose.sort(key=_worth)
    for one in without.values():
        if loose:
            claims[loose.pop().uid] = one
    left = [one for one in without.values() if one not in claims.values()]
    if left:
        victims = heapq.nlargest(len(left), (run for run in candidates if may_stop(run)), key=_worth)
        claims.update(zip((run.uid for run in victims), left, strict=False))
    place = {one.uid: number for number, one in enumerate(waiting)}
    return Plan(tuple(sorted((one.uid for one in going), key=place.__getitem__)), claims)


def _worth(run: Run) -> tuple[int, int, int, int, str]:
    """The largest gives its slot up first: last in the queue's order, then the youngest run."""
    rank = run.order
    return rank.position, rank.urgency, run.started, rank.created, run.uid
