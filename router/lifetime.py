"""Start, serve, drain: the order in which a router process comes and goes.

On SIGTERM it first says that it is not ready, then stops accepting, lets running answers end for as long as it was
given, and shows the rest an error line. A second signal ends the patience.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Callable

import structlog

from router import dispatch, report
from router.proxy.connections import Connections
from router.proxy.incoming import Incoming
from router.proxy.server import Server
from router.proxy.stall import Watch

_log = structlog.get_logger("router.lifetime")
_LAST_WORDS = 2.0
_BACKLOG = 1024


class Signals:
    """`leaving` is set by the first SIGTERM or SIGINT, `hurry` by the second."""

    def __init__(self) -> None:
        self.leaving = asyncio.Event()
        self.hurry = asyncio.Event()

    def listen(self) -> None:
        """Take over both signals for the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.receive)

    def receive(self) -> None:
        """One signal came."""
        (self.hurry if self.leaving.is_set() else self.leaving).set()


async def serve(
    server: Server,
    connections: Connections,
    dispatcher: dispatch.Dispatcher,
    watch: Watch,
    state: report.Report,
    signals: Signals,
    *,
    host: str,
    port: int,
    drain: float,
    leave: Callable[[], Awaitable[None]] | None = None,
    started: Callable[[str, int], None],
) -> None:
    """Serve until a signal, then drain. `started` hears the address that was really bound; `leave` tells the others
    that this process goes."""
    loop = asyncio.get_running_loop()
    serving = await loop.create_server(
        lambda: Incoming(server, connections, loop), sock=_bound(host, port), backlog=_BACKLOG
    )
    name = serving.sockets[0].getsockname()
    started(name[0], name[1])
    await signals.leaving.wait()
    state.draining = True
    _log.info("draining", active=connections.active, grace=drain)
    if leave is not None:
        await leave()
    serving.close()
    connections.leave()
    await _quiet(connections, signals, drain)
    await _cut(connections, dispatcher, watch)


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens. Without a host it is for IPv6 and IPv4, or for IPv4 where there is nothing else. Raises
    OSError."""
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    try:
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    except (OSError, ValueError):
        return socket.create_server(("", port), backlog=_BACKLOG)


async def _quiet(connections: Connections, signals: Signals, grace: float) -> None:
    """Until no request is served any more, at most `grace` seconds."""
    ends = [asyncio.ensure_future(connections.quiet()), asyncio.ensure_future(signals.hurry.wait())]
    await asyncio.wait(ends, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()


async def _cut(connections: Connections, dispatcher: dispatch.Dispatcher, watch: Watch) -> None:
    turned, ended = dispatcher.turn_away(), watch.cut_all()
    if turned or ended:
        _log.warning("cut off", waiting=turned, running=ended)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS):
            await connections.quiet()
    connections.drop()
