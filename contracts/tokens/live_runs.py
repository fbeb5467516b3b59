"""Which runs there are now: a list that the operator signs, and that the services which take run tokens ask it for.

A run token says what its run may do. Whether the run still is one, this list says: it is good while the task exists and
that attempt is its current one. The list is a JSON Web Token like a run token, of a media type of its own, so no
process without the key can write one. It is made from the tasks as the replica of the operator that leads sees them;
nothing of it is stored.

    runs       uid of each task with a GPU slot -> its attempt
    stopped    uids of tasks that wait for a slot after a run: a command in a sandbox works on for them
    analyses   ids of the Jobs that analyze code

A run that is not listed is over, unless its token is younger than the list. A service asks every `EVERY_SECONDS`; where
it has heard nothing for `SILENT_SECONDS` it says that it does not know, and callers try again later. A list counts for
as long as its own time says, by the clock of the service: one that was captured is good for nothing a minute later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pydantic
from pydantic import AwareDatetime, BaseModel, ConfigDict

from contracts.tokens import runtoken
from crds import errors

PATH = "/api/v1/live-runs"
MEDIA_TYPE = "jervis-live-runs+jwt"
EVERY_SECONDS = 3.0
SILENT_SECONDS = 60.0
YOUNG = timedelta(seconds=10)
"""A token that was signed this long before a list was made may be of a run that the list could not have: its task had
just been written. After a change of the leader it is longer."""
SKEW = timedelta(seconds=60)
"""How far the time of a list may be from the service's own."""
BACKWARDS = timedelta(seconds=30)
"""A list that is so much older than the newest is none of another replica, whose clock may differ."""
MOST_BYTES = 8 << 20
"""Of a list: about 100,000 runs."""


class Unheard(errors.Operational):
    """Whether a run is over is not known: the operator has not been heard for a while."""


class Live(BaseModel):
    """The list as it was at `as_of`, by the operator's clock."""

    model_config = ConfigDict(frozen=True)

    as_of: AwareDatetime
    runs: Mapping[str, int] = {}
    stopped: frozenset[str] = frozenset()
    analyses: frozenset[str] = frozenset()
    young: float = YOUNG.total_seconds()
    """Seconds before `as_of` in which a token may have been signed for a run that the list could not have."""

    def has(self, run: runtoken.Claims) -> bool:
        """Whether the run of that token was one."""
        if run.analysis:
            return run.task_uid in self.analyses
        if run.sandbox:
            return run.task_uid in self.runs or run.task_uid in self.stopped
        return self.runs.get(run.task_uid) == run.attempt

    def ends(self, run: runtoken.Claims) -> bool:
        """Whether that run is over, as far as the list can say."""
        return not self.has(run) and run.issued_at < self.as_of - timedelta(seconds=self.young)


def sign(live: Live, keys: runtoken.Ring) -> str:
    """`live` as the operator answers it."""
    payload = {
        "iss": runtoken.ISSUER,
        "iat": live.as_of.timestamp(),
        "runs": dict(live.runs),
        "stopped": sorted(live.stopped),
        "analyses": sorted(live.analyses),
        "young": live.young,
    }
    return runtoken.write(payload, keys, MEDIA_TYPE)


def parse(token: str, keys: runtoken.Ring) -> Live:
    """A list that the operator signed. Raises `runtoken.Refused`."""
    _, payload = runtoken.read(token, keys, (MEDIA_TYPE,))
    try:
        return Live.model_validate({**payload, "as_of": payload.get("iat")})
    except pydantic.ValidationError as error:
        raise runtoken.Malformed("the list of runs cannot be used") from error


@dataclass(slots=True)
class Known:
    """What one service has heard. `keys` are those of run tokens, `monotonic` gives seconds, `wall` the time in UTC."""

    keys: Callable[[], runtoken.Ring]
    monotonic: Callable[[], float]
    wall: Callable[[], datetime]
    _live: Live = field(default=Live(as_of=datetime.fromtimestamp(0, UTC)), init=False)
    _newest: datetime = field(default=datetime.fromtimestamp(0, UTC), init=False)
    _heard: float | None = field(default=None, init=False)

    def hear(self, token: str) -> None:
        """Take the operator's answer. Raises `runtoken.Refused` for one that is not its own, or not of now."""
        live, now = parse(token, self.keys()), self.wall()
        if abs(live.as_of - now) > SKEW:
            why = f"the list of runs is of {live.as_of.isoformat()}, and here it is {now.isoformat()}"
            raise runtoken.Expired(why, remedy="Set the clocks of the nodes alike.")
        if live.as_of < self._newest - BACKWARDS:
            raise runtoken.Expired(f"the list of runs is of {live.as_of.isoformat()}, an older one than before")
        self._live, self._newest, self._heard = live, max(live.as_of, self._newest), self.monotonic()

    def check(self, run: runtoken.Claims) -> None:
        """Raises `runtoken.Ended` for a run that is over, `Unheard` where that is not known."""
        if self._heard is None or self.monotonic() - self._heard > SILENT_SECONDS:
            raise Unheard("the operator has not said which runs there are for a while", retry_after=EVERY_SECONDS)
        if self._live.ends(run):
            raise runtoken.Ended(f"run {run.attempt} of task {run.task_uid} is over")
