"""The probe of a GpuBackend against a real HTTP server: what it calls, what it refuses to call, what it repeats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from clients import http
from controllers.gpubackend import probe
from crds.gpubackend import Engine
from tests import httpserver
from tests.clients import servers
from tests.fakes import openai

TOKEN = "s3cret"  # a test's


class Server(httpserver.Server):
    """Answers every path alike; keeps what it was asked."""

    method = "GET"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.status, self.body, self.location = 200, b'{"version": "0.17.4", "models": [{"name": "m:1"}]}', ""
        self.token = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        self.asked.append((request.path, request.headers["Host"], authorization))
        if self.token and authorization != f"Bearer {self.token}":
            return web.Response(status=401, body=b"{}")
        return web.Response(
            status=self.status, body=self.body, headers={"Location": self.location} if self.location else {}
        )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().serving() as started:
        yield started


class Names:
    """A resolver. Counts what it is asked; an answer may differ from one question to the next."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


async def ask(
    url: str, names: http.Find = http.resolve, token: str = "", *, loopback: bool = True, engine: Engine = Engine.OLLAMA
) -> probe.Answer | probe.Failure:
    async with http.client(tls=servers.TLS, find=probe.Judge(names, loopback=loopback).find) as client:
        return await probe.Probe(client).ask(url, token, engine)


async def failure(url: str, names: http.Find = http.resolve, **more: Any) -> probe.Failure:
    """Why that server is not asked, or what its answer lacks."""
    found = await ask(url, names, **more)
    assert isinstance(found, probe.Failure), found
    return found


async def test_a_server_answers_by_its_name_at_the_address_that_was_judged(server: Server) -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    found = await ask(f"http://gpu-0:{server.port}/base/", names)
    assert found == probe.Answer("0.17.4", frozenset({"m:1"}))
    assert names.asked == 1, "a second answer of the name could lead elsewhere"
    host = f"gpu-0:{server.port}"
    assert server.asked == [("/base/api/version", host, ""), ("/base/api/tags", host, "")]


async def test_of_several_addresses_the_next_is_taken_when_one_refuses(server: Server) -> None:
    found = await ask(f"http://gpu-0:{server.port}", Names(["127.0.0.9", "127.0.0.1"]))
    assert isinstance(found, probe.Answer)


@pytest.mark.parametrize(
    ("url", "found", "kind"),
    [
        ("http://169.254.169.254/latest", None, "metadata"),
        ("http://2852039166", None, "metadata"),
        ("http://0xa9fea9fe", None, "metadata"),
        ("http://[::ffff:169.254.169.254]", None, "metadata"),
        ("http://[64:ff9b::a9fe:a9fe]", None, "metadata"),
        ("http://[fd00:ec2::254]", None, "metadata"),
        ("http://100.100.100.200", None, "metadata"),
        ("http://169.254.1.1", None, "link-local"),
        ("http://[fe80::1]:80", None, "link-local"),
        ("http://127.0.0.1:1", None, "loopback"),
        ("http://2130706433:1", None, "loopback"),
        ("http://[::1]:1", None, "loopback"),
        ("http://[::ffff:127.0.0.1]:1", None, "loopback"),
        ("http://224.0.0.1", None, "multicast"),
        ("http://[ff02::1]", None, "multicast"),
        ("http://0.0.0.0:1", None, "no address of a server"),
        ("http://[::]:1", None, "no address of a server"),
        ("http://255.255.255.255", None, "no address of a server"),
        ("http://metadata.google.internal.", ["169.254.169.254"], "metadata"),
        ("http://innocent.example", ["fe80::1%eth0"], "link-local"),
        ("http://innocent.example", ["10.0.0.1", "127.0.0.1"], "loopback"),
    ],
)
async def test_an_address_that_is_never_called_is_not_called(url: str, found: list[str] | None, kind: str) -> None:
    answer = await failure(url, http.resolve if found is None else Names(found), loopback=False)
    assert answer.reason == "ForbiddenURL"
    assert "spec.url" in answer.message
    assert kind in answer.message


@pytest.mark.parametrize("address", ["10.0.0.1", "172.16.3.4", "192.168.1.1", "198.18.0.7", "100.64.0.1", "fd00::1"])
async def test_private_networks_are_called(address: str) -> None:
    assert await probe.Judge(Names([address])).find("gpu", 1) == [address]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "http://",
        "http://[::1",
        "http://u:p@gpu",
        "http://gpu:99999",
        "file:///etc",
        "http://0251.0376.0251.0376",
    ],
)
async def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    names = Names(["10.0.0.1"])
    found = await failure(url, names)
    assert (found.reason, names.asked) == ("InvalidURL", 0)


async def test_the_token_is_sent_and_a_server_that_wants_one_names_field_and_remedy(server: Server) -> None:
    server.token = TOKEN
    assert isinstance(await ask(f"http://127.0.0.1:{server.port}", token=TOKEN), probe.Answer)
    without = await failure(f"http://127.0.0.1:{server.port}")
    wrong = await failure(f"http://127.0.0.1:{server.port}", token="other")  # a test's
    assert (without.reason, wrong.reason) == ("Unauthorized", "Unauthorized")
    assert "spec.secretRef" in without.message
    assert "router.backendSecrets" in without.message
    assert "refuses the token of spec.secretRef" in wrong.message


async def test_a_redirect_is_not_followed_and_takes_no_token_along(server: Server) -> None:
    server.status, server.location = 302, f"http://127.0.0.1:{server.port}/elsewhere"
    found = await failure(f"http://127.0.0.1:{server.port}", token=TOKEN)
    assert found.reason == "HTTPError"
    assert [path for path, _, _ in server.asked] == ["/api/version"]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"{}", "HTTPError"),
        (404, b"CANARY", "HTTPError"),
        (200, b"<html>CANARY", "NotOllama"),
        (200, b"[1]", "NotOllama"),
        (200, b'{"models": [{"nome": "CANARY"}]}', "NotOllama"),
        (200, b"[" * 100_000, "NotOllama"),
        (200, b'{"version": "' + b"x" * probe.MOST_BYTES + b'"}', "NotOllama"),
        (200, b'{"version": "CANARY root:x:0:0", "models": []}', None),
    ],
)
async def test_what_a_server_answers_is_not_repeated(
    server: Server, status: int, body: bytes, reason: str | None
) -> None:
    server.status, server.body = status, body
    found = await ask(f"http://127.0.0.1:{server.port}")
    if isinstance(found, probe.Failure):
        assert found.reason == reason
        assert "CANARY" not in found.message
        assert str(status) not in found.message, "the class of a status, not the status"
    else:
        assert (reason, found) == (None, probe.Answer("", frozenset()))


async def test_a_closed_port_and_a_name_without_address_say_the_same(server: Server) -> None:
    closed = await failure("http://127.0.0.1:1")
    nowhere = await failure("http://gpu-0:1", Names([]))
    assert (closed.reason, closed.message) == (nowhere.reason, nowhere.message)
    assert closed.reason == "Unreachable"
    assert closed.cause != nowhere.cause


async def test_an_openai_server_is_asked_for_its_health_and_its_models() -> None:
    async with openai.running(["m", "Org/N-7B"]) as vllm:
        vllm.token = TOKEN
        assert await ask(vllm.url, token=TOKEN, engine=Engine.OPENAI) == probe.Answer("", frozenset({"m", "Org/N-7B"}))
        without = await failure(vllm.url, engine=Engine.OPENAI)
        vllm.health = 404  # it has none
        assert isinstance(await ask(vllm.url, token=TOKEN, engine=Engine.OPENAI), probe.Answer)
        vllm.health = 503
        loading = await failure(vllm.url, token=TOKEN, engine=Engine.OPENAI)
        below = await failure(f"{vllm.url}/v1", token=TOKEN, engine=Engine.OPENAI)
    for found, reason, said in (
        (without, "Unauthorized", "spec.secretRef"),
        (loading, "NotHealthy", "loads its model"),
        (below, "HTTPError", "no /v1 at its end"),
    ):
        assert (found.reason, said in found.message) == (reason, True), found


@pytest.mark.parametrize("body", [b"[1]", b'{"models": [{"name": "CANARY"}]}', b'{"data": [1]}', b"<html>CANARY"])
async def test_what_is_no_list_of_openai_s_is_not_repeated(server: Server, body: bytes) -> None:
    server.body = body
    found = await failure(f"http://127.0.0.1:{server.port}", engine=Engine.OPENAI)
    assert found.reason == "NotOpenAI"
    assert "CANARY" not in found.message


async def test_a_server_of_the_other_engine_is_named_as_the_likely_cause() -> None:
    async with openai.running() as vllm:
        found = await failure(vllm.url)
    assert "set spec.engine to OpenAI" in found.message
