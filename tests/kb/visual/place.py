"""A knowledge base with pages for tests: real files, MongoDB, Weaviate and Tika; `tests.fakes.glyphs` embeds."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pypdfium2

from clients import http as outward
from crds import scope
from kb import api, client, metrics, mongo
from kb.content import mongo as content_mongo
from kb.files import pages as drawing
from kb.files import tika
from kb.service.http import pages as routes
from kb.visual import book, choice, keeper, making, pages, search
from kb.visual.weaviate import store
from router import client as router_client
from tests.clients import servers
from tests.fakes import glyphs
from tests.kb import calls, conftest, memory, world
from tests.kb import clock as clocks
from tests.kb.files import making as files
from tests.kb.service import whole

_LATER = datetime(2100, 1, 1, tzinfo=UTC)


class Late:
    """What is derived of documents, once it is there: pages need the graph of the world that drops them."""

    inner: pages.Pages | None = None

    async def drop(self, owner: scope.Scope, document_id: str) -> int:
        return 0 if self.inner is None else await self.inner.drop(owner, document_id)


@dataclass
class Place:
    """Everything that pages need, and the typed client of a service that has them."""

    kb: world.ObservedState
    client: client.Client
    http: httpx.AsyncClient
    book: book.Book
    index: store.Store
    content: content_mongo.Store
    choices: choice.Mongo
    pages: pages.Pages
    maker: making.Maker
    keeper: keeper.Keeper
    search: search.Search
    glyphs: glyphs.Glyphs
    meters: metrics.Metrics

    async def choose(self, owner: scope.Scope, which: choice.Which = "All") -> None:
        """Let the owner's documents have pages."""
        await calls.choose_pages(self.client, api.PageChoiceDraft(scope=owner, pages=which, by="jana"))

    async def make(self) -> int:
        """Make all pages that wait; of how many documents."""
        count = 0
        while await self.maker.step():
            count += 1
        return count

    async def stored(self, client_id: str = "acme") -> tuple[int, int, int, int]:
        """(works, pages in MongoDB, pages in the index, documents with parts)."""
        works = await self.book.listed(client_id)
        rows = await self.book.page_ids(client_id)
        indexed, _ = await self.index.audit(client_id)
        parts = await self.content.parts(client_id, before=_LATER)
        return len(works), len(rows), len(indexed), len(parts)


@asynccontextmanager
async def opened(
    path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
    index: store.Store,
    *,
    embedding: glyphs.Glyphs | None = None,
    limits: making.Limits = making.Limits(),  # noqa: B008 -- frozen
    limit: int = 500_000,
) -> AsyncIterator[Place]:
    """Vectors of chunks are in memory: these tests are about pages. `limit` of an upload in bytes."""
    kept = content_mongo.Store(database, clock=clock)
    late = Late()
    embedding = embedding or glyphs.Glyphs()
    async with (
        outward.client(tls=servers.TLS) as web,
        world.opened(path, router, clock, meters, memory.Vectors(), kept, derived=late) as kb,
    ):
        records, choices = book.Book(database, clock), choice.Mongo(database, clock)
        drawn = drawing.Limits()
        maker = making.Maker(
            records, index, kept, choices, drawing.Renderer(drawn), embedding, kb.shut, meters, clock, limits
        )
        mine = pages.Pages(records, index, kept, choices, kb.graph, clock, maker.wake)
        late.inner = mine
        keeping = keeper.Keeper(records, index, kept, choices, kb.graph, mine, maker, world.idle, meters, clock, limits)
        finder = search.Search(records, index, kept, kb.graph, kb.vectors, embedding, meters)
        more = [*routes.Searching(finder).routes(), *routes.Choosing(choices, records).routes()]
        parser = tika.Tika(conftest.required("JERVIS_TEST_TIKA_URL"), web)
        async with whole.over(
            kb,
            meters,
            clock,
            parser=parser,
            drawing=drawing.Limits(pages=0),
            more=more,
            seen=mine,
            ingests=True,
            limit=limit,
        ) as (typed, http):
            yield Place(kb, typed, http, records, index, kept, choices, mine, maker, keeping, finder, embedding, meters)


def lines(*said: str, top: int = 720, left: int = 72, size: int = 12) -> str:
    """The content stream of a page with these lines."""
    rows = enumerate(one.replace("(", r"\(").replace(")", r"\)") for one in said)
    return " ".join(f"BT /F1 {size} Tf {left} {top - 20 * row} Td ({one}) Tj ET" for row, one in rows)


def scan(content: str) -> bytes:
    """A PDF with one page that is a picture of `content`, and has no text."""
    return scans(content)


def scans(*contents: str, words: str = "") -> bytes:
    """A PDF of scanned pages, each a grey picture of a content stream at 110 dpi; the last page has `words` as text."""
    drawn = []
    for content in contents:
        bitmap = pypdfium2.PdfDocument(files.pages(content))[0].render(scale=110 / 72, grayscale=True)
        raw = bytes(bitmap.buffer)
        rows = b"".join(raw[at : at + bitmap.width] for at in range(0, bitmap.height * bitmap.stride, bitmap.stride))
        head = f"q 612 0 0 792 0 0 cm BI /W {bitmap.width} /H {bitmap.height} /CS /G /BPC 8 /F [/AHx /Fl] ID "
        drawn.append(head.encode() + zlib.compress(rows).hex().encode() + b"> EI Q")
    return files.pages(*drawn, *([words] if words else []))
