"""Options of a client's socket: a call may wait for an hour without a byte, and its connection must outlive that.

Without them a router or a knowledge base whose host went away would be waited for as long, and gateways forget
connections that are silent for minutes.
"""

from __future__ import annotations

import socket

_WANTED = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 60),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 15),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
)
OPTIONS = [(level, getattr(socket, name), value) for level, name, value in _WANTED if hasattr(socket, name)]
"""Other systems than Linux lack some of them."""
