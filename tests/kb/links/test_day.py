"""What the links of mails cost, by the numbers of what is asked.

The mails alone say how many tasks there are, which need a model, and what each host is asked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from contracts import link_tasks
from kb import api, metrics, mongo
from kb.extract import links_in_text
from kb.links import prompt
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.crawl import site as sites
from tests.kb.links.test_reading import OUTCOME, call_safe, content, outcome, reaching, read
from tests.kb.service import whole

pytestmark = pytest.mark.services
MAILS, PAGES, NOTES = 30, 10, 15


def mail(number: int) -> str:
    """Five links: one that many mails have, its own click counter and unsubscription, one of a dead host, and one of a
    host of its own that no pattern knows."""
    return f"""From: news{number % 20}@lists.example
Subject: News {number}

The notes are at http://docs.test/page/{number % PAGES} today.
Read on: http://click.news.test/?qs={number:08x}aa11bb22cc33dd44
Unsubscribe: http://lists.test/unsubscribe?u={number}
The archive is at http://dead.test/archive/{number} as before.
The release notes of the tool are at http://tool{number % NOTES % 5}.test/notes/{number % NOTES} now.
"""


async def test_tasks_models_and_requests_of_a_day(
    open_world: world.Opening,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
    fake: process.Fake,
) -> None:
    found = [link for number in range(MAILS) for link in links_in_text.find(mail(number), most=20)]
    assert len(found) == 5 * MAILS
    tasks = {link_tasks.name(scopes.ACME, one.url): one for one in found}
    assert len(tasks) == PAGES + NOTES + 3 * MAILS, "the same link of several mails is one task"
    resolved: Counter[str] = Counter()

    async def resolve(host: str, port: int) -> Sequence[str]:
        resolved[host] += 1
        return [] if host == "dead.test" else ["127.0.0.1"]

    async with (
        sites.served() as site,
        open_world() as kb,
        whole.over(kb, meters, clock, database=database, **reaching(site, resolve)) as both,
    ):
        site.pages |= {f"/page/{number}": sites.html(text=f"Page {number}.") for number in range(PAGES)}
        site.pages |= {f"/notes/{number}": sites.html(text=f"Notes {number}.") for number in range(NOTES)}
        await call_safe(both, "docs.test")
        slots = asyncio.Semaphore(10)

        async def ask(link: links_in_text.Link) -> api.LinkOutcome:
            async with slots:
                return outcome(await read(both, content(link.url, link.before, link.after)))[0]

        counted = Counter(await asyncio.gather(*map(ask, tasks.values())))
        asked = [path for _, path in site.asked]
    assert counted == {OUTCOME.INDEXED: PAGES + NOTES, OUTCOME.BLOCKED: 2 * MAILS, OUTCOME.UNREACHABLE: MAILS}
    # One request for each page, and none for a link that acts; the dead host is asked for until it is known to be.
    assert len([path for path in asked if path != "/robots.txt"]) == PAGES + NOTES
    assert resolved["dead.test"] <= 10, "as many as are read at once"
    assert not {"click.news.test", "lists.test"} & resolved.keys()
    assert fake.count(path="/api/chat", tag=prompt.LINK) == NOTES
