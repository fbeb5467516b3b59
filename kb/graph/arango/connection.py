"""The connection, transactions, collections made on first use, and questions to every partition of a viewer."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import arango.errno as errno
from arango import exceptions
from arango.client import ArangoClient
from arango.http import DefaultHTTPClient

from crds import scope
from kb import errors, visibility
from kb.graph import aql, model
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
        # Another process let go of an erased client's collections since they were seen.
        errno.DATA_SOURCE_NOT_FOUND,
        errno.GRAPH_NOT_FOUND,
    }
)
# What was seen is not there: what is known of the other clients, too, may be wrong.
_GONE = frozenset({errno.DATA_SOURCE_NOT_FOUND, errno.GRAPH_NOT_FOUND, errno.DATABASE_NOT_FOUND})
_COLLECTIONS = (keys.nodes, keys.edges)


@dataclass(frozen=True)
class Cluster:
    """How a client's collections lie in a cluster; None leaves it to the database. One server alone ignores it.

    The number of shards of a collection never changes; the other two do.
    """

    shards: int | None = None
    replication: int | None = None
    write_concern: int | None = None


class Connection:
    """What reading and writing stand on: one database, asked for `pool` things at once."""

    def __init__(
        self,
        url: str,
        database: str,
        username: str,
        password: str,
        *,
        seconds: float | None = None,
        hub: int = model.HUB,
        cluster: Cluster = Cluster(),
        pool: int = 16,
    ) -> None:
        self._seconds = seconds
        self._hub = hub
        # One attempt: who may come back is the caller's business, and it must hear at once that the server is away.
        http = DefaultHTTPClient(
            request_timeout=_SECONDS, retry_attempts=1, backoff_factor=0, pool_connections=pool, pool_maxsize=pool
        )
        self._cluster = cluster
        # Threads of its own: those of the loop are fewer, and shared with all other work.
        self._threads = futures.ThreadPoolExecutor(pool, thread_name_prefix="arango")
        self._client = ArangoClient(hosts=url, http_client=http)
        self._name = database
        self._database: Any = self._client.db(database, username=username, password=password)
        # Names of graphs: those that were seen, and those whose schema was looked at.
        self._there: set[str] = set()
        self._ready: set[str] = set()
        self._fences_there = False

    async def prepare(self) -> None:
        """Nothing: the server may be away at the start, and collections are made when a client first writes."""

    async def ready(self) -> None:
        await self._call(self._database.version)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._client.close)

    @contextmanager
    def _transaction(self, client: str | None, *, history: bool = False, fenced: bool = False) -> Iterator[Any]:
        """A stream transaction over the client's collections: all of it, or nothing, one after the other.

        Beside another one, an entity that no document mentions could be deleted while the other one's edge to it is
        written. With `history` it spans the collections of replaced versions too; with `fenced` the fences, of which
        those of other clients are not locked.
        """
        spans = (False, True) if history else (False,)
        names = [] if client is None else [of(client, history=past) for past in spans for of in _COLLECTIONS]
        transaction: Any = self._database.begin_transaction(
            write=[keys.FENCES] if fenced else None, exclusive=names, lock_timeout=_LOCK_SECONDS
        )
        try:
            yield transaction
        except BaseException:
            # A server that cannot be told forgets the transaction by itself; why it failed is what counts.
            with suppress(exceptions.ArangoError, OSError):
                transaction.abort_transaction()
            raise
        transaction.commit_transaction()

    async def _ask(self, query: str, viewer: scope.Scope, *, history: bool = False, **values: Any) -> list[Any]:
        """The rows of a query over every partition in which the viewer's data can lie, and with `history` its past."""

        def work() -> list[Any]:
            rows: list[Any] = []
            for client, past in itertools.product(visibility.clients(viewer), (False, True) if history else (False,)):
                if self._exists(client, history=past):
                    names = self._names(client, history=past) | {"prefix": keys.nodes(client, history=past)}
                    bound: dict[str, Any] = {
                        "everything": not client,
                        "project": viewer.project_id,
                        "group": viewer.group_id,
                        "principals": visibility.wanted(viewer),
                        **names,
                        "moment": None,
                        "hub": self._hub,
                        **values,
                    }
                    # AQL refuses a bound value that its query does not use.
                    used = {name: value for name, value in bound.items() if f"@{name}" in query}
                    left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
                    rows += list(self._database.aql.execute(query, bind_vars=used, max_runtime=left))
            return rows

        deadline = None if self._seconds is None else time.monotonic() + self._seconds
        return await self._call(work)

    def _names(self, client: str, *, history: bool = False) -> dict[str, Any]:
        """The two collections, as queries bind them."""
        return {"@nodes": keys.nodes(client, history=history), "@edges": keys.edges(client, history=history)}

    def _rows(self, query: str, client: str, *, history: bool = False, **values: Any) -> list[Any]:
        """The rows of a query over one partition; none where it does not exist."""
        if not self._exists(client, history=history):
            return []
        bound = {**self._names(client, history=history), **values}
        used = {name: value for name, value in bound.items() if f"@{name}" in query}
        return list(self._database.aql.execute(query, bind_vars=used))

    def _exists(self, client: str, *, history: bool = False) -> bool:
        name = keys.graph(client, history=history)
        if name not in self._there:
            try:
                self._database.graph(name).properties()
            except exceptions.ArangoServerError as error:
                # Every other 404 is a fault: a database that is missing is no empty one.
                if error.error_code == errno.GRAPH_NOT_FOUND:
                    return False
                raise
            self._there.add(name)
        return True

    def _ensure(self, client: str, *, history: bool = False) -> None:
        """Make the collections of a partition, or complete those of another version before; once per process."""
        graph = keys.graph(client, history=history)
        if graph in self._ready:
            return
        nodes, edges = keys.nodes(client, history=history), keys.edges(client, history=history)
        version = self._rows(aql.SCHEMA_OF, client, history=history, key=aql.SCHEMA)
        if version and version[0] > aql.VERSION:
            raise errors.Misconfigured(
                f"ArangoDB's {nodes} has schema version {version[0]}, this program knows {aql.VERSION}",
                field="arangoUrl",
                remedy="Run the version that wrote it, or name another database (JERVIS_KB_ARANGO_DATABASE).",
            )
        if version != [aql.VERSION]:
            self._make(graph, nodes, edges)
        elif self._cluster.replication or self._cluster.write_concern:
            self._spread(nodes, edges)
        self._there.add(graph)
        self._ready.add(graph)

    def _make(self, graph: str, nodes: str, edges: str) -> None:
        """All steps may be repeated, also by two processes at once; the version is recorded last."""
        for name, is_edge in ((nodes, False), (edges, True)):
            _tolerate(errno.DUPLICATE_NAME, functools.partial(self._create, name, edge=is_edge))
        for name, fields in aql.indexes(nodes, edges):
            # A name begins with a letter, and fields like `_from` do not.
            called = "by_" + "_".join(fields).replace("[*]", "_each")
            index = {"type": "persistent", "fields": fields, "name": called}
            self._database.collection(name).add_index(index)
        definition = {"edge_collection": edges, "from_vertex_collections": [nodes], "to_vertex_collections": [nodes]}
        _tolerate(errno.GRAPH_DUPLICATE, lambda: self._database.create_graph(graph, [definition]))
        self._write(nodes, aql.PUT_DOCUMENT, row={"_key": aql.SCHEMA, "type": "schema", "version": aql.VERSION})

    def _create(self, name: str, *, edge: bool = False) -> None:
        self._database.create_collection(
            name,
            edge=edge,
            shard_count=self._cluster.shards,
            replication_factor=self._cluster.replication,
            write_concern=self._cluster.write_concern,
        )

    def _spread(self, *names: str) -> None:
        """Bring replication and write concern of collections that are there to what the settings say."""
        wanted = {"replication_factor": self._cluster.replication, "write_concern": self._cluster.write_concern}
        for name in names:
            collection = self._database.collection(name)
            there = collection.properties()
            # One server alone has neither.
            if any(said is not None and there.get(key, said) != said for key, said in wanted.items()):
                collection.configure(**wanted)

    def _write(self, nodes: str, query: str, **values: Any) -> None:
        transaction: Any = self._database.begin_transaction(exclusive=[nodes], lock_timeout=_LOCK_SECONDS)
        transaction.aql.execute(query, bind_vars={"@nodes": nodes, **values})
        transaction.commit_transaction()

    def _forget(self) -> None:
        """Look again at what is there: the server may have been replaced or cleared."""
        self._there.clear()
        self._ready.clear()
        self._fences_there = False

    def _ensure_fences(self) -> None:
        if not self._fences_there:
            _tolerate(errno.DUPLICATE_NAME, functools.partial(self._create, keys.FENCES))
            self._fences_there = True

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (exceptions.ServerConnectionError, exceptions.ArangoClientError, OSError) as error:
            # OSError: what the library `requests` raises, a timeout among it, passes through the driver as it is.
            self._forget()
            raise errors.Away("arangodb", str(error)[:300]) from error
        except exceptions.ArangoServerError as error:
            if error.error_code == errno.QUERY_KILLED and self._seconds is not None:
                raise errors.TooLong("arangodb", self._seconds) from error
            if error.http_code == 404 or error.error_code in _GONE:
                self._forget()
            if error.http_code in _COME_BACK or error.error_code in _LOST:
                raise errors.Away("arangodb", str(error)[:300], retry_after=1) from error
            if error.http_code in (401, 403):
                # A person repairs that while documents wait; none of them is at fault.
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
