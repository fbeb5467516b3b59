"""The search for pages: words first, images where words do not tell, and the evidence on what is found.

    words (BM25) -> shown? -> enough of the question? -> candidates by the index -> exact MaxSim -> shown? -> evidence

A hit of the index is shown where the graph has, in the present and for this viewer, the version of the document that
the page was drawn from. Candidates are ordered by MaxSim over all of their vectors, as they are kept beside the index,
within a budget of bytes for each question; what is beyond keeps the order of the index.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from crds import errors as root
from crds import scope
from kb import api, errors, metrics, paging, visibility
from kb.content import store as content
from kb.graph import store as graph
from kb.retrieve import sufficiency
from kb.vectors import model as passage
from kb.vectors import store as vectors
from kb.visual import book, embedder, evidence, index, maxsim, model, picture

_RRF = 60
_PATCHES = 5
_CHECKED_AT_ONCE = 8
# How much more candidates are asked for, and how often, where most of them are not shown to the viewer.
_MORE, _ROUNDS = 4, 3


@dataclass(frozen=True)
class Bounds:
    """`candidates` of the index for each way, up to 16 times as many where few of them are shown; `budget` bytes of
    vectors are read to order them; `enough`: the share of a question's words on a page from which images of pages with
    text of their own are not looked at. `vectors` of a question at most: the index searches once for each."""

    candidates: int = 50
    budget: int = 16 << 20
    enough: float = 0.5
    vectors: int = 128


Permits = Callable[[str, str], bool]
"""Whether documents with this source URN and of this kind may be shown."""


def permits_all(source_urn: str, kind: str) -> bool:
    """Nothing is kept back."""
    return True


@dataclass(frozen=True)
class Opened:
    """A page that its viewer sees now, with the kind of its document."""

    page: model.Page
    kind: str


@dataclass
class _Found:
    """What is known of a page so far."""

    page: model.Page
    words: float | None = None
    similarity: float | None = None
    vectors: model.Array | None = None
    rank: float = 0.0
    ways: set[str] = field(default_factory=set)


class Search:
    """Without `embedding` pages are found by their words alone."""

    def __init__(
        self,
        records: book.Book,
        found_by: index.Index,
        kept: content.Store,
        graph_store: graph.Store,
        passages: vectors.Store,
        embedding: embedder.Port | None,
        meters: metrics.Metrics,
        bounds: Bounds = Bounds(),
    ) -> None:
        self._book = records
        self._index = found_by
        self._content = kept
        self._graph = graph_store
        self._passages = passages
        self._embedder = embedding
        self._name = embedding.name if embedding is not None else ""
        self._meters = meters
        self._bounds = bounds

    async def find(self, question: api.PageSearch, permits: Permits = permits_all) -> api.PageReply:
        """The best pages that the scope shows and `permits` lets through. Raises `kb.errors.Away`, or `Misconfigured`
        where images are asked for and no model is there."""
        viewer, wanted = question.scope, question.top_k
        if question.ways == "Images" and self._embedder is None:
            raise errors.Misconfigured(
                "this knowledge base has no model for images of pages",
                field="visualModel",
                remedy="Set JERVIS_KB_VISUAL_URL and JERVIS_KB_VISUAL_MODEL, or ask for words.",
            )
        said, looked = list[str](), "None"
        found: dict[str, _Found] = {}
        asked: model.Query | None = None
        if question.ways != "Images":
            await self._by_words(question, found, permits)
        if question.ways != "Words" and self._embedder is not None:
            told = any((one.words or 0) >= self._bounds.enough for one in found.values())
            try:
                with self._meters.stages.labels("page_query").time():
                    whole = await self._embedder.embed_query(question.query)
                    asked = await asyncio.to_thread(embedder.bounded, whole, self._bounds.vectors)
                seen_only = told and question.ways == "Auto"
                await self._by_vectors(question, asked, found, permits, seen_only=seen_only)
                looked = "Seen" if seen_only else "All"
            except (root.Operational, errors.Invalid) as error:
                # What words have found stands, whatever the model or its index makes of the question.
                if question.ways == "Images" or not any("Words" in one.ways for one in found.values()):
                    raise
                said.append(f"images of pages were not looked at: {error.message}")
        best = sorted(found.values(), key=lambda one: (-one.rank, one.page.source.source_urn, one.page.number))[:wanted]
        way = "none" if not best else "both" if len(best[0].ways) == 2 else next(iter(best[0].ways)).lower()
        self._meters.page_questions.labels({"images": "vectors"}.get(way, way)).inc()
        hits = await asyncio.gather(*(self._hit(one, question, asked, viewer) for one in best))
        return api.PageReply.model_validate(
            {"pages": list(hits), "model": self._name, "looked_at_images": looked, "problems": said}
        )

    async def any(self, viewer: scope.Scope) -> bool:
        """Whether there are pages where the viewer sees: one look at an index, and none at access labels."""
        return await self._book.any(viewer)

    async def opened(self, viewer: scope.Scope, page_id: str) -> Opened:
        """A page that may have gone since it was found. Raises `kb.errors.NotFound` where the viewer does not see it
        now."""
        page = (await self._book.pages(viewer, [page_id])).get(page_id)
        if page is not None:
            work = (await self._book.works([page.source.document_id])).get(page.source.document_id)
            kind = await self._kind_shown(viewer, work)
            if work is not None and kind is not None and work.source.id == page.source.id:
                return Opened(page, kind)
        raise errors.NotFound(
            "there is no such page in this scope", field="pageId", remedy="Search again (POST /api/v1/search/pages)."
        )

    async def texts(self, viewer: scope.Scope, page_ids: Collection[str]) -> dict[str, str]:
        """The whole own texts of pages that were found; "" of a scan."""
        return {one: page.text for one, page in (await self._book.pages(viewer, page_ids)).items()}

    async def image(self, viewer: scope.Scope, page_id: str, place: evidence.Rectangle | None = None) -> bytes:
        """The image of a page, or of a place on it where it was drawn here. Raises `kb.errors.NotFound`."""
        found = await self.opened(viewer, page_id)
        body = await self._content.load(viewer, found.page.image.key)
        return (await asyncio.to_thread(picture.cut, body, place) or body) if place is not None else body

    async def visible(self, viewer: scope.Scope, page_ids: Collection[str]) -> set[str]:
        """Those of the pages that the viewer sees now."""
        stored = await self._book.stored(page_ids)
        pages = [one for one in stored.values() if visibility.sees(viewer, one.owner)]
        works = await self._book.works({one.document_id for one in pages})
        present = {
            document_id: work.source.id
            for document_id, work in works.items()
            if await self._kind_shown(viewer, work) is not None
        }
        return {one.page_id for one in pages if present.get(one.document_id) == one.work_id}

    async def locate(
        self, viewer: scope.Scope, cited: Sequence[api.Citation], known: Mapping[str, Mapping[str, paging.Starts]]
    ) -> list[api.Citation]:
        """The citations; those of passages whose page is kept with `pageId`, `image`, and where the quotations stand on
        it. `known`: by chunk the texts of it that were found, with where in them pages began. Pages that the viewer
        does not see now are left out, and those of passages that have gone since, or stand elsewhere in a newer version
        of their document. Raises `kb.errors.Away`."""
        wanted = {one.chunk_id: one for one in cited if one.chunk_id and one.page and not one.page_id}
        chunks = await self._passages.chunks(viewer, wanted.keys()) if wanted else {}
        documents = {one.id: one.document_id for one in chunks.values() if _stands(one, known.get(one.id, {}))}
        works = {
            document_id: work
            for document_id, work in (await self._book.works(set(documents.values()))).items()
            if await self._kind_shown(viewer, work) is not None
        }
        ids = {
            chunk_id: works[document_id].source.page_id(wanted[chunk_id].page or 0)
            for chunk_id, document_id in documents.items()
            if document_id in works
        }
        pages = await self._book.pages(viewer, ids.values()) if ids else {}
        found = {chunk_id: pages[page_id] for chunk_id, page_id in ids.items() if page_id in pages}
        return [
            await asyncio.to_thread(_located, one, found[one.chunk_id]) if one.chunk_id in found else one
            for one in cited
        ]

    async def _by_words(self, question: api.PageSearch, found: dict[str, _Found], permits: Permits) -> None:
        with self._meters.stages.labels("page_words").time():
            viewer, limit, known = question.scope, self._bounds.candidates, dict[str, str]()
            for _ in range(_ROUNDS):
                hits = await self._index.by_words(viewer, question.query, limit=limit, sources=question.sources)
                shown = await self._shown(viewer, hits, 2 * question.top_k, known, permits)
                if len(shown) >= 2 * question.top_k or len(hits) < limit:
                    break
                limit *= _MORE
            pages = await self._book.pages(viewer, [one.page_id for one in shown])
            judged = [
                (sufficiency.coverage(question.query, [pages[one.page_id].text]), one)
                for one in shown
                if one.page_id in pages
            ]
            # A page with a rare word of the question may be the best by BM25 and lack all others.
            ranked = sorted(judged, key=lambda one: (-one[0], -one[1].score))
            for place, (share, hit) in enumerate(ranked):
                one = found.setdefault(hit.page_id, _Found(pages[hit.page_id]))
                one.words = share
                one.ways.add("Words")
                one.rank += by_words(place, share, self._bounds.enough)

    async def _by_vectors(
        self,
        question: api.PageSearch,
        asked: model.Query,
        found: dict[str, _Found],
        permits: Permits,
        *,
        seen_only: bool,
    ) -> None:
        viewer, limit, known = question.scope, self._bounds.candidates, dict[str, str]()
        for _ in range(_ROUNDS):
            with self._meters.stages.labels("page_vectors").time():
                hits = await self._index.by_vectors(
                    viewer, asked.vectors, limit=limit, seen_only=seen_only, sources=question.sources
                )
            with self._meters.stages.labels("page_rescore").time():
                # Of what is known to be hidden no vectors are read again.
                maybe = [hit for hit in hits if known.get(hit.document_id) != ""]
                scores, vectors = await self.exact(viewer, asked.vectors, maybe)
                ordered = sorted(maybe, key=lambda hit: (-scores.get(hit.page_id, hit.score), hit.page_id))
                shown = await self._shown(viewer, ordered, 2 * question.top_k, known, permits)
            if len(shown) >= 2 * question.top_k or len(hits) < limit:
                break
            limit *= _MORE
        with self._meters.stages.labels("page_rescore").time():
            pages = await self._book.pages(viewer, [one.page_id for one in shown])
        for place, hit in enumerate(hit for hit in shown if hit.page_id in pages):
            one = found.setdefault(hit.page_id, _Found(pages[hit.page_id]))
            one.similarity = scores.get(hit.page_id, hit.score) / len(asked.vectors)
            one.vectors = vectors.get(hit.page_id)
            one.ways.add("Images")
            one.rank += by_image(place)

    async def exact(
        self, viewer: scope.Scope, asked: model.Array, hits: Sequence[model.Hit]
    ) -> tuple[dict[str, float], dict[str, model.Array]]:
        """MaxSim over all vectors of those candidates that the budget lets in, the best by the index first; and these
        vectors."""
        ids = [hit.page_id for hit in hits]
        vectors = await self._book.vectors(viewer, ids, self._name, budget=self._bounds.budget)
        # A server may have another model behind the same name.
        fitting = {page_id: own for page_id, own in vectors.items() if own.shape[1] == asked.shape[1]}

        def score() -> dict[str, float]:
            return {page_id: maxsim.score(asked, own) for page_id, own in fitting.items()}

        return await asyncio.to_thread(score), fitting

    async def _shown(
        self, viewer: scope.Scope, hits: Sequence[model.Hit], most: int, known: dict[str, str], permits: Permits
    ) -> list[model.Hit]:
        """The first `most` of them that the graph shows to the viewer. `known`: the work of each document that was
        looked at, "" for one that is not shown."""
        shown: list[model.Hit] = []
        for start in range(0, len(hits), _CHECKED_AT_ONCE):
            some = hits[start : start + _CHECKED_AT_ONCE]
            new = sorted({one.document_id for one in some} - known.keys())
            works = await self._book.works(new)
            checked = await asyncio.gather(*(self._work_shown(viewer, works.get(one), permits) for one in new))
            known |= dict(zip(new, checked, strict=True))
            pages = await self._book.page_works([one.page_id for one in some])
            shown += [
                one for one in some if known[one.document_id] and pages.get(one.page_id) == known[one.document_id]
            ]
            if len(shown) >= most:
                break
        return shown[:most]

    async def _work_shown(self, viewer: scope.Scope, work: model.Work | None, permits: Permits) -> str:
        """The work's id where the viewer sees the version that it was made of, else ""."""
        kind = await self._kind_shown(viewer, work)
        return "" if work is None or kind is None or not permits(work.source.source_urn, kind) else work.source.id

    async def _kind_shown(self, viewer: scope.Scope, work: model.Work | None) -> str | None:
        """The kind of the document where the viewer sees the version that the work was made of, else None."""
        if work is None or not visibility.sees(viewer, work.source.owner):
            return None
        versions = await self._graph.versions(work.source.owner, work.source.document_id)
        present = next((one for one in versions if one.document.until_ms is None), None)
        if present is None or present.revision != work.source.revision:
            return None
        return present.document.kind if visibility.shows(viewer, present.labels) else None

    async def _hit(
        self, found: _Found, question: api.PageSearch, asked: model.Query | None, viewer: scope.Scope
    ) -> api.PageHit:
        page = found.page
        rectangles = await asyncio.to_thread(evidence.matching, page.words, question.query)
        patches: list[list[tuple[int, int, float]]] = []
        if asked is not None and page.grid is not None:
            vectors = found.vectors
            if vectors is None:
                vectors = (await self._book.vectors(viewer, [page.id], self._name, budget=1)).get(page.id)
            if vectors is not None and vectors.shape[1] == asked.vectors.shape[1]:
                patches = await asyncio.to_thread(maxsim.patches, asked.vectors, vectors, page.grid, _PATCHES)
        places = rectangles
        if not places and page.grid is not None:
            places = evidence.of_patches(page.grid, patches)
        where = evidence.region(places)
        crop = None
        if question.crop and where is not None:
            try:
                body = await self._content.load(viewer, page.image.key)
                cut = await asyncio.to_thread(picture.cut, body, where)
            except errors.NotFound:
                cut = b""
            crop = api.Crop(place=_place(where), image=base64.b64encode(cut).decode())
        return api.PageHit(
            page_id=page.id,
            page_number=page.number,
            document_id=page.source.document_id,
            source_urn=page.source.source_urn,
            title=page.source.title,
            scope=page.source.owner,
            score=round(found.rank * _RRF, 6),
            found_by="Both" if len(found.ways) == 2 else "Words" if "Words" in found.ways else "Images",
            words=found.words,
            similarity=None if found.similarity is None else round(found.similarity, 6),
            image=page.image,
            width=page.width,
            height=page.height,
            text=evidence.excerpt(page.words, where) if where is not None else page.text[:1000],
            rectangles=[_place(one) for one in rectangles],
            patches=_map(page.grid, patches, asked),
            place=None if where is None else _place(where),
            crop=crop,
        )


def by_words(place: int, share: float, enough: float) -> float:
    """What a page adds to its rank as the `place`-th by words (from 0), which has this share of the question's words.

    What words tell is as good as any image, and comes before the image of the same place.
    """
    return (1.0 if share >= enough else share) / (_RRF + place)


def by_image(place: int) -> float:
    """The same as the `place`-th by images."""
    return 1 / (_RRF + place + 0.5)


def _stands(chunk: passage.Chunk, known: Mapping[str, paging.Starts]) -> bool:
    """Whether texts of a chunk that were found before stand on the same pages now."""
    pages, places = chunk.pages(), {text: chunk.text.find(text) for text in known}
    return all(at >= 0 and paging.within(pages, at, at + len(text)) == known[text] for text, at in places.items())


def _located(cited: api.Citation, page: model.Page) -> api.Citation:
    places = [place for quote in cited.quotes for place in evidence.quoted(page.words, quote)]
    where = evidence.region(places)
    look = {
        "page_id": page.id,
        "image": page.image,
        "rectangles": [_place(one) for one in places],
        "place": None if where is None else _place(where),
    }
    return cited.model_copy(update=look)


def _place(of: evidence.Rectangle) -> api.Rectangle:
    left, top, right, bottom = (side / evidence.UNIT for side in (of.left, of.top, of.right, of.bottom))
    return api.Rectangle(left=left, top=top, right=right, bottom=bottom, text=of.text)


def _map(
    grid: model.Grid | None, patches: Sequence[Sequence[tuple[int, int, float]]], asked: model.Query | None
) -> api.PatchMap | None:
    if grid is None or not patches or asked is None:
        return None
    named = asked.tokens if len(asked.tokens) == len(patches) else [""] * len(patches)
    tokens = [
        api.TokenPatches(
            index=at,
            token=token,
            patches=[api.PatchMatch(row=row, column=column, score=round(score, 4)) for row, column, score in own],
        )
        for at, (token, own) in enumerate(zip(named, patches, strict=True))
    ]
    return api.PatchMap(rows=grid.rows, columns=grid.columns, tokens=tokens)
