"""Outsides at wire level: the content store of a knowledge base, a kubelet with one log, and a relay that counts.

The first two are what the real ones answer (kb/service/http/content.py; the kubelet's /containerLogs), without what
stands behind them. The relay stands before a real apiserver.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
from aiohttp import web

from contracts import browsers
from contracts.api import history
from kb import api
from tests import httpserver, waiting


class Store(httpserver.Server):
    """`kept` holds (scope parameters, media type, body); `busy` answers 503 with Retry-After; with a `token` it wants
    that one. `called` are the names that it was called by; where `names` has some, it refuses others."""

    method = "POST"

    def __init__(self) -> None:
        self.kept: list[tuple[dict[str, str], str, bytes]] = []
        self.busy = False
        self.token = ""
        self.names: tuple[str, ...] = ()
        self.called: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        assert request.path == "/api/v1/content"
        named = request.headers["Host"]
        self.called.append(named)
        if self.names and named not in self.names:
            foreign = browsers.foreign_host(named, "JERVIS_KB_ALLOWED_HOSTS")
            return self._refusal(403, api.Problem(code="forbidden", message=foreign.message, field=foreign.field))
        if self.busy:
            return self._refusal(503, api.Problem(code="unavailable", message="MongoDB is away."))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            problem = api.Problem(code="unauthorized", message="This knowledge base wants a token.")
            return self._refusal(401, problem)
        self.kept.append((dict(parse_qsl(request.query_string)), request.headers["Content-Type"], body))
        digest = hashlib.sha256(body).hexdigest()
        reference = api.ContentRef(key=f"acme/{digest}", sha256=digest, bytes=len(body))
        return httpserver.reply(reference.model_dump_json(by_alias=True), 201)

    @property
    def flags(self) -> list[str]:
        """Those that lead a command here."""
        return ["--kb", self.url]

    @staticmethod
    def _refusal(status: int, problem: api.Problem) -> web.Response:
        reply = api.ErrorReply(error=problem).model_dump_json(by_alias=True)
        return httpserver.reply(reply, status, {"Retry-After": "7"})


class Erasures(httpserver.Server):
    """Erasures of a knowledge base: `asked`, each done after `patience` looks, of which the first finds it away."""

    def __init__(self, patience: int = 0) -> None:
        self.asked: list[api.ErasureDraft] = []
        self.patience, self.looks = patience, 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/api/v1/erasures"
        if request.method == "POST":
            self.asked.append(api.ErasureDraft.model_validate_json(await request.read()))
            return httpserver.reply(self._last().model_dump_json(by_alias=True), 202)
        self.looks += 1
        if self.looks == 1:
            return httpserver.reply({"error": {"code": "unavailable", "message": "mongodb is away"}}, 503)
        return httpserver.reply(api.Erasures(erasures=[self._last()]).model_dump_json(by_alias=True))

    def _last(self) -> api.Erasure:
        draft, state = self.asked[-1], "Done" if self.looks >= self.patience else "Running"
        named = {"id": "e1", "scope": draft.scope, "requestedBy": draft.by, "requestedAt": "2026-03-01T00:00:00Z"}
        erased = {"documents": 2, "tasks": 1, "rules": 0} if state == "Done" else {"documents": 0, "rules": 0}
        return api.Erasure.model_validate({**named, "state": state, "erased": erased})


class Results(httpserver.Server):
    """The operator's `GET /api/v1/results/UID`: `stored` by uid. It wants a token in the header of tickets."""

    method = "GET"

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.headers[history.TICKET_HEADER]
        result = self.stored.get(request.path.removeprefix("/api/v1/results/"))
        if result:
            return httpserver.reply({"result": result})
        problem = api.ErrorReply(error=api.Problem(code="not-found", message="There is no result."))
        return httpserver.reply(problem.model_dump_json(by_alias=True), 404)


class Kubelet(httpserver.Server):
    """A log in two pieces, `log`; the second is written once `more` is set. `asked` holds the requests."""

    method = "GET"

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.more = threading.Event()
        self.log = (b"first line\n", "poslední\n".encode())

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, dict(parse_qsl(request.query_string))))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(self.log[0])
        await asyncio.to_thread(self.more.wait, waiting.PATIENCE)
        await response.write(self.log[1])
        return response


class Jobs(httpserver.Server):
    """An apiserver with a CronJob of tasks for models, and the Job that is made from it: `conditions`, `pods` and
    `events` are that Job's. Each read of the log gives the next of `logs`, and the last one again and again; a log that
    ends with `BROKEN` breaks off there. `refused` are verbs that answer 403."""

    BROKEN = b"<broken>"

    def __init__(self) -> None:
        self.conditions: list[dict[str, Any]] = []
        self.pods: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.logs: list[bytes] = [b""]
        self.made: dict[str, Any] | None = None
        self.deleted: list[str] = []
        self.refused: set[str] = set()

    def config(self, path: Path) -> Path:
        """A kubeconfig that leads here."""
        named = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "jervis"}}],
        }
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "x", **named}))
        return path

    @property
    def name(self) -> str:
        """Of the Job."""
        assert self.made is not None
        return str(self.made["metadata"]["name"])

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._get)
        application.router.add_post("/{path:.*}", self._post)
        application.router.add_delete("/{path:.*}", self._delete)
        return application

    async def _get(self, request: web.Request) -> web.StreamResponse:
        kind = request.path.rpartition("/")[2]
        if kind == "cronjobs":
            template = {"metadata": {"labels": {}}, "spec": {"backoffLimit": 0}}
            name = {"name": "jervis-models", "uid": "u"}
            return self._list([{"metadata": name, "spec": {"jobTemplate": template}}])
        if kind == "events":
            assert request.query["fieldSelector"] == f"involvedObject.kind=Job,involvedObject.name={self.name}"
            return self._list(self.events)
        if kind == "log":
            text = self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]
            whole = text.removesuffix(self.BROKEN)
            return httpserver.reply(whole) if whole == text else await self._break_off(request, whole, len(text))
        if "/jobs/" in request.path:
            return httpserver.reply({**(self.made or {}), "status": {"conditions": self.conditions}})
        return self._list(self.pods if kind == "pods" else [])

    async def _post(self, request: web.Request) -> web.Response:
        self.made = await request.json()
        return httpserver.reply(self.made, 201)

    async def _delete(self, request: web.Request) -> web.Response:
        if "DELETE" in self.refused:
            return httpserver.reply({"kind": "Status", "message": "jobs is forbidden"}, 403)
        assert (await request.json())["propagationPolicy"] == "Background"
        self.deleted.append(request.path.rpartition("/")[2])
        return httpserver.reply({})

    @staticmethod
    def _list(items: list[dict[str, Any]]) -> web.Response:
        return httpserver.reply({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})

    @staticmethod
    async def _break_off(request: web.Request, body: bytes, length: int) -> web.StreamResponse:
        """An answer that promises `length` bytes."""
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(length)})
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.close()
        return response


@dataclass(frozen=True)
class Asked:
    """A request and the size of its answer's body, in bytes."""

    verb: str
    path: str
    query: dict[str, str]
    accept: str
    bytes: int


class Relay(httpserver.Server):
    """Hands every request on to the apiserver of `kubeconfig` and notes it in `asked`; `config` leads here instead.

    `queue` is what the operator answers behind the apiserver's proxy; without it the request goes on, to nobody.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._known = json.loads(kubeconfig.read_text())
        cluster, user = self._known["clusters"][0]["cluster"], self._known["users"][0]["user"]
        self.apiserver = cluster["server"]
        self.context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self.context.load_cert_chain(user["client-certificate"], user["client-key"])
        self.asked: list[Asked] = []
        self.queue: Any = None

    def config(self, path: Path) -> Path:
        """A kubeconfig that leads here."""
        self._known["clusters"][0]["cluster"], self._known["users"][0]["user"] = {"server": self.url}, {}
        path.write_text(json.dumps(self._known))
        return path

    def of_tasks(self) -> list[Asked]:
        """Those that read PendingTasks."""
        return [one for one in self.asked if one.verb == "GET" and "/pendingtasks" in one.path]

    def total_bytes(self) -> int:
        """Of all answers."""
        return sum(one.bytes for one in self.asked)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        sent = await request.read()
        if self.queue is not None and request.path.endswith("/proxy/api/v1/queue"):
            response = httpserver.reply(self.queue)
        else:
            response = await self._apiserver(request, sent)
        accept = request.headers.get("Accept", "")
        query, size = dict(parse_qsl(request.query_string)), response.content_length or 0
        self.asked.append(Asked(request.method, request.path, query, accept, size))
        return response

    async def _apiserver(self, request: web.Request, sent: bytes) -> web.Response:
        passed = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        passed["Accept-Encoding"] = "identity"
        url = self.apiserver + request.path_qs
        async with httpx.AsyncClient(verify=self.context, trust_env=False, timeout=None) as way:
            answer = await way.request(request.method, url, content=sent, headers=passed)
        kind = {"Content-Type": answer.headers["Content-Type"]}
        return web.Response(status=answer.status_code, body=answer.content, headers=kind)
