"""Committing and forgetting documents: a replacement runs in one stream transaction."""

from __future__ import annotations

from crds import scope
from kb.graph import aql, model
from kb.graph.arango import connection, keys, rows


class Writing(connection.Connection):
    """The part of the port that changes what is stored."""

    async def replace(self, owner: scope.Scope, patch: model.Patch) -> None:
        made = rows.of_patch(owner, patch)

        def work() -> None:
            self._ensure(owner.client_id)
            self._transact(owner.client_id, patch.document.id, made)

        await self._call(work)

    async def remove(self, owner: scope.Scope, document_id: str) -> bool:
        def work() -> bool:
            return self._exists(owner.client_id) and self._transact(owner.client_id, document_id, None)

        return await self._call(work)

    async def regroup(self, owner: scope.Scope) -> list[str]:
        bound = {"project": owner.project_id, "group": owner.group_id}

        def work() -> list[str]:
            if not self._exists(owner.client_id):
                return []
            nodes, edges = keys.nodes(owner.client_id), keys.edges(owner.client_id)
            with self._transaction(owner.client_id) as transaction:
                changed = transaction.aql.execute(aql.REGROUP_NODES, bind_vars=bound | {"@nodes": nodes})
                transaction.aql.execute(aql.REGROUP_EDGES, bind_vars=bound | {"@edges": edges})
                return sorted(changed)

        return await self._call(work)

    def _transact(self, client: str, document_id: str, made: rows.Rows | None) -> bool:
        """Take the document away and, with `made`, put it back as it says; True when it was there."""
        nodes, edges = {"@nodes": keys.nodes(client)}, {"@edges": keys.edges(client)}
        with self._transaction(client) as transaction:
            ends = list(transaction.aql.execute(aql.DROP_EDGES, bind_vars=edges | {"id": document_id}))
            key = keys.document(document_id)
            known = list(transaction.aql.execute(aql.DROP_DOCUMENT, bind_vars=nodes | {"key": key}))
            if made is not None:
                transaction.aql.execute(aql.PUT_DOCUMENT, bind_vars=nodes | {"row": made.document})
                transaction.aql.execute(aql.PUT_ENTITIES, bind_vars=nodes | {"rows": made.entities})
                transaction.aql.execute(aql.PUT_EDGES, bind_vars=edges | {"rows": list(made.edges.values())})
            candidates = {"candidates": sorted(set(ends))}
            transaction.aql.execute(aql.DROP_LONELY, bind_vars=nodes | edges | candidates)
        return bool(known)
