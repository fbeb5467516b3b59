"""Makes pages: draws a file some pages at a time and keeps their images and words, embeds the images, and goes on where
it broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from crds import errors as root
from crds import scope
from kb import api, errors, loops, metrics
from kb.content import store as content
from kb.erasure import closed
from kb.files import image, pages
from kb.visual import book, choice, embedder, index, maxsim, model

log = structlog.get_logger(__name__)
_AT_ONCE = 8
_PROBLEMS = 50
FRESH = timedelta(hours=1)
"""A file is kept before its document is stored, and an upload may take so long."""


@dataclass(frozen=True)
class Limits:
    """`pages` of a document are drawn, the first ones. `chars`: a page with fewer characters has little text of its
    own. `factor`: so many vectors of a page become one in the index. `attempts`: how many processes in a row may end
    over a document. `sign`: seconds between two signs of life."""

    pages: int = 200
    chars: int = 100
    factor: int = 3
    attempts: int = 50
    sign: float = 60.0


class Maker:
    """Call `step` once, or `run` for ever. Without `embedding` pages have no vectors and are found by their words."""

    def __init__(
        self,
        records: book.Book,
        found_by: index.Index,
        kept: content.Store,
        choices: choice.Registry,
        renderer: pages.Renderer,
        embedding: embedder.Port | None,
        shut: closed.Closed,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        limits: Limits = Limits(),
    ) -> None:
        self._book = records
        self._index = found_by
        self._content = kept
        self._choices = choices
        self._renderer = renderer
        self._embedder = embedding
        self._shut = shut
        self._meters = meters
        self._clock = clock
        self._limits = limits
        self._news = asyncio.Event()

    @property
    def name(self) -> str:
        """The model whose vectors pages get; "" for none."""
        return self._embedder.name if self._embedder is not None else ""

    def wake(self) -> None:
        """There is work."""
        self._news.set()

    async def step(self) -> bool:
        """Make the pages of one document, or what is left of them; False when none waits. Raises `kb.errors.Away`."""
        work = await self._book.claim()
        if work is None:
            return False
        owner = work.source.owner
        try:
            if work.attempts > self._limits.attempts:
                raise errors.Invalid(f"it was begun {self._limits.attempts} times and ended its process each time")
            async with self._signs(work):
                await self._make(work)
        except root.Operational as error:
            # An outage says nothing about the document: it never fails for one.
            pause = max(error.retry_after or 0.0, min(5.0 * 2 ** min(work.pauses, 6), 300.0))
            await self._book.later(work, self._clock() + timedelta(seconds=pause), error.message)
            log.warning("pages wait", document=work.source.document_id, reason=error.message)
        except root.Permanent as error:
            if await self._book.fail(work, error.message):
                named = {"document": work.source.document_id, "client": owner.client_id}
                self._meters.page_works.labels("failed").inc()
                log.warning("pages failed", reason=error.message, **named)
        return True

    async def run(self, *, interval: float) -> None:
        """Work as long as there is any, then look every `interval` seconds, until cancelled."""
        while True:
            self._news.clear()
            try:
                while await self.step():
                    continue
            except root.Operational as error:
                log.warning("no pages can be made", reason=error.message)
            except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
                loops.failed("pages", self._meters)
            try:
                async with asyncio.timeout(interval):
                    await self._news.wait()
            except TimeoutError:
                continue

    @asynccontextmanager
    async def _signs(self, work: model.Work) -> AsyncIterator[None]:
        """Give signs of life: drawing and embedding may take longer than a claim holds without one."""

        async def give() -> None:
            while True:
                await asyncio.sleep(self._limits.sign)
                try:
                    await self._book.alive(work)
                except root.Operational:
                    continue

        giving = asyncio.create_task(give())
        try:
            yield
        finally:
            giving.cancel()
            await asyncio.gather(giving, return_exceptions=True)

    async def _make(self, work: model.Work) -> None:
        """Words first: a page is found by them while its vectors wait for a model that is away."""
        problems = list(work.problems)
        if work.file is not None and not await self._draw(work, work.file, problems):
            return
        if await self._embed(work, problems):
            await self._finish(work, problems)

    async def _draw(self, work: model.Work, file: api.ContentRef, problems: list[str]) -> bool:
        """Keep images and words of the pages that were not looked at yet; False when the work is not wanted any
        more."""
        source = work.source
        which = await choice.of(self._choices, source.owner, source.source_urn)
        raw = await self._content.load(source.owner, file.key)
        if source.media_type != "application/pdf":
            _, width, height = image.measured(raw)
            if not await self._store(work, [pages.Laid(1, raw, width, height)], 1, 1, problems):
                return False
        else:
            first, count = work.done + 1, max(work.count, work.done + 1)
            while first <= min(count, self._limits.pages):
                most = min(_AT_ONCE, self._limits.pages - first + 1)
                with self._meters.stages.labels("page_draw").time():
                    part = await self._renderer.lay(raw, first, most)
                if part.late and part.next == first:
                    raise errors.Away("drawing", f"page {first} was not drawn in time")
                if not part.count:
                    raise errors.Invalid("; ".join(part.problems) or "the file has no pages")
                count = part.count
                problems += part.problems
                drawn = [one for one in part.pages if which == "All" or self._seen_only(one)]
                if not await self._store(work, drawn, min(part.next - 1, count), count, problems):
                    return False
                first = part.next
            if count > self._limits.pages:
                problems.append(f"{count - self._limits.pages} pages behind page {self._limits.pages} have none")
        return await self._book.progress(work, file=None, problems=_distinct(problems)) is not None

    async def _store(
        self, work: model.Work, drawn: Sequence[pages.Laid], done: int, count: int, problems: list[str]
    ) -> bool:
        """Keep some pages without vectors; False when the work is not wanted any more."""
        source = work.source
        media_type = "image/png" if source.media_type == "application/pdf" else source.media_type
        with self._shut.entered(source.owner):
            owner = await self._book.alive(work)
            if owner is None:
                return False
            made = []
            for one in drawn:
                kept = await self._content.save(owner, one.image, media_type, part_of=source.document_id)
                place = source.page_id(one.number), source, one.number, kept
                made.append(model.Page(*place, one.width, one.height, one.words, one.figures))
            known = {"count": count, "done": done, "problems": _distinct(problems)}
            if not await self._put(work, owner, made, known):
                return False
        self._meters.page_works.labels("page").inc(len(made))
        return True

    async def _put(
        self, work: model.Work, owner: scope.Scope, made: Sequence[model.Page], known: Mapping[str, object]
    ) -> bool:
        """Write pages to both stores, as the property of whom the document belongs to afterwards; False when the work
        is not wanted any more."""
        while True:
            mine = [replace(one, source=replace(one.source, owner=owner)) for one in made]
            # The index first: what the book has of a model, the index has too.
            await self._index.put([await asyncio.to_thread(self._indexed, one) for one in mine])
            await self._book.put(mine)
            now = await self._book.progress(work, **known)
            if now is None:
                await self._take_back(work.source, made)
                return False
            if now == owner:
                return True
            # Its project has moved into another group meanwhile.
            owner = now
            await self._content.regroup(owner)

    async def _embed(self, work: model.Work, problems: list[str]) -> bool:
        """Give vectors of the present model to the pages that lack them; False when the work is not wanted any more.

        Raises what kept pages from being embedded, when the others are done.
        """
        if self._embedder is None:
            return True
        source, failed = work.source, list[root.Operational]()
        wanted = await self._book.without(source.id, self.name)
        for start in range(0, len(wanted), _AT_ONCE):
            some = await self._book.get(wanted[start : start + _AT_ONCE])
            images = [await self._content.load(source.owner, one.image.key) for one in some]
            with self._meters.stages.labels("page_embed").time():
                vectors = await self._vectors(self._embedder, some, images, problems, failed)
            made = [
                replace(one, model=self.name, vectors=embedded.vectors, grid=embedded.grid)
                for one, embedded in zip(some, vectors, strict=True)
                if embedded is not None
            ]
            if not made:
                continue
            with self._shut.entered(source.owner):
                owner = await self._book.alive(work)
                if owner is None or not await self._put(work, owner, made, {"problems": _distinct(problems)}):
                    return False
        if failed:
            raise failed[0]
        return True

    async def _vectors(
        self,
        embedding: embedder.Port,
        some: Sequence[model.Page],
        images: Sequence[bytes],
        problems: list[str],
        failed: list[root.Operational],
    ) -> list[model.Embedded | None]:
        """One for each image: without vectors for what the model does not take, None where it did not answer.

        One page can break what embeds it: after an error each page is asked for alone. Raises the error where two
        pages of two are not answered.
        """
        if len(images) > 1:
            try:
                return list(await embedding.embed_pages(images))
            except (root.Operational, errors.Invalid) as error:
                log.info("pages are embedded one by one", document=some[0].source.document_id, reason=error.message)
        made: list[model.Embedded | None] = []
        away: list[root.Operational] = []
        for page, picture in zip(some, images, strict=True):
            try:
                made += await embedding.embed_pages([picture])
            except errors.Invalid:
                problems.append(f"page {page.number} is not taken by {embedding.name}")
                made.append(model.Embedded(maxsim.unpack(b"")))
            except root.Operational as error:
                away.append(error)
                made.append(None)
                # The pages are not the cause.
                if len(away) == len(made) == 2:
                    raise
        failed += away
        return made

    async def _finish(self, work: model.Work, problems: Sequence[str]) -> None:
        source = work.source
        with self._shut.entered(source.owner):
            # Those before the end: a newer version may begin right after it.
            before = await self._book.others(source.document_id, source.id)
            if not await self._book.finish(work, self.name, _distinct(problems)):
                return
            await self._index.drop(source.owner, source.document_id, keep=source.id)
            await self._book.drop(source.document_id, works=before)
            await self._tidy(source.document_id)
        self._meters.page_works.labels("done").inc()
        log.info("pages made", document=source.document_id, problems=len(problems))

    async def _take_back(self, source: model.Source, made: Sequence[model.Page]) -> None:
        """A newer version, a deletion or another claim came between."""
        row = await self._book.find(source.document_id)
        if row is not None and row.source.id == source.id:
            # The pages have the same ids, and they are another maker's now.
            return
        ids = [one.id for one in made]
        await self._index.discard(source.owner.client_id, ids)
        await self._book.discard(ids)
        if row is not None:
            await self._tidy(source.document_id)
            return
        keep = await self._book.images(source.document_id)
        await self._content.drop_parts(source.document_id, only={one.image.key for one in made}, keep=keep)

    async def _tidy(self, document_id: str) -> None:
        """Delete parts that no page has, but for new ones: the file of a newer version is kept before its row is."""
        keep = await self._book.images(document_id)
        await self._content.drop_parts(document_id, keep=keep, before=self._clock() - FRESH)

    def _indexed(self, page: model.Page) -> model.Indexed:
        return indexed(page, self._limits, self.name)

    def _seen_only(self, one: pages.Laid) -> bool:
        return one.figures or sum(len(word.text) for word in one.words) < self._limits.chars


def indexed(page: model.Page, limits: Limits, name: str) -> model.Indexed:
    """What the index of model `name` gets of a page; vectors of another model are not among it."""
    text = page.text
    seen_only = page.figures or len(text) < limits.chars
    own = page.vectors if page.model == name else page.vectors[:0]
    return model.Indexed(page.id, page.source, page.number, text, seen_only, maxsim.pool(own, limits.factor))


def _distinct(problems: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(problems))[:_PROBLEMS]
