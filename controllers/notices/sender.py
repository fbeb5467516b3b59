"""One call of a webhook. Its address is a user's input, called from the operator's place in the network.

The host is resolved first, every address is judged, and the connection goes to an address that was judged. Only public
addresses and those of the allowed networks are called. Redirects are not followed, proxies not used, answers not read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from controllers.notices import mailer
from crds import addresses, notices

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
EVENT, DELIVERY, SIGNATURE = "Jervis-Event", "Jervis-Delivery", "Jervis-Signature"


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver, IPv4 first."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return sorted({str(row[4][0]) for row in found}, key=lambda text: (":" in text, text))


def signature(secret: bytes, body: bytes) -> str:
    """What the receiver compares: HMAC-SHA256 of the body."""
    return f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


def key_file(path: str) -> Callable[[], bytes]:
    """A `secret` for `Sender`: the file's content, read before each call because the kubelet renews it.

    It raises OSError or ValueError when there is no key in it: nothing is sent unsigned then.
    """

    def read() -> bytes:
        key = Path(path).read_bytes().strip()
        if not key:
            raise ValueError(f"{path} has no key")
        return key

    return read if path else lambda: b""


class Sender:
    """`http` must not use a proxy. `mail` sends to `mailto:` addresses. `secret` gives the key of signatures, empty for
    none; `networks` (CIDR) are allowed beside public addresses; `timeout` in seconds bounds a call."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        networks: Sequence[str] = (),
        secret: Callable[[], bytes] = lambda: b"",
        resolve: Resolve = resolve,
        mail: mailer.Mailer | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._http, self._secret, self._resolve, self._timeout = http, secret, resolve, timeout
        self._mail = mail
        self._allowed = tuple(networks)
        self._networks = [ipaddress.ip_network(one) for one in networks]

    async def send(self, url: str, notice_id: str, event: str, body: str) -> str:
        """Why it was not taken, "" when it was. Never raises for what a server or network can do."""
        if self._mail is not None and url.startswith(notices.MAILTO):
            return await self._mail.send(url.removeprefix(notices.MAILTO), notice_id, event, body)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(url, notice_id, event, body.encode())
        except TimeoutError:
            return f"it did not answer within {self._timeout:g} seconds"
        except (httpx.HTTPError, OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]

    async def _send(self, url: str, notice_id: str, event: str, body: bytes) -> str:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = await self._resolve(host, port)
        if not found:
            return f"{host!r} has no address"
        for text in found:
            # One forbidden address spoils the name: its owner chooses which one is tried.
            if addresses.not_public(text, self._networks):
                allowed = ", ".join(self._allowed) or "none"
                return f"{host!r} is at {text}, which is neither public nor in noticeNetworks ({allowed})"
        named = f"[{found[0]}]" if ":" in found[0] else found[0]
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "User-Agent": "jervis-operator",
            EVENT: event,
            DELIVERY: notice_id,
        }
        if secret := self._secret():
            headers[SIGNATURE] = signature(secret, body)
        request = self._http.build_request(
            "POST",
            f"{parts.scheme}://{named}:{port}{path}",
            content=body,
            headers=headers,
            extensions={"sni_hostname": host},
        )
        answer = await self._http.send(request, stream=True, follow_redirects=False)
        await answer.aclose()
        # The client knows addresses, not names: a cookie would go to every server at the same address.
        self._http.cookies.clear()
        return "" if answer.is_success else f"it answered HTTP {answer.status_code}"
