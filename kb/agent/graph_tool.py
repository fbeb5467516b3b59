"""The tool that looks into the graph: relationships around one thing, with their sentences and the pages of these.

What a hard rule keeps back (`never-use-source`, `never-use-kind`) is in no result. The graph knows which chunk a
sentence is of, and the vectors keep where in a chunk the pages of its file begin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic import Field

from crds import errors as root
from crds import scope
from kb import paging
from kb.agent import retrieving
from kb.agent.environment import Error, Result
from kb.agent.tree import Chosen, Given, Status, TreeData
from kb.aliases import registry
from kb.extract import reference
from kb.graph import model
from kb.graph import store as graph
from kb.vectors import model as passage
from kb.vectors import store as vectors

_NODES, _EDGES, _FAN_OUT = 5, 40, 20


class Node(retrieving.Inputs):
    """Inputs of `graph_explore`."""

    node: str = Field(
        min_length=1, max_length=500, description="A key (type:name, as user:jana) or a part of a name (as jana)."
    )
    hops: int = Field(default=1, ge=1, le=2, description="How many relationships away.")


class GraphExploreTool(Chosen):
    """Relationships around one thing, each with the sentence that proves it, and with `page` where that is of a PDF.
    They are given without pages where the vectors, which know them, are away."""

    name = "graph_explore"
    description = (
        "Relationships of one person, issue, file, service or other thing, with the sentences that prove them. Use for "
        "who, what depends on, what belongs to; and for a thing that a search has named."
    )
    inputs = Node
    status = "Walking the graph..."
    source = "graph"

    def __init__(self, store: graph.Store, passages: vectors.Store, aliases: registry.Registry | None = None) -> None:
        self._graph = store
        self._passages = passages
        self._aliases = aliases or registry.Nothing()

    async def is_tool_available(self, tree_data: TreeData) -> bool:
        return tree_data.permits(retrieving.SEARCH, "related")

    async def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        asked, viewer = str(inputs["node"]), tree_data.viewer
        start = await self._start(tree_data, asked)
        walk = await self._graph.traverse(viewer, start, model.Steps(int(inputs.get("hops", 1)), _EDGES, _FAN_OUT))
        proofs = await self._graph.proofs(viewer, walk.edges, each=3) if start else {}
        objects: list[dict[str, Any]] = []
        for edge in walk.edges[:_EDGES] if start else ():
            said = [
                one for one in proofs.get(edge, ()) if tree_data.held.shows(one.document.source_urn, one.document.kind)
            ]
            if said:
                objects.append(_related(edge, said[0]))
        if not objects:
            yield Error(
                f"No relationships of {asked[:200]!r} are known.",
                suggestion="Try another spelling or fast_vector_search.",
            )
            return
        try:
            await self._number(tree_data.viewer, objects)
        except root.Operational as error:
            yield Status(f"The pages of these sentences are not known: {error.message}")
        yield Result(
            objects=objects,
            metadata={"node": asked, "source": self.source, "nodes": start},
            name="relationships",
            payload_type="relationships",
            llm_message="Found {num_objects} relationships around {node}.",
        )

    async def _start(self, tree_data: TreeData, asked: str) -> list[str]:
        """The nodes that are meant: by key and what the key is an alias of, or else the most mentioned of that name."""
        key = reference.normalise(asked, tree_data.viewer) or asked
        resolved = await self._aliases.resolve(tree_data.viewer, {key})
        keys = list(dict.fromkeys([key, asked, *([resolved[key]] if key in resolved else ())]))
        known = await self._graph.nodes(tree_data.viewer, keys=keys, limit=_NODES)
        if not known:
            known = await self._graph.nodes(tree_data.viewer, text=asked, limit=_NODES)
        return [one.key for one in known]

    async def _number(self, viewer: scope.Scope, objects: Sequence[dict[str, Any]]) -> None:
        chunks = await self._passages.chunks(viewer, {one["chunkId"] for one in objects})
        for one in objects:
            chunk = chunks.get(one["chunkId"])
            page = _page(chunk, one["text"]) if chunk is not None else 0
            if page:
                one["page"] = page


def _related(edge: model.Edge, said: model.Statement) -> dict[str, Any]:
    return {
        "chunkId": said.chunk_id,
        "sourceUrn": said.document.source_urn,
        "kind": said.document.kind,
        "title": said.document.title,
        "source": edge.source,
        "type": edge.type,
        "target": edge.target,
        # Beside the words of the passage: they are no part of it that could be quoted.
        "note": f"{edge.source} {edge.type} {edge.target}",
        "text": said.sentence,
    }


def _page(chunk: passage.Chunk, sentence: str) -> int:
    """The page on which a sentence of a chunk stands, 0 where it is none. A sentence ends where its line ends, and a
    line with its page."""
    at = chunk.text.find(sentence)
    within = paging.within(chunk.pages(), at, at + 1) if at >= 0 else ()
    return within[0][1] if within else 0
