"""Which backends the scheduler has: all of them while this router decides, none while it stands by.

A router that begins to decide takes over the reservations of the one before it, which the statuses of GpuBackend
objects tell of. It does so before the scheduler hears of a backend, because a backend without its reservation would be
given to others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from crds import gpubackend
from router import dispatch
from router.backends import book
from router.backends.statuses import restored


class Takeover:
    """`decides`: this router does from the beginning; after that `turned` says it. `active` tells whether it does at
    this moment, `statuses` gives those that the watch saw last, None when the settings give the backends. `now` is the
    scheduler's clock in seconds, `wall` the time of day. `changed`, `turned` and `listed` are listeners of the book, of
    the Lease and of the watch.

    A Lease can be away for a moment for which no listener is called, when a renewal is answered late. The backends stay
    then: they would not come back before the book changes again. Nothing is dispatched meanwhile (`dispatch`)."""

    def __init__(
        self,
        backends: book.Book,
        dispatcher: dispatch.Dispatcher,
        *,
        decides: bool,
        active: Callable[[], bool],
        statuses: Callable[[], Mapping[str, gpubackend.Status]] | None,
        now: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._book, self._dispatcher = backends, dispatcher
        self._decides, self._active, self._statuses = decides, active, statuses
        self._now, self._wall = now, wall
        self._known = False  # the watch has brought a whole list of the backends

    def changed(self) -> None:
        """The book changed."""
        self._dispatcher.reconfigure(self._book.views() if self._decides else (), self._book.table)

    def turned(self, active: bool) -> None:
        """This router decides from now on, or no longer."""
        self._decides = active
        if active:
            self._restore()
        else:
            self._dispatcher.turn_away()
        self.changed()

    def listed(self, specs: Mapping[str, gpubackend.Spec]) -> None:
        """The valid backends are these."""
        if not self._known:
            self._known = True
            self._restore()
        self._book.replace(specs)

    def may_write(self) -> bool:
        """This router decides, and knows the reservations that statuses tell of."""
        return self._active() and self._known

    def _restore(self) -> None:
        for name, status in ({} if self._statuses is None else self._statuses()).items():
            held = restored(status, wall=self._wall(), now=self._now())
            if held is not None:
                self._dispatcher.restore(name, held)
