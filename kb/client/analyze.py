"""The client's part for ad-hoc queries of Joern: `kb.client.Client` gives it as `client.analyze`.

Calls raise `kb.client.Unavailable` or `kb.client.Rejected`.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegraph import api
from crds import addresses, scope
from kb.client import transport

_PATH = "/api/v1/analyze/code"


class Analyze:
    """The endpoints below /analyze/code."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def ask(self, query: api.CodeQuery) -> api.CodeAnswer:
        """Have a query run; not to be repeated without need: each call is a query of its own."""
        return await self._way.call("POST", _PATH, api.CodeAnswer, body=query)

    async def show(self, owner: scope.Scope, id_: str) -> api.CodeAnswer:
        """What became of it; `Rejected` with code `not_found` where it is not there any more."""
        params = owner.model_dump(by_alias=True)
        return await self._way.call("GET", _PATH + addresses.path(id_), api.CodeAnswer, params=params)

    async def claim(self, most: int) -> Sequence[api.QueryWork]:
        """For the operator: all that run, at most `most` unless more did before. Safe to repeat."""
        asked = api.QueryClaim(most=most)
        return (await self._way.call("POST", f"{_PATH}/claims", api.QueryClaims, body=asked, repeatable=True)).queries

    async def made(self, id_: str, job_uid: str) -> api.CodeAnswer:
        """For the operator: its Job exists. Safe to repeat."""
        asked = api.QueryMade(job_uid=job_uid)
        path = _PATH + addresses.path(id_, "job")
        return await self._way.call("POST", path, api.CodeAnswer, body=asked, repeatable=True)

    async def end(self, id_: str, found: api.QueryResult) -> api.CodeAnswer:
        """Its result, or why there is none. Safe to repeat: the first one counts."""
        path = _PATH + addresses.path(id_, "result")
        return await self._way.call("POST", path, api.CodeAnswer, body=found, repeatable=True)
