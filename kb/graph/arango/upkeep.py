"""Looking through everything that a client owns, for the repair of documents and the comparison of stores."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from crds import scope
from kb.graph import aql, model
from kb.graph.arango import answers, connection, keys

_PAST = "past:"


class Upkeep(connection.Connection):
    """The part of the port that goes by the client alone."""

    async def naming(
        self, owner: scope.Scope, node_key: str, *, after: str = "", limit: int = 500
    ) -> list[tuple[model.Document, scope.Scope]]:
        client = owner.client_id

        def work() -> list[Any]:
            if not self._exists(client):
                return []
            bound = {
                "@edges": keys.edges(client),
                "target": f"{keys.nodes(client)}/{keys.safe_key(node_key)}",
                "project": owner.project_id,
                "group": owner.group_id,
                "after": after,
                "limit": limit,
            }
            return list(self._database.aql.execute(aql.NAMING, bind_vars=bound))

        return [
            (
                answers.document(row),
                scope.Scope(client_id=client, project_id=row["projectId"], group_id=row["groupId"]),
            )
            for row in await self._call(work)
        ]

    async def documents(
        self, owner: scope.Scope, kind: str, beginning: str, *, after: str = "", limit: int = 500
    ) -> list[model.Document]:
        client = owner.client_id

        def work() -> list[Any]:
            if not self._exists(client):
                return []
            bound = {"@nodes": keys.nodes(client), "kind": kind, "beginning": beginning}
            bound |= {"project": owner.project_id, "group": owner.group_id}
            return list(self._database.aql.execute(aql.DOCUMENTS, bind_vars=bound))

        # Sorted here: the server sorts by the rules of a language, and a page after a URN would not be one.
        found = sorted((answers.document(row) for row in await self._call(work)), key=lambda one: one.source_urn)
        return [one for one in found if one.source_urn > after][:limit]

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Committed], str | None]:
        # First the present, then the history, whose cursor begins so.
        past, place = (after or "").startswith(_PAST), (after or "").removeprefix(_PAST)

        asked = {"chunks": None, "documents": None if document_ids is None else sorted(document_ids)}

        def work() -> tuple[list[Any], str | None]:
            rows = self._rows(aql.AUDIT, client_id, history=past, after=place, limit=limit, **asked)
            if len(rows) == limit:
                return rows, f"{_PAST if past else ''}{rows[-1]['key']}"
            if past:
                return rows, None
            left = limit - len(rows)
            rest = self._rows(aql.AUDIT, client_id, history=True, after="", limit=left, **asked)
            return rows + rest, f"{_PAST}{rest[-1]['key']}" if len(rest) == left else None

        rows, following = await self._call(work)
        return [one for row in rows for one in answers.committed(client_id, row)], following

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Committed]:
        wanted = set(chunk_ids)
        asked = {"after": "", "limit": len(wanted), "chunks": sorted(wanted), "documents": None}

        def work() -> list[Any]:
            return [row for past in (False, True) for row in self._rows(aql.AUDIT, client_id, history=past, **asked)]

        rows = await self._call(work)
        return {
            one.chunk_id: one for row in rows for one in answers.committed(client_id, row) if one.chunk_id in wanted
        }

    async def clients(self) -> list[str]:
        def work() -> list[str]:
            found = (
                keys.client_of(str(graph["name"]), [str(one["edge_collection"]) for one in graph["edge_definitions"]])
                for graph in self._database.graphs()
            )
            return sorted(client for client in found if client is not None)

        return await self._call(work)
