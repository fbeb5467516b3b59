"""Files, images and web pages over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from aiohttp import web

from crds import errors as root
from crds import scope
from kb import errors, identity, metrics, wire, writing
from kb.crawl import fetch, frontier
from kb.files import image, inspection, sniff, tika
from kb.http import answering, body, openapi
from kb.ingest import answers, intake

# Bodies held in memory at once, each up to the limit.
_AT_ONCE = 4


class Uploads:
    """The routes of a process that writes; without a `reader` files that need Tika are refused."""

    def __init__(
        self,
        way: intake.Intake,
        reader: tika.Tika | None,
        seeing: answers.Answers,
        fetcher: fetch.Fetcher,
        meters: metrics.Metrics,
        *,
        limit: int,
    ) -> None:
        self._intake = way
        self._tika = reader
        self._seeing = seeing
        self._fetcher = fetcher
        self._meters = meters
        self._limit = limit
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(FILE, self.file), (IMAGE, self.image), (CRAWL, self.crawl)]

    async def file(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/file?clientId=...&filename=..."""
        owner = body.owner(request)
        async with self._slots:
            raw = await body.raw(request, self._limit, "Split the file, or raise JERVIS_KB_MAX_FILE_BYTES.")
            with self._counted("unknown"):
                kind = await asyncio.to_thread(_inspected, raw)
            if kind is sniff.Type.TEXT:
                found = tika.Extracted(raw.decode(), "")
            elif self._tika is None:
                raise errors.Misconfigured(
                    "this knowledge base has no Tika",
                    field="tikaUrl",
                    remedy="Set JERVIS_KB_TIKA_URL, or send the file's text.",
                )
            else:
                with self._counted(kind.value), self._meters.stages.labels("tika").time():
                    found = await self._tika.extract(raw, kind)
            digest = identity.digest_bytes(raw)
            size = len(raw)
            del raw
        if not found.text.strip():
            raise errors.Invalid("the file has no text", field="body", remedy="Send scanned pages as images.")
        document = _document(request, owner, found.text, digest, title=found.title, kind="file")
        reply = await self._intake.take(document, body.urgency(request))
        return self._accepted(reply, kind.value, found.text, document.title, size)

    async def image(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/image?clientId=...&filename=..."""
        owner, urgency = body.owner(request), body.urgency(request)
        async with self._slots:
            raw = await body.raw(request, self._limit, "Send the image smaller, or raise JERVIS_KB_MAX_FILE_BYTES.")
            with self._counted("unknown"):
                media_type = image.check(raw)
            named = request.query.get("title", "") or request.query.get("filename", "")
            with self._counted(media_type), self._meters.stages.labels("vision").time():
                sight = await image.describe(
                    self._seeing, raw, title=named, kind=media_type, urgency=answering.or_background(urgency)
                )
            digest = identity.digest_bytes(raw)
            size = len(raw)
            del raw
        text = image.document(sight)
        document = _document(request, owner, text, digest, title=sight.title, kind="image")
        reply = await self._intake.take(document, urgency)
        return self._accepted(reply, media_type, text, document.title, size)

    async def crawl(self, request: web.Request) -> web.Response:
        """POST /api/v1/crawl"""
        asked = await body.read(request, writing.Crawl)
        run = frontier.Crawl(self._fetcher, frontier.Limits(depth=asked.depth, pages=asked.max_pages))
        pages: list[writing.Page] = []
        async for seen in run.pages(asked.url):
            if seen.reason or seen.page is None:
                pages.append(writing.Page(url=seen.url, reason=seen.reason))
                continue
            if len(seen.url) > 1024:
                pages.append(writing.Page(url=seen.url[:1024], reason="its URL is longer than 1024 characters"))
                continue
            document = wire.IngestRequest(
                scope=asked.scope,
                source_urn=seen.url,
                kind=asked.kind,
                title=seen.page.title or seen.url[:1000],
                content=seen.page.text,
            )
            reply = await self._intake.take(document, body.urgency(request))
            pages.append(writing.Page(url=seen.url, source_urn=reply.source_urn, chunks=len(reply.chunk_ids)))
        taken = sum(1 for one in pages if one.source_urn)
        return answering.json(writing.CrawlReply(pages=pages, taken=taken, truncated=run.truncated), 202)

    @contextlib.contextmanager
    def _counted(self, media_type: str) -> Iterator[None]:
        """Counts what is refused for good; what is merely away is no upload yet."""
        try:
            yield
        except root.Permanent:
            self._meters.uploads.labels(media_type, "refused").inc()
            raise

    def _accepted(self, reply: wire.IndexReply, media_type: str, text: str, title: str, size: int) -> web.Response:
        self._meters.uploads.labels(media_type, "taken").inc()
        said = writing.FileReply(
            **reply.model_dump(), media_type=media_type, characters=len(text), title=title, size=size
        )
        return answering.json(said, 202)


def _inspected(raw: bytes) -> sniff.Type:
    kind = sniff.detect(raw)
    inspection.check(raw, kind, inspection.Limits())
    return kind


def _document(
    request: web.Request, owner: scope.Scope, text: str, digest: str, *, title: str, kind: str
) -> wire.IngestRequest:
    """The document of an upload; without a URN of the caller's it is named by its file name and its hash."""
    filename = " ".join(request.query.get("filename", "").split())[:200]
    given = {
        "scope": owner,
        "sourceUrn": request.query.get("sourceUrn") or f"{kind}::name:{filename or 'unnamed'},sha256:{digest[:16]}",
        "kind": request.query.get("kind") or kind,
        "title": (request.query.get("title") or title or filename)[:1000],
        "content": text,
        "observedAt": answering.moment(request, "observedAt"),
    }
    return body.validate(given, wire.IngestRequest)


_ABOUT = ("filename", "sourceUrn", "kind", "title", "observedAt")
FILE = openapi.Route(
    "POST",
    "/api/v1/ingest/file",
    "Make a file known: PDF, DOCX, PPTX, XLSX, EML, MSG, HTML or text, as the raw body",
    status=202,
    reply=writing.FileReply,
    raw_body=True,
    query=openapi.SCOPE,
    optional=_ABOUT,
)
IMAGE = openapi.Route(
    "POST",
    "/api/v1/ingest/image",
    "Make an image known by what a vision model sees: PNG, JPEG, GIF or WebP, as the raw body",
    status=202,
    reply=writing.FileReply,
    raw_body=True,
    query=openapi.SCOPE,
    optional=_ABOUT,
)
CRAWL = openapi.Route(
    "POST", "/api/v1/crawl", "Make the pages of a site known", status=202, body=writing.Crawl, reply=writing.CrawlReply
)
