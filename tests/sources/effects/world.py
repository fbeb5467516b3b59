"""The wires around an effect: an apiserver with Connections and Secrets, a knowledge base with contents, and Git hosts.

The hosts keep real lists of issues and comments; what they are asked is recorded, and an answer can be lost after the
host has acted.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from tests import httpserver
from tests.sources.git.knowledge import kubeconfig

NAMESPACE = "team-a"
_READY = ("Ready", "CredentialsValid")


def conditions(generation: int = 1, **said: tuple[str, str]) -> list[dict[str, Any]]:
    """Of a Connection that the operator accepts; `said`: type -> (status, reason)."""
    known: dict[str, tuple[str, str]] = {
        "Ready": ("False", "PollingNotEnabled"), "CredentialsValid": ("Unknown", "NotTried"), **said,
    }  # fmt: skip
    return [
        {
            "type": name, "status": status, "reason": reason, "message": f"because {reason}",
            "lastTransitionTime": "2026-11-26T00:00:00Z", "observedGeneration": generation,
        }
        for name, (status, reason) in known.items()
    ]  # fmt: skip


class World(httpserver.Server):
    """Everything outside."""

    def __init__(self) -> None:
        self.connections: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, str]] = {"login": {"username": "bot", "password": "word", "token": "t0k3n"}}
        self.contents: dict[str, bytes] = {}
        self.now = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
        self.rows: dict[str, list[dict[str, Any]]] = {}
        """Of a Git host, by path: issues and comments."""
        self.answers: dict[str, Any] = {}
        """What else it answers, by path."""
        self.calls: list[tuple[str, str, Any]] = []
        """Method, path and body of what was asked to change something."""
        self.headers: list[Mapping[str, str]] = []
        self.lose = False
        """The next change is made, and its answer lost."""
        self.fails: list[tuple[int, dict[str, str]]] = []
        """The next changes are not made, and answered so."""
        self.replies: list[tuple[int, dict[str, str], bytes]] = []
        """The next changes are made, and answered so."""
        self.words = "no"
        """What a refusal says, as raw text."""
        self.gets: list[tuple[int, dict[str, str]]] = []
        """The next readings after a change are answered so."""
        self.url = ""
        self._ids = itertools.count(100)

    def mailbox(self, port: int) -> None:
        """A Connection `mail` that sends by the server at this port."""
        smtp = {"url": f"smtp://127.0.0.1:{port}", "from": "team@example.com"}
        self.connect("mail", type="Email", url="imap://mail.example.com", smtp=smtp)

    def connect(self, name: str = "tracker", **spec: Any) -> None:
        """Apply a Connection, accepted by the operator."""
        self.connections[name] = {
            "apiVersion": "jervis.dev/v1alpha1", "kind": "Connection",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "generation": 1},
            "spec": {
                "type": "Gitea", "clientId": "acme", "url": f"{self.url}/o/r", "secretRef": {"name": "login"},
                "rateLimit": {"requestsPerMinute": 6000, "burst": 1000}, **spec,
            },
            "status": {"conditions": conditions()},
        }  # fmt: skip

    def application(self) -> web.Application:
        application = web.Application()
        kinds = "/apis/jervis.dev/v1alpha1/namespaces/{namespace}/connections/{name}"
        application.router.add_get(kinds, self._connection)
        application.router.add_get(kinds.removesuffix("/{name}"), self._connections)
        application.router.add_get("/api/v1/namespaces/{namespace}/secrets/{name}", self._secret)
        application.router.add_get("/api/v1/content/{key}", self._content)
        application.router.add_route("*", "/{path:.*}", self._host)
        return application

    def kubeconfig(self, folder: Path) -> Path:
        """A file by which a process finds this apiserver."""
        return kubeconfig(folder, self.url)

    async def _connection(self, request: web.Request) -> web.Response:
        found = self.connections.get(request.match_info["name"])
        if found is None or request.match_info["namespace"] != NAMESPACE:
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        return web.json_response(found)

    async def _connections(self, request: web.Request) -> web.Response:
        here = request.match_info["namespace"] == NAMESPACE
        return web.json_response({"items": list(self.connections.values()) if here else [], "metadata": {}})

    async def _secret(self, request: web.Request) -> web.Response:
        found = self.secrets.get(request.match_info["name"])
        if found is None:
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        return web.json_response({"data": {k: base64.b64encode(v.encode()).decode() for k, v in found.items()}})

    async def _content(self, request: web.Request) -> web.Response:
        found = self.contents.get(request.match_info["key"])
        if found is None:
            problem = {"code": "not_found", "message": "no such content"}
            return web.json_response({"error": problem}, status=404)
        return web.Response(body=found)

    # -- a Git host: three dialects of the same lists ----------------------------------------------------------------

    async def _host(self, request: web.Request) -> web.Response:
        path, self.headers = request.raw_path.partition("?")[0], [*self.headers, dict(request.headers)]
        if request.method == "GET" and self.gets and self.calls:
            status, headers = self.gets.pop(0)
            return web.json_response({"message": "secondary rate limit"}, status=status, headers=headers)
        if request.method == "GET":
            return self._answer(self._read(path, request.query))
        body = await request.json()
        self.calls.append((request.method, path, body))
        if self.fails:
            status, headers = self.fails.pop(0)
            return web.Response(text=self.words, status=status, headers=headers)
        made = self._change(request.method, path, body)
        if self.lose:
            self.lose = False
            assert request.transport is not None
            request.transport.abort()
        if self.replies:
            status, headers, raw = self.replies.pop(0)
            return web.Response(status=status, headers=headers, body=raw)
        return self._answer(made, 201)

    def _answer(self, found: Any, status: int = 200) -> web.Response:
        headers = {"Date": format_datetime(self.now, usegmt=True)}
        if found is None:
            return web.json_response({"message": "not found"}, status=404, headers=headers)
        return web.json_response(found, status=status, headers=headers)

    def _read(self, path: str, query: Mapping[str, str]) -> Any:
        if path in self.answers:
            return self.answers[path]
        if path in self.rows:
            size = int(query.get("per_page", query.get("limit", "50")))
            start = (int(query.get("page", "1")) - 1) * size
            newest = query.get("sort") == "desc" or query.get("direction") == "desc" or path.endswith("/issues")
            rows = list(reversed(self.rows[path])) if newest else self.rows[path]
            return rows[start : start + size]
        parent, _, number = path.rpartition("/")
        return next(
            (row for row in self.rows.get(parent, ()) if str(row.get("iid", row.get("number"))) == number), None
        )

    def _change(self, method: str, path: str, body: dict[str, Any]) -> Any:
        at = self.now.isoformat().replace("+00:00", "Z")
        if method == "POST":
            if path not in self.rows:
                return None
            number = len(self.rows[path]) + 1
            key = "iid" if "/v4/" in path else "number"
            row = {
                **body, "id": next(self._ids), key: number, "created_at": at, "updated_at": at, "state": "open",
                "html_url": f"https://git.example/{number}", "web_url": f"https://git.example/{number}",
            }  # fmt: skip
            row["labels"] = [{"name": str(one)} for one in body["labels"]] if "labels" in body else []
            self.rows[path].append(row)
            self.rows.setdefault(f"{path}/{number}/comments", [])
            self.rows.setdefault(f"{path}/{number}/notes", [])
            return row
        row = self._read(path.removesuffix("/labels"), {})
        if row is None:
            return None
        if path.endswith("/labels"):
            known = {one["id"]: one for one in self.rows[f"{path.partition('/issues')[0]}/labels"]}
            row["labels"] = [known[one] for one in body["labels"]]
        else:
            row |= {key: value for key, value in body.items() if key not in ("labels", "state_event")}
            if "state_event" in body:
                row["state"] = "closed" if body["state_event"] == "close" else "opened"
            if "labels" in body:
                names = body["labels"] if isinstance(body["labels"], list) else body["labels"].split(",")
                row["labels"] = [{"name": one} for one in names]
        row["updated_at"] = at
        return row
