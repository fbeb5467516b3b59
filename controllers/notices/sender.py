"""One call of a webhook. Its address is a user's input, called from the operator's place in the network.

Only public addresses and those of the allowed networks are called (`clients.http`). Answers are not read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx

from clients import http
from contracts.rules import notices
from controllers.notices import mailer
from crds import addresses

EVENT, DELIVERY, SIGNATURE = "Jervis-Event", "Jervis-Delivery", "Jervis-Signature"


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


class _Refused(Exception):  # noqa: N818 -- never leaves this module
    """Why an address is not called."""


class Judge:
    """Which addresses of a host that a user names are called: public ones, and those of `networks` (CIDR)."""

    def __init__(self, networks: Sequence[str] = (), resolve: http.Find = http.resolve) -> None:
        self._allowed, self._resolve = tuple(networks), resolve
        self._networks = [ipaddress.ip_network(one) for one in networks]

    async def find(self, host: str, port: int) -> Sequence[str]:
        """The host's addresses, for `clients.http`. What it raises says `Sender.send`."""
        resolved = await self._resolve(host.rstrip("."), port)
        if not resolved:
            raise _Refused(f"{host!r} has no address")
        for text in resolved:
            # One forbidden address spoils the name: its owner chooses which one is tried.
            if addresses.not_public(text, self._networks):
                allowed = ", ".join(self._allowed) or "none"
                raise _Refused(f"{host!r} is at {text}, which is neither public nor in noticeNetworks ({allowed})")
        return resolved


class Sender:
    """`opened` is a client of `clients.http` with a `Judge`. `mail` sends to `mailto:` addresses. `secret` gives the
    key of signatures, empty for none; `timeout` in seconds bounds a call."""

    def __init__(
        self,
        opened: httpx.AsyncClient,
        *,
        secret: Callable[[], bytes] = lambda: b"",
        mail: mailer.Mailer | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._http, self._secret, self._mail, self._timeout = opened, secret, mail, timeout

    async def send(self, url: str, notice_id: str, event: str, body: str) -> str:
        """Why it was not taken, "" when it was. Never raises for what a server or network can do."""
        if self._mail is not None and url.startswith(notices.MAILTO):
            return await self._mail.send(url.removeprefix(notices.MAILTO), notice_id, event, body)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(url, notice_id, event, body.encode())
        except TimeoutError:
            return f"it did not answer within {self._timeout:g} seconds"
        except _Refused as error:
            return str(error)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]

    async def _send(self, url: str, notice_id: str, event: str, body: bytes) -> str:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "jervis-operator",
            EVENT: event,
            DELIVERY: notice_id,
        }
        if secret := self._secret():
            headers[SIGNATURE] = signature(secret, body)
        async with self._http.stream("POST", url, content=body, headers=headers) as answer:
            return "" if answer.is_success else f"it answered HTTP {answer.status_code}"
