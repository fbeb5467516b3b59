"""Calls of a webhook: what it gets, which addresses are never called, and what counts as taken."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from clients import http
from controllers.notices import sender
from tests.clients import servers
from tests.controllers.notices import hook as hooks


@pytest.fixture
def hook() -> Iterator[hooks.Hook]:
    with hooks.running() as running:
        yield running


HERE = ("127.0.0.0/8",)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Of webhooks on this machine."""
    async with http.client(tls=servers.TLS, find=sender.Judge(HERE).find) as made:
        yield made


async def called(url: str, resolve: http.Find, networks: Sequence[str] = ()) -> str:
    async with http.client(tls=servers.TLS, find=sender.Judge(networks, resolve).find) as client:
        return await sender.Sender(client).send(url, "n1", "Completed", "{}")


async def test_what_a_webhook_gets(hook: hooks.Hook, client: httpx.AsyncClient, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("of the test\n")
    calls = sender.Sender(client, secret=sender.key_file(str(key)))
    assert await calls.send(f"{hook.url}/a/b?c=d", "n1", "UserTask", '{"id": "n1"}') == ""
    [call] = hook.requests
    assert (call.path, call.body) == ("/a/b?c=d", b'{"id": "n1"}')
    assert call.headers["Host"] == hook.url.removeprefix("http://")
    assert (call.headers["Jervis-Event"], call.headers["Jervis-Delivery"]) == ("UserTask", "n1")
    expected = hmac.new(b"of the test", call.body, hashlib.sha256).hexdigest()
    assert call.headers["Jervis-Signature"] == f"sha256={expected}"
    key.write_text("renewed")
    await calls.send(hook.url, "n1", "UserTask", "{}")
    assert hook.requests[1].headers["Jervis-Signature"] == sender.signature(b"renewed", b"{}")
    for unreadable in ("", "gone"):
        key.write_text(" ")
        if unreadable:
            key.unlink()
        assert await calls.send(hook.url, "n1", "UserTask", "{}") != ""
    assert len(hook.requests) == 2, "nothing is sent unsigned"


async def test_without_a_key_nothing_is_signed(hook: hooks.Hook, client: httpx.AsyncClient) -> None:
    assert await sender.Sender(client).send(hook.url, "n1", "Completed", "{}") == ""
    assert "Jervis-Signature" not in hook.requests[0].headers


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 429, 500, 503])
async def test_what_is_not_taken_says_so(hook: hooks.Hook, client: httpx.AsyncClient, status: int) -> None:
    hook.status = status
    why = await sender.Sender(client).send(hook.url, "n1", "Completed", "{}")
    assert why == f"it answered HTTP {status}"
    assert [one.path for one in hook.requests] == ["/"], "a redirect is not followed"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "192.168.1.1", "::1", "::ffff:10.0.0.8", "fd00::1"]
)
async def test_private_addresses_are_never_called(hook: hooks.Hook, client: httpx.AsyncClient, address: str) -> None:
    async def both(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", address]

    url = hook.url.replace("127.0.0.1", "hooks.example.com")
    why = await called(url, both)
    assert f"'hooks.example.com' is at {address}" in why
    assert "noticeNetworks" in why
    assert hook.requests == []


async def test_the_connection_goes_to_the_address_that_was_judged(hook: hooks.Hook, client: httpx.AsyncClient) -> None:
    async def here(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    url = hook.url.replace("127.0.0.1", "no-such-name.invalid")
    assert await called(url, here, HERE) == ""
    assert hook.requests[0].headers["Host"].startswith("no-such-name.invalid:")


async def test_a_server_that_is_slow_or_gone(hook: hooks.Hook, client: httpx.AsyncClient) -> None:
    hook.stall = 600.0
    why = await sender.Sender(client, timeout=0.2).send(hook.url, "n1", "Completed", "{}")
    assert "0.2 seconds" in why
    gone = await sender.Sender(client).send("http://127.0.0.1:1/", "n1", "Completed", "{}")
    assert "ConnectError" in gone

    async def nowhere(host: str, port: int) -> Sequence[str]:
        return []

    assert "no address" in await called("http://h.test/", nowhere)
