"""Merge and un-merge: record, then correct every document that says the alias.

The record comes first. A document that is being ingested meanwhile either committed before the correction looks for the
documents, and is corrected, or sees the record when it checks its aliases after its commit (`kb.ingest.pipeline`).
Correcting a document is building its graph again from its own stored chunks and kept answers, so an un-merge restores
exactly what a merge changed, and what was ingested in between is as if it had never been merged. An alias that is
pointed elsewhere is an un-merge and a merge in one record: it remembers what it meant until the documents that say so
are corrected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import structlog

from crds import errors as root
from crds import priority, scope
from kb import errors, visibility
from kb.aliases import registry
from kb.extract import reference
from kb.graph import store as graph
from kb.ingest import document_locks
from kb.queue import job

log = structlog.get_logger(__name__)
# Documents are found and queued in pages of this size.
_PAGE = 500


class Merger:
    """`notify` is called after jobs were put; `owners` are the turns of all writing processes."""

    def __init__(
        self,
        aliases: registry.Registry,
        nodes: graph.Store,
        queue: job.Queue,
        clock: Callable[[], datetime],
        notify: Callable[[], None],
        owners: document_locks.Port | None = None,
    ) -> None:
        self._aliases = aliases
        self._nodes = nodes
        self._queue = queue
        self._clock = clock
        self._notify = notify
        self._turns = owners or document_locks.Turns()

    async def merge(
        self, owner: scope.Scope, alias: str, canonical: str, by: str, *, across_types: bool = False
    ) -> tuple[registry.Alias, int]:
        """Make `alias` mean `canonical` for this owner's data. Returns the record and how many documents are corrected.

        Raises `kb.errors.Invalid` for what is no merge: other types, a document's own node, a chain.
        """
        if owner.is_global:
            raise errors.Invalid(
                "an alias belongs to a client", field="scope.clientId", remedy="Name the client whose things these are."
            )
        written = _key(alias, "alias", owner)
        meant = _key(canonical, "canonical", owner)
        _check(written, meant, across_types=across_types)
        # One merge of a client at a time, so that two of them cannot make a chain.
        async with self._turns.take(f"aliases:{owner.client_id}"):
            await self._no_chain(owner, written, meant)
            area, now = reference.kind_of(meant), self._clock()
            # Whole milliseconds, as the registry keeps them: a record is told from its successor by its time too.
            now = now.replace(microsecond=now.microsecond // 1000 * 1000)
            made = registry.Alias(registry.State.MERGING, owner, written, meant, area, 0, None, now, by)
            before = await self._aliases.find(owner, written)
            if before is not None:
                former = tuple(key for key in dict.fromkeys((*before.former, before.canonical)) if key != meant)
                made = replace(made, former=former, seen_count=before.seen_count, last_seen_at=before.last_seen_at)
            await self._aliases.put(made)
        return made, await self._mend(made)

    async def unmerge(self, owner: scope.Scope, alias: str) -> tuple[registry.Alias, int]:
        """Take a merge back; returns what it was and how many documents are corrected. Raises `kb.errors.NotFound`."""
        written = _key(alias, "alias", owner)
        async with self._turns.take(f"aliases:{owner.client_id}"):
            gone = await self._aliases.retire(owner, written)
        if gone is None:
            raise errors.NotFound(
                f"{written!r} is no alias in exactly this scope",
                field="alias",
                remedy="See GET /api/v1/aliases for the aliases and their scopes.",
            )
        return gone, await self._mend(gone)

    async def resume(self) -> int:
        """Finish what a crash left between a record and its documents; returns how many records that were."""
        pending = await self._aliases.pending()
        for one in pending:
            await self._mend(one)
        return len(pending)

    async def run(self, *, interval: float) -> None:
        """Resume at once and then every `interval` seconds until cancelled."""
        while True:
            try:
                await self.resume()
            except root.Operational as error:
                log.warning("aliases cannot be resumed", reason=error.message)
            await asyncio.sleep(interval)

    async def _no_chain(self, owner: scope.Scope, alias: str, canonical: str) -> None:
        for one in await self._aliases.related(owner, canonical):
            if one.alias == canonical:
                raise errors.Invalid(
                    f"{canonical!r} is itself an alias of {one.canonical!r}",
                    field="canonical",
                    remedy=f"Merge into {one.canonical!r}, or un-merge {canonical!r} first.",
                )
        for one in await self._aliases.related(owner, alias):
            if one.canonical == alias:
                raise errors.Invalid(
                    f"{one.alias!r} is an alias of {alias!r}, which would become an alias itself",
                    field="alias",
                    remedy=f"Un-merge {one.alias!r} first and merge it into {canonical!r}.",
                )

    async def _mend(self, record: registry.Alias) -> int:
        """Queue every document whose nodes change with the record, then settle it; the queue outlives a crash."""
        retiring = record.state is registry.State.RETIRING
        current = record.canonical if retiring else record.alias
        repaired: set[str] = set()
        for node_key in dict.fromkeys((current, *record.former)):
            repaired |= await self._queue_naming(record.owner, node_key)
        await self._aliases.settle(record)
        # Names are what documents are about; the registry tells them to those who may see them.
        log.info("aliases", state=record.state.value, client=record.owner.client_id, documents=len(repaired))
        return len(repaired)

    async def _queue_naming(self, owner: scope.Scope, node_key: str) -> set[str]:
        """Queue the documents that have the node and for which an alias of `owner` holds; their ids."""
        queued: set[str] = set()
        after = ""
        while True:
            page = await self._nodes.naming(owner, node_key, after=after, limit=_PAGE)
            for document, where in page:
                if not visibility.governs(owner, where):
                    continue
                queued.add(document.id)
                await self._queue.put(
                    document.id,
                    where,
                    document.source_urn,
                    document.kind,
                    job.Action.REBUILD_GRAPH,
                    priority.Priority(priority.URGENT),
                    "",
                )
            if page:
                self._notify()
            if len(page) < _PAGE:
                return queued
            after = page[-1][0].id


def _key(text: str, field: str, owner: scope.Scope) -> str:
    found = reference.normalise(text, owner)
    if found is None:
        raise errors.Invalid(f"{text!r} is no key of a node", field=field, remedy="Give type:name, as in user:john.")
    return found


def _check(alias: str, canonical: str, *, across_types: bool) -> None:
    if alias == canonical:
        raise errors.Invalid(
            f"both are {alias!r} already", field="alias", remedy="Nothing is to be merged: spelling alone differs."
        )
    for key, field in ((alias, "alias"), (canonical, "canonical")):
        if "::" in key:
            raise errors.Invalid(
                f"{key!r} stands for a document", field=field, remedy="Documents are identified by their source URN."
            )
    if not across_types and reference.kind_of(alias) != reference.kind_of(canonical):
        raise errors.Invalid(
            f"{alias!r} and {canonical!r} are of different types",
            field="canonical",
            remedy="Homonyms stay apart; set acrossTypes if they are the same thing all the same.",
        )
