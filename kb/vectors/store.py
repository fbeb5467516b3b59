"""The port that every vector store implements; `tests/kb/vectors/contract.py` is its meaning.

Every call takes an owner or a viewer (`crds.scope.Scope`); what a viewer may see is `kb.visibility.sees`. Dense and
lexical search are separate calls with raw scores, because a viewer's data lies in two partitions (its client's and the
global one) and scores that a store has already normalised within one of them cannot be compared with the other's.
Only `audit*`, `held`, `size` and `discard`, which serve repairs of the stores, go by the client alone.

Versions that were replaced lie apart (decision 0059): a question reads them only where it chooses `as_of` a moment, or
says `history`.

All calls raise `kb.errors.Away` when the store does not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from crds import scope
from kb import selection
from kb.vectors import model


class Store(Protocol):
    """Async, safe to call concurrently. All vectors of one store come from one embedding model."""

    async def ready(self) -> None:
        """Return when the store answers."""
        ...

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        """Chunk id -> revision of the document's chunks that are stored; "" of one that has to be put again."""
        ...

    async def known_sentences(self, owner: scope.Scope, sentence_ids: Collection[str]) -> set[str]:
        """Those of `sentence_ids` that are stored for exactly this owner."""
        ...

    async def put(
        self,
        owner: scope.Scope,
        chunks: Sequence[tuple[model.Chunk, model.Vector]],
        sentences: Sequence[tuple[model.Sentence, model.Vector]],
    ) -> None:
        """Insert or overwrite by id, chunks before sentences; into the history what has an `until_ms`."""
        ...

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        """Overwrite everything but the vector of stored chunks."""
        ...

    async def keep(
        self,
        owner: scope.Scope,
        version_id: str,
        since_ms: int | None,
        until_ms: int,
        *,
        chunk_ids: Collection[str],
        sentence_ids: Collection[str],
    ) -> None:
        """Copy these chunks and sentences with their vectors into the history, under the ids of `kb.identity.past`."""
        ...

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None) -> None:
        """Delete what belongs to versions replaced before then, of one document or of all of a client's."""
        ...

    async def vacate(self, client_id: str) -> None:
        """Let go of what is kept for a client that owns nothing, its tenants; does nothing while it owns data."""
        ...

    async def drop(
        self,
        owner: scope.Scope,
        document_id: str,
        *,
        keep: Collection[str] = (),
        known: Mapping[str, str] | None = None,
    ) -> None:
        """Delete the sentences of the document's chunks other than `keep`, and then these chunks.

        Without `keep` the document is forgotten, and its history with it. With `known`, what the method of that name
        returned, only those chunks go that still have the revision that they had then.
        """
        ...

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        """Nearest chunks by cosine, best first."""
        ...

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        """Best chunks by BM25 over heading and text, best first."""
        ...

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        """Chosen chunks, the latest observed first, then by document and place; those without a time come last."""
        ...

    async def chunks(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> dict[str, model.Chunk]:
        """The visible ones of `chunk_ids`."""
        ...

    async def chosen(self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection) -> set[str]:
        """The visible and chosen ones of `chunk_ids`."""
        ...

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str], *, history: bool = False
    ) -> dict[str, float]:
        """Sentence id -> cosine with `vector`, for the visible ones of `sentence_ids`."""
        ...

    async def regroup(self, owner: scope.Scope) -> int:
        """Let all data of the owner's project belong to the owner's group; how many chunks and sentences changed."""
        ...

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Stored], str | None]:
        """A page of every chunk that the client owns, its history too, and where the next one starts (None: none).

        With `document_ids` those of these documents alone are read.
        """
        ...

    async def audit_sentences(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.StoredSentence], str | None]:
        """The same of sentences."""
        ...

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Stored]:
        """What is stored of those of the given chunks that the client owns."""
        ...

    async def held_sentences(self, client_id: str, sentence_ids: Collection[str]) -> set[str]:
        """Those of the given sentences that are stored for the client."""
        ...

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        """Delete what nothing refers to."""
        ...

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        """How many chunks and sentences the viewer can see."""
        ...

    async def size(self, client_id: str) -> tuple[int, int]:
        """How many chunks and sentences the client owns, its history too."""
        ...

    async def dimension(self) -> int | None:
        """Numbers of a stored vector; None where there is none, or none was found in a short look."""
        ...

    async def destroy(self) -> None:
        """Delete everything, of every client."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


_MOST_CHUNKS = 1000


async def text(store: Store, owner: scope.Scope, document_id: str) -> str:
    """The text of a document as it is stored, of its first 1,000 chunks by their ids. Raises `kb.errors.Away`."""
    known = await store.known(owner, document_id)
    chunks = await store.chunks(owner, sorted(known)[:_MOST_CHUNKS])
    said, end = "", 0
    for piece in sorted(chunks.values(), key=lambda each: each.start):
        # What stood between two of them is blank, and an empty line ends the header of a mail.
        said += "\n" * min(piece.start - end, 2) + piece.text[max(end - piece.start, 0) :]
        end = max(end, piece.end)
    return said
