"""A look at all that a client owns, in pages: first what the graph holds, then the vectors' chunks, then sentences.

A cursor (`graph:...`, `chunks:...`, `sentences:...`) says where a look that was cut short goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from crds import scope
from kb import errors
from kb.graph import store as graph
from kb.upkeep import compare
from kb.vectors import store as vectors

_PAGE = 500
_STAGES = ("graph", "chunks", "sentences")

Working = Callable[[Collection[str]], Awaitable[set[str]]]
"""Those of the given documents whose ingest is not finished."""


@dataclass
class Look:
    """What a look found; `seen` are document, chunk and owner of what the graph holds.

    `busy` are the documents, with their owners, that look wrong because they are in work.
    `next` is the cursor of the rest, None when everything was looked at.
    """

    findings: list[compare.Finding] = field(default_factory=list)
    seen: list[tuple[str, str, scope.Scope]] = field(default_factory=list)
    busy: dict[str, scope.Scope] = field(default_factory=dict)
    next: str | None = None


class Checker:
    """Compares the two stores. Raises what they raise."""

    def __init__(self, graph_store: graph.Store, vector_store: vectors.Store, working: Working) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._working = working

    async def working(self, document_ids: Collection[str]) -> set[str]:
        """Those of the documents that are being written, or are to be."""
        return await self._working(document_ids)

    async def look(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 5000,
        document_ids: Collection[str] | None = None,
    ) -> Look:
        """Look at about `limit` rows from `after` on; with `document_ids`, of these documents alone."""
        stage, place = _parse(after)
        found = Look()
        rows = 0
        while stage is not None:
            if rows >= limit:
                found.next = f"{stage}:{place or ''}"
                return found
            size = min(_PAGE, limit - rows)
            count, place = await self._page(stage, client_id, place, size, document_ids, found)
            rows += max(count, 1)
            if place is None:
                stage = _following(stage)
        return found

    async def again(self, client_id: str, findings: Collection[compare.Finding]) -> list[compare.Finding]:
        """What is wrong now with the chunks and sentences that `findings` are about.

        A page is older than what it is compared with; a document that was committed in between looks wrong then.
        """
        if not findings:
            return []
        chunk_ids = {one.chunk_id for one in findings}
        held = await self._graph.held(client_id, chunk_ids)
        copies = await self._vectors.held(client_id, chunk_ids)
        strays = {one.subject: one for one in findings if one.kind == "StraySentence"}
        proven = {line for one in held.values() for line in one.sentence_ids}
        lines = await self._vectors.held_sentences(client_id, proven | strays.keys())
        found = compare.committed(held.values(), copies, lines)
        found += compare.stored(copies.values(), held)
        return found + [one for key, one in strays.items() if key in lines and key not in proven]

    async def _page(
        self,
        stage: str,
        client_id: str,
        place: str | None,
        size: int,
        document_ids: Collection[str] | None,
        found: Look,
    ) -> tuple[int, str | None]:
        if stage == "graph":
            page, following = await self._graph.audit(client_id, after=place, limit=size, document_ids=document_ids)
            copies = await self._vectors.held(client_id, [one.chunk_id for one in page])
            proven = {line for one in page for line in one.sentence_ids}
            lines = await self._vectors.held_sentences(client_id, proven)
            found.findings += await self._settled(client_id, compare.committed(page, copies, lines), found)
            found.seen += [(one.document.id, one.chunk_id, one.owner) for one in page]
            return len(page), following
        if stage == "chunks":
            chunks, following = await self._vectors.audit(client_id, after=place, limit=size, document_ids=document_ids)
            held = await self._graph.held(client_id, [one.chunk_id for one in chunks])
            found.findings += await self._settled(client_id, compare.stored(chunks, held), found)
            return len(chunks), following
        stored, following = await self._vectors.audit_sentences(
            client_id, after=place, limit=size, document_ids=document_ids
        )
        held = await self._graph.held(client_id, {line.chunk_id for line in stored})
        found.findings += await self._settled(client_id, compare.sentences(stored, held), found)
        return len(stored), following

    async def _settled(self, client_id: str, wrong: list[compare.Finding], found: Look) -> list[compare.Finding]:
        """Those that are still so, without the documents in work, which are between two states."""
        kinds = {one.kind for one in wrong}
        still = [one for one in await self.again(client_id, await self._idle(wrong, found)) if one.kind in kinds]
        return await self._idle(still, found)

    async def _idle(self, wrong: list[compare.Finding], found: Look) -> list[compare.Finding]:
        working = await self._working({one.document_id for one in wrong}) if wrong else set()
        found.busy |= {one.document_id: one.owner for one in wrong if one.document_id in working}
        return [one for one in wrong if one.document_id not in working]


def _parse(cursor: str | None) -> tuple[str | None, str | None]:
    stage, _, place = (cursor or "graph:").partition(":")
    # What the place is like is the store's affair: the embedded graph counts, ArangoDB has keys, Weaviate has ids.
    if stage not in _STAGES:
        raise errors.Invalid(
            f"after={cursor!r} is no cursor of this service", field="after", remedy="Give the `next` of an answer."
        )
    return stage, place or None


def _following(stage: str) -> str | None:
    place = _STAGES.index(stage) + 1
    return _STAGES[place] if place < len(_STAGES) else None
