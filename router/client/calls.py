"""Typed calls to one router.

Every call carries its priority. Errors are sorted by retry meaning:

    Unavailable(Operational)   429, 5xx, timeouts, refused or broken connections, an answer that breaks off: come again
     |- Taken                  409: another owner has reserved what was to be reserved
     |- Broken                 it broke off, or was silent, after the request was sent: a model may have worked on it
    Rejected(Permanent)        400, 404 (no backend serves the model), 413, other 4xx: it cannot succeed unchanged
     |- Unauthorized           401: the token is missing, wrong or expired
     |- OtherApi               400 by the router: ask for the model by /v1
     |- TooLong                the prompt does not fit the window: no part of it was cut to make it fit
     |- NoNumber               an embedding model computes no numbers of one of the texts

Chats are always streamed from the router and put together here: the wait is then bounded by silence, not by the length
of the answer, and a caller that is cancelled hangs up, which frees the GPU at once.

An answer has a bound of its own, its prompt is never cut without a word, and a long text that only repeats itself ends
the call: what came is then `cut`, as is a stream that ends in good order and without a last record, which is how Ollama
ends a model that writes the same token again and again.

Source of the wire format: Ollama's API page (`/api/chat`, `/api/embed`), the README of llama.cpp's server
(`/v1/rerank`); errors are `{"error": "..."}`.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, FiniteFloat, TypeAdapter, ValidationError

from crds import addresses, errors, priority
from router import announcement, keepalive
from router.backends import verdict
from router.client import choosing, endless, schema, vectors
from router.client.choosing import ToolCall
from router.status import Status
from text import json_lines, surrogates

if TYPE_CHECKING:
    import aiohttp

_M = TypeVar("_M", bound=BaseModel)

SILENCE = priority.SILENCE
CONNECT = 5.0
_JSON = {"Content-Type": "application/json"}
_CLOSED = httpx.ByteStream(b"")
_OVER = re.compile(r"(?:exceeds?|longer than|maximum) .*context|context (?:size|length|window)", re.IGNORECASE)
"""How Ollama ("the input length exceeds the context length"), llama.cpp and vLLM refuse a prompt that is too long."""
_MOST_COUNTED = 1 << 31
_PATIENCE = 2
"""So many times the records that an answer may have are waited for."""
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
class Reply:
    """One answer of a model: its text, and what the backend counted as tokens read and written (0: it did not say).

    `calls` are those of the tools that were offered. `cut`: it has as many tokens as it may have, and goes on;
    `endless`: it only repeated itself, and is `cut` as well. `model` is the one that answered, as the backend names it.
    `thinking` is what the model thought before: it goes back to the model in the same turn's messages
    (`message.thinking`) and nowhere else."""

    text: str
    prompt_tokens: int = 0
    answer_tokens: int = 0
    calls: tuple[ToolCall, ...] = ()
    cut: bool = False
    model: str = ""
    thinking: str = ""
    endless: bool = False


class UnknownModel(Rejected):
    """No backend has the model: its name is wrong, or it is not there yet. An operator has to act, not the caller."""


class TooLong(Rejected):
    """The messages have more tokens than the model's window, or the backend has cut them to make them fit."""


class NoNumber(Rejected):
    """The model's vector of one of the texts has no numbers (NaN, infinite), and it will be so again."""


class OtherApi(Rejected):
    """Backends of engine OpenAI alone have the model, and it was asked for by /api."""


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
        self._toolless: set[str] = set()

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priority.Priority,
        format_schema: schema.Wire | None = None,
        num_ctx: int | None = None,
        num_predict: int | None = None,
    ) -> str:
        """Answer of `model` to `messages` ([{role, content}, ...]) as one string; see `converse`."""
        return (await self.converse(model, messages, priority, format_schema, num_ctx, num_predict)).text

    async def converse(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priority.Priority,
        format_schema: schema.Wire | None = None,
        num_ctx: int | None = None,
        num_predict: int | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        temperature: float | None = None,
        think: bool | None = None,
        unthought: int | None = None,
    ) -> Reply:
        """Answer of `model` to `messages` ([{role, content}, ...]) with its token counts.

        `format_schema` is what the answer must follow (Ollama's `format`); the text is then JSON, not yet validated.
        `num_ctx` is the context window in tokens; None leaves it to the backend's configuration. `num_predict` is the
        most tokens that the answer may have, thoughts included: a longer one is cut there, and one that begins as JSON,
        without thoughts, after `unthought` tokens. `tools` are what the model may call, as Ollama's `tools` has them; a
        model whose template has none chooses by `format` among them. `think` is whether the model thinks first, where
        it can; None leaves it to the model. Where a shape is asked for, it does not unless told: thoughts would take
        the answer's tokens.
        """
        think = False if think is None and format_schema is not None else think
        body = _chat(model, messages, num_ctx, num_predict, temperature=temperature, think=think)
        if format_schema is not None:
            body["format"] = format_schema
        if tools and model not in self._toolless:
            try:
                return choosing.written(await self._whole(model, priority, {**body, "tools": list(tools)}), tools)
            except Rejected as error:
                # Ollama's server/images.go: "... does not support tools".
                if "does not support tools" not in error.message:
                    raise
                self._toolless.add(model)
        if not tools:
            return await self._whole(model, priority, body, unthought)
        return choosing.called(await self._whole(model, priority, choosing.instead(body, tools)), tools)

    async def _whole(
        self, model: str, priority: priority.Priority, body: dict[str, Any], unthought: int | None = None
    ) -> Reply:
        try:
            return await self._put_together(model, priority, body, unthought)
        except Rejected as error:
            # Only a model that can think may be told to (Ollama's server/routes.go): the answer counts, not the way.
            if not body.get("think") or "does not support thinking" not in error.message:
                raise
        return await self._put_together(model, priority, {k: v for k, v in body.items() if k != "think"}, unthought)

    async def _put_together(
        self, model: str, priority: priority.Priority, body: Mapping[str, Any], unthought: int | None
    ) -> Reply:
        pieces: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        async for piece in self._pieces(model, priority, body, unthought):
            pieces.append(piece.text)
            thoughts.append(piece.thinking)
            calls += piece.calls
        return replace(piece, text="".join(pieces), calls=tuple(calls), thinking="".join(thoughts))

    def stream(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priority.Priority,
        num_ctx: int | None = None,
        num_predict: int | None = None,
    ) -> AsyncGenerator[Reply, None]:
        """The same answer piece by piece, as the model writes it, without its thoughts; the last piece alone has counts
        and `cut`. A caller that takes no more of them hangs up by closing the generator. That the prompt was cut is
        known at the end: TooLong may follow pieces."""
        return self._pieces(model, priority, _chat(model, messages, num_ctx, num_predict))

    async def _pieces(
        self, model: str, priority: priority.Priority, body: Mapping[str, Any], unthought: int | None = None
    ) -> AsyncGenerator[Reply, None]:
        """At least one, the last of which ends the answer."""
        watch, count = endless.Watch(lists=_lists(body.get("format"))), 0
        begun, thought, long = "", False, False
        most = body.get("options", {}).get("num_predict")
        async with self._post("/api/chat", model, priority, body) as response:
            async for line in json_lines.split(response.aiter_bytes()):
                record = _record(line, model)
                message = record.get("message") or {}
                if not isinstance(message, dict):
                    raise Broken(f"Model {model!r} sent a message that is no object.")
                text, thinking = _text(message, "content", model), _text(message, "thinking", model)
                calls = tuple(_calls(message))
                if record.get("done"):
                    spent = _count(record, "prompt_eval_count"), _count(record, "eval_count")
                    window = body.get("options", {}).get("num_ctx")
                    # What is cut fills the window; a prompt of more tokens had a larger one, of the GpuBackend.
                    if window is not None and spent[0] == window:
                        raise TooLong(
                            f"Model {model!r} read {spent[0]} tokens of a prompt in a window of {window}: it was cut.",
                            field="messages",
                            remedy="Send less, or make the window of the model larger.",
                        )
                    cut, name = record.get("done_reason") == "length", record.get("model")
                    looped = cut and (watch.repeats(text or thinking) or watch.loops)
                    named = name if isinstance(name, str) else ""
                    yield Reply(text, *spent, calls, cut, named, thinking, endless=looped)
                    return
                # A record is a token, or a few.
                count += 1
                begun, thought = begun or text.lstrip()[:1], thought or bool(thinking)
                long = unthought is not None and count > unthought and begun == "{" and not thought
                # There are servers that do not know the bound.
                long = long or (most is not None and count > _PATIENCE * most)
                if watch.repeats(text or thinking) or long:
                    break
                yield Reply(text, calls=calls, thinking=thinking)
        if not count:
            raise Broken(f"The answer of model {model!r} broke off before its end.")
        yield Reply("", answer_tokens=count, cut=True, model=model, endless=not long or watch.loops)

    async def embed(self, model: str, texts: Sequence[str], priority: priority.Priority) -> list[list[float]]:
        """One vector per text, in the order of `texts`; no call is made for an empty list.

        By `/api/embed`, and by `/v1/embeddings` where backends of engine OpenAI alone have the model. Ollama cuts
        nothing: a text that is longer than the window is TooLong. Servers of OpenAI's API say the same, or cut it.
        """
        if not texts:
            return []
        asked = {"model": model, "input": list(texts)}
        try:
            try:
                async with self._post("/api/embed", model, priority, {**asked, "truncate": False}) as response:
                    listed = _record(await response.aread(), model).get("embeddings")
            except OtherApi:
                async with self._post("/v1/embeddings", model, priority, asked) as response:
                    listed = vectors.listed(_record(await response.aread(), model))
        except (Rejected, Unavailable) as error:
            if vectors.too_long(error.message):
                raise TooLong(error.message, field="input", remedy="Send shorter texts.") from error
            if vectors.no_number(error.message):
                raise _no_number(model) from error
            raise
        try:
            found = vectors.read(listed)
        except ValidationError as error:
            if vectors.has_no_number(error):
                raise _no_number(model) from error
            raise Broken(f"Model {model!r} sent vectors that are none.") from error
        if len(found) != len(texts):
            raise Unavailable(f"Model {model!r} gave {len(found)} vectors for {len(texts)} texts.")
        return found

    async def window(self, model: str, priority_: priority.Priority) -> int | None:
        """Tokens that an embedding model reads of a text, as its server says it; None where it does not."""
        headers = {priority.HEADER: str(int(priority_)), **self._mode}
        try:
            content = json.dumps({"model": model}).encode()
            async with self._guarded("POST", "/api/show", model, {**headers, **_JSON}, content) as response:
                return vectors.shown_window(_record(await response.aread(), model))
        except OtherApi:
            async with self._guarded("GET", f"/v1/models/{quote(model)}", model, headers, None) as response:
                return vectors.listed_window(_record(await response.aread(), model))

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
        try:
            scores = {one.index: one.relevance_score for one in _RANKED.validate_python(record.get("results") or [])}
        except ValidationError as error:
            raise Broken(f"Model {model!r} sent scores that are none.") from error
        if set(scores) != set(range(len(documents))):
            raise Unavailable(f"Model {model!r} judged {len(scores)} of {len(documents)} documents.")
        return [scores[at] for at in range(len(documents))]

    async def status(self) -> Status:
        """The router's own view: backends, queue, when P0 was last asked for."""
        async with self._guarded("GET", "/router/status", None, {}, None) as response:
            return _answer(Status, await response.aread())

    async def announce(
        self, owner: str, model: str = "", lease_id: str = "", *, spare_only: bool = False
    ) -> announcement.Ready:
        """Reserve a GPU for `owner` and wait until `model` (empty: the orchestrator's set) is in its memory. Again, by
        the same owner or with the lease's id, renews it. A caller that stops waiting keeps the reservation. With
        `spare_only` there is none where it would keep others from their models, or adds nothing. Raises Taken."""
        body = announcement.Announce(owner=owner, model=model, lease_id=lease_id, spare_only=spare_only)
        async with self._guarded("POST", "/router/announce", None, _JSON, _written(body)) as response:
            return _answer(announcement.Ready, await response.aread())

    async def release(self, owner: str, lease_id: str = "") -> bool:
        """Give the reservation back; False when there was none. A caller without a token must give the `lease_id`.
        Raises Taken when it is another owner's."""
        body = announcement.Release(owner=owner, lease_id=lease_id)
        async with self._guarded("POST", "/router/release", None, _JSON, _written(body)) as response:
            return _answer(announcement.Released, await response.aread()).released

    @asynccontextmanager
    async def _post(
        self, path: str, model: str, priority_: priority.Priority, body: Mapping[str, Any]
    ) -> AsyncIterator[httpx.Response]:
        headers = {priority.HEADER: str(int(priority_)), priority.INTERNAL_HEADER: "true", **_JSON, **self._mode}
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
    model: str,
    messages: Sequence[Mapping[str, Any]],
    num_ctx: int | None,
    num_predict: int | None,
    *,
    temperature: float | None = None,
    think: bool | None = None,
) -> dict[str, Any]:
    # Without these two Ollama drops the oldest messages, and forgets the prompt's beginning while it writes.
    body: dict[str, Any] = {
        "model": model,
        "messages": list(messages),
        "stream": True,
        "truncate": False,
        "shift": False,
    }
    options = {"num_ctx": num_ctx, "num_predict": num_predict, "temperature": temperature}
    if chosen := {name: value for name, value in options.items() if value is not None}:
        body["options"] = chosen
    return body if think is None else {**body, "think": think}


def _written(body: BaseModel) -> bytes:
    # A router that is older does not know the field.
    older = {"spare_only"} if not getattr(body, "spare_only", False) else set()
    return body.model_dump_json(by_alias=True, exclude=older).encode()


class _Ranked(BaseModel):
    index: int
    relevance_score: FiniteFloat


_RANKED = TypeAdapter(list[_Ranked])


def _answer(shape: type[_M], body: bytes) -> _M:
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        raise Broken(f"The router sent what is no {shape.__name__}.") from error


def _no_number(model: str) -> NoNumber:
    return NoNumber(
        f"Model {model!r} computes a vector of these texts that has no numbers.",
        field="input",
        remedy="Send other texts, or use another model: it will do so again.",
    )


def _record(body: bytes, model: str) -> dict[str, Any]:
    """One JSON object of the answer. An `error` in it came after the first byte: the backend failed on the way, unless
    it says that the request is wrong."""
    try:
        record = json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise Broken(f"Model {model!r} sent something that is not JSON.") from error
    if not isinstance(record, dict):
        raise Broken(f"Model {model!r} sent JSON that is not an object.")
    if record.get("error") is not None:
        if verdict.of(500, body, model=True) is verdict.Verdict.REQUEST:
            raise Rejected(f"Model {model!r}: {record['error']}")
        raise Broken(f"Model {model!r} failed while answering: {record['error']}")
    return record


def _lists(format_schema: schema.Wire | None) -> bool:
    """Whether an answer can have a list that its grammar does not end."""
    return format_schema is not None and not schema.ends(format_schema)


def _text(message: Mapping[str, Any], name: str, model: str) -> str:
    """A text of a message, without halves of characters; "" where it has none."""
    text = message.get(name)
    if not isinstance(text, str | None):
        raise Broken(f"Model {model!r} sent a message whose {name} is no text.")
    return surrogates.clean(text or "")


def _calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls in one message. Ollama gives the arguments as an object, servers of OpenAI's API as a text of JSON."""
    listed = message.get("tool_calls")
    functions = [one.get("function") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    made = [(str(one.get("name", "")), one.get("arguments")) for one in functions if isinstance(one, dict)]
    return [choosing.call(name, arguments) for name, arguments in made]


def _count(record: Mapping[str, Any], name: str) -> int:
    """A counter of Ollama's last record; a prompt that was cached whole has none."""
    value = record.get(name)
    return value if isinstance(value, int) and 0 < value < _MOST_COUNTED else 0


def _refuse(response: httpx.Response, body: bytes, model: str | None) -> None:
    """Raise what the status code means."""
    subject = f"Model {model!r}" if model else "The router"
    reason, code = _reason(body), response.status_code
    message = f"{subject}: HTTP {code}: {reason}"
    if code == 409:
        raise Taken(message, retry_after=_seconds(response.headers.get("Retry-After")))
    # Ollama says 500 of an image that is none, of a template and of a grammar as well.
    wrong = code >= 500 and verdict.of(code, body, model=model is not None) is verdict.Verdict.REQUEST
    if code in (408, 425, 429) or (code >= 500 and not wrong) or (code == 400 and verdict.runner_failed(reason)):
        raise Unavailable(message, retry_after=_seconds(response.headers.get("Retry-After")))
    if code == 404 and model:
        raise UnknownModel(
            message, field="model", remedy="Name a model that /api/tags lists, or add it to a GpuBackend."
        )
    if code == 401:
        raise Unauthorized(message)
    if (wrong or code == 400) and _OVER.search(message):
        raise TooLong(message, field="messages", remedy="Send less, or make the window of the model larger.")
    if code == 400 and response.headers.get("X-Ollama-Router-Reason") == "OtherApi":
        raise OtherApi(message)
    if code == 413:
        raise Rejected(message, field="messages", remedy="Send less: the router's body limit is exceeded.")
    raise Rejected(message)


def _reason(body: bytes) -> str:
    """The text of Ollama's error object, of OpenAI's, or the start of whatever came."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return body[:200].decode(errors="replace")
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds. A date (RFC 9110 allows one) is not used by the router and counts as none."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() else None
