"""The shell around the scheduler: requests wait here as futures, and its effects are carried out.

Dispatch, Refuse            wake who waits
Cancel                      calls what the request's way left here for that case (`on_cancel`)
Announced                   wakes who announced
Load, Unload, WriteStatus   go to the performers; their outcome comes back by `loaded`, `unloaded`
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from crds import errors
from router import effects, models, reservation, scheduler
from router.effects import Announced, Cancel, Dispatch, Load, Refuse, Unload, WriteStatus

Outward = Load | Unload | WriteStatus


class Turned(errors.Operational):
    """The scheduler refused a request."""

    def __init__(self, reason: effects.Reason) -> None:
        super().__init__(f"refused: {reason}")
        self.reason = reason


class Dispatcher:
    """One per process, used from its event loop alone. `now` is monotonic seconds. `counts` are effects by name: loads,
    unloads, preemptions (moved and ended), reservations. `deciding` is asked before anything may be dispatched: whether
    this router is the one that decides; None when there are no others."""

    def __init__(
        self,
        plan: scheduler.Scheduler,
        *,
        now: Callable[[], float],
        deciding: Callable[[], bool] | None = None,
    ) -> None:
        self._plan = plan
        self.began = plan.began
        self.alone = plan.alone
        self.owns = plan.owns
        self._now = now
        self._performers: list[Callable[[Outward], None]] = []
        self._deciding = deciding
        self._sleepers: dict[int, asyncio.Future[str]] = {}
        self._cancels: dict[int, Callable[[], None]] = {}
        self._victims: set[int] = set()
        self._announcers: dict[str, set[asyncio.Future[str]]] = {}
        self.counts: Counter[str] = Counter()

    def performed_by(self, perform: Callable[[Outward], None]) -> None:
        """Call `perform`, which must not block, with every Load, Unload and WriteStatus."""
        self._performers.append(perform)

    # Requests.

    def offer(self, request: scheduler.SlotRequest) -> str | None:
        """Ask for a slot; returns the backend's name when there is one at once; else `granted` is to be awaited."""
        if self._deciding is not None and self._stepped_down():
            sleeper = self._sleepers[request.id] = asyncio.get_running_loop().create_future()
            sleeper.set_exception(Turned(effects.Reason.STEPPED_DOWN))
            return None
        caused = self._plan.offered(request, self._now())
        if caused:
            first = caused[0]
            if len(caused) == 1 and type(first) is Dispatch and first.request is request:
                return first.backend
        self._sleepers[request.id] = asyncio.get_running_loop().create_future()
        if caused:
            self._apply(caused)
        return None

    async def granted(self, request: scheduler.SlotRequest) -> str:
        """Wait for the slot of a request that was offered; returns the backend's name. Raises Turned.

        A caller that is cancelled while it waits gives its place (or the slot it was just given) back.
        """
        try:
            return await self._sleepers[request.id]
        except asyncio.CancelledError:
            self.withdraw(request)
            raise
        finally:
            self._sleepers.pop(request.id, None)

    def withdraw(self, request: scheduler.SlotRequest) -> None:
        """A request that was offered is not waited for any more: its place, or the slot it was just given, is free."""
        self._victims.discard(request.id)
        sleeper = self._sleepers.pop(request.id, None)
        if sleeper is not None and not sleeper.cancel() and not sleeper.cancelled():
            sleeper.exception()  # it was refused, but its client is gone
        self._apply(self._plan.withdrawn(request.id, self._now()))

    def release(self, request_id: int) -> None:
        """The slot is free again: to be called exactly once for every acquired request."""
        if self._cancels:
            self._cancels.pop(request_id, None)
            self._victims.discard(request_id)
        if self._deciding is not None:
            self._stepped_down()
        caused = self._plan.released(request_id, self._now())
        if caused:
            self._apply(caused)

    def on_cancel(self, request_id: int, give_way: Callable[[], None]) -> None:
        """Call `give_way` when a running request must make room. It may be at once."""
        self._cancels[request_id] = give_way
        if request_id in self._victims:
            give_way()

    def elsewhere(self, request: scheduler.SlotRequest) -> bool:
        """Could a request with these backends to avoid run anywhere at all?"""
        return self._plan.possible(request, self._now())

    def turn_away(self) -> int:
        """Refuse every waiting request (the process is going); returns how many."""
        waiting = list(self._plan.waiting())
        for request in waiting:
            self._plan.withdrawn(request.id, self._now())
            self._apply([Refuse(request, effects.Reason.STEPPED_DOWN)])
        return len(waiting)

    # Backends.

    def reconfigure(self, backends: Iterable[scheduler.Backend], table: models.Table) -> None:
        """The book changed."""
        self._stepped_down()
        self._apply(self._plan.reconfigured(backends, self._now(), table.cpu_allowed))

    def loaded(self, backend: str, model: str, error: str = "") -> None:
        """A Load was carried out."""
        self._stepped_down()
        self._apply(self._plan.loaded(backend, model, self._now(), error))

    def unloaded(self, backend: str, model: str) -> None:
        """An Unload was carried out and the model is gone."""
        self._stepped_down()
        self._apply(self._plan.unloaded(backend, model, self._now()))

    def restore(self, backend: str, held: effects.Held) -> None:
        """A reservation from before a restart."""
        self._plan.restored(backend, held)

    async def run(self, interval: float) -> None:
        """Tell the scheduler that time passes, for ever."""
        while True:
            await asyncio.sleep(interval)
            self._stepped_down()
            self._apply(self._plan.ticked(self._now()))

    # Reservations.

    async def announce(
        self, owner: str, model: str, lease_id: str, fresh_id: str, *, spare_only: bool = False
    ) -> tuple[reservation.Answer, str]:
        """Reserve a GPU and wait until it is ready; (answer, why it will not be). Cancelling the wait leaves the
        reservation in force."""
        answer, caused = self._plan.announced(owner, model, lease_id, fresh_id, self._now(), spare_only=spare_only)
        held = answer.reservation
        if answer.verdict is not reservation.Verdict.HELD or held is None:
            self._apply(caused)
            return answer, ""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiting = self._announcers.setdefault(held.id, set())
        waiting.add(future)
        try:
            self._apply(caused)
            return answer, "" if held.ready else await future
        finally:
            waiting.discard(future)
            if not waiting:
                self._announcers.pop(held.id, None)

    def unreserve(self, owner: str, lease_id: str) -> reservation.Answer:
        """Give a reservation back."""
        answer, caused = self._plan.unreserved(owner, lease_id, self._now())
        self._apply(caused)
        return answer

    # Inside.

    def _stepped_down(self) -> bool:
        """Whether another router decides. Then what waits is turned away before it gets a slot that comes free:
        a process that was frozen may hear of its backends before it hears of its Lease."""
        if self._deciding is None or self._deciding():
            return False
        self.turn_away()
        return True

    def _apply(self, caused: Iterable[effects.Effect]) -> None:
        for effect in caused:
            match effect:
                case Dispatch():
                    self._wake(effect.request.id, effect.backend)
                case Refuse():
                    self._wake(effect.request.id, Turned(effect.reason))
                case Cancel():
                    self._cancel(effect)
                case Announced():
                    for future in self._announcers.get(effect.lease_id, ()):
                        if not future.done():
                            future.set_result(effect.error)
                case Load() | Unload() | WriteStatus():
                    self.counts[type(effect).__name__] += 1
                    for perform in self._performers:
                        perform(effect)

    def _wake(self, request_id: int, outcome: str | Turned) -> None:
        sleeper = self._sleepers.get(request_id)
        # A sleeper that is done was cancelled in this very turn of the loop; its own path gives the slot back.
        if sleeper is None or sleeper.done():
            return
        if isinstance(outcome, str):
            sleeper.set_result(outcome)
        else:
            sleeper.set_exception(outcome)

    def _cancel(self, effect: Cancel) -> None:
        self.counts["PreemptedVisibly" if effect.visible else "Preempted"] += 1
        self._victims.add(effect.request.id)
        give_way = self._cancels.get(effect.request.id)
        if give_way is not None:
            give_way()
