"""The commit of a document: woven, its names resolved, its vectors stored, then visible by one write to the graph.

Vectors come first and are not shown until the graph has committed their chunks; what the new version has no more of is
cleaned away last. Each step may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from crds import priority, scope
from kb import metrics, wire
from kb.aliases import registry, rename
from kb.erasure import closed
from kb.graph import store as graph
from kb.ingest import draft, hearing, weave
from kb.vectors import embedding, model
from kb.vectors import store as vectors


class Committer:
    """Commits one document at a time; the caller holds the document's turn."""

    def __init__(
        self,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        aliases: registry.Registry,
        shut: closed.Closed,
        embedder: embedding.Embedder,
        meters: metrics.Metrics,
    ) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._aliases = aliases
        self._shut = shut
        self._embedder = embedder
        self._meters = meters

    async def commit(
        self, request: wire.IngestRequest, made: draft.Draft, heard: hearing.Heard, urgency: priority.Priority
    ) -> weave.Woven:
        """Weave, resolve aliases, store vectors, commit the graph and clean; again if an alias changed meanwhile."""
        woven = weave.weave(request, made, heard.extractions)
        self._meters.dropped.inc(woven.dropped)
        keys = {one.node_key for one in woven.patch.mentions}
        known = await self._vectors.known(request.scope, made.document_id)
        while True:
            # Again: models were asked since the turn was taken, and another process may have begun to erase.
            self._shut.check(request.scope)
            mapping = await self._aliases.resolve(request.scope, keys)
            named = replace(
                woven, patch=rename.patch(woven.patch, mapping), chunks=rename.chunks(woven.chunks, mapping)
            )
            with self._meters.stages.labels("vectors").time():
                await self._embed(request.scope, named, known, urgency)
            with self._meters.stages.labels("graph").time():
                await self._graph.replace(request.scope, named.patch)
            # A merge looks for the documents to mend after it is recorded: it saw this commit, or is seen here.
            if mapping == await self._aliases.resolve(request.scope, keys):
                break
            known = await self._vectors.known(request.scope, made.document_id)
        if mapping:
            await self._aliases.seen(request.scope, mapping.keys())
        if set(known) - set(named.patch.chunk_ids):
            with self._meters.stages.labels("clean").time():
                await self._vectors.drop(request.scope, made.document_id, keep=named.patch.chunk_ids)
        self._meters.chunks.inc(len(made.pieces))
        return named

    async def _embed(
        self, owner: scope.Scope, woven: weave.Woven, known: Mapping[str, str], urgency: priority.Priority
    ) -> None:
        """Embed and store what is not stored yet; `known` are the document's chunks that are, with their revisions."""
        store = self._vectors
        # Chunks are stored before their sentences, so that a document without the one has none of the other.
        stored = await store.known_sentences(owner, [kept.id for kept in woven.sentences]) if known else set()
        chunks = [kept for kept in woven.chunks if kept.id not in known]
        sentences = [kept for kept in woven.sentences if kept.id not in stored]
        texts = [kept.embedded_text() for kept in chunks] + [kept.text for kept in sentences]
        made: list[model.Vector] = await self._embedder.embed(texts, urgency)
        await store.put(
            owner,
            list(zip(chunks, made[: len(chunks)], strict=True)),
            list(zip(sentences, made[len(chunks) :], strict=True)),
        )
        changed = [kept for kept in woven.chunks if known.get(kept.id, kept.revision(owner)) != kept.revision(owner)]
        if changed:
            await store.touch(owner, changed)
