"""A repair of asyncio's servers for the tests, which close many of them while clients connect.

A connection that is accepted in the round of the loop in which its server is closed gets a half-made transport that
keeps the socket: `Server._attach` refuses it, and its `__del__` warns of a socket that no code of ours has ever had
(https://github.com/python/cpython/issues/109564, open). The warning fails whichever test the garbage collector runs in.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import selector_events
from typing import Any

_made = selector_events._SelectorTransport.__init__  # type: ignore[attr-defined]  # typeshed leaves it out


def _make(
    self: Any,
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    protocol: Any,
    extra: Any = None,
    server: Any = None,
) -> None:
    try:
        _made(self, loop, sock, protocol, extra, server)
    except AssertionError:
        sock.close()
        self._sock = None  # for `__del__`: nothing is left to close
        raise


def repair() -> None:
    """From now on, such a connection is closed where it is refused."""
    selector_events._SelectorTransport.__init__ = _make  # type: ignore[attr-defined]
