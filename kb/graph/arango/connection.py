"""The connection, transactions, collections made on first use, and questions to every partition of a viewer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import arango.errno as errno
from arango import exceptions
from arango.client import ArangoClient
from arango.http import DefaultHTTPClient

from crds import scope
from kb import errors, visibility
from kb.graph import aql
from kb.graph.arango import keys

_Result = TypeVar("_Result")
_SECONDS = 30.0
_LOCK_SECONDS = 20
"""For the writers before this one. Less than a request may take, so that the server is the one that gives up."""
# 409 and 412: another transaction won; 410: it was taken away; 503: starting, shutting down or without a leader.
_COME_BACK = frozenset({409, 410, 412, 429, 503})
# A lock that others held too long, or each other's; a transaction or cursor that waited too long, or a server that was
# restarted meanwhile.
_LOST = frozenset(
    {
        errno.LOCK_TIMEOUT,
        errno.DEADLOCK,
        errno.CURSOR_NOT_FOUND,
        errno.TRANSACTION_INTERNAL,
        errno.TRANSACTION_ABORTED,
        errno.TRANSACTION_NOT_FOUND,
    }
)


class Connection:
    """What reading and writing stand on: one database."""

    def __init__(self, url: str, database: str, username: str, password: str) -> None:
        # One attempt: who may come back is the caller's business, and it must hear at once that the server is away.
        http = DefaultHTTPClient(request_timeout=_SECONDS, retry_attempts=1, backoff_factor=0)
        self._client = ArangoClient(hosts=url, http_client=http)
        self._name = database
        self._database: Any = self._client.db(database, username=username, password=password)
        self._there: set[str] = set()

    async def prepare(self) -> None:
        """Nothing: the server may be away at the start, and collections are made when a client first writes."""

    async def ready(self) -> None:
        await self._call(self._database.version)

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)

    @contextmanager
    def _transaction(self, client: str) -> Iterator[Any]:
        """A stream transaction over the client's collections: all of it, or nothing, one after the other.

        Beside another one, an entity could be forgotten as nobody's while the other one's edge to it is written.
        """
        names = [keys.nodes(client), keys.edges(client)]
        transaction: Any = self._database.begin_transaction(exclusive=names, lock_timeout=_LOCK_SECONDS)
        try:
            yield transaction
        except BaseException:
            # A server that cannot be told forgets the transaction by itself; why it failed is what counts.
            with suppress(exceptions.ArangoError, OSError):
                transaction.abort_transaction()
            raise
        transaction.commit_transaction()

    async def _ask(self, query: str, viewer: scope.Scope, **values: Any) -> list[Any]:
        """The rows of a query over every partition in which the viewer's data can lie."""

        def work() -> list[Any]:
            rows: list[Any] = []
            for client in visibility.clients(viewer):
                if self._exists(client):
                    names = {"@nodes": keys.nodes(client), "@edges": keys.edges(client), "prefix": keys.nodes(client)}
                    bound: dict[str, Any] = {
                        "everything": not client,
                        "project": viewer.project_id,
                        "group": viewer.group_id,
                        **names,
                        **values,
                    }
                    # AQL refuses a bound value that its query does not use.
                    used = {name: value for name, value in bound.items() if f"@{name}" in query}
                    rows += list(self._database.aql.execute(query, bind_vars=used))
            return rows

        return await self._call(work)

    def _exists(self, client: str) -> bool:
        if client not in self._there and self._database.has_graph(keys.graph(client)):
            self._there.add(client)
        return client in self._there

    def _ensure(self, client: str) -> None:
        if self._exists(client):
            return
        nodes, edges = keys.nodes(client), keys.edges(client)
        for name, is_edge in ((nodes, False), (edges, True)):
            _tolerate(errno.DUPLICATE_NAME, functools.partial(self._database.create_collection, name, edge=is_edge))
        for name, fields in aql.indexes(nodes, edges):
            # A name begins with a letter, and fields like `_from` do not.
            called = "by_" + "_".join(fields).replace("[*]", "_each")
            index = {"type": "persistent", "fields": fields, "name": called}
            self._database.collection(name).add_index(index)
        definition = {"edge_collection": edges, "from_vertex_collections": [nodes], "to_vertex_collections": [nodes]}
        _tolerate(errno.GRAPH_DUPLICATE, lambda: self._database.create_graph(keys.graph(client), [definition]))
        self._there.add(client)

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        try:
            return await asyncio.to_thread(work)
        except (exceptions.ServerConnectionError, exceptions.ArangoClientError, OSError) as error:
            # OSError: what the library `requests` raises, a timeout among it, passes through the driver as it is.
            self._there.clear()
            raise errors.Away("arangodb", str(error)[:300]) from error
        except exceptions.ArangoServerError as error:
            self._there.clear()
            if error.http_code in _COME_BACK or error.error_code in _LOST:
                raise errors.Away("arangodb", str(error)[:300], retry_after=1) from error
            if error.http_code in (401, 403):
                # A person mends that while documents wait; none of them is at fault.
                said = "it does not take the user and password of JERVIS_KB_ARANGO_USERNAME and _PASSWORD"
                raise errors.Away("arangodb", said) from error
            if error.error_code == errno.DATABASE_NOT_FOUND:
                said = f"it has no database {self._name!r} (JERVIS_KB_ARANGO_DATABASE): create it there"
                raise errors.Away("arangodb", said) from error
            raise


def _tolerate(code: int, work: Callable[[], object]) -> None:
    """Run `work`; that another process was faster (error `code`) is as good."""
    try:
        work()
    except exceptions.ArangoServerError as error:
        if error.error_code != code:
            raise
