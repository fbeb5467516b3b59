"""A page of the web, through the knowledge base: it resolves and judges the address and obeys the rules of the scope
(`never-fetch`, `fetch-only`), and what was read becomes a document with a source. A run itself calls no other host.

Hosts of the allow-list and of the client's own are asked at once. An address can carry text to whom it names, so a page
of any other host is an effect: a permit names its host, or a person decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from clients import toolservers
from crds import domains, permits
from kb import api
from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects import ledger_entries
from orchestrator_job.effects.tools import bounds, knowledge, port

KIND = "web_page"
_PAUSE, _TRIES = 0.5, 20
"""Seconds between two looks, and their number: a page that was taken is findable a moment later."""


class FetchPage(port.Arguments):
    """`start` is the first character that is wanted."""

    url: Annotated[str, Field(min_length=8, max_length=1024, pattern=r"^https?://[^\s@\\]+$")]
    start: Annotated[int, Field(ge=0)] = 0


class Fetch:
    """Fetches and reads one page. `hosts` are patterns."""

    name = "fetch_page"
    description = "Read a page of the web. Pages of some hosts are read at once, of others after a person has agreed."
    arguments = FetchPage
    tier = port.Tier.PERMIT

    def __init__(
        self,
        means: knowledge.Means,
        hosts: Sequence[str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._means, self._hosts, self._sleep = means, hosts, sleep

    async def read(self, given: FetchPage, place: port.Place) -> port.Result:
        """The text of the page. Raises `kb_client.Unavailable`."""
        if not self._means.rules.shows(given.url, KIND):
            return bounds.failed("A hard rule keeps this page back.")
        asked = api.Crawl(scope=self._means.viewer, url=given.url, depth=0, max_pages=1, kind=KIND, gone="Keep")
        try:
            reply = await self._means.kb.learning.crawl(asked, urgency=self._means.urgency)
            taken = [one for one in reply.pages if one.source_urn]
            if not taken or taken[0].source_urn is None:
                reasons = [one.reason for one in reply.pages if one.reason] or [reply.stopped or "nothing was read"]
                return bounds.failed(f"{given.url} was not read: {reasons[0]}")
            urn = taken[0].source_urn
            host = self._host(urn)
            if host != self._host(given.url) and not self.allows(host):
                return bounds.failed(f"It leads to {urn!r}, whose host is none of {', '.join(self._hosts)}.")
            return await self._text(urn, given.start)
        except kb_client.Rejected as error:
            outcome.recheck(error)
            return bounds.failed(error)

    async def _text(self, urn: str, start: int) -> port.Result:
        asked = api.ByKindRequest(scope=self._means.viewer, kinds=[KIND], sources=[urn], limit=1000)
        for _ in range(_TRIES):
            reply = await self._means.kb.looking.by_kind(asked)
            if reply.chunks:
                return knowledge.part(reply.chunks, start, truncated=reply.truncated)
            await self._sleep(_PAUSE)
        return bounds.failed(f"{urn} was taken, and cannot be read yet. Try read_source in a moment.")

    def allows(self, host: str) -> bool:
        """Whether its pages are read at once."""
        return bool(host) and toolservers.allowed(self._hosts, host)

    def aims(self, given: FetchPage) -> Mapping[str, str]:
        """The host. Raises `port.Misused` for an address that has none."""
        host = self._host(given.url)
        if not host:
            raise port.Misused(f"{self.name}: {given.url!r} names no host")
        return {"host": host}

    def reach(self, given: FetchPage) -> port.Reach:
        """The host, which gets the address."""
        return port.Reach(permits.tool_name(self.name), targets=(self._host(given.url),), text=given.url, url=given.url)

    def shown(self, given: FetchPage) -> str:
        """The address."""
        return f"Read {given.url}"

    def effect(self, given: FetchPage, place: port.Place) -> ledger_entries.Effect:
        """Not begun. It may be repeated."""
        return _Effect(self, given, place)

    def _host(self, url: str) -> str:
        try:
            return domains.hostname(urlsplit(url).hostname or "")
        except ValueError:
            return ""


class _Effect:
    """The reading of a page that a person or a permit has allowed."""

    repeatable = True

    def __init__(self, tool: Fetch, given: FetchPage, place: port.Place) -> None:
        self._tool, self._given, self._place = tool, given, place

    def intent(self) -> Mapping[str, Any]:
        """The tool and the host."""
        return {"tool": self._tool.name, "targets": list(self._tool.reach(self._given).targets)}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """None is kept of one that was not read to its end."""
        return None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """The text of the page. Raises `kb_client.Unavailable`."""
        result = await self._tool.read(self._given, self._place)
        return {"text": result.text, "failed": result.failed}
