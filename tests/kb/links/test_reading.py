"""A link that a task is about: opened once if it may be, by a real HTTP server's own log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from aiohttp import web

from clients import http as outward
from kb import api, client, metrics, mongo
from kb.crawl import address
from kb.extract import answers
from kb.files import sniff, tika
from kb.links import prompt
from router import client as router_client
from tests.clients import servers
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import conftest, scopes, world
from tests.kb.crawl import site as sites
from tests.kb.files import making
from tests.kb.rules import test_enforce
from tests.kb.rules.test_ingest import Kept
from tests.kb.service import whole

pytestmark = pytest.mark.services
Both = tuple[client.Client, httpx.AsyncClient]
PAGE = "http://docs.test/gateway/notes"
OUTCOME = api.LinkOutcome


class Moved(outward.Transport):
    """The network of a test: what is asked at port 80 arrives at the site's own."""

    def __init__(self, port: int) -> None:
        super().__init__(tls=servers.TLS, find=address.Judge(["127.0.0.1/32"], resolve).find)
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.port is None:
            request.url = request.url.copy_with(port=self._port)
        return await super().handle_async_request(request)


@pytest.fixture
async def site() -> AsyncIterator[sites.Site]:
    async with sites.served() as made:
        made.pages["/gateway/notes"] = sites.html(
            "/gateway/other", "https://elsewhere.test/x", text="The gateway 3.2 limits uploads to 2 GB."
        )
        yield made


async def resolve(host: str, port: int) -> list[str]:
    """Names that end with `.test` are this machine; others lie where their name says."""
    known = {"metadata.internal": ["169.254.169.254"], "gone.example": []}
    return known.get(host, ["127.0.0.1"] if host.endswith(".test") else [host])


@pytest.fixture
async def both(
    kb: world.ObservedState,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    database: mongo.Database,
    site: sites.Site,
) -> AsyncIterator[Both]:
    async with whole.over(kb, meters, clock, database=database, **reaching(site)) as made:
        yield made


def reaching(site: sites.Site, find: outward.Find = resolve) -> dict[str, Any]:
    """How a service comes to the site by the names that `find` knows."""
    return {"judge": address.Judge(["127.0.0.1/32"], find), "transport": Moved(site.port)}


def content(url: str, before: str = "The release notes of the gateway are at", after: str = "", **more: str) -> str:
    found = {"source_urn": "email::<m1@acme.com>", "source_kind": "email", "sender": "jana@acme.com", **more}
    return api.LinkSource(url=url, before=before, after=after, **found).model_dump_json(by_alias=True)


async def read(both: Both, text: str, answer: api.LinkAnswer | None = None) -> api.IngestReply:
    request = api.LinkRequest(
        scope=scopes.SHOP, source_urn="link::x", kind="link", content=text, answer=answer, answered_by="jana"
    )
    return await both[0].links.read(request)


def outcome(reply: api.IngestReply) -> tuple[api.LinkOutcome, str]:
    assert reply.link is not None
    return reply.link.outcome, reply.link.reason


async def judged(both: Both, text: str, answer: api.LinkAnswer | None = None) -> api.LinkOutcome:
    return outcome(await read(both, text, answer))[0]


def asked(site: sites.Site) -> list[str]:
    return [path for _, path in site.asked if path != "/robots.txt"]


async def call_safe(both: Both, pattern: str, listed: str = "Safe") -> None:
    draft = {"scope": scopes.SHOP, "pattern": pattern, "list": listed, "by": "jana"}
    await both[0].links.put(api.LinkPatternDraft.model_validate(draft))


async def test_a_safe_link_becomes_a_document_with_an_edge_to_where_it_stands(
    kb: world.ObservedState, both: Both, site: sites.Site, fake: process.Fake
) -> None:
    await kb.ingest(world.request())
    await call_safe(both, "docs.test")
    reply = await read(both, content(PAGE))
    assert outcome(reply)[0] is OUTCOME.INDEXED
    assert (reply.source_urn, reply.hints.has_actionable_content) == (f"link::{PAGE}", False)
    assert asked(site) == ["/gateway/notes"]
    assert fake.requests(path="/api/chat", tag=prompt.LINK) == []
    own, origin = f"link::{PAGE}", "email::m1@acme.com"
    assert len(await kb.graph.relationships(scopes.SHOP, source=own, edge_type="found_in", target=origin)) == 1
    [node] = await kb.graph.nodes(scopes.SHOP, keys=[own])
    assert node.type == "link"
    # The mail's own node, which the mail made, and no second one of that name.
    assert [one.key for one in await kb.graph.nodes(scopes.SHOP, text="m1@acme.com")] == [origin]
    [hit] = (
        await both[0].retrieve(api.RetrieveRequest(scope=scopes.SHOP, query="gateway upload limit", kinds=["link"]))
    ).items
    assert "2 GB" in hit.content
    # Its links are mentioned; none was asked for.
    [listed] = (await both[0].documents.listed(scopes.SHOP, kind="link")).documents
    assert listed.source_urn == own
    assert outcome(await read(both, content(PAGE)))[0] is OUTCOME.KNOWN
    assert asked(site) == ["/gateway/notes"]


async def test_one_time_links_are_never_asked_for(both: Both, site: sites.Site) -> None:
    await call_safe(both, "docs.test")
    for url in ("http://docs.test/unsubscribe?u=1", "http://docs.test/confirm?token=8d7c6b5a"):
        assert await judged(both, content(url)) is OUTCOME.BLOCKED
    assert await judged(both, content(PAGE, after="Unsubscribe")) is OUTCOME.BLOCKED
    assert site.asked == []
    moved = web.Response(status=302, headers={"Location": "/unsubscribe?u=1"})
    site.pages |= {"/short": moved, "/robots.txt": web.Response(status=302, headers={"Location": "/rsvp/1?token=x"})}
    found, why = outcome(await read(both, content("http://docs.test/short")))
    assert (found, site.asked) == (OUTCOME.REFUSED, [("docs.test", "/robots.txt")]), why
    del site.pages["/robots.txt"]
    found, why = outcome(await read(both, content("http://docs.test/short")))
    assert found is OUTCOME.REFUSED
    assert "unsubscribe" in why
    assert asked(site) == ["/short"]


async def test_the_model_decides_where_no_pattern_does_and_its_refusal_becomes_a_pattern(
    kb: world.ObservedState, both: Both, site: sites.Site, fake: process.Fake
) -> None:
    assert await judged(both, content(PAGE)) is OUTCOME.INDEXED
    site.pages["/prize"] = sites.html()
    found, why = outcome(await read(both, content("http://shop.test/prize?u=1", before="You are a winner, claim your")))
    assert found is OUTCOME.UNSAFE
    assert "advises against" in why
    [made] = await both[0].links.patterns(scopes.SHOP)
    assert (made.pattern, made.list, made.by) == ("shop.test/prize*", api.LinkList.UNSAFE, "qualifier")
    times = len(fake.requests(path="/api/chat", tag=prompt.LINK))
    assert times == 2
    assert await judged(both, content("http://shop.test/prize?u=2")) is OUTCOME.BLOCKED
    reply = await read(both, content("http://docs.test/a", before=""))
    assert outcome(reply)[0] is OUTCOME.UNCLEAR
    assert reply.hints.has_actionable_content
    assert "http://docs.test/a" in reply.hints.questions[0]
    assert len(fake.requests(path="/api/chat", tag=prompt.LINK)) == times + 1
    assert asked(site) == ["/gateway/notes"]


async def test_where_no_backend_has_the_fast_model_the_usual_one_decides(
    kb: world.ObservedState,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    database: mongo.Database,
    site: sites.Site,
    router: router_client.Client,
    fake: process.Fake,
) -> None:
    fast = answers.Answers(router, "no-such-model:1b", kb.ledger, meters)
    async with whole.over(kb, meters, clock, database=database, asked=fast, **reaching(site)) as made:
        assert await judged(made, content(PAGE)) is OUTCOME.INDEXED
    tried = [one["body"]["model"] for one in fake.requests(path="/api/chat", tag=prompt.LINK)]
    assert tried == ["no-such-model:1b", "qwen2.5:7b"]


async def test_a_person_s_answer_opens_or_leaves_the_page_and_makes_a_pattern_if_it_says_so(
    both: Both, site: sites.Site, fake: process.Fake
) -> None:
    site.pages |= {f"/{name}": sites.html(text="The limits of the gateway.") for name in "abc"}
    reply = await read(both, content("http://docs.test/a", before=""))
    assert outcome(reply)[0] is OUTCOME.UNCLEAR
    assert "never for each page of docs.test from now on" in reply.hints.questions[0]
    left = await read(both, content("http://docs.test/a", before=""), api.LinkAnswer.NO)
    assert outcome(left) == (OUTCOME.UNSAFE, "Jana has said that it is not to be opened.")
    assert asked(site) == []
    assert await judged(both, content("http://docs.test/a", before=""), api.LinkAnswer.YES) is OUTCOME.INDEXED
    assert await both[0].links.patterns(scopes.SHOP) == []
    assert await judged(both, content("http://docs.test/b", before="")) is OUTCOME.UNCLEAR
    always = await read(both, content("http://docs.test/b", before=""), api.LinkAnswer.ALWAYS)
    assert outcome(always)[0] is OUTCOME.INDEXED
    assert await judged(both, content("http://docs.test/c", before="")) is OUTCOME.INDEXED
    assert await judged(both, content("http://shop.test/a", before="")) is OUTCOME.UNCLEAR
    never = await read(both, content("http://shop.test/a", before=""), api.LinkAnswer.NEVER)
    assert outcome(never)[0] is OUTCOME.UNSAFE
    assert await judged(both, content("http://shop.test/b", before="")) is OUTCOME.UNSAFE
    made = await both[0].links.patterns(scopes.SHOP)
    assert [(one.pattern, one.list.value, one.by) for one in made] == [
        ("docs.test", "Safe", "jana"),
        ("shop.test", "Unsafe", "jana"),
    ]
    assert asked(site) == ["/a", "/b", "/c"]


async def test_no_answer_opens_what_is_never_opened(both: Both, site: sites.Site) -> None:
    await call_safe(both, "docs.test/ads/*", "Unsafe")
    site.pages["/left"] = web.Response(status=302, headers={"Location": "http://left.test/a"})
    await put_rule(both, "enforce: never-fetch forbidden.test\nenforce: link Leave when host left.test")
    site.pages["/in"] = web.Response(status=302, headers={"Location": "http://docs.test/unsubscribe?u=1"})
    for url, expected in (
        ("http://docs.test/unsubscribe?u=1", OUTCOME.BLOCKED),
        ("http://docs.test/ads/1", OUTCOME.BLOCKED),
        ("http://metadata.internal/x", OUTCOME.UNSAFE),
        ("http://docs.test:8081/", OUTCOME.UNSAFE),
        ("http://left.test/", OUTCOME.UNSAFE),
        ("http://forbidden.test/", OUTCOME.REFUSED),
        ("http://docs.test/in", OUTCOME.REFUSED),
        ("http://docs.test/left", OUTCOME.REFUSED),
    ):
        for answer in (api.LinkAnswer.YES, api.LinkAnswer.ALWAYS):
            assert await judged(both, content(url), answer) is expected, url
    assert [path for host, path in site.asked if path != "/robots.txt"] == ["/in", "/in", "/left", "/left"]


async def put_rule(both: Both, text: str) -> None:
    draft = {"scope": scopes.SHOP, "ruleKey": "links", "ruleType": "SECURITY", "ruleContent": text, "createdBy": "jana"}
    await both[0].rules.put(api.RuleDraft.model_validate(draft))


async def test_a_rule_decides_before_the_model_and_a_careful_one_over_a_safe_pattern(
    both: Both, site: sites.Site, fake: process.Fake
) -> None:
    await put_rule(
        both,
        "enforce: link Open when sender *@acme.com and kind email and not title ads\n"
        "enforce: link Ask when host shop.test\n"
        "enforce: link Leave when contains winner",
    )
    assert await judged(both, content(PAGE, before="", sender="Jana <Jana@Acme.com>")) is OUTCOME.INDEXED
    assert fake.requests(path="/api/chat", tag=prompt.LINK) == []
    await call_safe(both, "shop.test")
    found, why = outcome(await read(both, content("http://shop.test/x")))
    assert (found, why) == (OUTCOME.UNCLEAR, "The hard rule 'links' (version 1) asks a person.")
    found, why = outcome(await read(both, content("http://shop.test/y", before="You are a Winner"), api.LinkAnswer.YES))
    assert (found, why) == (OUTCOME.UNSAFE, "The hard rule 'links' (version 1) leaves it.")
    assert fake.requests(path="/api/chat", tag=prompt.LINK) == []
    # Of another sender no line speaks: the model is asked.
    assert await judged(both, content("http://docs.test/a", before="", sender="x@else.com")) is OUTCOME.UNCLEAR
    assert len(fake.requests(path="/api/chat", tag=prompt.LINK)) == 1
    assert asked(site) == ["/gateway/notes"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://169.254.169.254/latest/meta-data/", OUTCOME.UNSAFE),
        ("http://metadata.internal/x", OUTCOME.UNSAFE),
        ("http://10.0.0.7/", OUTCOME.UNSAFE),
        ("http://docs.test:8081/", OUTCOME.UNSAFE),
        ("https://jana:secret@docs.test/", OUTCOME.UNSAFE),
        ("ftp://docs.test/", OUTCOME.UNSAFE),
        ("http://gone.example/", OUTCOME.UNREACHABLE),
    ],
)
async def test_addresses_that_are_not_opened(both: Both, site: sites.Site, url: str, expected: api.LinkOutcome) -> None:
    found, why = outcome(await read(both, content(url)))
    assert found is expected
    assert why.endswith(".")
    assert site.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://2852039166/latest/meta-data/",
        "http://0xA9FEA9FE/",
        "http://0251.0376.0251.0376/",
        "http://127.1/",
        "http://localhost/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://0/",
    ],
)
async def test_internal_addresses_in_any_spelling(kb: world.ObservedState, database: mongo.Database, url: str) -> None:
    """With the resolver of the system."""
    async with whole.over(kb, kb.meters, kb.clock, database=database) as both:
        assert await judged(both, content(url)) is OUTCOME.UNSAFE


async def test_a_private_address_stays_closed_though_a_pattern_calls_it_safe(both: Both, site: sites.Site) -> None:
    await call_safe(both, "metadata.internal")
    assert await judged(both, content("http://metadata.internal/x")) is OUTCOME.UNSAFE
    site.pages["/in"] = web.Response(status=302, headers={"Location": "http://metadata.internal/latest"})
    await call_safe(both, "docs.test")
    assert await judged(both, content("http://docs.test/in")) is OUTCOME.UNSAFE


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (web.Response(status=404), OUTCOME.GONE),
        (web.Response(status=410), OUTCOME.GONE),
        (web.Response(status=503), OUTCOME.UNREACHABLE),
        (web.Response(status=429), OUTCOME.UNREACHABLE),
        (web.Response(status=403), OUTCOME.REFUSED),
        (web.Response(body=b"%PDF-1.7", content_type="application/pdf"), OUTCOME.REFUSED),
        (web.Response(body=b"<p>" + b"x" * 200_000, content_type="text/html"), OUTCOME.REFUSED),
        (sites.html(head='<meta name="robots" content="noindex">'), OUTCOME.REFUSED),
    ],
)
async def test_what_the_site_says_is_the_outcome(
    both: Both, site: sites.Site, made: web.Response, expected: api.LinkOutcome
) -> None:
    await call_safe(both, "docs.test")
    site.pages["/page"] = made
    assert await judged(both, content("http://docs.test/page")) is expected
    # What failed is tried again with the next task.
    site.pages["/page"] = sites.html(text="There it is.")
    assert await judged(both, content("http://docs.test/page")) is OUTCOME.INDEXED


async def test_a_file_behind_a_link_is_read_as_an_attachment_would_be(
    kb: world.ObservedState,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    database: mongo.Database,
    site: sites.Site,
) -> None:
    async with outward.client(tls=servers.TLS) as http:
        parser = tika.Tika(conftest.required("JERVIS_TEST_TIKA_URL"), http)
        more: dict[str, Any] = {"database": database, "parser": parser, "limit": 150_000, **reaching(site)}
        async with whole.over(kb, meters, clock, **more) as both:
            await call_safe(both, "docs.test")
            for name, raw in (
                ("a.pdf", making.pdf("The gateway limits uploads to 9 GB.")),
                ("a.docx", making.docx("Plan")),
            ):
                site.pages[f"/{name}"] = web.Response(body=raw, content_type=f"{sniff.detect(raw).value}")
                assert await judged(both, content(f"http://docs.test/{name}")) is OUTCOME.INDEXED, name
            found = await both[0].retrieve(
                api.RetrieveRequest(scope=scopes.SHOP, query="uploads of 9 GB", kinds=["link"])
            )
            assert found.items[0].provenance.source_urn == "link::http://docs.test/a.pdf"
            assert [one.page for one in found.items[0].provenance.pages] == [1]
            # More than a page may have, and more than a file may have; no PDF; a type that is none of them.
            padded = making.pdf("Long.") + b" " * 120_000
            for name, body, media, expected in (
                ("long.pdf", padded, "application/pdf", OUTCOME.INDEXED),
                ("huge.pdf", padded + b" " * 40_000, "application/pdf", OUTCOME.REFUSED),
                ("wrong.pdf", b"\x00\x01\x02", "application/pdf", OUTCOME.REFUSED),
                ("macro.docx", making.docx("x", word__vbaProject__bin=b"x"), sniff.Type.DOCX.value, OUTCOME.REFUSED),
                ("tool.exe", b"MZ", "application/octet-stream", OUTCOME.REFUSED),
            ):
                site.pages[f"/{name}"] = web.Response(body=body, content_type=media)
                assert await judged(both, content(f"http://docs.test/{name}")) is expected, name
        gone = tika.Tika("http://127.0.0.1:9", http)
        async with whole.over(kb, meters, clock, **(more | {"parser": gone})) as both:
            site.pages["/b.pdf"] = web.Response(body=making.pdf("Later."), content_type="application/pdf")
            assert await judged(both, content("http://docs.test/b.pdf")) is OUTCOME.UNREACHABLE


async def test_a_person_may_write_it_as_a_text(both: Both, site: sites.Site) -> None:
    assert await judged(both, f"{PAGE}\nRelease notes of the gateway 3.2.") is OUTCOME.INDEXED
    with pytest.raises(client.Rejected) as refused:
        await read(both, "Nothing to open here.")
    assert refused.value.field == "content"


async def test_patterns_over_http(both: Both) -> None:
    await call_safe(both, "Docs.Test/gateway/*", "Unsafe")
    [made] = await both[0].links.patterns(scopes.SHOP)
    assert (made.pattern, made.list.value, made.scope) == ("docs.test/gateway/*", "Unsafe", scopes.SHOP)
    assert await judged(both, content(PAGE)) is OUTCOME.BLOCKED
    await both[0].links.delete(scopes.SHOP, "docs.test/gateway/*")
    with pytest.raises(client.Rejected) as missing:
        await both[0].links.delete(scopes.SHOP, "docs.test/gateway/*")
    assert missing.value.code == "not_found"


async def test_a_document_names_its_links_and_opens_none(kb: world.ObservedState, site: sites.Site) -> None:
    reply = await kb.ingest(world.request(f"Please read {PAGE} by Friday. {PAGE}#end"))
    assert reply.links == [api.Link(url=PAGE, before="Please read", after=f"by Friday. {PAGE}#end")]
    assert (await kb.ingest(world.request(f"See {PAGE}.", urn="link::http://a.test/", kind="link"))).links == []
    assert site.asked == []


@pytest.mark.parametrize(
    ("line", "route", "action"),
    [
        ("route ExecuteHigh when kind link", "ExecuteHigh", "Execute"),
        ("route Defer 90 when source link::http://docs.test/*", "Defer", "Defer"),
        ('route Ask "Who reads it?" when contains "release notes"', "Ask", "Ask"),
        ('ask-before-execute "Is it paid?" when kind link', None, "Execute"),
        ("route Execute when kind email", None, "Execute"),
    ],
)
async def test_rules_route_the_task_of_a_link_as_any_other(
    both: Both, meters: metrics.Metrics, line: str, route: str | None, action: str
) -> None:
    await call_safe(both, "docs.test")
    await put_rule(both, f"enforce: {line}")
    reply = await read(both, content(PAGE))
    assert (outcome(reply)[0], reply.hints.route) == (OUTCOME.INDEXED, route)
    assert reply.hints.directive().action == action
    assert [one.effect.split()[:2] for one in reply.rules] == ([["route", route]] if route else [])
    counted = meters.registry.get_sample_value("jervis_kb_ruled_total", {"route": route or "Execute"})
    assert (counted or 0) == (1 if route else 0)
    # A link that is not opened has its task all the same.
    unsubscribe = await read(both, content("http://docs.test/unsubscribe?u=1"))
    assert (outcome(unsubscribe)[0], unsubscribe.hints.route) == (OUTCOME.BLOCKED, route)


async def test_whether_a_link_may_be_opened_is_asked_before_its_route(both: Both, site: sites.Site) -> None:
    await put_rule(both, "enforce: link Ask when kind email\nenforce: route InfoOnly when kind link")
    asked_first = await read(both, content(PAGE))
    assert (outcome(asked_first)[0], asked_first.hints.route) == (OUTCOME.UNCLEAR, None)
    assert asked_first.hints.questions != []
    opened = await read(both, content(PAGE), api.LinkAnswer.YES)
    assert (outcome(opened)[0], opened.hints.route) == (OUTCOME.INDEXED, "InfoOnly")
    assert asked(site) == ["/gateway/notes"]


async def test_a_page_that_a_rule_forbids_to_store_is_no_document(
    open_world: world.Opening,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    database: mongo.Database,
    site: sites.Site,
) -> None:
    kept = Kept([test_enforce.rule('enforce: never-index when contains "2 GB"')])
    async with (
        open_world(rules=kept) as kb,
        whole.over(kb, meters, clock, database=database, kept_rules=kept, **reaching(site)) as both,
    ):
        await call_safe(both, "docs.test")
        reply = await read(both, content(PAGE))
        assert outcome(reply) == (OUTCOME.REFUSED, "A hard rule forbids to store its page.")
        assert (reply.indexed, reply.chunk_ids, [one.effect for one in reply.rules]) == (False, [], ["never-index"])
        assert (await both[0].documents.listed(scopes.SHOP, kind="link")).documents == []


async def test_agents_have_tools_for_it_and_call_nothing_safe(both: Both, site: sites.Site) -> None:
    where = "/mcp?clientId=acme&projectId=shop&groupId=retail"

    async def called(tool: str, **given: str) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
        headers = {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"}
        answer = await both[1].post(where, json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    read = await called("document_from_web", url=f"{PAGE}#top", why="The release notes of the gateway.")
    assert read["structuredContent"]["outcome"] == "Indexed"
    assert read["content"][0]["text"].startswith(f"Indexed: {PAGE}\n")
    blocked = await called("document_from_web", url="http://docs.test/unsubscribe?u=1")
    assert blocked["structuredContent"]["outcome"] == "Blocked"
    added = await called("manage_link_safety", pattern="ads.test", reason="Advertising.")
    assert [one["list"] for one in added["structuredContent"]["patterns"]] == ["Unsafe"]
    assert "- ads.test is Unsafe: Advertising." in (await called("manage_link_safety"))["content"][0]["text"]
    assert (await called("manage_link_safety", pattern="ads.test", list="Safe"))["isError"]
    assert (await called("manage_link_safety", pattern="no host"))["structuredContent"]["error"]["field"] == "pattern"
    assert asked(site) == ["/gateway/notes"]
