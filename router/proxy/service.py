"""Whom a client's connection serves, as the connection sees it; `server.Server` is the one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from router.proxy.flight import Flight
from router.proxy.message import Reply, Request

if TYPE_CHECKING:
    from router.proxy.incoming import Incoming


class Service(Protocol):
    """Called from the event loop, for every connection of the process."""

    leaving: bool
    """The process goes: connections close after the answer they are at."""

    def opened(self, link: Incoming) -> None:
        """A connection came."""

    def closed(self, link: Incoming) -> None:
        """It is gone."""

    def idle(self) -> None:
        """A connection closes after its last answer."""

    def admit(self, request: Request, length: int) -> Reply | None:
        """A head came, announcing `length` body bytes (-1 for unknown). A reply refuses it before its body is read."""

    def grown(self, request: Request, size: int, more: int) -> Reply | None:
        """A body grew by `more` to `size` bytes. A reply refuses it."""

    def kept(self, size: int) -> None:
        """The whole body came, with the length that was admitted in this moment."""

    def shrunk(self, size: int) -> None:
        """Body bytes were let go of."""

    def launch(self, request: Request) -> Flight | None:
        """Send a request on its way as far as nothing has to be waited for; None when it must be handled otherwise."""

    def heard(self, flight: Flight) -> bool | None:
        """A flight's backend said something: True when the whole answer was handed over, None when more will come,
        False when something else must be waited for, by `handle`."""

    def abandon(self, flight: Flight) -> None:
        """The client of a flight that nobody handles is gone."""

    async def handle(self, request: Request, flight: Flight | None) -> Reply | None:
        """Answer a request; None when the answer was written to `request.link`."""
