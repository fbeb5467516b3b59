"""The exploration of the graph whose sentences know the pages that they stand on.

The graph knows which chunk a sentence is of, and the vectors keep where in a chunk the pages of its file begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast

from crds import errors as root
from crds import scope
from kb import paging
from kb.agent import retrieving
from kb.agent.environment import Result
from kb.agent.tree import Given, Status, TreeData
from kb.aliases import registry
from kb.graph import store as graph
from kb.vectors import model
from kb.vectors import store as vectors


class PagedGraphTool(retrieving.GraphExploreTool):
    """`graph_explore`, whose objects of PDFs with text have `page`. Relationships are given without it where the
    vectors are away."""

    def __init__(self, store: graph.Store, passages: vectors.Store, aliases: registry.Registry | None = None) -> None:
        super().__init__(store, aliases)
        self._passages = passages

    async def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        found = cast(AsyncGenerator[Given, None], super().__call__(tree_data, inputs))
        async with contextlib.aclosing(found) as given:
            async for one in given:
                if isinstance(one, Result):
                    try:
                        await self._number(tree_data.viewer, one.objects)
                    except root.Operational as error:
                        yield Status(f"The pages of these sentences are not known: {error.message}")
                yield one

    async def _number(self, viewer: scope.Scope, objects: Sequence[dict[str, Any]]) -> None:
        chunks = await self._passages.chunks(viewer, {one["chunkId"] for one in objects})
        for one in objects:
            chunk = chunks.get(one["chunkId"])
            page = _page(chunk, one["text"]) if chunk is not None else 0
            if page:
                one["page"] = page


def _page(chunk: model.Chunk, sentence: str) -> int:
    """The page on which a sentence of a chunk stands, 0 where it is none. A sentence ends where its line ends, and a
    line with its page."""
    at = chunk.text.find(sentence)
    within = paging.within(chunk.pages(), at, at + 1) if at >= 0 else ()
    return within[0][1] if within else 0
