"""One request between its arrival and the end of its answer: the attempt that is under way, and what came of the
attempts before."""

from __future__ import annotations

from collections.abc import Callable

from router import scheduler
from router.proxy.call import Call
from router.proxy.refusal import Refusal
from router.proxy.relay import Relay


class Flight:
    """Made and moved by `forward.Forwarder`. A request that has to wait for something (a slot, a connection, a client
    that takes nothing) does so in a task; one that waits for the backend's answer only is called back (`listen`),
    because that is how most requests go and a task costs more than all the rest."""

    __slots__ = ("avoid", "backend", "call", "failed", "lost", "owned", "preempted", "relay", "sent", "ticket")

    def __init__(self, call: Call, ticket: scheduler.SlotRequest) -> None:
        self.call = call
        self.ticket = ticket
        self.backend: str | None = None
        """Where the present attempt has its slot."""
        self.relay: Relay | None = None
        """The present attempt."""
        self.owned: scheduler.Owned | None = None
        """What the router decides about the model in the client's stead."""
        self.sent = 0.0
        """When the present attempt got its slot, in monotonic seconds."""
        self.avoid: frozenset[str] = frozenset()
        self.failed: Refusal | None = None
        """What to say if no other backend answers."""
        self.preempted = 0
        self.lost = 0
        """Servers that ended, or could not be reached, while they had it."""

    def listen(self, resume: Callable[[], None]) -> bool:
        """Call back once, when the backend sends something or its connection ends. False when the request was not sent
        yet, so that a slot or a connection is to be waited for."""
        relay = self.relay
        if relay is None or (connection := relay.connection) is None:
            return False
        connection.listener = resume
        return True

    def unlisten(self) -> None:
        """A task waits for it from now on."""
        if self.relay is not None and self.relay.connection is not None:
            self.relay.connection.listener = None
