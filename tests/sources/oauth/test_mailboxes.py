"""XOAUTH2 and OAUTHBEARER at a real Dovecot that asks an introspection endpoint about each token (RFC 7662)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from aiohttp import web

from clients import tls_trust
from crds import connection
from sources.core import limits, port
from sources.providers.mail import mailboxes
from tests import httpserver
from tests.sources import dovecot

pytestmark = pytest.mark.services
GOOD = "access-token-of-the-test"


async def introspect(request: web.Request) -> web.StreamResponse:
    """The good token is ada's."""
    active = (await request.post()).get("token") == GOOD
    return web.json_response({"active": active, **({"email": "ada"} if active else {})})


@pytest.fixture(scope="module")
def introspection() -> Iterator[str]:
    with httpserver.in_thread(httpserver.serving(introspect, method="POST")) as url:
        yield f"{url}/introspect"


@pytest.fixture(scope="module")
def server(introspection: str) -> Iterator[dovecot.Dovecot]:
    with dovecot.running(tls=True, introspection=introspection) as made:
        made.put(dovecot.mail(1), dovecot.mail(2))
        yield made


def source(server: dovecot.Dovecot, scheme: str, **values: str) -> port.Source:
    url = {
        "imaps": server.secure, "imap": server.url.replace("127.0.0.1", "localhost"),
        "pop3s": f"pop3s://localhost:{server.pop3s}", "pop3": f"pop3://localhost:{server.pop3}",
    }[scheme]  # fmt: skip
    assert server.authority is not None
    secret = {"username": "ada", "ca.crt": server.authority.read_text(), **values}
    spec = connection.Spec.model_validate({"type": "Email", "clientId": "acme", "url": url, "secretRef": {"name": "s"}})
    opens = mailboxes.opened(False, tls_trust.context(), time.monotonic)
    return opens(spec, secret, limits.Bucket(6000, 1000))


async def urns(source: port.Source) -> list[str]:
    return [item.urn async for batch in source.batches({}) for item in batch.items]


@pytest.mark.parametrize("scheme", ["imaps", "imap", "pop3s", "pop3"])
async def test_a_mailbox_is_read_with_an_access_token(server: dovecot.Dovecot, scheme: str) -> None:
    """The certificate is of an authority that only `ca.crt` of the Secret has."""
    found = source(server, scheme, **{port.ACCESS_KEY: GOOD})
    assert await urns(found) == ["email::1@example.com", "email::2@example.com"]


@pytest.mark.parametrize("scheme", ["imaps", "pop3s"])
async def test_a_token_that_is_refused(server: dovecot.Dovecot, scheme: str) -> None:
    with pytest.raises(port.Rejected) as caught:
        await urns(source(server, scheme, **{port.ACCESS_KEY: "ended-token-of-the-test"}))
    assert "ended-token" not in caught.value.message
    assert "OAuth" in str(caught.value.remedy)


@pytest.mark.parametrize("scheme", ["imaps", "imap", "pop3s", "pop3"])
async def test_without_the_authority_nothing_is_sent(server: dovecot.Dovecot, scheme: str) -> None:
    with pytest.raises(port.Unreachable, match=r"(?i)certificate"):
        await urns(source(server, scheme, **{"ca.crt": "", "password": dovecot.PASSWORD}))
    with pytest.raises(port.Misconfigured, match="no certificates"):
        source(server, scheme, **{"ca.crt": "none", "password": dovecot.PASSWORD})


async def test_a_server_with_oauthbearer_alone(introspection: str) -> None:
    """RFC 7628; Dovecot offers both unless it is told otherwise."""
    with dovecot.running(tls=True, introspection=introspection, mechanisms="oauthbearer") as made:
        made.put(dovecot.mail(1))
        assert await urns(source(made, "imaps", **{port.ACCESS_KEY: GOOD})) == ["email::1@example.com"]
        with pytest.raises(port.Rejected):
            await urns(source(made, "imaps", **{port.ACCESS_KEY: "ended"}))
