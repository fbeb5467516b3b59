"""The HTTP API of one ArangoDB server, as far as python-arango is used: databases, collections, graphs, cursors.

Stream transactions work on a copy and replace what they declared. Exclusive ones wait for each other; one that shares
and finds that another one wrote meanwhile gets 409. Names and keys are refused as the server refuses them.
Source: the ArangoDB manual, "Naming conventions", "Locking and isolation", "Error codes".
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib import parse

from tests.fakes.arango import language

BATCH = 7
"""Rows of an answer before the cursor is asked for more: small, so that every test pages."""
Answer = tuple[int, dict[str, Any]]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,255}")
"""Of a collection or an index, as long as the server has not been told to allow more."""


@dataclass
class _Transaction:
    declared: frozenset[str]
    exclusive: frozenset[str]
    collections: dict[str, language.Collection]
    before: dict[str, language.Collection]


@dataclass
class Database:
    """Everything there is. `commits` counts what each collection went through, `properties` say how it lies in a
    cluster."""

    collections: dict[str, language.Collection] = field(default_factory=dict)
    edges: set[str] = field(default_factory=set)
    indexes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    graphs: dict[str, dict[str, Any]] = field(default_factory=dict)
    properties: dict[str, dict[str, int]] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Serves in a thread. `calls` are (method, path, body); `trouble` may answer a call in the server's place."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.databases: dict[str, Database] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self.trouble: Callable[[str, str, Any], Answer | None] = lambda method, path, body: None
        self.lock = threading.RLock()
        self._ended = threading.Condition(self.lock)
        self.transactions: dict[str, tuple[_Transaction, dict[str, int]]] = {}
        self.cursors: dict[str, list[Any]] = {}
        # Seconds that a query is said to take, compared with the time that it is given.
        self.takes = 0.0
        self.idle_seconds = 60.0
        self._used: dict[str, float] = {}
        self.numbers = itertools.count(1)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no fault worth a traceback."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def answer(self, method: str, target: str, headers: Any, body: Any) -> Answer:
        """What a request is answered."""
        url = parse.urlsplit(target)
        found = re.fullmatch(r"/_db/([^/]+)/_api/(.+)", url.path)
        if found is None:
            return _error(404, 404, f"unknown path {url.path!r}")
        database = self.databases.setdefault(parse.unquote(found[1]), Database())
        path = [parse.unquote(part) for part in found[2].split("/")]
        self.calls.append((method, "/".join(path), body))
        troubled = self.trouble(method, "/".join(path), body)
        if troubled is not None:
            return troubled
        query = dict(parse.parse_qsl(url.query))
        routes: dict[str, Callable[[], Answer]] = {
            "version": lambda: (200, {"server": "arango", "version": "3.12.0", "license": "community"}),
            "collection": lambda: self._collection(database, method, path, body),
            "index": lambda: self._index(database, query["collection"], body),
            "gharial": lambda: self._graph(database, method, path, body, query),
            "transaction": lambda: self._transaction(database, method, path, body),
            "cursor": lambda: self._cursor(database, method, path, headers, body),
        }
        return routes[path[0]]() if path[0] in routes else _error(404, 404, f"unknown path {path[0]!r}")

    def _collection(self, database: Database, method: str, path: list[str], body: Any) -> Answer:
        if len(path) > 1:
            # As a cluster answers; a server that stands alone says nothing of shards and copies.
            if path[1] not in database.collections:
                return _error(404, 1203, "collection or view not found")
            said = database.properties[path[1]]
            if method == "PUT":
                said.update(body)
            return 200, {"name": path[1], "id": "1", "type": 2, "status": 3, "isSystem": False, **said}
        name = body["name"]
        if not _NAME.fullmatch(name):
            return _error(400, 1208, "illegal name: collection name invalid")
        if name in database.collections:
            return _error(409, 1207, "duplicate name")
        database.collections[name] = language.Collection(name)
        spread = ("numberOfShards", "replicationFactor", "writeConcern")
        database.properties[name] = {key: body.get(key, 1) for key in spread}
        if body.get("type") == 3:
            database.edges.add(name)
        return 200, {"name": name, "id": "1", "type": body.get("type", 2), "status": 3, "isSystem": False}

    def _index(self, database: Database, name: str, body: Any) -> Answer:
        if not _NAME.fullmatch(body["name"]):
            return _error(400, 1208, "illegal name: index name invalid")
        known = database.indexes.setdefault(name, [])
        if body not in known:
            known.append(body)
        return 201, {**body, "id": f"{name}/{known.index(body)}"}

    def _graph(self, database: Database, method: str, path: list[str], body: Any, query: dict[str, str]) -> Answer:
        if method == "POST":
            if body["name"] in database.graphs:
                return _error(409, 1925, "graph already exists")
            database.graphs[body["name"]] = {**body, "_key": body["name"], "_rev": "1", "orphanCollections": []}
            return 202, {"graph": {**database.graphs[body["name"]], "_id": f"_graphs/{body['name']}"}}
        if len(path) == 1:
            return 200, {"graphs": [{**one, "_id": f"_graphs/{name}"} for name, one in database.graphs.items()]}
        if path[1] not in database.graphs:
            return _error(404, 1924, "graph not found")
        if method == "DELETE":
            for definition in database.graphs.pop(path[1])["edgeDefinitions"]:
                if query.get("dropCollections") in ("1", "true"):
                    for name in (definition["collection"], *definition["from"], *definition["to"]):
                        database.collections.pop(name, None)
            return 202, {"removed": True}
        return 200, {"graph": {**database.graphs[path[1]], "_id": f"_graphs/{path[1]}"}}

    def _transaction(self, database: Database, method: str, path: list[str], body: Any) -> Answer:
        if method == "POST":
            own = str(next(self.numbers))
            alone = frozenset(body["collections"].get("exclusive", ()))
            declared = alone | frozenset(body["collections"].get("write", ()))

            def free() -> bool:
                # Whose client was killed: the real server gives up what was idle for a minute.
                for idle in [n for n, at in self._used.items() if time.monotonic() - at >= self.idle_seconds]:
                    self.transactions.pop(idle, None)
                    del self._used[idle]
                return not any(
                    declared & other.exclusive or alone & other.declared for other, _ in self.transactions.values()
                )

            until = time.monotonic() + body.get("lockTimeout", 900)
            while not self._ended.wait_for(free, min(self.idle_seconds, max(until - time.monotonic(), 0))):
                if time.monotonic() >= until:
                    return _error(500, 18, "timeout waiting to lock key")
            begun = _Transaction(declared, alone, copy.deepcopy(database.collections), dict(database.collections))
            self.transactions[own] = (begun, dict(database.commits))
            self._used[own] = time.monotonic()
            return 201, {"result": {"id": own, "status": "running"}}
        if path[1] not in self.transactions:
            return _error(404, 1655, "transaction not found")
        begun, commits = self.transactions.pop(path[1])
        self._used.pop(path[1], None)
        self._ended.notify_all()
        if method == "PUT":
            if any(database.commits.get(name, 0) != commits.get(name, 0) for name in begun.declared):
                return _error(409, 1200, "write-write conflict")
            for name in begun.declared:
                database.collections[name] = begun.collections[name]
                database.commits[name] = database.commits.get(name, 0) + 1
        return 200, {"result": {"id": path[1], "status": "committed" if method == "PUT" else "aborted"}}

    def _cursor(self, database: Database, method: str, path: list[str], headers: Any, body: Any) -> Answer:
        if len(path) > 1:
            rows = self.cursors.pop(path[1], None)
            if rows is None:
                return _error(404, 1600, "cursor not found")
            return (202, {}) if method == "DELETE" else self._page(200, rows)
        own = headers.get("x-arango-trx-id")
        if own is not None and own not in self.transactions:
            return _error(404, 1655, "transaction not found")
        begun = self.transactions[own][0] if own else None
        if own:
            self._used[own] = time.monotonic()

        def named(name: str, write: bool) -> language.Collection:
            there = begun.collections if begun else database.collections
            if name not in there:
                raise language.Refused(1203, f"collection or view not found: {name}")
            if write and (begun is None or name not in begun.declared):
                raise language.Refused(1652, f"{name} is written and was not declared")
            return there[name]

        if 0 < body.get("options", {}).get("maxRuntime", 0) <= self.takes:
            return _error(410, 1500, "query killed")
        try:
            rows = language.run(body["query"], body.get("bindVars", {}), named)
        except language.Refused as error:
            return _error(400, error.number, f"AQL: {error}")
        return self._page(201, json.loads(json.dumps(rows)))

    def _page(self, status: int, rows: list[Any]) -> Answer:
        page, rest = rows[:BATCH], rows[BATCH:]
        reply: dict[str, Any] = {"result": page, "hasMore": bool(rest), "cached": False, "extra": {}}
        if rest:
            reply["id"] = str(next(self.numbers))
            self.cursors[reply["id"]] = rest
        return status, reply


def _error(status: int, number: int, message: str) -> Answer:
    return status, {"errorNum": number, "errorMessage": message}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: apart, the second waits for the first one's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        if len(text) < length:
            self.close_connection = True  # its client was killed while it sent
            return
        with self.server.lock:
            status, reply = self.server.answer(
                self.command, self.path, self.headers, json.loads(text) if text else None
            )
        if status == 0:
            self.close_connection = True  # no answer at all
            return
        said = json.dumps({"error": status >= 400, "code": status, **reply}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 -- as the library calls them

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""
