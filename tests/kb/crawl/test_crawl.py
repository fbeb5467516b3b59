"""A crawl of a real site on loopback: what is taken, what is left out and why, and where it never connects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from clients import http
from kb import errors
from kb.crawl import address, fetch, frontier, page
from tests import waiting
from tests.clients import servers
from tests.kb.crawl import steps
from tests.kb.crawl.site import Site, everything_here, html, served


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with served() as made:
        yield made


def leading_to(*addresses: str) -> http.Find:
    """A resolver for which every name has these addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


@asynccontextmanager
async def crawler(
    *, allowed: Sequence[str] = ("127.0.0.0/8",), resolve: http.Find = everything_here, max_bytes: int = 10_000
) -> AsyncIterator[fetch.Fetcher]:
    async with http.client(tls=servers.TLS, find=address.Judge(allowed, resolve).find) as client:
        yield fetch.Fetcher(client, max_bytes=max_bytes, seconds=waiting.PATIENCE)


async def run(
    site: Site, start: str, *, depth: int = 3, pages: int = 50, max_bytes: int = 10_000, reading: float = 5.0
) -> tuple[dict[str, str], bool]:
    """Path -> reason, "" for what was taken; and whether a limit ended it."""
    async with crawler(max_bytes=max_bytes) as fetcher:
        crawl = frontier.Crawl(fetcher, frontier.Limits(depth=depth, pages=pages, reading=reading))
        base = f"http://docs.test:{site.port}"
        seen = {one.url.removeprefix(base): one.reason async for one in crawl.pages(base + start)}
        return seen, crawl.truncated


async def test_breadth_first_on_one_site_as_deep_as_asked(site: Site) -> None:
    site.pages = {
        "/": html("/a", "b?x=1#part", "http://other.test/", "mailto:x@y", "/a"),
        "/a": html("/deep"),
        "/b": html("/"),
        "/deep": html("/deeper"),
    }
    seen, truncated = await run(site, "/", depth=2)
    assert list(seen) == ["/", "/a", "/b?x=1", "/deep"]
    assert set(seen.values()) == {""}
    assert not truncated
    assert {host for host, _ in site.asked} == {f"docs.test:{site.port}"}
    assert await run(site, "/", pages=2) == ({"/": "", "/a": ""}, True)


async def test_robots_are_obeyed(site: Site) -> None:
    site.pages = {
        "/robots.txt": web.Response(text="User-agent: *\nDisallow: /secret\n"),
        "/": html("/secret/x", "/open", "/quiet"),
        "/open": html(head='<meta name="robots" content="nofollow">', text="open"),
        "/quiet": html("/beyond", head='<meta name="robots" content="noindex">'),
        "/beyond": html(),
    }
    seen, _ = await run(site, "/")
    assert seen["/secret/x"] == "robots.txt forbids it"
    assert ("docs.test", "/secret/x") not in {(host.partition(":")[0], path) for host, path in site.asked}
    assert seen["/quiet"] == "it asks not to be indexed"
    assert seen["/beyond"] == ""


async def test_as_much_of_robots_is_read_as_the_standard_asks_for(site: Site) -> None:
    """RFC 9309, 2.5: at least 500 KiB. Half a line at the end is no rule."""
    rules = "User-agent: *\nDisallow: /secret\n"
    long = f"Disallow: /{'x' * (1 << 20)}"
    site.pages = {"/": html("/secret", "/open"), "/secret": html(), "/open": html()}
    site.pages["/robots.txt"] = web.Response(text=f"{rules}{long}\nDisallow: /\n")
    seen, _ = await run(site, "/", max_bytes=4 << 20)
    assert seen == {"/": "", "/secret": "robots.txt forbids it", "/open": ""}
    site.pages["/robots.txt"] = web.Response(text=f"{rules}# {'x' * (490 << 10)}\nDisallow: /open\n")
    seen, _ = await run(site, "/", max_bytes=4 << 20)
    assert seen["/open"] == "robots.txt forbids it"


async def test_rules_without_number_do_not_hold_the_event_loop(site: Site) -> None:
    async def lines(rules: int) -> int:
        """Lines of Python that the thread of the event loop runs; a trace sees its own thread alone."""
        site.pages = {"/": html("/a"), "/a": html()}
        text = "User-agent: *\n" + "Disallow: /x\n" * rules
        site.pages["/robots.txt"] = web.Response(text=text, headers={"Connection": "close"})
        with steps.counted() as count:
            assert await run(site, "/", max_bytes=4 << 20) == ({"/": "", "/a": ""}, False)
        return count.lines

    await lines(10)  # what is imported and opened once
    assert await lines(10_000) <= await lines(10) + 10_000


async def test_robots_are_asked_before_the_first_page(site: Site) -> None:
    site.pages = {
        "/robots.txt": web.Response(text="User-agent: *\nDisallow: /secret\n"),
        "/secret": html(),
        "/moved": web.Response(status=302, headers={"Location": "/secret"}),
    }
    assert await run(site, "/secret") == ({"/secret": "robots.txt forbids it"}, False)
    assert await run(site, "/moved") == ({"/moved": "robots.txt forbids it"}, False)
    assert [path for _, path in site.asked] == ["/robots.txt", "/robots.txt", "/moved"]


async def test_a_server_that_fails_to_say_allows_nothing(site: Site) -> None:
    site.pages = {"/robots.txt": web.Response(status=503), "/": html("/a")}
    seen, _ = await run(site, "/")
    assert seen == {"/": "robots.txt forbids it"}


async def test_limits_leave_a_page_out_and_the_crawl_goes_on(site: Site) -> None:
    site.pages = {
        "/": html("/large", "/loop", "/file.pdf", "/missing", "/empty", "/away", "/fine"),
        "/large": html(text="x" * 20_000),
        "/loop": web.Response(status=302, headers={"Location": "/loop"}),
        "/file.pdf": web.Response(body=b"%PDF-", content_type="application/pdf"),
        "/empty": html(text=""),
        "/away": web.Response(status=302, headers={"Location": f"http://elsewhere.test:{site.port}/fine"}),
        "/fine": html(),
    }
    site.pages["/empty"] = web.Response(text="<html></html>", content_type="text/html")
    seen, _ = await run(site, "/")
    assert seen["/large"] == "it is larger than 10000 bytes"
    assert seen["/loop"] == "it redirects more than 5 times"
    assert "/api/v1/ingest/file" in seen["/file.pdf"]
    assert seen["/missing"] == "HTTP 404"
    assert seen["/empty"] == "it has no text"
    assert seen["/away"] == "it redirects to another site"
    assert (seen["/fine"], seen["/"]) == ("", "")


async def test_a_page_that_takes_too_long_to_read_is_left_out(site: Site) -> None:
    """Each comment costs the tokenizer a look at the rest of the page: 4 MB of them would take a thread 20 minutes."""
    comments = web.Response(text="<!---->" * 600_000, content_type="text/html")
    site.pages = {"/": html("/comments", "/fine"), "/comments": comments, "/fine": html()}
    seen, _ = await run(site, "/", depth=1, pages=3, max_bytes=8 << 20, reading=0.5)
    assert seen == {"/": "", "/comments": "it takes longer than 0.5 seconds to read", "/fine": ""}


async def test_a_redirect_is_judged_like_a_first_address(site: Site) -> None:
    """The site is allowed by name; where it redirects to is not."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return {"docs.test": ["127.0.0.1"], "metadata.test": ["169.254.169.254"]}[host]

    site.pages = {
        "/": html("/leak"),
        "/leak": web.Response(status=302, headers={"Location": "http://metadata.test/latest"}),
    }
    async with crawler(resolve=resolve) as fetcher:
        crawl = frontier.Crawl(fetcher, frontier.Limits(depth=2, pages=9))
        seen = {one.url: one.reason async for one in crawl.pages(f"http://docs.test:{site.port}/")}
        leak = f"http://docs.test:{site.port}/leak"
        assert seen[leak] == "it redirects to another site"
        with pytest.raises(errors.Invalid, match=r"169\.254\.169\.254, which is not a public address"):
            await fetcher.fetch(leak)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "10.0.0.8", "172.16.4.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "::1", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "2002:a00:1::", "64:ff9b::7f00:1", "ff02::1",
        "192.0.0.192", "192.88.99.1", "198.18.0.1", "255.255.255.255", "::127.0.0.1", "::ffff:0:127.0.0.1",
        "64:ff9b:1::7f00:1", "fec0::1", "5f00::1", "3fff::1", "2001:0:7f00:1::1", "ff0e::1", "fe80::1%eth0",
    ],
)  # fmt: skip
async def test_no_address_of_ours(text: str) -> None:
    with pytest.raises(errors.Invalid, match="not a public address") as caught:
        await address.Judge([], leading_to("93.184.215.14", text)).target("http://rebind.test/")
    assert "JERVIS_KB_CRAWL_NETWORKS" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "0", "localhost", "localhost.", "[::ffff:7f00:1]", "[::1]",
        "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460", "127\u30020\u30020\u30021",
    ],
)  # fmt: skip
async def test_no_other_way_to_write_one(host: str) -> None:
    with pytest.raises(errors.Invalid, match="not a public address"):
        await address.Judge([]).target(f"http://{host}/")


@pytest.mark.parametrize("text", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
async def test_what_is_public_may_be_asked(text: str) -> None:
    assert list(await address.Judge([], leading_to(text)).find("public.test", 80)) == [text]


@pytest.mark.parametrize("host", ["a\x00b", "$where", "-1", "a..b", "%00", "a" * 64, "\u202e", "{{7*7}}", "a b"])
async def test_what_is_no_name_is_not_looked_up(host: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    with pytest.raises(errors.Invalid, match="is no name of a host") as caught:
        await address.Judge([], resolve).target(f"http://{host}/")
    assert caught.value.field == "url"


@pytest.mark.parametrize("url", ["ftp://a.test/", "http://user:pw@a.test/", "http://", "http://a.test:99999/", "//a"])
async def test_no_other_kind_of_url(url: str) -> None:
    with pytest.raises(errors.Invalid):
        await address.Judge([], everything_here).target(url)


async def test_public_addresses_and_allowed_networks() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return {"public.test": ["93.184.215.14"], "wiki.corp": ["10.1.2.3"]}[host]

    judge = address.Judge(["10.1.0.0/16"], resolve)
    assert (await judge.target("https://Public.test/x")).site == ("https", "public.test", 443)
    assert await judge.find("wiki.corp", 8080) == ["10.1.2.3"]


async def test_a_name_that_is_nowhere() -> None:
    with pytest.raises(errors.Away, match="no address"):
        await address.Judge([], leading_to()).target("http://nowhere.test/")


def test_a_page_is_read_as_a_person_reads_it() -> None:
    body = (
        b"<html><head><title> A &amp; B </title><base href='/docs/'><style>p{}</style></head><body>"
        b"<script>alert(1)</script><h1>Title</h1><p>One\n two.</p><p>Three<br>four</p>"
        b"<a href='x#y'>l</a><a href='/z' rel='nofollow'>m</a><a href='javascript:x'>n</a></body></html>"
    )
    read = page.read(body, "http://docs.test/index.html", None)
    assert (read.title, read.text) == ("A & B", "Title\n\nOne two.\n\nThree\nfour\nlmn")
    assert read.links == ("http://docs.test/docs/x", "javascript:x")
    latin = page.read("<p>Pokoj č</p>".encode("iso-8859-2"), "http://x.test/", "iso-8859-2")
    assert latin.text == "Pokoj č"
