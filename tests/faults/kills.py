"""When to kill -9: at each call site once, or at random requests. Pure deciders, see `faults.Decide`.

Between two requests nothing of the operator is visible outside, so a kill at any moment equals one at a moment of a
request: before it is sent, after it is done and before it is answered, or after its answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.faults.faults import KILLS, Fate
from tests.faults.sites import Call, Moment, Site


@dataclass(frozen=True, order=True, slots=True)
class Target:
    """A moment of a request of a site."""

    site: Site
    moment: Moment

    def __str__(self) -> str:
        return f"{self.site} {self.moment}"


def targets(sites: Iterable[Site], moments: Iterable[Moment] = Moment) -> list[Target]:
    """Every moment of every site. A watch is never answered to the end: it has two."""
    wanted = list(moments)
    return [
        Target(site, moment)
        for site in sorted(sites)
        for moment in wanted
        if not (site.verb == "WATCH" and moment is Moment.ANSWERED)
    ]


class Executioner:
    """Kills each process once, at its first request that is still on the list. `begin` with a way to tell processes.

    A site that is not on the list is added, with the moments `also`, when it is seen: `noticed`.
    """

    def __init__(self, wanted: Iterable[Target], also: Iterable[Moment] = ()) -> None:
        self.pending = dict.fromkeys(wanted)
        self.done: list[Target] = []
        self.noticed: dict[Target, None] = {}
        self._also = list(also)
        self._known = {target.site for target in self.pending}
        self._process: Callable[[], int] | None = None
        self._killed: int | None = None

    def begin(self, process: Callable[[], int] | None) -> None:
        """`process()` numbers the process that runs; None: kill no more."""
        self._process, self._killed = process, None

    @property
    def owed(self) -> list[Target]:
        """Still to come, without those that chance brought on the way and may never bring again."""
        return [target for target in self.pending if target not in self.noticed]

    def __call__(self, call: Call) -> Fate | None:
        if self._process is None or self._process() == self._killed:
            return None
        if call.site not in self._known:
            self._known.add(call.site)
            new = dict.fromkeys(targets([call.site], self._also))
            self.noticed |= new
            self.pending |= new
        for moment in Moment:
            target = Target(call.site, moment)
            if target in self.pending:
                del self.pending[target]
                self.done.append(target)
                self._killed = self._process()
                return Fate(KILLS[moment])
        return None


class Countdown:
    """Kills at a random moment of the n-th request from when it is armed, n at random up to `longest`."""

    def __init__(self, seed: int, longest: int) -> None:
        self._chance, self._longest = random.Random(seed), longest
        self._left: int | None = None

    def arm(self) -> None:
        """Draw the next moment."""
        # Mostly soon after the start, where everything is taken up again, and sometimes late.
        self._left = max(1, round(self._longest * self._chance.random() ** 2))

    @property
    def armed(self) -> bool:
        """A kill is still to come."""
        return self._left is not None

    def __call__(self, call: Call) -> Fate | None:
        if self._left is None:
            return None
        self._left -= 1
        if self._left > 0:
            return None
        self._left = None
        return Fate(KILLS[self._chance.choice(list(Moment))])
