"""Which hosts are called for a Connection: names that an administrator lists, addresses that are a server's.

A URL of a Connection is a user's input, called from the place of this process in the network. So a name is resolved
once, all of its addresses are judged (`crds.addresses.never_called`), and the connection goes to an address that was
judged: a name that is resolved a second time could lead elsewhere. That holds for each connection, of HTTP (`called`,
for `clients.http`) as of other protocols (`connect`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence

from clients import http, tls_trust
from crds import addresses
from sources.core import port

Resolve = Callable[[str, int], Sequence[str]]
"""(host, port) -> its addresses; blocks. Raises `OSError`."""
_CONNECT_SECONDS = 20.0


class Refused(port.Misconfigured):
    """The host is not listed, or leads to an address that is never called."""


def resolve(host: str, number: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver, in its order."""
    try:
        found = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(f"{host[:100]!r} is no name of a host") from error
    return list(dict.fromkeys(str(row[4][0]) for row in found))


class Hosts:
    """`allowed` are names and `*.` suffixes, none for every host. `loopback` allows addresses of this machine."""

    def __init__(self, allowed: Sequence[str] = (), *, loopback: bool = False, resolve: Resolve = resolve) -> None:
        self._allowed, self._loopback, self._resolve = tuple(allowed), loopback, resolve

    def find(self, host: str, number: int) -> Sequence[str]:
        """The addresses that may be called, at least one. Blocks. Raises `Refused`, `OSError`."""
        if not addresses.listed(host, self._allowed):
            raise Refused(
                f"Host {host[:200]!r} is not among those that Connections may name.",
                field="spec.url",
                remedy="An administrator adds it to sources.settings.allowedHosts of the chart.",
            )
        found = self._resolve(host, number)
        for text in found:
            # One forbidden address spoils the name: its owner chooses which one is tried.
            try:
                why = addresses.never_called(text, loopback=self._loopback)
            except ValueError:
                why = "no IP address"
            if why:
                raise Refused(
                    f"Host {host[:200]!r} leads to {why}, which is never called.",
                    field="spec.url",
                    remedy="Name the host of a server.",
                )
        if not found:
            raise socket.gaierror(f"{host[:200]} has no address")
        return found[: http.MOST_ADDRESSES]

    async def called(self, host: str, number: int) -> Sequence[str]:
        """The same for `clients.http`."""
        return await asyncio.to_thread(self.find, host, number)

    def connect(self, host: str, number: int, timeout: float | None) -> socket.socket:
        """A connection to the first address that answers. Blocks. Raises `Refused`, `OSError`."""
        last: OSError | None = None
        for address in self.find(host, number):
            try:
                return socket.create_connection((address, number), timeout or _CONNECT_SECONDS)
            except OSError as error:
                last = error
        assert last is not None
        raise last


LOCAL = Hosts(loopback=True)
"""Every host, and this machine: for tools and tests. The process has its own, by its settings."""


def trusted(tls: ssl.SSLContext, own: str) -> ssl.SSLContext:
    """`tls` itself, or with the authorities of `own`, the `ca.crt` of a Secret. Raises `port.Misconfigured`."""
    return own_context(own) if own.strip() else tls


def own_context(own: str) -> ssl.SSLContext:
    """The trusted authorities and those of `own`, in PEM. Raises `port.Misconfigured`."""
    try:
        return tls_trust.context(own)
    except (ssl.SSLError, ValueError) as error:
        raise port.Misconfigured(
            "ca.crt of the Secret has no certificates in PEM.",
            field="spec.secretRef",
            remedy="Write the certificate of the authority: --from-file=ca.crt=FILE.",
        ) from error
