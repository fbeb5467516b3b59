"""The commit of a document: built, its names resolved, its vectors stored, then visible by one write to the graph.

New vectors come first and are not shown until the graph has committed their chunks; those that are shared with the
version before are changed after that, and what the new version has no more of is cleaned away last. A version that is
replaced is copied into the history: its vectors before they change, its graph in the write that replaces it. Each step
may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from crds import access, priority, scope
from kb import api, errors, identity, metrics, selection, visibility
from kb.aliases import registry, rename
from kb.erasure import closed
from kb.extract import caller_facts, draft
from kb.graph import model as graph_model
from kb.graph import store as graph
from kb.ingest import build, changes, document_locks, extractor, history
from kb.vectors import embedding, model
from kb.vectors import store as vectors


class Committer:
    """Commits one document at a time; the caller holds the document's turn.

    `versions`: how many that were replaced are kept of a document; `relationships`: how many that its text states are
    read. `clock` gives the current time in UTC.
    """

    def __init__(
        self,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        noted: changes.Changes,
        aliases: registry.Registry,
        shut: closed.Closed,
        embedder: embedding.Port,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        *,
        versions: int,
        relationships: int,
    ) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._changes = noted
        self._aliases = aliases
        self._shut = shut
        self._embedder = embedder
        self._meters = meters
        self._clock = clock
        self._versions = versions
        self._relationships = relationships

    async def commit(
        self,
        request: api.IngestRequest,
        made: draft.Draft,
        extracted: extractor.ExtractionResult,
        urgency: priority.Priority,
        turn: document_locks.Turn,
    ) -> build.Built:
        """Build the graph, resolve aliases, store vectors, commit the graph and clean up.

        All of it again if an alias changed meanwhile.

        The vectors take what they are given from any owner of the document, so `turn` is looked at before each write
        to them; the graph compares its fence.
        """
        await self._changes.note(request.scope, [made.document_id])
        before = await self._graph.versions(request.scope, made.document_id)
        request = request.model_copy(update={"access": await self._access(request, before)})
        made = _qualified(request, made, before)
        # It takes seconds for the longest documents.
        built = await asyncio.to_thread(build.build, request, made, extracted.extractions, most=self._relationships)
        self._meters.dropped.inc(built.dropped)
        keys = {one.node_key for one in built.patch.mentions}
        known = await self._vectors.known(request.scope, made.document_id)
        built = self._succeed(built, before)
        kept = built.patch.keep
        # Models were asked since the turn was taken, and another process may have begun to erase.
        self._shut.check(request.scope)
        await self._keep(request.scope, kept, before, turn)
        while True:
            self._shut.check(request.scope)
            mapping = await self._aliases.resolve(request.scope, keys)
            chunks = _taken(rename.chunks(built.chunks, mapping), known, turn)
            named = replace(built, patch=rename.patch(built.patch, mapping), chunks=chunks)
            with self._meters.stages.labels("vectors").time():
                await self._embed(request.scope, named, known, urgency, turn)
            with self._meters.stages.labels("graph").time():
                await self._graph.replace(request.scope, named.patch, fence=turn.fence)
            # A merge looks for the documents to repair after it is recorded: it saw this commit, or is seen here.
            if mapping == await self._aliases.resolve(request.scope, keys):
                break
            known = await self._vectors.known(request.scope, made.document_id)
            # The first of these commits has replaced the version before; another one would keep the first.
            built = replace(built, patch=replace(built.patch, keep=None))
        await self._touch(request.scope, named, known, turn)
        if mapping:
            await self._aliases.seen(request.scope, mapping.keys())
        await self._trim(request.scope, made.document_id, before, turn, most=self._versions - (kept is not None))
        if set(known) - set(named.patch.chunk_ids):
            turn.check()
            with self._meters.stages.labels("clean").time():
                await self._vectors.drop(
                    request.scope,
                    made.document_id,
                    keep=named.patch.chunk_ids,
                    known=known if turn.fence else None,
                )
        self._meters.chunks.inc(len(made.pieces))
        return named

    async def _access(self, request: api.IngestRequest, before: Sequence[graph_model.Version]) -> access.Access | None:
        """Who may see it: of an attachment those who see its document; else what is said now, else what was said."""
        parent = api.attached_to(request.source_urn)
        if parent is not None:
            before = await self._graph.versions(request.scope, identity.document(request.scope, parent))
        elif request.access is not None:
            return request.access
        present = next((one for one in before if one.document.until_ms is None), None)
        named = present is not None and any(one.startswith(f"{visibility.ACCESS}=") for one in present.labels or ())
        return visibility.in_labels(present.labels) if present is not None and named else request.access

    def _succeed(self, built: build.Built, before: Sequence[graph_model.Version]) -> build.Built:
        """With the beginning of this version, and what becomes of the one in the present, where a history is kept."""
        if not self._versions:
            return built
        present = next((one for one in before if one.document.until_ms is None), None)
        patch = history.succeed(present, built.patch, selection.millis(self._clock()))
        since = patch.document.since_ms
        return replace(built, patch=patch, chunks=tuple(replace(one, since_ms=since) for one in built.chunks))

    async def _keep(
        self,
        owner: scope.Scope,
        keep: graph_model.Keep | None,
        before: Sequence[graph_model.Version],
        turn: document_locks.Turn,
    ) -> None:
        """Copy the vectors of the version in the present, before those that the new one shares are changed."""
        if keep is None:
            return
        present = before[0]
        held = await self._graph.held(owner.client_id, present.chunk_ids)
        sentence_ids = {one for chunk in held.values() for one in chunk.sentence_ids}
        begun = present.document.start_ms
        turn.check()
        with self._meters.stages.labels("keep").time():
            await self._vectors.keep(
                owner, keep.id, begun, keep.until_ms, chunk_ids=present.chunk_ids, sentence_ids=sentence_ids
            )

    async def _trim(
        self,
        owner: scope.Scope,
        document_id: str,
        before: Sequence[graph_model.Version],
        turn: document_locks.Turn,
        *,
        most: int,
    ) -> None:
        """Forget the oldest versions beyond the latest `most` of those that were kept before."""
        ends = sorted((one.document.until_ms for one in before if one.document.until_ms is not None), reverse=True)
        if len(ends) > most:
            cut = ends[most] + 1
            await self._graph.expire(owner.client_id, cut, document_id=document_id, fence=turn.fence)
            turn.check()
            await self._vectors.expire(owner.client_id, cut, document_id=document_id)

    async def _embed(
        self,
        owner: scope.Scope,
        built: build.Built,
        known: Mapping[str, str],
        urgency: priority.Priority,
        turn: document_locks.Turn,
    ) -> None:
        """Embed and store what is not stored yet; `known` are the document's chunks that are, with their revisions."""
        store = self._vectors
        # Chunks are stored before their sentences, so that a document without the one has none of the other.
        stored = await store.known_sentences(owner, [kept.id for kept in built.sentences]) if known else set()
        chunks = [kept for kept in built.chunks if not known.get(kept.id)]
        sentences = [kept for kept in built.sentences if kept.id not in stored]
        makers: set[frozenset[str]] = set()
        for part in embedding.slices([*chunks, *sentences]):
            texts = [one.embedded_text() if isinstance(one, model.Chunk) else one.text for one in part]
            made = list(zip(part, await self._embedder.embed(texts, urgency), strict=True))
            turn.check()
            makers |= {model.makers(vector) for _, vector in made}
            if len(makers) > 1:
                # A reindex has moved on, and an index may lack the slices before: what is repeated finds them.
                raise errors.Away("weaviate", "other vector indexes take writes now", retry_after=1)
            await store.put(
                owner,
                [(one, vector) for one, vector in made if isinstance(one, model.Chunk)],
                [(one, vector) for one, vector in made if isinstance(one, model.Sentence)],
            )

    async def _touch(
        self, owner: scope.Scope, built: build.Built, known: Mapping[str, str], turn: document_locks.Turn
    ) -> None:
        """Let the chunks that were stored before say what this version says of them.

        Only when it is committed: until then they are those of the version before, and are copied into its history.
        """
        changed = [kept for kept in built.chunks if known.get(kept.id) and known[kept.id] != kept.revision(owner)]
        if changed:
            turn.check()
            with self._meters.stages.labels("vectors").time():
                await self._vectors.touch(owner, changed)


def _qualified(request: api.IngestRequest, made: draft.Draft, before: Sequence[graph_model.Version]) -> draft.Draft:
    """With what models said of the base node before, where the document is the same and no model was asked now."""
    present = next((one for one in before if one.document.until_ms is None), None)
    revision = history.revision([piece.id for piece in made.pieces], made.given.stated)
    if made.given.qualified or present is None or present.revision != revision:
        return made
    known = caller_facts.recorded(present.given, anchor=made.anchor.key, where=request.scope)
    return draft.given_to(made, known) if known.qualified else made


def _taken(
    chunks: Sequence[model.Chunk], known: Mapping[str, str], turn: document_locks.Turn
) -> tuple[model.Chunk, ...]:
    """An owner before this one may be frozen just before it deletes chunks as it knew them: these are other ones."""
    return tuple(replace(kept, taken=max(turn.taken, model.taken(known.get(kept.id, "")))) for kept in chunks)
