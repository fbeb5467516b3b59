"""Searches that want ids and scores alone, put into Weaviate's own messages and read from them.

A question with two hops reads a thousand ids. The driver makes an object of seven fields of each and a UUID of every id
that is asked for, which was a third of what the question cost; its connection (authorisation, retries, errors) is used
all the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from weaviate.collections.classes.filters import FilterReturn
from weaviate.collections.filters import _FilterToGRPC
from weaviate.proto.v1 import base_pb2, base_search_pb2, search_get_pb2


class Row(NamedTuple):
    """An object that was found. `score`: cosine, or BM25."""

    uuid: str
    score: float


Search = dict[str, Any]
"""The field of the request that says what is searched, and how its rows are scored."""
_COSINE = search_get_pb2.MetadataRequest(uuid=True, distance=True)
_BM25 = search_get_pb2.MetadataRequest(uuid=True, score=True)


def near(vector: Sequence[float]) -> Search:
    """By cosine with a vector."""
    packed = base_pb2.Vectors(
        vector_bytes=struct.pack(f"<{len(vector)}f", *vector), type=base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32
    )
    return {"near_vector": base_search_pb2.NearVector(vectors=[packed]), "metadata": _COSINE}


def terms(query: str, name: str) -> Search:
    """By BM25 over one property."""
    return {"bm25_search": base_search_pb2.BM25(query=query, properties=[name]), "metadata": _BM25}


async def find(
    client: Any, name: str, tenant: str, search: Search, where: FilterReturn | None, *, limit: int
) -> list[Row]:
    """The best of a tenant. Raises what the driver raises."""
    request = search_get_pb2.SearchRequest(
        collection=name,
        tenant=tenant,
        limit=limit,
        filters=_FilterToGRPC.convert(where),
        # No property, instead of all of them.
        properties=search_get_pb2.PropertiesRequest(),
        uses_123_api=True,
        uses_125_api=True,
        uses_127_api=True,
        **search,
    )
    reply = await client._connection.grpc_search(request)
    by_cosine = "near_vector" in search
    found = []
    for one in reply.results:
        said = one.metadata
        found.append(Row(_uuid(said.id_as_bytes), 1.0 - said.distance if by_cosine else said.score))
    return found


def _uuid(number: bytes) -> str:
    """An id as text. Weaviate sends it as a number: without the zeros that it begins with."""
    text = number.hex().zfill(32)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
