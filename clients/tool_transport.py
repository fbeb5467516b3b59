"""Streamable HTTP of the Model Context Protocol over `clients.http`: the transport that the protocol's library gets.

The library negotiates the version of the protocol and makes the messages. Its own transport is not used: it reads
answers whole, hides statuses, and its session checks what arrives in the event loop. Here each body and each event is
bounded while it arrives (`clients.json_bounds`), and of an answer about tools the library sees an empty one: the answer
itself is in `Transport.result`. Why there is none says `Transport.failure`:

    Away          silence: the server does not answer. Where `sent`, the call may have happened
    NotSent       nothing was sent, or what came was turned away before it was looked at: it may be asked again
    Refused       the server, or what stands before it, answers by a status that it does not do it
    Unreadable    the server has answered, and its answer cannot be read

Redirects are followed where they keep method, scheme, host and port (307 and 308), as from /mcp to /mcp/.
Source: modelcontextprotocol.io, specification, "Streamable HTTP"; WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import http
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from clients import json_bounds
from crds import errors, tools

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_LINE = re.compile(rb"\r\n|\n|\r(?!\Z)")
_SLICE = 8 << 10
"""Bytes between two turns of the event loop: a slice of a thousand strings takes milliseconds."""
_MOST_REDIRECTS = 3
_RECONNECT_SECONDS = 1.0
_MOST_RECONNECTS = 2
"""In a row, without an event."""
_GOODBYE_SECONDS = 2.0
_EXCERPT = 300
_ABOUT_TOOLS = ("tools/list", "tools/call")
_CLOSED = -32000
_MEANINGS = {
    401: "It asks for a login, and calls carry none.",
    403: "It does not permit this to calls without a login, or from here.",
    404: "Nothing is served at that URL.",
    405: "The URL is not one that takes calls of tools.",
    406: "It answers neither as JSON nor as events.",
    421: "It does not serve the host name of that URL.",
}


class Away(errors.Operational):
    """The server does not answer."""


class NotSent(Away):
    """Nothing was sent to the server, or it turned it away unread: a call has not happened."""


class Refused(errors.Permanent):
    """The server answers that it does not do it: a call has not happened."""


class Unreadable(errors.Permanent):
    """The server has answered, and its answer cannot be read: a call may have happened, and is not repeated."""


@dataclass
class _Stream:
    """Of the events of one answer: the last id, after how many seconds it is asked for again, what was no JSON."""

    id: str = ""
    retry: float = _RECONNECT_SECONDS
    garbled: str = ""


class Transport:
    """One exchange with a server; see the module. `client` is of `clients.http`."""

    def __init__(self, server: tools.Server, client: httpx.AsyncClient) -> None:
        self._server, self._client = server, client
        self._session = self._version = ""
        self._stateless = False
        self._asking = 0
        self._silent: Away | None = None
        self.sent = False
        """Whether a call may have reached the server."""
        self.result: Mapping[str, Any] | None = None
        """Of the last request about tools."""
        self.failure: errors.JervisError | None = None
        """Why the last request has no result; Refused where the server's answer is an error of the protocol."""
        self.code = 0
        """Of that error."""

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """What the library reads, and what it writes to."""
        arrived, read = anyio.create_memory_object_stream[Any](0)
        write, leaving = anyio.create_memory_object_stream[Any](0)
        async with arrived, read, write, leaving, anyio.create_task_group() as group:

            async def relay() -> None:
                async for message in leaving:
                    if hasattr(message.message, "id") and hasattr(message.message, "method"):
                        group.start_soon(self._ask, message, arrived)
                    else:
                        await self._tell(message)

            group.start_soon(relay)
            try:
                yield read, write
            finally:
                await self._end()
                group.cancel_scope.cancel()

    async def _ask(self, message: SessionMessage, arrived: Any) -> None:
        """Sends a request and passes on what comes, until its answer."""
        from mcp.shared.message import SessionMessage
        from mcp.types import JSONRPCNotification, JSONRPCRequest

        request: Any = message.message
        self.result, self.failure, self.code = None, self._silent, 0
        answer: dict[str, Any] = {}
        self._asking += 1
        try:
            if self._silent is None:
                async with contextlib.aclosing(self._messages(message)) as documents:
                    async for document in documents:
                        if "method" not in document:
                            answer = document
                            break
                        kind = JSONRPCRequest if "id" in document else JSONRPCNotification
                        with contextlib.suppress(ValueError):  # it is neither a message nor an answer
                            await _send(arrived, SessionMessage(kind.model_validate(document)))
                    else:
                        self.failure = self._away("its answer ends before its end")
        except (Refused, Unreadable, Away) as error:
            self.failure = error
            self._silent = error if isinstance(error, NotSent) else None
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, UnicodeError) as error:
            self.failure = self._silent = self._away(str(error)[:200] or type(error).__name__)
        finally:
            self._asking -= 1
        await _send(arrived, SessionMessage(self._passed_on(request, answer)))

    def _passed_on(self, request: Any, answer: Mapping[str, Any]) -> Any:
        """What the library sees of an answer; an error where there is none."""
        from mcp.types import ErrorData, JSONRPCError, JSONRPCResponse

        result, data = answer.get("result"), None
        if isinstance(result, Mapping):
            if request.method in _ABOUT_TOOLS:
                self.result = result
                # Checked by the library in the event loop, against schemas of the server: what is empty fits.
                result = {"content": [], "tools": _listed(result), "ttlMs": 0, "cacheScope": "private"}
                result |= {"resultType": "complete"}
            return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dict(result))
        error = answer.get("error")
        if isinstance(error, Mapping):
            code, text, data = error.get("code"), str(error.get("message") or ""), error.get("data")
            self.code = code if isinstance(code, int) and abs(code) < 1 << 31 else _CLOSED
            more = data if isinstance(data, str) else "" if data is None else json.dumps(data, ensure_ascii=False)
            said = ": ".join(part for part in (text[:_EXCERPT], more[:_EXCERPT]) if part)
            self.failure = Refused(f"The server {self._server.name} refuses it: {said or 'without a reason'}")
        elif self.failure is None:
            self.failure = self._unreadable("it has neither a result nor an error")
        failure = ErrorData(code=self.code or _CLOSED, message=self.failure.message, data=data)
        return JSONRPCError(jsonrpc="2.0", id=request.id, error=failure)

    async def _messages(self, message: SessionMessage) -> AsyncGenerator[dict[str, Any]]:
        """What comes for a request, until its end. Raises Away, NotSent, Refused, Unreadable, and what httpx raises."""
        request: Any = message.message
        headers, stream = self._headers(message), _Stream()
        async with self._opened("POST", headers, _body(request), call=request.method == "tools/call") as response:
            if request.method == "initialize" and response.is_success:
                self._session = response.headers.get("Mcp-Session-Id", "")
            if response.status_code >= 400 or _kind(response) != "text/event-stream":
                for document in await self._whole(response):
                    yield document
                return
            async for document in self._events(response, stream):
                yield document
        tries = 0
        while stream.id and tries < _MOST_RECONNECTS:
            # The server has ended the connection and goes on with the answer on another one.
            await asyncio.sleep(stream.retry)
            before, tries = stream.id, tries + 1
            again = {**headers, "Last-Event-ID": stream.id}
            with contextlib.suppress(httpx.HTTPError):
                async with self._opened("GET", again) as response:
                    if response.status_code != 200 or _kind(response) != "text/event-stream":
                        break
                    async for document in self._events(response, stream):
                        yield document
            tries = 0 if stream.id != before else tries
        if stream.garbled:
            raise self._unreadable(stream.garbled)

    @contextlib.asynccontextmanager
    async def _opened(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, *, call: bool = False
    ) -> AsyncIterator[httpx.Response]:
        async def trace(event: str, _: Any) -> None:
            self.sent |= call and event.endswith("send_request_headers.started")

        url = httpx.URL(self._server.url)
        for _ in range(_MOST_REDIRECTS + 1):
            self.sent = False if call else self.sent
            asked = self._client.stream(method, url, headers=headers, content=body, extensions={"trace": trace})
            async with asked as response:
                location = response.headers.get("Location", "") if response.is_redirect else ""
                if not location:
                    yield response
                    return
                target = url.join(location)
                same = (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port)
                if response.status_code not in (307, 308) or not same:
                    why = f"{_status(response)}: it leads to {str(target)[:_EXCERPT]}, which is not called"
                    raise Refused(f"The server {self._server.name} {why}")
            url = target
        raise Refused(f"The server {self._server.name} leads from one URL to the next without an end")

    async def _whole(self, response: httpx.Response) -> list[dict[str, Any]]:
        """The messages of an answer that is no stream of events. Raises what its status says."""
        status, kind = response.status_code, _kind(response)
        try:
            body = b"".join([piece async for piece in _pieces(response)])
            value = json_bounds.loads(body) if kind.endswith("json") else None
        except ValueError as error:
            if status < 400:
                raise self._unreadable(str(error)) from error
            body, value = b"", None
        documents = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]
        if status < 400 and documents:
            return documents
        if errors_of := [part for part in documents if isinstance(part.get("error"), dict) and "code" in part["error"]]:
            return errors_of
        if status in (202, 204):
            raise self._away(f"it {_status(response)}, and gives no answer")
        if status < 400:
            raise self._unreadable(f"it is {kind or 'of no type'}, neither JSON nor events")
        excerpt = "" if "html" in kind else json_bounds.plain(body.decode(errors="replace"))[:_EXCERPT].strip()
        raise self._turned_away(response, excerpt)

    def _turned_away(self, response: httpx.Response, excerpt: str) -> errors.JervisError:
        status = response.status_code
        meaning = _MEANINGS.get(status, "")
        if status == 404 and self._session:
            return NotSent(f"The server {self._server.name} has ended the session.")
        said = f"The server {self._server.name} {_status(response)}. {meaning} {excerpt}".strip()
        pause = _pause(response.headers.get("Retry-After", ""))
        if pause is not None:
            said += f" It asks to wait {pause:g} seconds."
        if status == 429:
            return NotSent(said, retry_after=pause)
        return Away(said, retry_after=pause) if status == 408 or status >= 500 else Refused(said)

    async def _events(self, response: httpx.Response, stream: _Stream) -> AsyncIterator[dict[str, Any]]:
        data = list[bytes]()
        try:
            async for line in _lines(_pieces(response, events=True)):
                name, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if name == b"data":
                    data.append(value)
                elif name == b"id" and b"\0" not in value:
                    stream.id = value.decode(errors="replace")
                elif name == b"retry" and value.isdigit() and len(value) < 10:
                    stream.retry = int(value) / 1000
                elif not line:
                    document, data = self._document(b"\n".join(data), stream), []
                    if document is not None:
                        yield document
        except json_bounds.TooLarge as error:
            raise self._unreadable(str(error)) from error

    def _document(self, data: bytes, stream: _Stream) -> dict[str, Any] | None:
        if not data:
            return None  # it gives an id alone
        try:
            value = json_bounds.loads(data)
        except ValueError as error:
            stream.garbled = str(error)
            return None
        if not isinstance(value, dict):
            stream.garbled = "it is no message"
        return value if isinstance(value, dict) else None

    async def _tell(self, message: SessionMessage) -> None:
        """Sends what has no answer; whether it comes changes nothing."""
        # A stateless call is cancelled by the end of its connection.
        cancels = getattr(message.message, "method", "") == "notifications/cancelled"
        if self._silent is not None or (self._stateless and cancels):
            return
        with contextlib.suppress(httpx.HTTPError, OSError, UnicodeError, Refused):
            async with self._opened("POST", self._headers(message), _body(message.message)):
                pass

    async def _end(self) -> None:
        if not self._session or self._silent is not None or self._asking:
            return
        headers = {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": self._version}
        with anyio.move_on_after(_GOODBYE_SECONDS, shield=True):
            with contextlib.suppress(httpx.HTTPError, OSError, UnicodeError, Refused):
                async with self._opened("DELETE", headers):
                    pass

    def _headers(self, message: SessionMessage) -> dict[str, str]:
        stamped: Mapping[str, str] = getattr(message.metadata, "headers", None) or {}
        if getattr(message.message, "method", "") == "initialize":
            self._version = ""  # of what was tried before
        named = {name.lower(): value for name, value in stamped.items()}
        self._version = named.get("mcp-protocol-version", self._version)
        if hasattr(message.message, "id"):
            self._stateless = "mcp-method" in named
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        own = {name.lower() for name in headers}
        return headers | {name: value for name, value in stamped.items() if name.lower() not in own}

    def _away(self, why: str) -> Away:
        return Away(f"The server {self._server.name} does not answer: {why}")

    def _unreadable(self, why: str) -> Unreadable:
        return Unreadable(f"The server {self._server.name} has answered, and its answer cannot be read: {why}")


async def _send(arrived: Any, item: Any) -> None:
    # The library has closed its end where nothing waits for this any more.
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await arrived.send(item)


async def _pieces(response: httpx.Response, *, events: bool = False) -> AsyncIterator[bytes]:
    """The body within the bounds of `json_bounds`; other work has its turn between two slices. Raises TooLarge."""
    bounded = json_bounds.Bounded(events=events)
    async for piece in response.aiter_raw():
        for start in range(0, len(piece), _SLICE):
            if passed := bounded.feed(piece[start : start + _SLICE]):
                yield passed
            await asyncio.sleep(0)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream of events. Its end ends a line and an event too, which the standard would throw away."""
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        if b"\n" in piece or b"\r" in piece:
            # A carriage return at the end may be half of a line's end.
            *lines, last = _LINE.split(rest)
            rest = bytearray(last)
            for line in lines:
                yield bytes(line)
    yield bytes(rest.rstrip(b"\r"))
    yield b""


def _listed(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools of a list, of which the library takes what headers their arguments go into."""
    listed = result.get("tools")
    return [
        {"name": tool["name"], "inputSchema": tool["inputSchema"]}
        for tool in (listed if isinstance(listed, list) else [])
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and isinstance(tool.get("inputSchema"), dict)
    ]


def _body(message: Any) -> bytes:
    return json.dumps(message.model_dump(by_alias=True, mode="json", exclude_unset=True)).encode()


def _kind(response: httpx.Response) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _status(response: httpx.Response) -> str:
    known = {status.value: status.phrase for status in http.HTTPStatus}
    return f"answers {response.status_code} {known.get(response.status_code, '')}".rstrip()


def _pause(text: str) -> float | None:
    """Seconds of a Retry-After (RFC 9110 10.2.3)."""
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        return max(0.0, round(email.utils.parsedate_to_datetime(text).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return None
