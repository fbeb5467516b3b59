"""Requests to a REST API: what an answer means, whom the credentials reach, and how much is read."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from sources.core import limits, port, rest
from tests import httpserver
from tests.sources.parts import refused

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)


def client(base: str, per_minute: int = 6000, **more: Any) -> rest.Rest:
    bucket = limits.Bucket(per_minute, 1000)
    headers = {"Authorization": "Bearer secret-token"}
    return rest.Rest(
        base, headers, bucket, ssl.create_default_context(), monotonic=lambda: 0.0, wall=lambda: NOW, **more
    )


@contextlib.asynccontextmanager
async def asking(handler: httpserver.Handler) -> AsyncIterator[rest.Rest]:
    """A client of a server that answers so."""
    async with httpserver.serving(handler) as base:
        api = client(base)
        yield api
        await api.close()


@pytest.mark.parametrize(
    ("status", "headers", "kind", "pause"),
    [
        (401, {}, port.Rejected, None),
        (403, {}, port.Misconfigured, None),
        (403, {"Retry-After": "61"}, rest.Untouched, 61.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(NOW.timestamp() + 90)}, rest.Untouched, 90.0),
        (404, {}, rest.Absent, None),
        (410, {}, rest.Absent, None),
        (400, {}, port.Misconfigured, None),
        (429, {"Retry-After": "Thu, 26 Nov 2026 12:02:00 GMT"}, rest.Untouched, 120.0),
        (429, {"Retry-After": "soon"}, rest.Untouched, None),
        (403, {"RateLimit-Remaining": "0", "RateLimit-Reset": str(NOW.timestamp() + 90)}, rest.Untouched, 90.0),
        (408, {}, port.Unreachable, None),
        (500, {}, rest.Broken, None),
        (503, {}, port.Unreachable, None),
    ],
)
async def test_an_answer_means_one_thing(
    status: int, headers: dict[str, str], kind: type[Exception], pause: float | None
) -> None:
    async with asking(httpserver.fixed({"message": "because"}, status, headers)) as api:
        with pytest.raises(kind) as caught:
            await api.get("x", {"token": "hidden"})
    assert type(caught.value) is kind
    assert "because" in str(caught.value)
    assert "secret-token" not in str(caught.value)
    assert "hidden" not in str(caught.value)
    if issubclass(kind, port.Unreachable):
        assert getattr(caught.value, "retry_after") == pause  # noqa: B009


@pytest.mark.parametrize("path", [" ../user", "a/.\n./.\n./user", "a/.\t./user", "\x1f../user", "a/%2e%0a%2e/user"])
def test_a_path_that_becomes_another_one_is_not_asked_for(path: str) -> None:
    with pytest.raises(rest.Absent, match="leads to another path"):
        client("https://host.example/api/v3").url(path)


def test_a_server_s_own_path_may_have_spaces() -> None:
    api = client("https://host.example/api/v3")
    assert api.url("files/a b.pdf?name=a b") == "https://host.example/api/v3/files/a%20b.pdf?name=a%20b"


async def test_another_host_never_gets_the_credentials() -> None:
    seen: list[str | None] = []

    async def other(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(body=b"file")

    async with (
        httpserver.serving(other) as elsewhere,
        asking(httpserver.fixed("", 302, {"Location": f"{elsewhere}/file"})) as api,
    ):
        assert await api.download("file", 100) == b"file"
        with pytest.raises(port.Unreachable):
            await api.get("x")
        with pytest.raises(port.Unreachable):
            await api.get(f"{elsewhere}/next?page=2")
    assert seen == [None]


async def test_an_answer_is_read_up_to_a_bound_and_must_be_json() -> None:
    async with asking(httpserver.fixed("x" * 1000)) as api:
        with pytest.raises(rest.TooLarge):
            await api.download("file", 999)
        assert len(await api.download("file", 1000)) == 1000
        with pytest.raises(port.Unreachable, match="no JSON"):
            await api.get("x")


async def test_a_secondary_limit_of_github_names_no_time_and_costs_a_minute() -> None:
    answer = {"message": "You have exceeded a secondary Rate Limit."}
    async with asking(httpserver.fixed(answer, 403)) as api:
        with refused(rest.Untouched, retry_after=60.0, match="secondary"):
            await api.get("x")


def test_the_port_of_a_scheme_need_not_be_named() -> None:
    assert client("https://host.example").url("https://host.example:443/x") == "https://host.example:443/x"


async def test_half_a_character_of_one_text_does_not_make_a_page_unreadable() -> None:
    async def handler(request: web.Request) -> web.Response:
        text = {"half": '{"a": ["\\ud83d", "x\\udc00y", "\\ud83d\\ude00", "\\\\ud83d"]}', "deep": "[" * 100_000}
        return web.Response(text=text[request.path.strip("/")], content_type="application/json")

    async with asking(handler) as api:
        assert (await api.get("half")).json == {"a": ["?", "x?y", "\N{GRINNING FACE}", "\\ud83d"]}
        with pytest.raises(port.Unreachable, match="no JSON"):
            await api.get("deep")


async def test_requests_wait_for_their_bucket_and_a_server_that_is_away_is_unreachable() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with httpserver.serving(httpserver.fixed([1])) as base:
        bucket = limits.Bucket(60, 1)
        api = rest.Rest(
            base, {}, bucket, ssl.create_default_context(), monotonic=lambda: 0.0, wall=lambda: NOW, sleep=sleep
        )
        for _ in range(3):
            assert (await api.get("x")).json == [1]
        assert slept == [1.0, 2.0]
    with pytest.raises(port.Unreachable):
        await api.get("x")
    await api.close()


@pytest.mark.parametrize("location", ["http://[x", "http://a:99999999/", "//[::1", "http://a:x/"])
async def test_a_redirect_to_what_is_no_address_is_the_sources_fault(location: str) -> None:
    async with asking(httpserver.fixed("", 302, {"Location": location})) as api:
        for send in (api.get("x"), api.download("x", 10)):
            with pytest.raises(port.Unreachable):
                await send
