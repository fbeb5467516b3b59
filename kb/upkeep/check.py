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


async def nobody(document_ids: Collection[str]) -> set[str]:
    """For a process that does not write and cannot know: everything is taken for finished."""
    return set()


@dataclass
class Look:
    """What a look found; `seen` are document, chunk and owner of what the graph holds.

    `next` is the cursor of the rest, None when everything was looked at.
    """

    findings: list[compare.Finding] = field(default_factory=list)
    seen: list[tuple[str, str, scope.Scope]] = field(default_factory=list)
    next: str | None = None


class Checker:
    """Compares the two stores. Raises what they raise."""

    def __init__(self, graph_store: graph.Store, vector_store: vectors.Store, working: Working) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._working = working

    async def look(self, client_id: str, *, after: str | None = None, limit: int = 5000) -> Look:
        """Look at about `limit` rows from `after` on."""
        stage, place = _parse(after)
        found = Look()
        rows = 0
        while stage is not None:
            if rows >= limit:
                found.next = f"{stage}:{place or ''}"
                return found
            size = min(_PAGE, limit - rows)
            count, place = await self._page(stage, client_id, place, size, found)
            rows += max(count, 1)
            if place is None:
                stage = _following(stage)
        return found

    async def _page(
        self, stage: str, client_id: str, place: str | None, size: int, found: Look
    ) -> tuple[int, str | None]:
        if stage == "graph":
            page, following = await self._graph.audit(client_id, after=place, limit=size)
            copies = await self._vectors.held(client_id, [one.chunk_id for one in page])
            wrong = compare.committed(page, copies)
            # A document that is being replaced right now is between two states.
            working = await self._working({one.document_id for one in wrong})
            found.findings += [one for one in wrong if one.document_id not in working]
            found.seen += [(one.document.id, one.chunk_id, one.owner) for one in page]
            return len(page), following
        if stage == "chunks":
            chunks, following = await self._vectors.audit(client_id, after=place, limit=size)
            held = await self._graph.held(client_id, [one.chunk_id for one in chunks])
            missing = {one.document_id for one in chunks if one.chunk_id not in held}
            found.findings += compare.stored(chunks, held, await self._working(missing))
            return len(chunks), following
        lines, following = await self._vectors.audit_sentences(client_id, after=place, limit=size)
        held = await self._graph.held(client_id, {line.chunk_id for line in lines})
        working = await self._working({line.document_id for line in lines})
        found.findings += compare.sentences(lines, held, working)
        return len(lines), following


def _parse(cursor: str | None) -> tuple[str | None, str | None]:
    stage, _, place = (cursor or "graph:").partition(":")
    if stage not in _STAGES or (stage == "graph" and place and not place.removeprefix("-").isdigit()):
        raise errors.Invalid(
            f"after={cursor!r} is no cursor of this service", field="after", remedy="Give the `next` of an answer."
        )
    return stage, place or None


def _following(stage: str) -> str | None:
    place = _STAGES.index(stage) + 1
    return _STAGES[place] if place < len(_STAGES) else None
