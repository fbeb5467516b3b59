"""Each client of a server of others before one whose answers grow: a few hundred bytes that become 300 MiB."""

from __future__ import annotations

import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import httpx
import pytest

from cli import errors as cli_errors
from cli import ollama
from clients import http, toolservers
from controllers.gpubackend import probe
from controllers.notices import sender
from crds import errors, tools
from crds.gpubackend import Engine
from kb.crawl import address, fetch
from kb.files import sniff, tika
from kb.visual import served
from sources.core import hosts, limits, rest
from sources.oauth import exchange, grant
from tests.clients import servers

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
Ask = Callable[[str], Awaitable[object]]


async def source(url: str) -> object:
    client = rest.Rest(url, {}, limits.Bucket(600, 10), servers.TLS, monotonic=lambda: 0.0, wall=lambda: NOW,
                       largest=1 << 20)  # fmt: skip
    try:
        return await client.get("x")
    finally:
        await client.close()


async def attachment(url: str) -> object:
    client = rest.Rest(url, {}, limits.Bucket(600, 10), servers.TLS, monotonic=lambda: 0.0, wall=lambda: NOW)
    try:
        return await client.download("x", 1 << 20)
    finally:
        await client.close()


async def token_endpoint(url: str) -> object:
    asked = grant.of({"token_url": url, "client_id": "c", "refresh_token": "r"}, plain=True)
    assert asked is not None
    return await exchange.Exchange(hosts.LOCAL, servers.TLS, wall=lambda: NOW).spend(asked, "r")


async def backend(url: str, engine: Engine = Engine.OLLAMA) -> object:
    async with http.client(tls=servers.TLS, find=probe.Judge(loopback=True).find) as client:
        return await probe.Probe(client, timeout=60).ask(url, engine=engine)


async def openai_backend(url: str) -> object:
    return await backend(url, Engine.OPENAI)


async def webhook(url: str) -> object:
    async with http.client(tls=servers.TLS, find=sender.Judge(["127.0.0.0/8"]).find) as client:
        return await sender.Sender(client).send(url, "n1", "Completed", "{}")


async def tool_server(url: str) -> object:
    return await toolservers.offered(tools.Server(name="s", url=url, tools=["*"], clients=["*"]))


async def page(url: str) -> object:
    async with http.client(tls=servers.TLS, find=address.Judge(["127.0.0.0/8"]).find) as client:
        return await fetch.Fetcher(client, max_bytes=1 << 20, seconds=60).fetch(url)


async def parser(url: str) -> object:
    async with http.client(tls=servers.TLS) as client:
        return await tika.Tika(url, client, max_chars=1000).extract(b"x", sniff.Type.PDF)


async def visual_model(url: str) -> object:
    async with http.client(tls=servers.TLS) as client:
        return await served.Served(url, "m", client, query_seconds=60, most_bytes=1 << 20).embed_query("x")


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    "ask",
    [
        source, attachment, token_endpoint, backend, openai_backend, webhook, tool_server, page, parser, visual_model,
    ],
    ids=lambda ask: str(ask.__name__),
)  # fmt: skip
async def test_what_grows_is_an_error_and_no_memory(ask: Ask, layers: int) -> None:
    # What has to be imported and opened once is no memory of an answer's.
    async with servers.answering(servers.response(b"[]", status=404)) as (number, _):
        await outcome(ask, number)
    async with servers.answering(servers.bomb(layers)) as (number, heads):
        tracemalloc.start()
        try:
            said = await outcome(ask, number)
            assert tracemalloc.get_traced_memory()[1] < 12 << 20
        finally:
            tracemalloc.stop()
    assert heads
    # A probe reports what is wrong, and a webhook's answer is not read.
    assert isinstance(said, errors.JervisError | probe.Failure) or (ask is webhook and isinstance(said, str)), said


async def outcome(ask: Ask, number: int) -> object:
    try:
        return await ask(f"http://127.0.0.1:{number}")
    except errors.JervisError as error:
        return error


@pytest.mark.parametrize("layers", [1, 2])
def test_the_command_line_ends_an_answer_that_grows(layers: int) -> None:
    import asyncio
    import threading

    ready, stop = threading.Event(), asyncio.Event()
    place: list[object] = []

    async def serve() -> None:
        async with servers.answering(servers.bomb(layers)) as (number, _):
            place.extend((number, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    number, loop = place
    assert isinstance(loop, asyncio.AbstractEventLoop)
    try:
        with pytest.raises(cli_errors.Unavailable):
            ollama.ask(f"http://127.0.0.1:{number}", ["m"], 60)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@pytest.mark.parametrize("name", ["xn--a", "xn--i-7iq.ws"])
@pytest.mark.parametrize("ask", [source, attachment, backend, webhook, page], ids=lambda ask: str(ask.__name__))
async def test_a_name_that_idna_has_not_is_an_error_of_ours(ask: Ask, name: str) -> None:
    """The DNS has it."""
    try:
        said = await ask(f"http://{name}:9/x")
    except errors.JervisError as error:
        said = error
    assert isinstance(said, errors.JervisError | probe.Failure | str), said


async def test_a_comment_leads_to_no_other_path_and_leaves_the_page_readable() -> None:
    for path in ("uploads/..", "a/./b", "x/%252e%252e/y", "%" + "25" * 30_000):
        client = rest.Rest(
            "http://127.0.0.1:9/", {}, limits.Bucket(600, 10), servers.TLS, monotonic=lambda: 0.0, wall=lambda: NOW
        )
        with pytest.raises(rest.Absent):
            await client.download(path, 10)
        await client.close()


async def test_rules_about_hosts_see_the_name_that_is_asked() -> None:
    asked: list[str] = []

    async def find(host: str, port: int) -> list[str]:
        asked.append(host)
        return []

    async def permit(url: str) -> None:
        asked.append(url)

    async with http.client(tls=servers.TLS, find=find) as client:
        with pytest.raises(errors.JervisError):
            await fetch.Fetcher(client, max_bytes=10, seconds=60).fetch("https://Fa\u00df.example/a?b", permit)
    assert asked == ["https://fass.example/a?b", "fass.example"]


async def test_an_honest_client_would_have_grown() -> None:
    """The reference of the tests above."""
    async with servers.answering(servers.bomb(2, 64 << 20)) as (number, _), httpx.AsyncClient() as client:
        tracemalloc.start()
        try:
            assert len((await client.get(f"http://127.0.0.1:{number}")).content) == 64 << 20
            assert tracemalloc.get_traced_memory()[1] > 64 << 20
        finally:
            tracemalloc.stop()
