"""Ad-hoc queries of Joern.

Calls raise `clients.kb_transport.Unavailable` or `Rejected`.
"""

from __future__ import annotations

from collections.abc import Sequence

from clients import kb_transport
from codegraph import api, routes
from crds import scope


class JoernQueries:
    """The endpoints below /analyze/code."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def ask(self, query: api.CodeQuery) -> api.CodeAnswer:
        """Have a query run; not to be repeated without need: each call is a query of its own."""
        return await self._way.request(routes.QUERY_ASK, body=query)

    async def show(self, owner: scope.Scope, id_: str) -> api.CodeAnswer:
        """What became of it; `Rejected` with code `not_found` where it is not there any more."""
        return await self._way.request(routes.QUERY_SHOW, at=(id_,), params=owner.model_dump(by_alias=True))

    async def claim(self, most: int) -> Sequence[api.QueryWork]:
        """For the operator: all that run, at most `most` unless more did before. Safe to repeat."""
        asked = api.QueryClaim(most=most)
        return (await self._way.request(routes.QUERY_CLAIM, body=asked, repeatable=True)).queries

    async def made(self, id_: str, job_uid: str) -> api.CodeAnswer:
        """For the operator: its Job exists. Safe to repeat."""
        asked = api.QueryMade(job_uid=job_uid)
        return await self._way.request(routes.QUERY_MADE, at=(id_,), body=asked, repeatable=True)

    async def end(self, id_: str, found: api.QueryResult) -> api.CodeAnswer:
        """Its result, or why there is none. Safe to repeat: the first one counts."""
        return await self._way.request(routes.QUERY_END, at=(id_,), body=found, repeatable=True)
