"""Makes pages: draws a file some pages at a time, keeps their images, embeds and stores them, and goes on where it
broke off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from crds import errors as root
from kb import api, errors, loops, metrics
from kb.content import store as content
from kb.erasure import closed
from kb.files import image, pages
from kb.visual import book, choice, embedder, index, maxsim, model

log = structlog.get_logger(__name__)
_AT_ONCE = 8
_PROBLEMS = 50


@dataclass(frozen=True)
class Limits:
    """`pages` of a document are drawn, the first ones. `chars`: a page with fewer characters has little text of its
    own. `factor`: so many vectors of a page become one in the index. `attempts`: how often a document is tried."""

    pages: int = 200
    chars: int = 100
    factor: int = 3
    attempts: int = 50


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
                raise errors.Invalid(f"it was tried {self._limits.attempts} times: {'; '.join(work.problems)}")
            if work.file is None:
                await self._embed_again(work)
            else:
                await self._make(work)
        except root.Operational as error:
            pause = error.retry_after or min(5.0 * 2 ** min(work.attempts, 6), 300.0)
            await self._book.later(work, self._clock() + timedelta(seconds=pause), error.message)
            log.warning("pages wait", document=work.source.document_id, reason=error.message)
        except root.Permanent as error:
            await self._book.fail(work, error.message)
            await self._content.drop_parts(
                work.source.document_id, keep=await self._book.images(work.source.document_id)
            )
            self._meters.page_works.labels("failed").inc()
            log.warning("pages failed", document=work.source.document_id, client=owner.client_id, reason=error.message)
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

    async def _make(self, work: model.Work) -> None:
        assert work.file is not None
        source = work.source
        which = await choice.of(self._choices, source.owner, source.source_urn)
        raw = await self._content.load(source.owner, work.file.key)
        problems: list[str] = list(work.problems) if work.done else []
        if source.media_type != "application/pdf":
            _, width, height = image.measured(raw)
            only = pages.Laid(1, raw, width, height)
            if not await self._store(work, [only], 1, 1, problems):
                return
        else:
            first, count = work.done + 1, max(work.count, work.done + 1)
            while first <= min(count, self._limits.pages):
                most = min(_AT_ONCE, self._limits.pages - first + 1)
                with self._meters.stages.labels("page_draw").time():
                    part = await self._renderer.lay(raw, first, most)
                if not part.count:
                    raise errors.Invalid("; ".join(part.problems) or "the file has no pages")
                count = part.count
                problems += part.problems
                drawn = [one for one in part.pages if which == "All" or self._seen_only(one)]
                done = min(first + most - 1, count)
                if not await self._store(work, drawn, done, count, problems):
                    return
                first = done + 1
            if count > self._limits.pages:
                problems.append(f"{count - self._limits.pages} pages behind page {self._limits.pages} have none")
        await self._finish(work, problems)

    async def _store(
        self, work: model.Work, drawn: Sequence[pages.Laid], done: int, count: int, problems: list[str]
    ) -> bool:
        """Embed and keep some pages; False when the work is not wanted any more, and nothing of them is left."""
        source = work.source
        vectors = await self._embed([one.image for one in drawn], [one.number for one in drawn], problems)
        media_type = "image/png" if source.media_type == "application/pdf" else source.media_type
        with self._shut.entered(source.owner):
            if not await self._book.alive(work):
                return False
            made = []
            for one, embedded in zip(drawn, vectors, strict=True):
                save = self._content.save(source.owner, one.image, media_type, part_of=source.document_id)
                made.append(self._page(source, one, await save, embedded))
            await self._book.put(made)
            await self._index.put([await asyncio.to_thread(self._indexed, one) for one in made])
            if not await self._book.alive(work, count=count, done=done):
                await self._take_back(source, made)
                return False
        self._meters.page_works.labels("page").inc(len(made))
        return True

    async def _embed_again(self, work: model.Work) -> None:
        """From the images that are kept: another model has come."""
        source = work.source
        problems: list[str] = []
        known = await self._book.of_work(source.id)
        for start in range(0, len(known), _AT_ONCE):
            some = known[start : start + _AT_ONCE]
            images = [await self._content.load(source.owner, one.image.key) for one in some]
            vectors = await self._embed(images, [one.number for one in some], problems)
            with self._shut.entered(source.owner):
                if not await self._book.alive(work):
                    return
                made = [
                    replace(one, model=self.name, vectors=embedded.vectors, grid=embedded.grid)
                    for one, embedded in zip(some, vectors, strict=True)
                ]
                await self._book.put(made)
                await self._index.put([await asyncio.to_thread(self._indexed, one) for one in made])
                if not await self._book.alive(work):
                    await self._take_back(source, made)
                    return
        await self._finish(work, problems)

    async def _embed(
        self, images: Sequence[bytes], numbers: Sequence[int], problems: list[str]
    ) -> list[model.Embedded]:
        """One for each image; one without vectors for what the model does not take."""
        nothing = maxsim.unpack(b"")
        if self._embedder is None or not images:
            return [model.Embedded(nothing) for _ in images]
        with self._meters.stages.labels("page_embed").time():
            try:
                return await self._embedder.embed_pages(images)
            except errors.Invalid:
                if len(images) > 1:
                    each = [await self._embed([one], [at], problems) for one, at in zip(images, numbers, strict=True)]
                    return [made for some in each for made in some]
                problems.append(f"page {numbers[0]} is not taken by {self._embedder.name}")
                return [model.Embedded(nothing)]

    async def _finish(self, work: model.Work, problems: Sequence[str]) -> None:
        source = work.source
        with self._shut.entered(source.owner):
            if not await self._book.finish(work, self.name, list(dict.fromkeys(problems))[:_PROBLEMS]):
                return
            # What the version before had.
            await self._index.drop(source.owner, source.document_id, keep=source.id)
            await self._book.drop(source.document_id, keep=source.id)
            await self._content.drop_parts(source.document_id, keep=await self._book.images(source.document_id))
        self._meters.page_works.labels("done").inc()
        log.info("pages made", document=source.document_id, problems=len(problems))

    async def _take_back(self, source: model.Source, made: Sequence[model.Page]) -> None:
        """A newer version, or a deletion, came between: these pages are of no document any more."""
        ids = [one.id for one in made]
        await self._index.discard(source.owner.client_id, ids)
        await self._book.discard(ids)
        await self._content.drop_parts(source.document_id, keep=await self._book.images(source.document_id))

    def _page(
        self, source: model.Source, one: pages.Laid, reference: api.ContentRef, embedded: model.Embedded
    ) -> model.Page:
        return model.Page(
            source.page_id(one.number),
            source,
            one.number,
            reference,
            one.width,
            one.height,
            one.words,
            one.figures,
            self.name,
            embedded.vectors,
            embedded.grid,
        )

    def _indexed(self, page: model.Page) -> model.Indexed:
        return indexed(page, self._limits)

    def _seen_only(self, one: pages.Laid) -> bool:
        return one.figures or sum(len(word.text) for word in one.words) < self._limits.chars


def indexed(page: model.Page, limits: Limits) -> model.Indexed:
    """What the index gets of a page."""
    text = page.text
    seen_only = page.figures or len(text) < limits.chars
    return model.Indexed(page.id, page.source, page.number, text, seen_only, maxsim.pool(page.vectors, limits.factor))
