"""Clients of our own services and of sources send no path that leads from one place to another, whoever wrote it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import aiohttp
import httpx
import kubernetes
import pytest

import kube
from crds import errors, scope
from kb import client as kb_client
from kube import resources
from sources import client as sources
from sources.core import limits, port, rest
from tests.clients import servers

VIEWER = scope.Scope(client_id="acme")
KEYS = ("..", "x/../../queue", "x/../../../../metrics", "%2e%2e", "..\\rules", "%252e%252e/x", ".")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
Send = Callable[[str, str], Awaitable[object]]


async def content(url: str, key: str) -> object:
    async with httpx.AsyncClient() as http:
        return await kb_client.Client(url, http, "t").fetch(VIEWER, key)


async def page(url: str, key: str) -> object:
    async with httpx.AsyncClient() as http:
        return await kb_client.Client(url, http, "t").pages.image(VIEWER, key)


async def analysis(url: str, key: str) -> object:
    async with httpx.AsyncClient() as http:
        return await kb_client.Client(url, http, "t").analyze.show(VIEWER, key)


async def checks(url: str, key: str) -> object:
    async with httpx.AsyncClient() as http:
        return await sources.Client(url, http, lambda: "t").checks(key)


async def source(url: str, key: str) -> object:
    client = rest.Rest(url, {}, limits.Bucket(600, 10), servers.TLS, monotonic=lambda: 0.0, wall=lambda: NOW)
    try:
        return await client.get(f"rest/api/2/issue/{key}/comment")
    finally:
        await client.close()


async def apiserver(url: str, key: str) -> object:
    loaded = kubernetes.client.Configuration(host=url)
    async with aiohttp.ClientSession() as session:
        return await kube.Kube(loaded, session, fence=lambda: None).get(resources.PODS, "ns", key)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "send", [content, page, analysis, checks, source, apiserver], ids=lambda send: str(send.__name__)
)
async def test_nothing_is_sent_to_another_path(send: Send, key: str) -> None:
    async with servers.answering(servers.response(b"{}")) as (number, heads):
        with pytest.raises((errors.Permanent, port.Unreachable)):
            await send(f"http://127.0.0.1:{number}", key)
    assert heads == []


async def test_a_slash_within_a_key_is_a_part_of_it() -> None:
    async with servers.answering(servers.response(b"x")) as (number, heads):
        assert await content(f"http://127.0.0.1:{number}", "a/b?c") == b"x"
    assert heads[0].startswith("GET /api/v1/content/a%2Fb%3Fc?")
