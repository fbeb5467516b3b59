"""Files, images, attachments and web pages over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web

from contracts.rules import routing
from crds import errors as crds_errors
from crds import scope
from kb import api, errors, identity, routes
from kb.content import store as content
from kb.crawl import fetch, frontier
from kb.files import image, reader
from kb.graph import store as graph
from kb.ingest import intake
from kb.rules import enforce, fetching, overrides
from kb.service.http import access, answering, body, buffers, openapi
from kb.vectors import store as vectors
from kb.visual import pages as visual_pages

_METADATA = "metadata."


class Uploads:
    """The routes of a process that writes. `limit` bounds a file in bytes; `kept` holds what comes by reference.

    `graph_store` knows the pages of earlier crawls, of which `crawls` run at once, and with `vector_store` the document
    that a file came with. `pages` are made of what hard rules let a vision model see.
    """

    def __init__(
        self,
        way: intake.Intake,
        reading: reader.Reader,
        fetcher: fetch.Fetcher,
        kept: content.Store,
        *,
        limit: int,
        graph_store: graph.Store | None = None,
        vector_store: vectors.Store | None = None,
        crawls: int = 4,
        rules: enforce.Port | None = None,
        pages: visual_pages.Pages | None = None,
    ) -> None:
        self._pages = pages
        self._rules = rules or enforce.Nothing()
        self._graph, self._vectors = graph_store, vector_store
        self._crawls = buffers.Slots(width=crawls, waiting=2 * crawls, purpose="for a crawl")
        self._intake = way
        self._reader = reading
        self._fetcher = fetcher
        self._content = kept
        self._limit = limit
        self._slots = buffers.Slots()

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.UPLOAD_FILE, self.file),
            (routes.UPLOAD_IMAGE, self.image),
            (routes.UPLOAD_ATTACHMENT, self.attachment),
            (routes.CRAWL, self.crawl),
        ]

    async def file(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/file?clientId=...&filename=..."""
        owner, urgency = body.owner(request), answering.or_background(body.urgency(request))
        async with self._slots.enter(owner.client_id):
            raw = await body.raw(request, self._limit, "Split the file, or raise JERVIS_KB_MAX_FILE_BYTES.")
            kind = "image" if image.looks_like(raw) else "file"
            sight = await self._sight(raw, owner, lambda text: [_facts(request, kind, text)])
            read = await self._reader.either(raw, owner, named=_named(request), urgency=urgency, sight=sight)
            document = _document(request, owner, read)
            kept = await self._kept(document, raw, read) if sight(read.text) else None
            del raw
        return await self._take(request, document, read, kept)

    async def image(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/image?clientId=...&filename=..."""
        owner, urgency = body.owner(request), answering.or_background(body.urgency(request))
        async with self._slots.enter(owner.client_id):
            raw = await body.raw(request, self._limit, "Send the image smaller, or raise JERVIS_KB_MAX_FILE_BYTES.")
            overrides.check_image(await self._rules.in_force(owner), owner, _facts(request, "image"))
            read = await self._reader.image(raw, owner, named=_named(request), urgency=urgency)
            document = _document(request, owner, read)
            kept = await self._kept(document, raw, read)
            del raw
        return await self._take(request, document, read, kept)

    async def attachment(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/attachment"""
        asked = await body.read(request, api.AttachmentDraft)
        reference = asked.content_ref
        if reference.bytes > self._limit:
            raise self._too_large(reference.bytes)
        async with self._slots.enter(asked.scope.client_id):
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
            holder = await self._holder(asked)
            sight = await self._sight(raw, asked.scope, lambda text: [_facts_attached(asked, text), holder])
            sight = sight if asked.looks else reader.never
            read = await self._reader.either(raw, asked.scope, named=asked.name, urgency=urgency, sight=sight)
            document = _attached(asked, read)
            kept = await self._kept(document, raw, read) if sight(read.text) else None
            del raw
        return await self._take(request, document, read, kept)

    async def crawl(self, request: web.Request) -> web.Response:
        """POST /api/v1/crawl"""
        asked = await body.read(request, api.Crawl)
        async with self._crawls.enter(asked.scope.client_id):
            fetcher = await fetching.obeying(self._rules, asked.scope, self._fetcher)
            run = frontier.Crawl(fetcher, frontier.Limits(depth=asked.depth, pages=asked.max_pages))
            pages: list[api.Page] = []
            stopped = ""
            try:
                async for seen in run.pages(asked.url):
                    pages.append(await self._crawled(request, asked, seen))
                # A site that has nothing any more, not even this page, is rather broken than empty.
                if asked.depth and asked.gone == "Remove" and any(one.source_urn for one in pages):
                    async for seen in run.revisited([one async for one in self._known(asked, run.root)]):
                        pages.append(await self._crawled(request, asked, seen))
            except crds_errors.Operational as error:
                if not any(one.source_urn for one in pages):
                    raise
                stopped = error.message
        return answering.json(
            api.CrawlReply(
                pages=pages,
                taken=sum(1 for one in pages if one.source_urn),
                truncated=run.truncated,
                removed=sum(1 for one in pages if one.removed),
                stopped=stopped,
            ),
            202,
        )

    async def _sight(
        self, raw: bytes, owner: scope.Scope, shown: Callable[[str], Sequence[routing.Facts]]
    ) -> reader.Sight:
        """Whether hard rules let a vision model see what is in a file with some text, about which `shown` is known.

        Raises `kb.errors.Invalid` for an image that they do not: nothing would be left of it.
        """
        rules = await self._rules.in_force(owner)
        if image.looks_like(raw):
            overrides.check_image(rules, owner, *shown(""))
        return lambda text: overrides.permits_looks(rules, owner, *shown(text))

    async def _holder(self, asked: api.AttachmentDraft) -> routing.Facts:
        """What is known of the document that a file came with, its text as it is stored."""
        document_id, kind, text = identity.document(asked.scope, asked.attached_to), "", ""
        for one in await self._graph.versions(asked.scope, document_id) if self._graph is not None else ():
            kind = kind or one.document.kind
        if kind and self._vectors is not None:
            text = await vectors.text(self._vectors, asked.scope, document_id)
        return enforce.facts(kind=kind, source=asked.attached_to, title=asked.title, text=text, files=[asked.name])

    async def _crawled(self, request: web.Request, asked: api.Crawl, seen: frontier.Seen) -> api.Page:
        """Take a page, or remove it when it is gone. Raises an `Operational` error."""
        url = seen.url[:1024]
        if seen.gone and asked.gone == "Remove":
            access.concerns(request, identity.document(asked.scope, url))
            return api.Page(url=url, reason=seen.reason, removed=await self._intake.forget(asked.scope, url))
        if seen.reason or seen.page is None:
            return api.Page(url=url, reason=seen.reason)
        if len(seen.url) > 1024:
            return api.Page(url=url, reason="its URL is longer than 1024 characters")
        document = api.IngestRequest(
            scope=asked.scope,
            source_urn=url,
            kind=asked.kind,
            title=seen.page.title or url[:1000],
            content=seen.page.text,
        ).as_marked()
        access.concerns(request, identity.document(document.scope, document.source_urn))
        try:
            reply = await self._intake.take(document, body.urgency(request))
        except crds_errors.Permanent as error:
            return api.Page(url=url, reason=error.message)
        return api.Page(url=url, source_urn=reply.source_urn, chunks=len(reply.chunk_ids))

    async def _known(self, asked: api.Crawl, root: str) -> AsyncIterator[str]:
        """The URLs of the site's pages that earlier crawls have taken."""
        after = ""
        while self._graph is not None:
            found = await self._graph.documents(asked.scope, asked.kind, root, after=after)
            for one in found:
                yield one.source_urn
            if not found:
                return
            after = found[-1].source_urn

    async def _kept(self, document: api.IngestRequest, raw: bytes, read: reader.Read) -> api.ContentRef | None:
        """The file, where its document gets pages."""
        if self._pages is None:
            return None
        if not await self._pages.wanted(document.scope, document.source_urn, read.media_type):
            return None
        return await self._pages.keep(document.scope, document.source_urn, raw, read.media_type)

    async def _take(
        self, request: web.Request, document: api.IngestRequest, read: reader.Read, kept: api.ContentRef | None
    ) -> web.Response:
        access.concerns(request, identity.document(document.scope, document.source_urn))
        reply = await self._intake.take(document, body.urgency(request), read.images)
        drawn = False
        if self._pages is not None and kept is not None and reply.indexed and reply.superseded_by is None:
            named = (document.source_urn, document.title, read.media_type)
            drawn = await self._pages.take(document.scope, *named, kept, reply.chunk_ids)
        self._reader.taken(read)
        said = api.FileReply(
            **reply.model_dump(exclude={"problems"}),
            media_type=read.media_type,
            characters=len(read.text),
            title=document.title,
            size=read.size,
            pages=list(read.pages),
            page_images=drawn,
            problems=[*reply.problems, *read.problems],
        )
        return answering.json(said, 202)

    def _too_large(self, size: int) -> errors.TooLarge:
        return errors.TooLarge(
            f"the file has {size} bytes, at most {self._limit} are read",
            field="contentRef.bytes",
            remedy="Split the file, or raise JERVIS_KB_MAX_FILE_BYTES.",
        )


def _facts(request: web.Request, kind: str, text: str = "") -> routing.Facts:
    about = request.query
    return enforce.facts(
        kind=about.get("kind", "") or kind,
        source=about.get("sourceUrn", ""),
        title=_named(request),
        text=text,
        files=[one for one in [about.get("filename", "")] if one],
    )


def _facts_attached(asked: api.AttachmentDraft, text: str) -> routing.Facts:
    source = api.attachment_urn(asked.attached_to, asked.name)
    named = f"{asked.name} (attached to {asked.title})" if asked.title else asked.name
    return enforce.facts(kind=api.ATTACHMENT, source=source, title=named, text=text, files=[asked.name])


def _named(request: web.Request) -> str:
    return request.query.get("title", "") or request.query.get("filename", "")


def _document(request: web.Request, owner: scope.Scope, read: reader.Read) -> api.IngestRequest:
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
        "metadata": {
            name.removeprefix(_METADATA): _several(request.query.getall(name))
            for name in request.query
            if name.startswith(_METADATA)
        },
    }
    return body.validate(given, api.IngestRequest).as_marked(read.starts)


def _several(given: list[str]) -> str | list[str]:
    """One value as a text, several of one key as a list."""
    return given[0] if len(given) == 1 else given


def _attached(asked: api.AttachmentDraft, read: reader.Read) -> api.IngestRequest:
    """The document of a file that came with another document: titled by both, named after both."""
    title = f"{asked.name} (attached to {asked.title})" if asked.title else asked.name
    return api.IngestRequest(
        scope=asked.scope,
        source_urn=api.attachment_urn(asked.attached_to, asked.name),
        kind=api.ATTACHMENT,
        title=title[:1000],
        content=read.text,
        observed_at=asked.observed_at,
    ).as_marked(read.starts)
