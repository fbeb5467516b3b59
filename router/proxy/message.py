"""What travels on the client's side: a request as it was read, and a reply that the router makes itself.

Header fields that only pass are kept as the lines that are sent on, each with its CRLF.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_to_bytes

from crds import priority
from router.rights import Rights

if TYPE_CHECKING:
    from router.proxy.summary import Summary

_APIS = (b"/api/", b"/v1/")
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls. `ceiling` is the most urgent priority that counts for them, None for no bound.

    `run` is the uid of the task whose run calls with a run token, "" for other callers; no person waits for a
    `background` one, whatever its header says. `rights` are None where the token allows everything.
    """

    name: str = ""
    admin: bool = False
    ceiling: priority.Priority | None = None
    run: str = ""
    background: bool = False
    rights: Rights | None = None

    @property
    def account(self) -> str:
        """What its tokens are counted under: runs apart from callers whose tokens have that name."""
        return f"run/{self.name}" if self.run else self.name


ANYBODY = Identity()


class Bodies(Protocol):
    """Counts the bytes of bodies that are held in memory."""

    def kept(self, size: int) -> None:
        """The whole body came, with the length that was admitted in this moment."""

    def shrunk(self, size: int) -> None:
        """Body bytes were let go of."""


class Link(Protocol):
    """A client's connection, as the answer to a request sees it (`incoming.Incoming`)."""

    peer: str
    """The client's IP address."""
    above: bool
    """It came when there were as many connections as are served."""
    full: bool
    """Too many bytes wait to be taken by the client."""

    @property
    def service(self) -> Bodies:
        """Where the bodies of its requests are counted."""

    @property
    def transport(self) -> asyncio.Transport:
        """Raises ConnectionResetError when the client is gone."""

    async def room(self) -> None:
        """Wait until the client has taken what it was sent. Raises ConnectionResetError."""

    def pause(self, until: asyncio.Future[None]) -> None:
        """Read nothing more of this client for now."""

    def refuse(self, reply: Reply) -> None:
        """Answer at once and close."""

    def close(self) -> None:
        """Close after what was written has been sent."""

    def serves(self, request: Request) -> bool:
        """Is the request the one that is being served?"""

    def abort(self) -> None:
        """Close at once."""


class Request:
    """One request. `path` is decoded, `target` is path and query as the client wrote them (origin form)."""

    __slots__ = (
        "body",
        "has_body",
        "held",
        "identity",
        "keep_alive",
        "lines",
        "link",
        "method",
        "modern",
        "page",
        "path",
        "special",
        "summary",
        "target",
    )

    def __init__(
        self,
        link: Link,
        method: bytes,
        target: bytes,
        lines: bytes,
        special: dict[bytes, bytes],
        path: str | None = None,
    ) -> None:
        """`path` is for a caller that knows it from before."""
        self.link = link
        self.method = method
        if path is None:
            if not target.startswith(b"/") and b"://" in target:  # absolute form, as a client of a proxy writes it
                target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
            raw, mark, query = target.partition(b"?")
            if raw.endswith(b"/") and raw.startswith(_APIS):  # the same path, as Ollama's redirection has it
                raw = raw.rstrip(b"/")
                target = raw + mark + query
            path = (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")
        self.target = target
        self.path = path
        self.lines = lines
        """Header fields that mean nothing to the router."""
        self.special = special
        """Those that do (`hygiene.SPECIAL`), by their name in lower case; repeated ones joined by commas."""
        self.identity = ANYBODY
        self.summary: Summary | None = None
        """What is kept of it, once it was understood; None where nothing is wanted."""
        self.body: bytes | bytearray = b""
        self.has_body = False
        self.keep_alive = True
        self.modern = True
        """HTTP/1.1: understands chunks."""
        self.held = 0
        """Bytes of the body that are kept."""
        self.page = b""
        """Header lines by which a page of another origin, which a setting names, may read the answer."""

    def twin(self) -> Request:
        """Another request with the head of this one."""
        return Request(self.link, self.method, self.target, self.lines, self.special, self.path)

    def get(self, name: bytes) -> str | None:
        """A special field by its name (in lower case) as text, or None."""
        value = self.special.get(name)
        return None if value is None else value.decode("latin-1").strip()

    def fields(self, name: bytes) -> list[str]:
        """The values of a field that means nothing to the router, by its name in lower case."""
        pairs = (line.partition(b":") for line in self.lines.split(b"\r\n"))
        return [value.strip().decode("latin-1") for field, _, value in pairs if field.lower() == name]

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters, decoded; the last of equal names."""
        pairs = (part.partition(b"=") for part in self.target.partition(b"?")[2].replace(b"+", b" ").split(b"&"))
        return {_text(name): _text(value) for name, _, value in pairs if name}

    @property
    def reading(self) -> bool:
        """GET or HEAD."""
        return self.method in (b"GET", b"HEAD")

    def drop_body(self) -> None:
        """The body is not needed any more."""
        if self.held:
            self.body = b""
            self.link.service.shrunk(self.held)
            self.held = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of the router's own. `close` ends the client's connection after it."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = field(default=())
    close: bool = False


Own = Callable[[Request], Awaitable[Reply | None]]
"""Answers for one of the router's own paths; None when it wrote to the link itself."""


def _text(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")


def written(reply: Reply, request: Request) -> bytes:
    """The reply on the wire."""
    head = [
        b"HTTP/1.%d %d %s" % (request.modern, reply.status, _REASONS.get(reply.status, b"")),
        b"Date: " + formatdate(usegmt=True).encode(),
    ]
    if reply.body or reply.status not in (204, 304):
        head.append(b"Content-Type: " + reply.content_type.encode())
        head.append(b"Content-Length: %d" % len(reply.body))
    head += [f"{name}: {value}".encode("latin-1", "replace") for name, value in reply.headers]
    if request.page:
        head.append(request.page.removesuffix(b"\r\n"))
    if not request.keep_alive:
        head.append(b"Connection: close")
    elif not request.modern:
        head.append(b"Connection: keep-alive")
    return b"\r\n".join(head) + b"\r\n\r\n" + (b"" if request.method == b"HEAD" else reply.body)
