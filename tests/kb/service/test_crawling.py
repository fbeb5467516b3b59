"""A site crawled again over HTTP: what is gone is removed, and what breaks off says what was taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kb import api, client, metrics
from kb.crawl import address
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.crawl import site as sites
from tests.kb.service import whole


@pytest.fixture
async def site() -> AsyncIterator[sites.Site]:
    async with sites.served() as made:
        yield made


@pytest.fixture
async def served(kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock) -> AsyncIterator[Any]:
    judge = address.Judge(["127.0.0.0/8"], sites.everything_here)
    async with whole.over(kb, meters, clock, judge=judge) as pair:
        yield pair


async def crawl(
    kb_client: client.Client, site: sites.Site, start: str = "/", **more: object
) -> tuple[api.CrawlReply, dict[str, str]]:
    """The answer, and path -> "taken", "removed" or the reason."""
    base = f"http://docs.test:{site.port}"
    asked = api.Crawl.model_validate({"scope": scopes.SHOP, "url": base + start, "depth": 3, **more})
    reply = await kb_client.learning.crawl(asked)
    said = {
        one.url.removeprefix(base): "removed" if one.removed else "taken" if one.source_urn else one.reason
        for one in reply.pages
    }
    return reply, said


async def shown(kb: world.ObservedState) -> int:
    return (await kb.graph.counts(scopes.SHOP)).documents


async def test_pages_that_are_gone_are_removed(
    kb: world.ObservedState, kb_client: client.Client, site: sites.Site
) -> None:
    pages = {f"/{name}": sites.html(text=name) for name in ("linked", "unlinked", "moved")}
    site.pages = {"/": sites.html("/linked", "/unlinked", "/moved"), **pages}
    await crawl(kb_client, site)
    assert await shown(kb) == 4
    del site.pages["/linked"], site.pages["/unlinked"]
    site.pages["/"] = sites.html("/linked")
    _, said = await crawl(kb_client, site, gone="Keep")
    assert said == {"/": "taken", "/linked": "HTTP 404"}
    _, said = await crawl(kb_client, site, depth=0)
    assert said == {"/": "taken"}
    assert await shown(kb) == 4
    reply, said = await crawl(kb_client, site)
    assert said == {"/": "taken", "/linked": "removed", "/moved": "taken", "/unlinked": "removed"}
    assert (reply.taken, reply.removed) == (2, 2)
    assert await shown(kb) == 2
    # A site that says so of its first page is rather broken; that page alone was asked for, and goes.
    site.pages = {}
    _, said = await crawl(kb_client, site)
    assert said == {"/": "removed"}
    assert await shown(kb) == 1


async def test_a_crawl_that_breaks_off_says_what_it_took(
    kb: world.ObservedState, kb_client: client.Client, site: sites.Site
) -> None:
    site.pages = {"/": sites.html("/a", "/b", "/c"), "/a": sites.html(), "/b": sites.html(), "/c": sites.html()}

    async def at_b(host: str, path: str) -> None:
        kb.switch.away = path == "/b"

    site.before = at_b
    reply, said = await crawl(kb_client, site)
    assert said == {"/": "taken", "/a": "taken"}
    assert (reply.taken, reply.truncated) == (2, False)
    assert "weaviate" in reply.stopped
    kb.switch.away = True
    site.before = None
    with pytest.raises(client.Unavailable, match="weaviate"):
        await crawl(kb_client, site)
    kb.switch.away = False
    reply, said = await crawl(kb_client, site)
    assert (reply.stopped, reply.taken) == ("", 4)


async def test_few_crawls_run_at_once(kb_client: client.Client, site: sites.Site, fake: process.Fake) -> None:
    go = asyncio.Event()
    entered: list[str] = []

    async def wait(host: str, path: str) -> None:
        if path == "/":
            entered.append(path)
            await go.wait()

    site.pages = {"/": sites.html()}
    site.before = wait
    # One client has half of the four, and half of those that may wait.
    crawls = [asyncio.create_task(crawl(kb_client, site)) for _ in range(7)]
    [refused], _ = await asyncio.wait(crawls, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises(client.Unavailable, match="wait for a crawl"):
        await refused
    go.set()
    crawls.remove(refused)
    assert [(await one)[0].taken for one in crawls] == [1] * 6
    assert len(entered) == 6
