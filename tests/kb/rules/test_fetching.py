"""Which hosts a crawl may ask: by the rules of its scope, for pages, robots.txt and redirects."""

from __future__ import annotations

import pytest
from aiohttp import web
from hypothesis import given

from clients import http
from contracts.rules import enforce_lines
from crds import scope
from kb import api, errors, metrics, visibility
from kb.crawl import address, fetch
from kb.rules import fetching
from tests.clients import servers
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.crawl import site as sites
from tests.kb.rules import test_enforce
from tests.kb.rules.test_ingest import Kept
from tests.kb.service import whole


def kept(*contents: str) -> Kept:
    return Kept(test_enforce.rule(content, key=f"k{at}") for at, content in enumerate(contents))


@pytest.mark.parametrize(
    ("host", "forbidden"),
    [
        ("intra.example.com", True),
        ("a.intra.example.com", True),
        ("A.Intra.Example.COM.", True),
        ("\uff41.intra.example.com", True),
        ("www.example.com", False),
        ("xn--mller-kva.example.com", False),
        ("müller.example.com", False),
        ("example.com", True),
        ("www.example.com.evil.test", True),
        ("10.0.0.1", True),
        ("", True),
    ],
)
def test_hosts(host: str, forbidden: bool) -> None:
    lines = (
        "enforce: never-fetch *.intra.example.com",
        "enforce: never-fetch Intra.example.com.",
        "enforce: fetch-only www.example.com",
        "enforce: fetch-only *.intra.example.com\nenforce: fetch-only Müller.example.com",
    )
    assert enforce_lines.unfetched("\n".join(lines), host) is forbidden


@pytest.mark.parametrize(
    "words", ["", "https://example.com", "example.com/path", "two words", "*" * 9, '"example.com"']
)
@pytest.mark.parametrize("verb", ["never-fetch", "fetch-only"])
def test_what_is_no_host_is_refused(verb: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"such as www\.example\.com|give one of"):
        enforce_lines.of(f"enforce: {verb} {words}")


def test_each_rule_is_obeyed() -> None:
    rules = kept("enforce: fetch-only *.test", "enforce: fetch-only docs.*", "enforce: never-say x").rules
    assert fetching.refusal(rules, "http://docs.test/a") == ""
    assert "'k1' (version 1) forbids www.test" in fetching.refusal(rules, "http://www.test/a")
    assert "'k0'" in fetching.refusal(rules, "http://docs.example.com:80/a")
    assert "cannot be enforced" in fetching.refusal(kept("enforce: never-fly").rules, "http://docs.test/")


@given(scopes.ANY, scopes.ANY)
async def test_a_rule_acts_in_its_scope_only(owner: scope.Scope, where: scope.Scope) -> None:
    rules = Kept([test_enforce.rule("enforce: never-fetch *", owner)])
    client = http.client(tls=servers.TLS, find=address.Judge([], sites.everything_here).find)
    fetcher = fetch.Fetcher(client, max_bytes=1, seconds=5)
    obeying = await fetching.obeying(rules, where, fetcher)
    with pytest.raises((fetch.Refused, errors.Invalid)) as caught:
        await obeying.fetch("http://docs.test/")
    assert isinstance(caught.value, fetch.Refused) is visibility.governs(owner, where)


async def test_a_crawl_obeys_the_rules_of_its_scope(
    kb: world.ObservedState, clock: clocks.Clock, meters: metrics.Metrics
) -> None:
    rules = kept("enforce: never-fetch secret.test")
    judge = address.Judge(["127.0.0.0/8"], sites.everything_here)
    async with (
        sites.served() as site,
        whole.over(kb, meters, clock, judge=judge, kept_rules=rules) as (kb_client, _),
    ):
        secret = f"http://secret.test:{site.port}"

        async def crawl(host: str, owner: scope.Scope = scopes.SHOP) -> list[tuple[bool, str]]:
            asked = api.Crawl(scope=owner, url=f"http://{host}:{site.port}/", depth=0)
            reply = await kb_client.learning.crawl(asked)
            return [(bool(one.source_urn), one.reason) for one in reply.pages]

        site.pages = {"/": sites.html(text="Petr Svoboda wrote it.")}
        assert await crawl("docs.test") == [(True, "")]
        [(taken, reason)] = await crawl("secret.test")
        assert (taken, "'k0' (version 1) forbids secret.test" in reason) == (False, True)
        site.pages["/"] = web.Response(status=302, headers={"Location": f"{secret}/"})
        [(taken, reason)] = await crawl("docs.test")
        assert (taken, "forbids secret.test" in reason) == (False, True)
        site.pages = {
            "/robots.txt": web.Response(status=302, headers={"Location": f"{secret}/robots.txt"}),
            "/": sites.html(text="Petr Svoboda wrote it."),
        }
        assert [taken for taken, _ in await crawl("docs.test")] == [False]
        assert {host.partition(":")[0] for host, _ in site.asked} == {"docs.test"}
        assert await crawl("secret.test", scopes.OTHER) != []
        assert f"secret.test:{site.port}" in {host for host, _ in site.asked}
