"""Requests that end the runner of a model: known by the digest of their bodies, and refused for a while.

A body that a runner does not survive (a JSON schema that its grammar engine cannot compile is one) ends the runner of
every backend that it is sent to, and with it what others have running there. One death says nothing: memory runs out,
drivers fail. Two deaths, each with nothing else on that backend and no answer in between, say that it is the request
(decision 0170). What asks for an answer of the same form (schemas, tools) is suspected together, whatever its prompt.
A form that all clients share would never be acquitted if nothing with it were sent, so now and then one request is let
through for trial; the others are to come again, until it has killed in several trials more.

Only what has ended a runner is remembered, so a request costs a look at an empty dictionary; a body is hashed only when
one for its model of its length, or one with a form, has ended a runner before. One event loop uses it; it lives in this
process alone.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from router.proxy import body
from router.proxy.call import Call
from router.proxy.refusal import Cause, Refusal

MOST = 256
"""Bodies and forms that are remembered for each model; the one that ended a runner longest ago goes first."""


class Ending(Enum):
    """What ended under a request, and what that weighs, see `_ENOUGH`."""

    RUNNER = 6
    """The runner: its server says so."""
    SERVER = 3
    """The server: it takes no connection any more. So it is at a restart, which clients are not to notice."""
    CONNECTION = 2
    """The connection, and the server takes another one. A proxy that does not wait so long does that, too."""


_ENOUGH = Ending.RUNNER.value * 2
"""Two runners, four servers, or six connections."""
_ENOUGH_OF_FORM = _ENOUGH * 3
"""Three bodies that are refused, or more that are not."""
_FOR_GOOD = _ENOUGH_OF_FORM * 3 // 2
"""Of a form that ended runners in three trials more: its clients are not to come again."""
_FIRST_PAUSE = 60.0
"""Seconds from a form's last death to its trial, doubling with each one that does not acquit it."""
_ANY_SIZE = -1


@dataclass(slots=True)
class _Death:
    """A body, or a form of answers, that ended a runner. `weight` as in `Ending`, `until` in monotonic seconds."""

    size: int
    """`_ANY_SIZE` of a form."""
    others: bool
    """The model has answered others since: it does not die of everything. Of a body that is not asked."""
    times: int = 0
    weight: int = 0
    until: float = 0.0
    ending: Ending = Ending.RUNNER
    """The last one."""
    last: str = ""
    """What the backend answered then."""
    pause: float = 0.0
    """Of a form, in seconds: as `_FIRST_PAUSE`."""
    trial: float = 0.0
    """Of a form, in monotonic seconds: from then on the next request is let through."""

    @property
    def guilty(self) -> bool:
        """Is it refused?"""
        return self.others and self.weight >= (_ENOUGH_OF_FORM if self.form else _ENOUGH)

    @property
    def form(self) -> bool:
        """Is it a form?"""
        return self.size == _ANY_SIZE


class Quarantine:
    """One per process. A body is remembered for `seconds` after the last runner that it ended; 0: never. `now` is
    monotonic seconds."""

    def __init__(self, *, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._models: dict[str, OrderedDict[bytes, _Death]] = {}

    def suspects(self, model: str, size: int) -> bool:
        """May a body of so many bytes, or its form, have ended a runner of that model? Only then `check` can refuse
        it."""
        deaths = self._models.get(model)
        return deaths is not None and any(one.size in (size, _ANY_SIZE) for one in deaths.values())

    async def check(self, call: Call) -> None:
        """Raises Refusal for a request that is in quarantine: 422, or 503 while its form will be tried again. It may be
        repeated and refused any number of times: that does not prolong it."""
        if not self.suspects(call.model, len(call.request.body)):
            return
        keys = await _keys(call)
        self._forget(call.model)
        deaths = self._models.get(call.model, OrderedDict[bytes, _Death]())
        call.suspect = tuple(key for key in keys if key in deaths)
        for key in call.suspect:
            if deaths[key].guilty and not self._tried(call, deaths[key]):
                raise self._refusal(call, deaths[key])

    def _tried(self, call: Call, death: _Death) -> bool:
        """Is the request let through for trial? Then no other one is for a while."""
        if not death.form:
            return False
        # It was before, and has waited for its slot since.
        if call.trial == death.times:
            return True
        now = self._now()
        if now < death.trial:
            return False
        # Here and not at its death, which is not counted where others run on that backend.
        death.pause = min(death.pause * 2, self._seconds)
        death.trial, call.trial = now + death.pause, death.times
        return True

    async def died(self, call: Call, ending: Ending, said: str) -> Refusal | None:
        """The request ended a runner while nothing else ran on the backend, which answered `said`. What to answer if it
        is the request's fault, None while it may be another's."""
        if not self._seconds:
            return None
        call.suspect = keys = await _keys(call)
        self._forget(call.model)
        deaths, now = self._models.setdefault(call.model, OrderedDict()), self._now()
        for key, size in zip(keys, (len(call.request.body), _ANY_SIZE), strict=False):
            death = deaths.setdefault(key, _Death(size, others=size != _ANY_SIZE))
            if not death.guilty:
                death.pause = min(_FIRST_PAUSE, self._seconds)
            death.times += 1
            death.weight += ending.value
            if not death.others:
                # It was not refused, so these were no trials.
                death.weight = min(death.weight, _ENOUGH_OF_FORM)
            death.until, death.trial = now + self._seconds, now + death.pause
            death.ending, death.last = ending, said
            deaths.move_to_end(key)
        while len(deaths) > MOST:
            deaths.popitem(last=False)
        return next((self._refusal(call, deaths[key]) for key in keys if deaths[key].guilty), None)

    def __contains__(self, model: str) -> bool:
        """Has a runner of that model ended under any request? Only then does an answer matter."""
        return model in self._models

    def answered(self, call: Call) -> None:
        """The model answered the request: what it was suspected of was another's doing."""
        deaths = self._models.get(call.model, OrderedDict[bytes, _Death]())
        for key in call.suspect:
            deaths.pop(key, None)
        for death in deaths.values():
            death.others = True
        self._forget(call.model)

    def count(self, model: str) -> int:
        """Bodies and forms for that model that are refused at the moment."""
        self._forget(model)
        return sum(one.guilty for one in self._models.get(model, {}).values())

    def _forget(self, model: str) -> None:
        """What is over: the deaths are in the order of their ends."""
        deaths, now = self._models.get(model), self._now()
        if deaths is None:
            return
        while deaths and next(iter(deaths.values())).until <= now:
            deaths.popitem(last=False)
        if not deaths:
            del self._models[model]

    def _refusal(self, call: Call, death: _Death) -> Refusal:
        now, model = self._now(), call.asked[:256]
        which = "requests with this schema or these tools, whatever they ask," if death.form else "this request"
        what = (
            f"{which} ended the runner of model {model!r}"
            if death.ending is Ending.RUNNER
            else f"the backends of model {model!r} broke off under {which}"
        )
        again = None
        if death.form and death.weight < _FOR_GOOD:
            again = max(1, math.ceil(min(death.trial, death.until) - now))
            rest = f"one is tried again in {again} s"
        else:
            rest = f"it goes to no further backend for {max(1, round((death.until - now) / 60))} min"
        return Refusal(
            422 if again is None else 503,
            f"{what} {death.times} times while nothing else ran there ({death.last}); {rest}. Change it: a JSON schema "
            "with a maxLength, maxItems or pattern that is too large for the server's grammar is a known cause",
            retry_after=again,
            reason=Cause.CRASHES_RUNNER,
            model=call.asked,
        )


async def _keys(call: Call) -> tuple[bytes, ...]:
    """Digests of the path with the body and, if it asks for any, of the form of its answer."""
    data = call.request.body
    if len(data) > body.SMALL:
        return await body.in_thread(_digests, call.path, data)
    return _digests(call.path, data)


def _digests(path: str, data: bytes | bytearray) -> tuple[bytes, ...]:
    whole = hashlib.sha256(path.encode("utf-8", "replace") + b"\0")
    whole.update(data)
    form = body.form(data)
    return (whole.digest(), hashlib.sha256(form).digest()) if form else (whole.digest(),)
