"""Two outsides at wire level: the content store of a knowledge base, and a kubelet that serves one log.

Both are what the real ones answer (kb/http/content.py; the kubelet's /containerLogs), without what stands behind them.
"""

from __future__ import annotations

import hashlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

from hack.cluster import certificates
from kb import wire


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
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
    that one."""

    def __init__(self) -> None:
        self.kept: list[tuple[dict[str, str], str, bytes]] = []
        self.busy = False
        self.token = ""
        super().__init__(_StoreHandler)


class _StoreHandler(BaseHTTPRequestHandler):
    server: Store

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert url.path == "/api/v1/content"
        if self.server.busy:
            problem = wire.Problem(code="unavailable", message="MongoDB is away.")
            self._answer(503, wire.ErrorReply(error=problem).model_dump_json(by_alias=True))
            return
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            refused = wire.Problem(code="unauthorized", message="This knowledge base wants a token.")
            self._answer(401, wire.ErrorReply(error=refused).model_dump_json(by_alias=True))
            return
        self.server.kept.append((dict(parse_qsl(url.query)), self.headers["Content-Type"], body))
        digest = hashlib.sha256(body).hexdigest()
        reference = wire.ContentRef(key=f"acme/{digest}", sha256=digest, bytes=len(body))
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


class Kubelet(_Server):
    """A log in two pieces; the second is written once `more` is set. `asked` holds the requests."""

    def __init__(self, pair: certificates.Pair) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.more = threading.Event()
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
        self.wfile.write(b"first line\n")
        self.wfile.flush()
        self.server.more.wait(30)
        self.wfile.write("poslední\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""
