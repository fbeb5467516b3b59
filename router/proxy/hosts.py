"""Which names a client may call the router by, and which pages may change its state.

A web page reaches a server on its visitor's network by DNS rebinding: its own name is made to lead there. Such a name
is one that can be registered. So addresses, names without a dot and names below a top level domain that is not
delegated are accepted, and others only when a setting names them. Ollama has the same rule (`allowedHostsMiddleware`
in `server/routes.go`), but behind a router it does not see the client's Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

# RFC 6761, RFC 6762, RFC 8375, and what ICANN has reserved or will never delegate; `svc` is Kubernetes'.
_LOCAL = (
    ".localhost", ".local", ".internal", ".test", ".example", ".invalid", ".home.arpa", ".home", ".corp", ".lan", ".svc"
)  # fmt: skip
_REMEMBERED = 256


class Hosts:
    """`allowed` are further names, `*.example.com` for everything below one, `*` for all."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        names = [name.lower() for name in allowed]
        self._all = "*" in names
        self._names = frozenset(name for name in names if not name.startswith("*"))
        self._below = tuple(name[1:] for name in names if name.startswith("*."))
        self.good: set[bytes | None] = set()
        """Fields that were found to be good: the most usual ones, of which there are few."""

    def allow(self, host: bytes | None) -> bool:
        """Whether a request with this Host field is served. Without one it is: a browser always sends it."""
        if self._all or host is None or host in self.good:
            return True
        good = self._judge(host.decode("latin-1").strip().lower())
        if good and len(self.good) < _REMEMBERED:
            self.good.add(host)
        return good

    def _judge(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
        name = name.removesuffix(".")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return "." not in name or name in self._names or name.endswith(_LOCAL) or name.endswith(self._below)
        return True


def cross_site(lines: bytes, host: bytes | None) -> bool:
    """Whether a browser sent this request for a page of another origin (RFC 6454). `lines` are header fields."""
    for line in lines.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"origin":
            return urlsplit(value.decode("latin-1").strip()).netloc.lower() != (host or b"").decode("latin-1").lower()
    return False
