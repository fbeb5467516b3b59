"""The collection of pages: a multi-vector, the words of the page, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import structlog
import weaviate
from weaviate.classes.config import Configure, DataType, Property, Reconfigure, Tokenization, VectorDistances
from weaviate.exceptions import WeaviateBaseError

from kb import errors
from kb.vectors import record
from kb.vectors.weaviate import faults

log = structlog.get_logger(__name__)
LAYOUT = 1
"""Part of the collection's name: changes when objects must be made anew."""
VECTOR = "page"
NAMES = ("projectId", "groupId", "documentId", "sourceUrn", "workId", "model")


@dataclass(frozen=True)
class Layout:
    """How Weaviate keeps the multi-vectors; its manual, "Multi-vector embeddings" and "MUVERA encoding".

    `muvera`: one vector of fixed length for each page is searched, and MaxSim orders what it finds. "": every vector of
    every page is in the index. Of a collection that is there it cannot be changed.
    """

    encoding: Literal["", "muvera"] = ""
    ef: int | None = None
    replicas: int | None = None

    @property
    def flat(self) -> int:
        """Up to so many pages that a question may see are compared one by one. With every vector of a page that takes
        45 us a page, and the graph of 10,000 pages answers in the time of 4,500 (`bench.visual engine`); one vector for
        each page leaves it at Weaviate's own default."""
        return 40_000 if self.encoding else 4_000

    @property
    def connections(self) -> int:
        """Of each vector in the graph. Patches are alike: half of Weaviate's default finds the same pages in a fifth
        less time. Of a collection that is there it cannot be changed."""
        return 32 if self.encoding else 16


def _exact(name: str) -> Property:
    return Property(
        name=name,
        data_type=DataType.TEXT,
        tokenization=Tokenization.FIELD,
        index_filterable=True,
        index_searchable=False,
    )


PROPERTIES = [_exact(name) for name in NAMES]
PROPERTIES += [
    Property(name="number", data_type=DataType.INT),
    Property(name="seenOnly", data_type=DataType.BOOL),
    # The terms of `text.words`, as of chunks.
    Property(name="textTerms", data_type=DataType.TEXT, tokenization=Tokenization.WHITESPACE, index_filterable=False),
]


async def ensure(client: weaviate.WeaviateAsyncClient, name: str, layout: Layout, described: str) -> None:
    """Create the collection if it is not there, and give one that is there the cutoff of today, where Weaviate takes
    it: without it the collection answers, too. Raises `kb.errors.Unconfigured` for one with another encoding."""

    async def bounds() -> Any:
        with faults.of_another_program():
            config = await client.collections.use(name).config.get()
            return (config.vector_config or {})[VECTOR].vector_index_config

    if await client.collections.exists(name):
        own = await bounds()
        with faults.of_another_program():
            encoded = "muvera" if own.multi_vector.encoding is not None else ""
        if encoded != layout.encoding:
            raise errors.Unconfigured(
                f"{name} was made with visualEncoding={encoded or 'none'}, which Weaviate cannot change",
                field="visualEncoding",
                remedy=f"Set visualEncoding back to {encoded or 'none'}, or choose another index (JERVIS_KB_INDEX).",
            )
        if own.flat_search_cutoff != layout.flat:
            index = Reconfigure.VectorIndex.hnsw(flat_search_cutoff=layout.flat)
            changed = Reconfigure.Vectors.update(name=VECTOR, vector_index_config=index)
            try:
                await client.collections.use(name).config.update(vector_config=changed)
            except WeaviateBaseError as error:
                # Of two processes that start at once Weaviate refuses one; then the other one has made the change.
                there = (await bounds()).flat_search_cutoff
                if there != layout.flat:
                    log.warning(
                        "Weaviate does not take the cutoff of the flat search; that of before stays",
                        collection=name,
                        there=there,
                        wanted=layout.flat,
                        reason=str(error)[:300],
                    )
        return
    kinds = Configure.VectorIndex
    encoding = kinds.MultiVector.Encoding.muvera() if layout.encoding else None
    try:
        await client.collections.create(
            name,
            description=described,
            properties=PROPERTIES,
            multi_tenancy_config=Configure.multi_tenancy(auto_tenant_creation=True, auto_tenant_activation=True),
            replication_config=None if layout.replicas is None else Configure.replication(factor=layout.replicas),
            vector_config=Configure.MultiVectors.self_provided(
                name=VECTOR,
                encoding=encoding,
                vector_index_config=kinds.hnsw(
                    distance_metric=VectorDistances.COSINE,
                    ef=layout.ef,
                    flat_search_cutoff=layout.flat,
                    max_connections=layout.connections,
                ),
            ),
        )
    except WeaviateBaseError:
        # Another process may have been faster; then it is there.
        if not await client.collections.exists(name):
            raise
    # Every question asks the global tenant too; it is there from the start.
    await client.collections.use(name).tenants.create([record.tenant("")])
