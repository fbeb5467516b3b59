"""The router's client for Python: what kb, the controllers and the orchestrator's Job call.

Every call carries its priority. Errors are sorted by retry meaning:

    Unavailable(Operational)   429, 5xx, timeouts, refused or broken connections, an answer that breaks off: come again
     |- Taken                  409: another owner has reserved what was to be reserved
     |- Broken                 it broke off, or was silent, after the request was sent: a model may have worked on it
    Rejected(Permanent)        400, 404 (no backend serves the model), 413, other 4xx: it cannot succeed unchanged
     |- Unauthorized           401: the token is missing, wrong or expired

Chats are always streamed from the router and put together here: the wait is then bounded by silence, not by the length
of the answer, and a caller that is cancelled hangs up, which frees the GPU at once.

Source of the wire format: Ollama's API page (`/api/chat`, `/api/embed`), the README of llama.cpp's server
(`/v1/rerank`); errors are `{"error": "..."}`.
"""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from pydantic import BaseModel

from crds import addresses, errors, priority
from router import announcement, keepalive
from router.status import Status

if TYPE_CHECKING:
    import aiohttp

SILENCE = priority.SILENCE
CONNECT = 5.0
_JSON = {"Content-Type": "application/json"}
_CLOSED = httpx.ByteStream(b"")
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Unavailable(errors.Operational):
    """The router or every backend behind it is busy or away; `retry_after` in seconds when it named a time."""


class Broken(Unavailable):
    """The request was sent, and its answer did not come to its end: a model may have read it, and written."""


class Taken(Unavailable):
    """Every GPU that may be reserved is reserved; the message names the holder."""


class Rejected(errors.Permanent):
    """The request cannot succeed as it is; the message names the model or the field."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model makes; `arguments` are as the backend read them, not validated."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model: its text, and what the backend counted as tokens read and written (0: it did not say).

    `calls` are those of the tools that were offered. `cut`: it has as many tokens as it may have, and goes on. `model`
    is the one that answered, as the backend names it."""

    text: str
    prompt_tokens: int = 0
    answer_tokens: int = 0
    calls: tuple[ToolCall, ...] = ()
    cut: bool = False
    model: str = ""


class UnknownModel(Rejected):
    """No backend has the model: its name is wrong, or it is not there yet. An operator has to act, not the caller."""


class Unauthorized(Rejected):
    """The router does not know the token, or its time is over."""


def token_file(path: str) -> Callable[[], str | None]:
    """A `token` for `Client`: the file's content, read before each call because the kubelet renews it; an empty path is
    for a router that wants none. A file that cannot be read makes the call Unavailable: it may be there in a moment."""

    def read() -> str | None:
        try:
            return Path(path).read_text(encoding="ascii").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"The token for the router cannot be read: {error}.") from error

    return read if path else lambda: None


def transport(
    *,
    connections: int = 0,
    verify: ssl.SSLContext | None = None,
    request_class: type[aiohttp.ClientRequest] | None = None,
) -> httpx.AsyncBaseTransport:
    """Connections for an `httpx.AsyncClient(transport=...)` that makes many calls: see `router.transport`.

    `connections` bounds how many there are at once; 0: no bound. `request_class` makes the requests; None: aiohttp's.
    """
    # Not above: the command line and the Job call seldom (`few`), and do not wait for aiohttp's import.
    from router.transport import Transport

    return Transport(connections=connections, verify=verify, request_class=request_class)


def few(url: str = "") -> httpx.AsyncBaseTransport:
    """Connections for an `httpx.AsyncClient(transport=...)` that makes few calls, each of which may wait for long: they
    are httpx's, and the kernel asks whether the other side is still there.

    With a `url` the calls to it go through the proxy that the environment names for it, as httpx's own would.
    """
    return httpx.AsyncHTTPTransport(
        socket_options=keepalive.OPTIONS, proxy=_proxy(url) if url else None, trust_env=bool(url)
    )


def _proxy(url: str) -> str | None:
    from urllib import request

    parts = httpx.URL(url)
    if request.proxy_bypass(parts.netloc.decode("ascii")):
        return None
    named = request.getproxies()
    found = named.get(parts.scheme) or named.get("all")
    return found if found is None or "://" in found else f"http://{found}"


class Client:
    """Typed calls to one router.

    `http` is the caller's client (it owns pool size and closing; `transport=transport()` for many calls,
    `few()` for few).
    `silence` bounds the wait for the next byte in seconds (None: by priority, `SILENCE`); there is no total timeout.
    `token` is asked before each call for the bearer token of a router that wants one; those of accounts change.
    `mode` goes into every inference call: for a Background run no person waits, whatever its priority.
    `before` is awaited before each inference call: a caller that reserves a GPU announces itself there.
    """

    def __init__(
        self,
        base_url: str,
        http: httpx.AsyncClient,
        *,
        silence: float | None = None,
        mode: str | None = None,
        token: Callable[[], str | None] = lambda: None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._before = before
        self._shown = addresses.shown(self._base_url)
        self._http = http
        self._token = token
        self._mode = {} if mode is None else {priority.MODE_HEADER: mode}
        self._silence = silence

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priority.Priority,
        format_schema: Mapping[str, Any] | None = None,
        num_ctx: int | None = None,
    ) -> str:
        """Answer of `model` to `messages` ([{role, content}, ...]) as one string; see `converse`."""
        return (await self.converse(model, messages, priority, format_schema, num_ctx)).text

    async def converse(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priority.Priority,
        format_schema: Mapping[str, Any] | None = None,
        num_ctx: int | None = None,
        num_predict: int | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:
        """Answer of `model` to `messages` ([{role, content}, ...]) with its token counts.

        `format_schema` is a JSON schema that the answer must follow (Ollama's `format`); the text is then JSON, not yet
        validated. `num_ctx` is the context window in tokens; None leaves it to the backend's configuration.
        `num_predict` is the most tokens that the answer may have: a longer one is cut there. `tools` are what the model
        may call, as Ollama's `tools` has them; a model that cannot is Rejected.
        """
        body = _chat(model, messages, num_ctx, num_predict)
        if format_schema is not None:
            body["format"] = format_schema
        if tools:
            body["tools"] = list(tools)
        pieces: list[str] = []
        calls: list[ToolCall] = []
        async for one in self._pieces(model, priority, body):
            pieces.append(one.text)
            calls += one.calls
        return replace(one, text="".join(pieces), calls=tuple(calls))

    def stream(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priority.Priority,
        num_ctx: int | None = None,
        num_predict: int | None = None,
    ) -> AsyncGenerator[Reply, None]:
        """The same answer piece by piece, as the model writes it; the last piece alone has counts and `cut`. A caller
        that takes no more of them hangs up by closing the generator."""
        return self._pieces(model, priority, _chat(model, messages, num_ctx, num_predict))

    async def _pieces(
        self, model: str, priority: priority.Priority, body: Mapping[str, Any]
    ) -> AsyncGenerator[Reply, None]:
        """At least one, the last of which ends the answer."""
        async with self._post("/api/chat", model, priority, body) as response:
            async for line in response.aiter_lines():
                if not line.strip():
                    continue
                record = _record(line, model)
                text, calls = record.get("message", {}).get("content") or "", tuple(_calls(record))
                if record.get("done"):
                    spent = _count(record, "prompt_eval_count"), _count(record, "eval_count")
                    cut, name = record.get("done_reason") == "length", record.get("model")
                    yield Reply(text, *spent, calls, cut, name if isinstance(name, str) else "")
                    return
                yield Reply(text, calls=calls)
        raise Broken(f"The answer of model {model!r} broke off before its end.")

    async def embed(self, model: str, texts: Sequence[str], priority: priority.Priority) -> list[list[float]]:
        """One vector per text, in the order of `texts`; no call is made for an empty list."""
        if not texts:
            return []
        async with self._post("/api/embed", model, priority, {"model": model, "input": list(texts)}) as response:
            record = _record(await response.aread(), model)
        vectors: list[list[float]] = record.get("embeddings") or []
        if len(vectors) != len(texts):
            raise Unavailable(f"Model {model!r} gave {len(vectors)} vectors for {len(texts)} texts.")
        return vectors

    async def rerank(
        self, model: str, question: str, documents: Sequence[str], priority: priority.Priority
    ) -> list[float]:
        """How well each document answers the question, by a cross-encoder; numbers of one call alone compare.

        `POST /v1/rerank`, which llama.cpp's server and vLLM have, and Ollama has not; no call is made for no documents.
        """
        if not documents:
            return []
        body = {"model": model, "query": question, "documents": list(documents), "top_n": len(documents)}
        async with self._post("/v1/rerank", model, priority, body) as response:
            record = _record(await response.aread(), model)
        scores: dict[int, float] = {}
        for one in record.get("results") or []:
            at, score = one.get("index"), one.get("relevance_score")
            if isinstance(at, int) and isinstance(score, int | float) and math.isfinite(score):
                scores[at] = float(score)
        if set(scores) != set(range(len(documents))):
            raise Unavailable(f"Model {model!r} judged {len(scores)} of {len(documents)} documents.")
        return [scores[at] for at in range(len(documents))]

    async def status(self) -> Status:
        """The router's own view: backends, queue, when P0 was last asked for."""
        async with self._guarded("GET", "/router/status", None, {}, None) as response:
            return Status.model_validate_json(await response.aread())

    async def announce(
        self, owner: str, model: str = "", lease_id: str = "", *, spare_only: bool = False
    ) -> announcement.Ready:
        """Reserve a GPU for `owner` and wait until `model` (empty: the orchestrator's set) is in its memory. Again, by
        the same owner or with the lease's id, renews it. A caller that stops waiting keeps the reservation. With
        `spare_only` there is none where it would keep others from their models, or adds nothing. Raises Taken."""
        body = announcement.Announce(owner=owner, model=model, lease_id=lease_id, spare_only=spare_only)
        async with self._guarded("POST", "/router/announce", None, _JSON, _written(body)) as response:
            return announcement.Ready.model_validate_json(await response.aread())

    async def release(self, owner: str, lease_id: str = "") -> bool:
        """Give the reservation back; False when there was none. A caller without a token must give the `lease_id`.
        Raises Taken when it is another owner's."""
        body = announcement.Release(owner=owner, lease_id=lease_id)
        async with self._guarded("POST", "/router/release", None, _JSON, _written(body)) as response:
            return announcement.Released.model_validate_json(await response.aread()).released

    @asynccontextmanager
    async def _post(
        self, path: str, model: str, priority_: priority.Priority, body: Mapping[str, Any]
    ) -> AsyncIterator[httpx.Response]:
        headers = {priority.HEADER: str(int(priority_)), **_JSON, **self._mode}
        content = json.dumps(body).encode()
        if self._before is not None:
            await self._before()
        async with self._guarded("POST", path, model, headers, content, SILENCE[priority_]) as response:
            yield response

    @asynccontextmanager
    async def _guarded(
        self,
        method: str,
        path: str,
        model: str | None,
        headers: Mapping[str, str],
        content: bytes | None,
        silence: float = SILENCE[priority.Priority.P0],
    ) -> AsyncIterator[httpx.Response]:
        url = self._base_url + path
        silence = silence if self._silence is None else self._silence
        timeout = httpx.Timeout(silence, connect=CONNECT, pool=silence)
        if token := self._token():
            headers = {**headers, "Authorization": f"Bearer {token}"}
        try:
            async with self._http.stream(method, url, content=content, headers=headers, timeout=timeout) as response:
                if response.status_code != 200:
                    _refuse(response, await response.aread(), model)
                yield response
            # httpx's stream refers back to its response: a cycle that would keep the texts of each call until the next
            # collection. It is closed.
            response.stream = _CLOSED
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise Rejected(
                f"{url!r} is not an address of a router: {error}", field="routerUrl", remedy="Give an http(s) URL."
            ) from error
        except httpx.TimeoutException as error:
            kind = Unavailable if isinstance(error, _UNSENT) else Broken
            raise kind(f"The router at {self._shown} did not answer in time: {error!r}.") from error
        except httpx.HTTPError as error:
            kind = Unavailable if isinstance(error, _UNSENT) else Broken
            raise kind(f"The connection to the router at {self._shown} failed: {error!r}.") from error


def _chat(
    model: str, messages: Sequence[Mapping[str, Any]], num_ctx: int | None, num_predict: int | None
) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": list(messages), "stream": True}
    options = {"num_ctx": num_ctx, "num_predict": num_predict}
    if given := {name: value for name, value in options.items() if value is not None}:
        body["options"] = given
    return body


def _written(body: BaseModel) -> bytes:
    # A router that is older does not know the field.
    older = {"spare_only"} if not getattr(body, "spare_only", False) else set()
    return body.model_dump_json(by_alias=True, exclude=older).encode()


def _record(text: str | bytes, model: str) -> dict[str, Any]:
    """One JSON object of the answer. An `error` in it came after the first byte: the backend failed on the way."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise Broken(f"Model {model!r} sent something that is not JSON.") from error
    if not isinstance(record, dict):
        raise Broken(f"Model {model!r} sent JSON that is not an object.")
    if "error" in record:
        raise Broken(f"Model {model!r} failed while answering: {record['error']}")
    return record


def _calls(record: Mapping[str, Any]) -> list[ToolCall]:
    """The calls in one record; Ollama gives the arguments as an object."""
    listed = record.get("message", {}).get("tool_calls")
    functions = [one.get("function") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [ToolCall(str(one.get("name", "")), one.get("arguments")) for one in functions if isinstance(one, dict)]


def _count(record: Mapping[str, Any], name: str) -> int:
    """A counter of Ollama's last record; a prompt that was cached whole has none."""
    value = record.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _refuse(response: httpx.Response, body: bytes, model: str | None) -> None:
    """Raise what the status code means."""
    subject = f"Model {model!r}" if model else "The router"
    message = f"{subject}: HTTP {response.status_code}: {_reason(body)}"
    code = response.status_code
    if code == 409:
        raise Taken(message, retry_after=_seconds(response.headers.get("Retry-After")))
    if code in (408, 425, 429) or code >= 500:
        raise Unavailable(message, retry_after=_seconds(response.headers.get("Retry-After")))
    if code == 404 and model:
        raise UnknownModel(
            message, field="model", remedy="Name a model that /api/tags lists, or add it to a GpuBackend."
        )
    if code == 401:
        raise Unauthorized(message)
    if code == 413:
        raise Rejected(message, field="messages", remedy="Send less: the router's body limit is exceeded.")
    raise Rejected(message)


def _reason(body: bytes) -> str:
    """The text of Ollama's error object, of OpenAI's, or the start of whatever came."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds. A date (RFC 9110 allows one) is not used by the router and counts as none."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() else None
