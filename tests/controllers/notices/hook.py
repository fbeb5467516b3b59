"""A webhook of a test's own on loopback."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Call:
    """What came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """Answers `status`, after `stall` seconds or once it is `released`; remembers what came."""

    status: int = 204
    stall: float = 0.0
    released: threading.Event = field(default_factory=threading.Event)
    calls: list[Call] = field(default_factory=list)
    url: str = ""

    def taken(self) -> list[str]:
        """The ids of what was taken, in order."""
        return [one.headers["Jervis-Delivery"] for one in self.calls]


class Server(ThreadingHTTPServer):
    """One thread per call."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hook = Hook(url=f"http://127.0.0.1:{self.server_address[1]}")
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def server_close(self) -> None:
        self.hook.released.set()
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that is killed while it waits is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:  # the name that http.server calls
        hook = self.server.hook
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hook.calls.append(Call(self.path, dict(self.headers.items()), body))
        hook.released.wait(hook.stall)
        self.send_response(hook.status)
        self.send_header("Location", f"{hook.url}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""
