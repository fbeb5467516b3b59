"""A TCP proxy that can be cut: how a server looks that dies and comes back, without touching the server."""

from __future__ import annotations

import contextlib
import selectors
import socket
import socketserver
import threading
from types import TracebackType


class Proxy:
    """Listens on a port of its own and passes bytes on to `host:port` until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._port = 0
        self._server: _Server | None = None
        self.repair()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.cut()

    @property
    def address(self) -> str:
        """host:port to connect to; stays the same when it is cut and repaired."""
        return f"127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Refuse new connections and drop those that are there."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.drop()

    def repair(self) -> None:
        """Listen again, on the same port."""
        self._server = _Server(("127.0.0.1", self._port), self._target)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], target: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self.target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._dropped = False

    def take(self, *sides: socket.socket) -> None:
        """These belong to a connection."""
        with self._lock:
            self._open.update(sides)
            late = self._dropped
        if late:
            self.drop()

    def release(self, *sides: socket.socket) -> None:
        """The connection is over."""
        with self._lock:
            self._open.difference_update(sides)

    def drop(self) -> None:
        """End every connection."""
        with self._lock:
            self._dropped = True
            sides = list(self._open)
        for side in sides:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        near: socket.socket = self.request
        # A connection that breaks is what this is for.
        with contextlib.suppress(OSError), socket.create_connection(self.server.target, 5) as far:
            self.server.take(near, far)
            try:
                self._pass_on(near, far)
            finally:
                self.server.release(near, far)

    @staticmethod
    def _pass_on(near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(near, selectors.EVENT_READ, far)
            ready.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    received = source.recv(65536)
                    if not received:
                        return
                    target.sendall(received)
