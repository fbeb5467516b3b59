"""Committing and forgetting documents: a replacement runs in one stream transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crds import scope
from kb import errors
from kb.graph import aql, model
from kb.graph.arango import answers, connection, keys, rows


class Writing(connection.Connection):
    """The part of the port that changes what is stored."""

    async def replace(self, owner: scope.Scope, patch: model.Patch, *, fence: int = 0) -> None:
        made, client, document_id = rows.of_patch(owner, patch), owner.client_id, patch.document.id

        def work() -> None:
            self._ensure(client)
            if patch.keep is not None:
                self._ensure(client, history=True)
            with self._turn(client, document_id, fence, history=patch.keep is not None) as transaction:
                if patch.keep is not None:
                    self._keep(transaction, client, document_id, patch.keep)
                self._swap(transaction, client, document_id, made)

        await self._call(work)

    async def remove(self, owner: scope.Scope, document_id: str, *, fence: int = 0) -> bool:
        client = owner.client_id

        def work() -> bool:
            if fence:
                # The fence has to be remembered for a client of whom nothing is there yet, too.
                self._ensure(client)
            if not self._exists(client):
                return False
            with_history = self._exists(client, history=True)
            with self._turn(client, document_id, fence, history=with_history) as transaction:
                if with_history:
                    self._expire(transaction, client, {"id": document_id, "before": None})
                return self._swap(transaction, client, document_id, None)

        return await self._call(work)

    async def forget_fences(self, before: int) -> int:
        def work() -> int:
            self._ensure_fences()
            bound = {"@fences": keys.FENCES, "before": before}
            with self._transaction(None, fenced=True) as transaction:
                return len(list(transaction.aql.execute(aql.DROP_FENCES, bind_vars=bound)))

        return await self._call(work)

    async def versions(self, owner: scope.Scope, document_id: str) -> list[model.Version]:
        def work() -> list[model.Version]:
            found = [
                row
                for past in (False, True)
                for row in self._rows(aql.VERSIONS, owner.client_id, history=past, id=document_id)
            ]
            return [answers.version(row) for row in found]

        return await self._call(work)

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None, fence: int = 0) -> int:
        def work() -> int:
            if document_id is None and self._exists(client_id):
                # The upkeep goes over all clients: what a new version of the schema needs also reaches those to
                # which nothing is written.
                self._ensure(client_id)
            if not self._exists(client_id, history=True):
                return 0
            if document_id is None:
                self._ensure(client_id, history=True)
            with self._turn(client_id, document_id, fence, history=True) as transaction:
                return self._expire(transaction, client_id, {"id": document_id, "before": before_ms})

        return await self._call(work)

    async def vacate(self, client_id: str) -> None:
        def work() -> None:
            if any(self._rows(aql.ANYTHING, client_id, history=past, key=aql.SCHEMA) for past in (False, True)):
                return
            for past in (True, False):
                if self._exists(client_id, history=past):
                    name = keys.graph(client_id, history=past)
                    self._database.delete_graph(name, ignore_missing=True, drop_collections=True)
            self._forget()

        await self._call(work)

    async def regroup(self, owner: scope.Scope) -> list[str]:
        bound = {"project": owner.project_id, "group": owner.group_id}
        client = owner.client_id

        def work() -> list[str]:
            if not self._exists(client):
                return []
            with_history = self._exists(client, history=True)
            changed: set[str] = set()
            with self._transaction(client, history=with_history) as transaction:
                for past in (False, True) if with_history else (False,):
                    nodes, edges = keys.nodes(client, history=past), keys.edges(client, history=past)
                    changed |= set(transaction.aql.execute(aql.REGROUP_NODES, bind_vars=bound | {"@nodes": nodes}))
                    transaction.aql.execute(aql.REGROUP_EDGES, bind_vars=bound | {"@edges": edges})
            return sorted(changed)

        return await self._call(work)

    @contextmanager
    def _turn(self, client: str, document_id: str | None, fence: int, *, history: bool) -> Iterator[Any]:
        """A transaction that a newer owner of the document has not been before; its fence is remembered in it."""
        if fence:
            self._ensure_fences()
        with self._transaction(client, history=history, fenced=fence > 0) as transaction:
            if fence:
                own = {"_key": keys.safe_key(f"{client}::{document_id}"), "fence": fence}
                bound = {"@fences": keys.FENCES, "key": own["_key"]}
                if any(known > fence for known in transaction.aql.execute(aql.FENCE, bind_vars=bound)):
                    raise errors.Outrun("another process has written the document meanwhile")
                transaction.aql.execute(aql.PUT_FENCE, bind_vars={"@fences": keys.FENCES, "row": own})
            yield transaction

    def _keep(self, transaction: Any, client: str, document_id: str, keep: model.Keep) -> None:
        """Copy the document, as it is in the present, into the history."""
        names = self._names(client)
        asked = {"@nodes": names["@nodes"], "key": keys.document(document_id)}
        document = list(transaction.aql.execute(aql.DOCUMENT_OF, bind_vars=asked))
        if document:
            edges = list(transaction.aql.execute(aql.EDGES_OF, bind_vars=names | {"id": document_id}))
            made = rows.of_version(client, keep, document[0], edges)
            self._put(transaction, self._names(client, history=True), made)

    def _swap(self, transaction: Any, client: str, document_id: str, made: rows.Rows | None) -> bool:
        """Take the document away and, with `made`, put it back as it says; True when it was there."""
        names = self._names(client)
        version = {"key": keys.document(document_id), "documentId": document_id, "untilMs": None}
        ends, known = self._take(transaction, names, version)
        if made is not None:
            self._put(transaction, names, made)
        transaction.aql.execute(aql.DROP_LONELY, bind_vars=names | {"candidates": ends})
        return known

    def _expire(self, transaction: Any, client: str, which: dict[str, Any]) -> int:
        names = self._names(client, history=True)
        asked = {"@nodes": names["@nodes"], **which}
        gone = list(transaction.aql.execute(aql.EXPIRED, bind_vars=asked))
        for version in gone:
            ends, _ = self._take(transaction, names, version)
            transaction.aql.execute(aql.DROP_LONELY, bind_vars=names | {"candidates": ends})
        return len(gone)

    def _take(self, transaction: Any, names: dict[str, Any], version: dict[str, Any]) -> tuple[list[str], bool]:
        """Take one version away: the ends of its edges, and whether it was there."""
        asked = {"@edges": names["@edges"], "id": version["documentId"], "until": version["untilMs"]}
        ends = sorted(set(transaction.aql.execute(aql.DROP_EDGES, bind_vars=asked)))
        own = {"@nodes": names["@nodes"], "key": version["key"]}
        return ends, bool(list(transaction.aql.execute(aql.DROP_DOCUMENT, bind_vars=own)))

    def _put(self, transaction: Any, names: dict[str, Any], made: rows.Rows) -> None:
        nodes, edges = {"@nodes": names["@nodes"]}, {"@edges": names["@edges"]}
        transaction.aql.execute(aql.PUT_DOCUMENT, bind_vars=nodes | {"row": made.document})
        transaction.aql.execute(aql.PUT_ENTITIES, bind_vars=nodes | {"rows": made.entities})
        transaction.aql.execute(aql.PUT_EDGES, bind_vars=edges | {"rows": list(made.edges.values())})
