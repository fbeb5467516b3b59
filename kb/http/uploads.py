"""Files, images, attachments and web pages over HTTP."""

from __future__ import annotations

import asyncio

from aiohttp import web

from crds import scope
from kb import errors, identity, wire, writing
from kb.content import store as content
from kb.crawl import fetch, frontier
from kb.files import reader
from kb.http import answering, body, openapi
from kb.ingest import intake

# Bodies held in memory at once, each up to the limit.
_AT_ONCE = 4


class Uploads:
    """The routes of a process that writes. `limit` bounds a file in bytes; `kept` holds what comes by reference."""

    def __init__(
        self, way: intake.Intake, reading: reader.Reader, fetcher: fetch.Fetcher, kept: content.Store, *, limit: int
    ) -> None:
        self._intake = way
        self._reader = reading
        self._fetcher = fetcher
        self._content = kept
        self._limit = limit
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(FILE, self.file), (IMAGE, self.image), (ATTACHMENT, self.attachment), (CRAWL, self.crawl)]

    async def file(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/file?clientId=...&filename=..."""
        owner = body.owner(request)
        async with self._slots:
            raw = await body.raw(request, self._limit, "Split the file, or raise JERVIS_KB_MAX_FILE_BYTES.")
            read = await self._reader.file(raw)
            del raw
        return await self._take(request, _document(request, owner, read), read)

    async def image(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/image?clientId=...&filename=..."""
        owner, urgency = body.owner(request), answering.or_background(body.urgency(request))
        async with self._slots:
            raw = await body.raw(request, self._limit, "Send the image smaller, or raise JERVIS_KB_MAX_FILE_BYTES.")
            named = request.query.get("title", "") or request.query.get("filename", "")
            read = await self._reader.image(raw, named=named, urgency=urgency)
            del raw
        return await self._take(request, _document(request, owner, read), read)

    async def attachment(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/attachment"""
        asked = await body.read(request, writing.AttachmentDraft)
        reference = asked.content_ref
        if reference.bytes > self._limit:
            raise self._too_large(reference.bytes)
        async with self._slots:
            raw = await self._content.load(asked.scope, reference.key)
            if len(raw) > self._limit:
                raise self._too_large(len(raw))
            if identity.digest_bytes(raw) != reference.sha256:
                raise errors.Invalid(
                    "the stored content is not what contentRef describes",
                    field="contentRef.sha256",
                    remedy="Store the file again and use the contentRef of that answer.",
                )
            urgency = answering.or_background(body.urgency(request))
            read = await self._reader.either(raw, named=asked.name, urgency=urgency)
            del raw
        return await self._take(request, _attached(asked, read), read)

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

    async def _take(self, request: web.Request, document: wire.IngestRequest, read: reader.Read) -> web.Response:
        reply = await self._intake.take(document, body.urgency(request))
        self._reader.taken(read)
        said = writing.FileReply(
            **reply.model_dump(),
            media_type=read.media_type,
            characters=len(read.text),
            title=document.title,
            size=read.size,
        )
        return answering.json(said, 202)

    def _too_large(self, size: int) -> errors.TooLarge:
        return errors.TooLarge(
            f"the file has {size} bytes, at most {self._limit} are read",
            field="contentRef.bytes",
            remedy="Split the file, or raise JERVIS_KB_MAX_FILE_BYTES.",
        )


def _document(request: web.Request, owner: scope.Scope, read: reader.Read) -> wire.IngestRequest:
    """The document of an upload; without a URN of the caller's it is named by its file name and its hash."""
    filename = " ".join(request.query.get("filename", "").split())[:200]
    own = f"{read.kind}::name:{filename or 'unnamed'},sha256:{read.digest[:16]}"
    given = {
        "scope": owner,
        "sourceUrn": request.query.get("sourceUrn") or own,
        "kind": request.query.get("kind") or read.kind,
        "title": (request.query.get("title") or read.title or filename)[:1000],
        "content": read.text,
        "observedAt": answering.moment(request, "observedAt"),
    }
    return body.validate(given, wire.IngestRequest)


def _attached(asked: writing.AttachmentDraft, read: reader.Read) -> wire.IngestRequest:
    """The document of a file that came with another document: titled by both, named after both."""
    title = f"{asked.name} (attached to {asked.title})" if asked.title else asked.name
    return wire.IngestRequest(
        scope=asked.scope,
        source_urn=writing.attachment_urn(asked.attached_to, asked.name),
        kind=writing.ATTACHMENT,
        title=title[:1000],
        content=read.text,
        observed_at=asked.observed_at,
    )


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
ATTACHMENT = openapi.Route(
    "POST",
    "/api/v1/ingest/attachment",
    "Make a stored file known that came with a document",
    status=202,
    body=writing.AttachmentDraft,
    reply=writing.FileReply,
)
CRAWL = openapi.Route(
    "POST", "/api/v1/crawl", "Make the pages of a site known", status=202, body=writing.Crawl, reply=writing.CrawlReply
)
