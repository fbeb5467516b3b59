"""Which addresses a crawl may connect to. Pure but for `resolve`."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from crds import addresses
from kb import errors

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_NAME = re.compile(rb"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")
_REMEDY = "Allow the network with JERVIS_KB_CRAWL_NETWORKS, if it is yours to read."


@dataclass(frozen=True)
class Target:
    """Where to connect: `address` was judged, `host` is who it says it is."""

    scheme: str
    host: str
    port: int
    address: str

    @property
    def site(self) -> tuple[str, str, int]:
        """What two pages of one site have in common."""
        return self.scheme, self.host, self.port


class Judge:
    """Global addresses, and those of the `allowed` networks (CIDR). `resolve` gives the addresses of a name."""

    def __init__(self, allowed: Sequence[str], resolve: Resolve) -> None:
        self._allowed: list[addresses.Network] = [ipaddress.ip_network(text) for text in allowed]
        self._resolve = resolve

    async def target(self, url: str) -> Target:
        """Raises `kb.errors.Invalid` for a URL that may not be asked, `kb.errors.Away` for a name without address."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise errors.Invalid(f"{url!r} is no URL: {error}", field="url") from error
        if parts.scheme not in ("http", "https") or not host or parts.username or parts.password:
            raise errors.Invalid(
                f"{url!r} is no plain web address", field="url", remedy="Give http:// or https:// and a host."
            )
        if not _is_name(host):
            raise errors.Invalid(f"{host[:100]!r} is no name of a host", field="url", remedy="Check the address.")
        port = port or (443 if parts.scheme == "https" else 80)
        found = await self._resolve(host, port)
        if not found:
            raise errors.Away("dns", f"{host!r} has no address")
        for text in found:
            # One bad address spoils the name: its owner chooses which one is tried.
            self._judge(host, text)
        return Target(parts.scheme, host.lower(), port, found[0])

    def _judge(self, host: str, text: str) -> None:
        if addresses.not_public(text, self._allowed):
            raise errors.Invalid(f"{host!r} is at {text}, which is not a public address", field="url", remedy=_REMEDY)


def _is_name(host: str) -> bool:
    """Whether it can be looked up at all: an IP address, or labels of letters, digits, "-" and "_" (RFC 1123)."""
    if ":" in host:
        return True  # urlsplit has looked into the brackets
    try:
        name = host.encode("idna")
    except UnicodeError:
        return False
    return _NAME.fullmatch(name) is not None


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name by the system's resolver, IPv4 first."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return sorted({str(row[4][0]) for row in found}, key=lambda text: (":" in text, text))
