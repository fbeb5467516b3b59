"""What is known about the user, for the start of every conversation (seed 001 "User Context Auto-Prefetch").

One filtered look at the vector store for all six kinds and one at the graph for what is committed: no embedding, no
model. The seed asks per category; one question in their place saves five round trips.
"""

from __future__ import annotations

from collections.abc import Sequence

from crds import scope
from kb import api, metrics, selection
from kb.graph import store as graph
from kb.vectors import model
from kb.vectors import store as vectors

# Chunks looked at, and characters of the answer: it stands in every prompt.
_CHUNKS = 200
_CHARS = 12_000
_CHOSEN = selection.Selection(kinds=tuple(category.kind for category in api.Category))


class Users:
    """Raises what the stores raise."""

    def __init__(self, nodes: graph.Store, chunks: vectors.Store, meters: metrics.Metrics) -> None:
        self._graph = nodes
        self._vectors = chunks
        self._meters = meters

    async def context(self, viewer: scope.Scope) -> api.UserContext:
        """Everything learned that the viewer may see, newest first within each category."""
        with self._meters.stages.labels("user_context").time():
            found = await self._vectors.newest(viewer, _CHOSEN, limit=_CHUNKS)
            committed = await self._graph.committed(viewer, [chunk.id for chunk in found])
        return assemble([chunk for chunk in found if chunk.id in committed], truncated=len(found) == _CHUNKS)


def assemble(found: Sequence[model.Chunk], *, truncated: bool = False) -> api.UserContext:
    """The answer from chunks, newest first. A fact is whole or left out, and then `truncated`: one that is longer than
    the rest of the characters lets shorter ones in. `truncated`: there are more chunks, so the last fact may lack some.
    """
    documents: dict[str, list[model.Chunk]] = {}
    for chunk in found:
        documents.setdefault(chunk.document_id, []).append(chunk)
    if truncated and len(documents) > 1:
        documents.popitem()
    lines: dict[api.Category, list[str]] = {category: [] for category in api.Category}
    used = 0
    for chunks in documents.values():
        line = f"- **{chunks[0].title}**: {_whole(chunks)}"
        if used + len(line) > _CHARS:
            truncated = True
            continue
        used += len(line)
        lines[api.Category(chunks[0].kind.removeprefix("user_knowledge_"))].append(line)
    sections = [f"### {category.heading}\n" + "\n".join(said) for category, said in lines.items() if said]
    return api.UserContext(
        markdown="\n\n".join(sections),
        categories={category.value: said for category, said in lines.items() if said},
        truncated=truncated,
    )


def _whole(chunks: Sequence[model.Chunk]) -> str:
    """The text of a document's chunks without what neighbours share, on one line."""
    text, end = "", 0
    for chunk in sorted(chunks, key=lambda one: one.ordinal):
        text += (" " if text and chunk.start > end else "") + chunk.text[max(end - chunk.start, 0) :]
        end = max(end, chunk.end)
    return " ".join(text.split())
