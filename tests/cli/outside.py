"""Outsides at wire level: the content store of a knowledge base, a kubelet with one log, and a relay that counts.

The first two are what the real ones answer (kb/http/content.py; the kubelet's /containerLogs), without what stands
behind them. The relay stands before a real apiserver.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from crds import browsers, history
from hack.cluster import certificates
from kb import api
from tests import waiting


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), handler)
        self.port = int(self.server_address[1])
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> _Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Store(_Server):
    """`kept` holds (scope parameters, media type, body); `busy` answers 503 with Retry-After; with a `token` it wants
    that one. `called` are the names that it was called by; where `names` has some, it refuses others."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.kept: list[tuple[dict[str, str], str, bytes]] = []
        self.busy = False
        self.token = ""
        self.names: tuple[str, ...] = ()
        self.called: list[str] = []
        super().__init__(_StoreHandler, host)


class _StoreHandler(BaseHTTPRequestHandler):
    server: Store

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert url.path == "/api/v1/content"
        named = self.headers["Host"]
        self.server.called.append(named)
        if self.server.names and named not in self.server.names:
            foreign = browsers.foreign_host(named, "JERVIS_KB_ALLOWED_HOSTS")
            problem = api.Problem(code="forbidden", message=foreign.message, field=foreign.field)
            self._answer(403, api.ErrorReply(error=problem).model_dump_json(by_alias=True))
            return
        if self.server.busy:
            problem = api.Problem(code="unavailable", message="MongoDB is away.")
            self._answer(503, api.ErrorReply(error=problem).model_dump_json(by_alias=True))
            return
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            refused = api.Problem(code="unauthorized", message="This knowledge base wants a token.")
            self._answer(401, api.ErrorReply(error=refused).model_dump_json(by_alias=True))
            return
        self.server.kept.append((dict(parse_qsl(url.query)), self.headers["Content-Type"], body))
        digest = hashlib.sha256(body).hexdigest()
        reference = api.ContentRef(key=f"acme/{digest}", sha256=digest, bytes=len(body))
        self._answer(201, reference.model_dump_json(by_alias=True))

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Results(_Server):
    """The operator's `GET /api/v1/results/UID`: `stored` by uid. It wants a token in the header of tickets."""

    def __init__(self, host: str) -> None:
        self.stored: dict[str, Any] = {}
        super().__init__(_ResultsHandler, host)


class _ResultsHandler(BaseHTTPRequestHandler):
    server: Results

    def do_GET(self) -> None:
        uid = self.path.removeprefix("/api/v1/results/")
        assert self.headers[history.TICKET_HEADER]
        found = self.server.stored.get(uid)
        problem = api.ErrorReply(error=api.Problem(code="not-found", message="There is no result."))
        body = json.dumps({"result": found}) if found else problem.model_dump_json(by_alias=True)
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Kubelet(_Server):
    """A log in two pieces, `log`; the second is written once `more` is set. `asked` holds the requests."""

    def __init__(self, pair: certificates.Pair) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.more = threading.Event()
        self.log = (b"first line\n", "poslední\n".encode())
        super().__init__(_KubeletHandler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class _KubeletHandler(BaseHTTPRequestHandler):
    server: Kubelet

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.asked.append((url.path, dict(parse_qsl(url.query))))
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        first, second = self.server.log
        self.wfile.write(first)
        self.wfile.flush()
        self.server.more.wait(waiting.PATIENCE)
        self.wfile.write(second)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Jobs(_Server):
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
        super().__init__(_JobsHandler)

    def config(self, path: Path) -> Path:
        """A kubeconfig that leads here."""
        named = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "jervis"}}],
        }
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "x", **named}))
        return path


class _JobsHandler(BaseHTTPRequestHandler):
    server: Jobs

    def do_GET(self) -> None:
        url, jobs = urlsplit(self.path), self.server
        kind = url.path.rpartition("/")[2]
        query = dict(parse_qsl(url.query))
        if kind == "cronjobs":
            template = {"metadata": {"labels": {}}, "spec": {"backoffLimit": 0}}
            name = {"name": "jervis-models", "uid": "u"}
            self._list([{"metadata": name, "spec": {"jobTemplate": template}}])
        elif kind == "events":
            assert jobs.made is not None
            name = jobs.made["metadata"]["name"]
            assert query["fieldSelector"] == f"involvedObject.kind=Job,involvedObject.name={name}"
            self._list(jobs.events)
        elif kind == "log":
            text = jobs.logs.pop(0) if len(jobs.logs) > 1 else jobs.logs[0]
            whole = text.removesuffix(jobs.BROKEN)
            self._answer(200, whole, len(text))
        elif "/jobs/" in url.path:
            self._answer(200, json.dumps({**(jobs.made or {}), "status": {"conditions": jobs.conditions}}).encode())
        else:
            self._list(jobs.pods if kind == "pods" else [])

    def do_POST(self) -> None:
        self.server.made = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201, json.dumps(self.server.made).encode())

    def do_DELETE(self) -> None:
        if "DELETE" in self.server.refused:
            self._answer(403, json.dumps({"kind": "Status", "message": "jobs is forbidden"}).encode())
            return
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert sent["propagationPolicy"] == "Background"
        self.server.deleted.append(self.path.rpartition("/")[2])
        self._answer(200, b"{}")

    def _list(self, items: list[dict[str, Any]]) -> None:
        document = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
        self._answer(200, json.dumps(document).encode())

    def _answer(self, code: int, body: bytes, length: int | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@dataclass(frozen=True)
class Asked:
    """A request and the size of its answer's body, in bytes."""

    verb: str
    path: str
    query: dict[str, str]
    accept: str
    bytes: int


class Relay(_Server):
    """Hands every request on to the apiserver of `kubeconfig` and notes it in `asked`; `config` leads here instead.

    `queue` is what the operator answers behind the apiserver's proxy; without it the request goes on, to nobody.
    """

    def __init__(self, kubeconfig: Path, config: Path) -> None:
        known = json.loads(kubeconfig.read_text())
        self.apiserver = urlsplit(known["clusters"][0]["cluster"]["server"])
        user = known["users"][0]["user"]
        self.context = ssl.create_default_context(cafile=known["clusters"][0]["cluster"]["certificate-authority"])
        self.context.load_cert_chain(user["client-certificate"], user["client-key"])
        self.asked: list[Asked] = []
        self.queue: Any = None
        super().__init__(_RelayHandler)
        known["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        known["users"][0]["user"] = {}
        config.write_text(json.dumps(known))

    def of_tasks(self) -> list[Asked]:
        """Those that read PendingTasks."""
        return [one for one in self.asked if one.verb == "GET" and "/pendingtasks" in one.path]

    def bytes(self) -> int:
        """Of all answers."""
        return sum(one.bytes for one in self.asked)


class _RelayHandler(BaseHTTPRequestHandler):
    server: Relay

    def _relay(self) -> None:
        url = urlsplit(self.path)
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.queue is not None and url.path.endswith("/proxy/api/v1/queue"):
            code, media, body = 200, "application/json", json.dumps(self.server.queue).encode()
        else:
            code, media, body = self._apiserver(sent)
        said = dict(parse_qsl(url.query))
        self.server.asked.append(Asked(self.command, url.path, said, self.headers["Accept"], len(body)))
        self.send_response(code)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _apiserver(self, sent: bytes) -> tuple[int, str, bytes]:
        way = http.client.HTTPSConnection(str(self.server.apiserver.netloc), context=self.server.context)
        passed = {name: self.headers[name] for name in ("Accept", "Content-Type") if name in self.headers}
        way.request(self.command, self.path, sent or None, passed)
        answer = way.getresponse()
        body = answer.read()
        way.close()
        return answer.status, str(answer.headers["Content-Type"]), body

    def do_GET(self) -> None:
        self._relay()

    def do_POST(self) -> None:
        self._relay()

    def do_PATCH(self) -> None:
        self._relay()

    def do_DELETE(self) -> None:
        self._relay()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""
