"""Which addresses a crawl may connect to. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from clients import http
from crds import addresses
from kb import errors

_NAME = re.compile(rb"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")
_REMEDY = "Allow the network with JERVIS_KB_CRAWL_NETWORKS, if it is yours to read."


@dataclass(frozen=True)
class Target:
    """The server of a URL."""

    scheme: str
    host: str
    port: int

    @property
    def site(self) -> tuple[str, str, int]:
        """What two pages of one site have in common."""
        return self.scheme, self.host, self.port


class Judge:
    """Global addresses, and those of the `allowed` networks (CIDR). `resolve` gives the addresses of a name."""

    def __init__(self, allowed: Sequence[str], resolve: http.Find = http.resolve) -> None:
        self._allowed: list[addresses.Network] = [ipaddress.ip_network(text) for text in allowed]
        self._resolve = resolve

    async def target(self, url: str) -> Target:
        """Raises `kb.errors.Invalid` for a URL that may not be asked, `kb.errors.Away` for a name without address."""
        target = parsed(url)
        await self.find(target.host, target.port)
        return target

    async def find(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host, all of which may be called: for `clients.http`. Raises as `target`."""
        found = await self._resolve(host.rstrip("."), port)
        if not found:
            raise errors.Away("dns", f"{host!r} has no address")
        for text in found:
            # One bad address spoils the name: its owner chooses which one is tried.
            if addresses.not_public(text, self._allowed):
                raise errors.Invalid(
                    f"{host!r} is at {text}, which is not a public address", field="url", remedy=_REMEDY
                )
        return found


def parsed(url: str) -> Target:
    """The server of a URL. Raises `kb.errors.Invalid` for a URL that may not be asked."""
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
    return Target(parts.scheme, host.lower(), port)


def plain(url: str) -> str:
    """The URL with the host's name in ASCII, as rules about hosts have it (IDNA 2003): what is judged by them must be
    what is asked. Raises as `parsed`."""
    target, parts = parsed(url), urlsplit(url)
    if target.host.isascii():
        return url
    name = target.host.encode("idna").decode()
    return parts._replace(netloc=name if parts.port is None else f"{name}:{parts.port}").geturl()


def _is_name(host: str) -> bool:
    """Whether it can be looked up at all: an IP address, or labels of letters, digits, "-" and "_" (RFC 1123)."""
    if ":" in host:
        return True  # urlsplit has looked into the brackets
    try:
        name = host.encode("idna")
    except UnicodeError:
        return False
    return _NAME.fullmatch(name) is not None
