"""Which hosts are called for a Connection, by every protocol: listed names, judged addresses, no second look-up."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from clients import tls_trust
from crds import addresses, connection, scope
from hack.cluster import certificates
from sources.core import hosts, limits, port, rest
from sources.effects import effect_protocol, tools
from sources.effects.mail_arguments import SendMail
from sources.oauth import exchange, grant
from sources.providers import table as protocols
from sources.providers.git import clone, command
from sources.providers.mail import effects as mail
from tests import httpserver
from tests.controllers.notices import smtp
from tests.sources import dovecot
from tests.sources.git import making

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
FORBIDDEN = (*addresses.METADATA, "169.254.1.1", "fe80::1", "127.0.0.1", "::1", "0.0.0.0", "::ffff:169.254.169.254")


class Names:
    """A resolver: each call takes the next of a name's answers, and the last one for ever."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.asked: list[str] = []

    def __call__(self, host: str, number: int) -> Sequence[str]:
        self.asked.append(host)
        found = self.answers[host]
        return found.pop(0) if len(found) > 1 else found[0]


def reached(names: Names, *allowed: str, loopback: bool = True) -> hosts.Hosts:
    return hosts.Hosts(allowed, loopback=loopback, resolve=names)


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_name_leads_to_such_an_address(address: str) -> None:
    names = Names(good_example=[["10.0.0.1"]], bad_example=[["10.0.0.1", address]])
    one = reached(names, loopback=False)
    assert one.find("good.example", 443) == ["10.0.0.1"]
    with pytest.raises(hosts.Refused, match="never called") as caught:
        one.find("bad.example", 443)
    assert caught.value.remedy


def test_a_host_that_is_not_listed_is_not_even_looked_up() -> None:
    names = Names(mail_example_com=[["10.0.0.1"]], git_example_com=[["10.0.0.2"]])
    one = reached(names, "mail.example.com", "*.corp.example", "10.9.9.9")
    assert one.find("mail.example.com", 1) == ["10.0.0.1"]
    for host in ("git.example.com", "corp.example", "xcorp.example", "mail.example.com.evil.example", "10.0.0.1"):
        with pytest.raises(hosts.Refused, match="not among those"):
            one.find(host, 1)
    assert names.asked == ["mail.example.com"]
    assert addresses.listed("A.B.Corp.Example.", ["*.corp.example"])


@contextlib.asynccontextmanager
async def calling(handler: httpserver.Handler, judges: hosts.Hosts) -> AsyncIterator[rest.Rest]:
    """A client of a server that answers so, by the name source.example."""
    async with httpserver.serving(handler) as served:
        base, header = f"http://source.example:{urlsplit(served).port}", {"Authorization": "Bearer secret-token"}
        bucket, tls = limits.Bucket(6000, 100), tls_trust.context()
        api = rest.Rest(base, header, bucket, tls, monotonic=lambda: 0.0, wall=lambda: NOW, reached=judges)
        yield api
        await api.close()


async def test_rest_calls_the_address_that_was_judged_by_its_name() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.host)
        return web.json_response([1], headers={"Connection": "close"})

    names = Names(source_example=[["127.0.0.1"], ["169.254.169.254"]])
    async with calling(handler, reached(names)) as client:
        assert (await client.get("x")).json == [1]
        with pytest.raises(hosts.Refused, match="a metadata address"):
            await client.get("x")
    assert seen == [urlsplit(client.url("x")).netloc]
    assert len(names.asked) == 2, "one look-up for each connection: none between the judgement and the connection"


@pytest.mark.parametrize(
    ("target", "said"),
    [("metadata.example", "a metadata address"), ("other.example", "not among those"), ("169.254.169.254", "metadata")],
)
async def test_a_download_is_redirected_to_no_forbidden_host(target: str, said: str) -> None:
    metadata = [["169.254.169.254"]]
    names = Names(source_example=[["127.0.0.1"]], metadata_example=metadata, **{"169_254_169_254": metadata})
    judges = reached(names, "source.example", "metadata.example", "169.254.169.254")
    redirect = httpserver.fixed("", 302, {"Location": f"http://{target}/latest/meta-data"})
    async with calling(redirect, judges) as client:
        with pytest.raises(hosts.Refused, match=said):
            await client.download("file", 100)


async def test_a_download_follows_to_a_listed_host_without_the_credentials() -> None:
    seen: list[str | None] = []

    async def other(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(body=b"file")

    names = Names(source_example=[["127.0.0.1"]], files_example=[["127.0.0.1"]])
    async with httpserver.serving(other) as elsewhere:
        redirect = httpserver.fixed("", 302, {"Location": f"http://files.example:{urlsplit(elsewhere).port}/f"})
        async with calling(redirect, reached(names, "*.example")) as client:
            assert await client.download("x", 10) == b"file"
    assert seen == [None]


def spec(url: str, kind: str = "Email", **more: Any) -> connection.Spec:
    return connection.Spec.model_validate(
        {"type": kind, "clientId": "acme", "url": url, "secretRef": {"name": "s"}, **more}
    )


def opened(url: str, one: hosts.Hosts, kind: str = "Email", **more: Any) -> Any:
    made = protocols.table(plain=True, tls=tls_trust.context(), monotonic=time.monotonic, wall=lambda: NOW, reached=one)
    secret = {"username": "hosts", "password": dovecot.PASSWORD, "token": "secret-token"}
    return made[connection.Type(kind)](spec(url, kind, **more), secret, limits.Bucket(6000, 1000))


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("imap://bad.example:1", "Email"), ("imaps://bad.example:1", "Email"), ("pop3://bad.example:1", "Email"),
        ("pop3s://bad.example:1", "Email"), ("https://bad.example/a/b", "GitHub"),
        ("https://bad.example/a/b", "GitLab"), ("https://bad.example/a/b", "Gitea"),
        ("https://bad.example", "Jira"), ("https://bad.example", "Confluence"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("allowed", [(), ("other.example",)])
async def test_no_protocol_calls_a_forbidden_host(url: str, kind: str, allowed: tuple[str, ...]) -> None:
    names = Names(bad_example=[["169.254.169.254"]])
    one = reached(names, *allowed)
    with pytest.raises(hosts.Refused):
        async for _ in opened(url, one, kind).batches({}):
            pass
    with pytest.raises(hosts.Refused):
        async for _ in opened(url, one, kind).ids():
            pass
    assert bool(names.asked) == (not allowed)


@pytest.mark.services
async def test_mailboxes_are_called_at_the_address_that_was_judged(mailserver: dovecot.Dovecot) -> None:
    mailserver.put(dovecot.mail(1), user="hosts")
    one = reached(Names(mail_example=[["127.0.0.1"]]))
    for url in (f"imap://mail.example:{mailserver.port}", f"pop3://mail.example:{mailserver.pop3}"):
        found = [item.urn async for batch in opened(url, one).batches({}) for item in batch.items]
        assert found == ["email::1@example.com"]


async def test_mail_goes_to_no_forbidden_host() -> None:
    async def sending(url: str, one: hosts.Hosts) -> effect_protocol.Effect:
        asked = SendMail.model_validate({"to": ["a@example.com"], "subject": "S", "text": "T"})
        there, login = (
            spec("imap://h", smtp={"url": url, "from": "team@example.com"}),
            {"username": "b", "password": "w"},
        )
        means = tools.Means(
            load=no_file, tls=ssl.create_default_context(), plain=True, wall=lambda: NOW, monotonic=lambda: 0.0,
            reached=one,
        )  # fmt: skip
        target = tools.Target("team-a", "mail", there, {}, login, limits.Bucket(60, 1))
        return await mail.opens()(tools.EffectRequest(asked, target, scope.Scope(client_id="acme"), "m" * 32), means)

    async def no_file(*_: Any) -> bytes:
        raise AssertionError("nothing is attached")

    names = Names(bad_example=[["169.254.169.254"]], mail_example=[["127.0.0.1"]])
    for scheme in ("smtp", "smtps"):
        refused = await sending(f"{scheme}://bad.example", reached(names))
        with pytest.raises(hosts.Refused, match="metadata"):
            await refused.prepare()
        await refused.close()
    with smtp.serving() as box:
        good = await sending(f"smtp://mail.example:{box.port}", reached(names))
        await good.send(await good.prepare())
        await good.close()
        assert len(box.mails) == 1


async def test_a_token_endpoint_is_no_forbidden_host() -> None:
    secret = {"token_url": "https://bad.example/t", "client_id": "c", "refresh_token": "r"}
    asked = grant.of(secret, plain=False)
    assert asked is not None
    asks = exchange.Exchange(reached(Names(bad_example=[["169.254.169.254"]])), tls_trust.context(), wall=lambda: NOW)
    with pytest.raises(hosts.Refused, match="metadata"):
        await asks.spend(asked, "r")


@pytest.mark.parametrize("scheme", ["http", "https", "git", "ssh"])
def test_git_calls_no_forbidden_host(scheme: str) -> None:
    names = Names(bad_example=[["169.254.169.254"]])
    secret = {"ssh-privatekey": "k", "known_hosts": "h"} if scheme == "ssh" else {}
    at = command.remote(
        f"{scheme}://bad.example/a/b.git", secret, plain=True, authorities="", seconds=5, reached=reached(names)
    )
    with pytest.raises(hosts.Refused, match="metadata"):
        clone.listed(at)
    assert names.asked == ["bad.example"]


async def test_git_calls_the_address_that_was_judged(tmp_path: Path) -> None:
    """The names are known to the resolver of the test alone: Git itself could not look them up."""
    made = making.Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.many(3)
    one = reached(Names(git_example=[["127.0.0.1"]]))

    def listed(url: str, **secret: str) -> clone.Listed:
        at = command.remote(url, secret, plain=True, authorities="", seconds=60, reached=one)
        return clone.listed(at)

    wanted = {"main": made.sha("main")}
    with making.daemon(tmp_path / "srv") as url:
        assert listed(f"{url.replace('127.0.0.1', 'git.example')}/acme/storage.git").branches == wanted
    ssh = making.Ssh(tmp_path / "ssh")
    with ssh.running():
        secret = {
            "username": ssh.user, "ssh-privatekey": ssh.key,
            "known_hosts": ssh.known_hosts.replace("127.0.0.1", "git.example"),
        }  # fmt: skip
        assert listed(f"ssh://git.example:{ssh.port}{made.path}", **secret).branches == wanted
        with pytest.raises(port.Misconfigured, match="host key"):
            listed(f"ssh://git.example:{ssh.port}{made.path}", **{**secret, "known_hosts": ssh.known_hosts})
    async with making.Http(tmp_path / "srv", "ada:secret").serving() as server:
        url = f"{server.url.replace('127.0.0.1', 'git.example')}/acme/storage.git"
        found = await asyncio.to_thread(listed, url, username="ada", password="secret")
        assert found.branches == wanted


async def test_an_authority_of_the_secret_is_trusted_by_git_and_rest(tmp_path: Path) -> None:
    made = making.Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.many(3)
    authority = certificates.Authority(tmp_path / "authority")
    pair = authority.issue("git", "/CN=localhost", ("localhost",))
    served_by = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served_by.load_cert_chain(pair.certificate, pair.key)
    pem = authority.pair.certificate.read_text()
    async with making.Http(tmp_path / "srv", "oauth2:access").serving(served_by) as server:

        def listed(**secret: str) -> clone.Listed:
            url = f"{server.url}/acme/storage.git"
            at = command.remote(url, {port.ACCESS_KEY: "access", **secret}, plain=False, authorities="", seconds=60)
            return clone.listed(at)

        with pytest.raises(port.Unreachable, match="certificate"):
            await asyncio.to_thread(listed)
        assert server.seen == [], "nothing is sent to a server that is not trusted"
        assert (await asyncio.to_thread(listed, **{"ca.crt": pem})).branches == {"main": made.sha("main")}
        with pytest.raises(port.Misconfigured, match="no certificates"):
            await asyncio.to_thread(listed, **{"ca.crt": "none"})
        client = rest.Rest(
            server.url, {}, limits.Bucket(6000, 100), hosts.trusted(tls_trust.context(), pem),
            monotonic=lambda: 0.0, wall=lambda: NOW,
        )  # fmt: skip
        with pytest.raises(port.Rejected):  # the login is asked for: the certificate was taken
            await client.get("x")
        await client.close()
