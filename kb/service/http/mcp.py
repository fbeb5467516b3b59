"""The Model Context Protocol over streamable HTTP at /mcp, for agents: JSON-RPC in, the tools of `tools` out.

Without sessions and streams: each POST is one request and its answer is one JSON object, so any process can answer any
request. Two generations of the protocol are served: the stateless one (2026-07-28, where each request says its version)
and the ones with a handshake (`initialize`). Source: modelcontextprotocol.io, specification, "Streamable HTTP".
See docs/decisions/0068 for why it is not the SDK that answers here.

Who may call is decided by the gate of the API (`kb.service.http.access`); a tool's call counts as a call of its routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import orjson
import pydantic
import yarl
from aiohttp import hdrs, web
from multidict import CIMultiDict

from contracts import http_routes
from contracts import problems as shared
from crds import errors as root
from crds import priority, scope
from kb import errors, metrics
from kb.service.http import access, atomictools, body, problems, tools

PATH = access.MCP
STATELESS = "2026-07-28"
_HANDSHAKES = ("2025-11-25", "2025-06-18", "2025-03-26")
VERSIONS = (STATELESS, *_HANDSHAKES)
"""The versions that are served, the newest first."""
_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
_META = "io.modelcontextprotocol/"
_PARSE_ERROR, _INVALID_REQUEST, _UNKNOWN_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_HEADER_MISMATCH, _UNSUPPORTED_VERSION = -32020, -32022
_INTERNAL = -32603
_STATUS = {_UNKNOWN_METHOD: 404}
_ID = web.RequestKey("rpc id", object)
"""Of the message in the body."""
# A tool's arguments are bounded far below; a larger body is none of a tool.
_LARGEST = 256 << 10
_LISTED_MS = 60_000
_SCOPE = ("clientId", "projectId", "groupId")
_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)
_INSTRUCTIONS = (
    "A knowledge base of documents, mails, issues, code and chats, with a graph of the things that they name. "
    "Use `ask` for questions, `search` for exact words, `graph` for one thing and its relationships."
)


class Message(pydantic.BaseModel):
    """A JSON-RPC request or notification (https://www.jsonrpc.org/specification); without `id` it is a notification."""

    model_config = pydantic.ConfigDict(extra="ignore", strict=True)

    jsonrpc: Literal["2.0"]
    method: str
    id: str | int | None = None
    params: dict[str, Any] = pydantic.Field(default_factory=dict)


class Response(pydantic.BaseModel):
    """A JSON-RPC response: `result` or `error`."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: str | int | None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


ROUTE = http_routes.Route(
    "POST",
    PATH,
    "Model Context Protocol, streamable HTTP: tools for agents; the scope in the query is that of every tool",
    body=Message,
    reply=Response,
    optional=_SCOPE,
    callers=frozenset({http_routes.Caller.RUN}),
)


class _Refused(Exception):  # noqa: N818 -- it is an answer
    """Becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


@dataclass(frozen=True)
class _Bound:
    """The scope of a caller: `fixed` by its URL, or `own` as its token has one alone; else each call names it."""

    fixed: scope.Scope | None
    own: scope.Scope | None


class Endpoint:
    """The route. `handlers` are those of the routes that this process serves, by method and path.

    A tool gets `seconds` for its answer.
    """

    def __init__(
        self,
        handlers: Mapping[tuple[str, str], problems.Handler],
        meters: metrics.Metrics,
        *,
        version: str,
        seconds: float,
    ) -> None:
        self._handlers = handlers
        self._meters = meters
        self._server = {"name": "jervis-kb", "title": "Jervis knowledge base", "version": version}
        self._seconds = seconds
        self._tools = {
            one.name: one
            for one in (*tools.ALL, *atomictools.ALL)
            if all((route.method, route.path) in handlers for route in one.routes)
        }

    async def post(self, request: web.Request) -> web.Response:
        """POST /mcp"""
        self._check_head(request)
        raw = await body.raw(request, _LARGEST, "Send one request of a tool.")
        stateless = True
        try:
            message = _read(request, raw)
            stateless = _stateless(request, message)
            _check_version(request, message, stateless=stateless)
            if message.id is None:
                # There is nothing that a notification could change here.
                return web.Response(status=202)
            if stateless:
                _check_envelope(request, message)
            result = await self._result(request, message, stateless=stateless)
        except _Refused as error:
            return _error(request, error, stateless=stateless)
        except errors.Invalid as error:
            answer = problems.answer(error)
            access.ended(request, answer.status)
            problem = _problem(answer)
            return _error(request, _Refused(_INVALID_PARAMS, _spoken(problem), problem), stateless=stateless)
        return _json({"jsonrpc": "2.0", "id": message.id, "result": result})

    def _check_head(self, request: web.Request) -> None:
        shared.require_json(request)
        if not shared.accepts(request, "application/json"):
            raise web.HTTPNotAcceptable(text="answers are application/json")

    async def _result(self, request: web.Request, message: Message, *, stateless: bool) -> dict[str, Any]:
        result: dict[str, Any]
        bound = _bound(request)
        if message.method == "tools/list":
            result = {"tools": [_description(one, bound) for one in self._tools.values() if _may(request, one)]}
        elif message.method == "tools/call":
            result = await self._call(request, message.params)
        elif message.method == "server/discover" and stateless:
            result = {"supportedVersions": list(VERSIONS), **self._about()}
        elif message.method == "initialize" and not stateless:
            asked = message.params.get("protocolVersion")
            result = {"protocolVersion": asked if asked in _HANDSHAKES else _HANDSHAKES[0], **self._about()}
            result["serverInfo"] = self._server
        elif message.method == "ping" and not stateless:
            result = {}
        else:
            raise _Refused(_UNKNOWN_METHOD, f"there is no method {message.method[:100]!r}")
        if stateless:
            result |= {"resultType": "complete", "_meta": {f"{_META}serverInfo": self._server}}
            if message.method in ("tools/list", "server/discover"):
                # Which tools there are, and their schemas, depends on the token and the URL.
                result |= {"ttlMs": _LISTED_MS, "cacheScope": "private"}
        return result

    def _about(self) -> dict[str, Any]:
        return {"capabilities": {"tools": {}}, "instructions": _INSTRUCTIONS}

    async def _call(self, request: web.Request, params: Mapping[str, Any]) -> dict[str, Any]:
        name, given = params.get("name"), params.get("arguments", {})
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _Refused(_INVALID_PARAMS, f"there is no tool {str(name)[:100]!r}")
        if not isinstance(given, dict):
            raise _Refused(_INVALID_PARAMS, "arguments is not an object")
        access.calls(request, f"{ROUTE.method} {PATH} {tool.name}", writes=tool.writes)
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._work(request, tool, given)
        except TimeoutError:
            problem = root.Operational(f"the knowledge base gave no answer within {self._seconds:g} seconds")
            return self._failed(request, tool, problem)
        except root.JervisError as error:
            return self._failed(request, tool, error)
        self._meters.tools.labels(tool.name, "ok").inc()
        return {
            "content": [{"type": "text", "text": answer.text}],
            "structuredContent": dict(answer.data),
            "isError": False,
        }

    async def _work(self, request: web.Request, tool: tools.Tool, given: Mapping[str, Any]) -> tools.Answer:
        bound = _bound(request)
        where, rest = _where(bound, given)
        asked = tool.parse(rest)

        async def call(
            route: http_routes.Route[Any],
            reply: type[_Reply],
            *,
            given: Mapping[str, Any] | None = None,
            query: Sequence[tuple[str, str]] = (),
        ) -> _Reply:
            named = list(where.model_dump(by_alias=True).items()) if route.query else []
            url = yarl.URL.build(path=route.path, query=[*named, *query])
            inner = access.inner(request.clone(method=route.method, rel_url=url, headers=_headers(request)), route)
            if given is not None:
                inner[body.GIVEN] = {**given, "scope": where.model_dump(by_alias=True)}
            response = await self._handlers[route.method, route.path](inner)
            assert isinstance(response, web.Response)
            assert isinstance(response.body, bytes)
            return reply.model_validate_json(response.body)

        return await tool.work(asked, call)

    def _failed(self, request: web.Request, tool: tools.Tool, error: root.JervisError) -> dict[str, Any]:
        """A result that the model sees and may learn from, as the specification wants it for what a tool says."""
        answer = problems.answer(error)
        problem = _problem(answer)
        access.ended(request, answer.status)
        self._meters.tools.labels(tool.name, problem["code"]).inc()
        text = _spoken(problem)
        if hdrs.RETRY_AFTER in answer.headers:
            text += f" Try again in {answer.headers[hdrs.RETRY_AFTER]} seconds."
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"error": problem},
            "isError": True,
        }


def _read(request: web.Request, raw: bytes) -> Message:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _Refused(_PARSE_ERROR, f"the body is not JSON: {error}") from error
    if not isinstance(document, dict) or ("id" in document and document["id"] is None):
        raise _Refused(_INVALID_REQUEST, "the body is not one JSON-RPC request or notification")
    if isinstance(document.get("id"), str | int) and not isinstance(document["id"], bool):
        request[_ID] = document["id"]
    if document.get("params", {}) is None:
        del document["params"]  # no parameters, as libraries write that have a field for them
    try:
        return Message.model_validate(document)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise _Refused(_INVALID_REQUEST, f"{place}: {problem['msg']}") from error


def _stateless(request: web.Request, message: Message) -> bool:
    """Whether the request belongs to the generation without a handshake, be it of a version that is not served."""
    if message.method == "initialize":
        return False
    meta = message.params.get("_meta")
    envelope = isinstance(meta, dict) and f"{_META}protocolVersion" in meta
    return envelope or request.headers.get(_VERSION_HEADER) == STATELESS


def _check_version(request: web.Request, message: Message, *, stateless: bool) -> None:
    asked = request.headers.get(_VERSION_HEADER)
    if message.method == "initialize" or (asked is None and not stateless):
        return
    meta = message.params.get("_meta")
    said = meta.get(f"{_META}protocolVersion") if isinstance(meta, dict) else None
    if said is not None and said != asked:
        raise _Refused(_HEADER_MISMATCH, f"the header {_VERSION_HEADER} is not the version in _meta")
    if asked not in VERSIONS:
        raise _Refused(
            _UNSUPPORTED_VERSION,
            f"version {str(asked)[:40]!r} of the protocol is not served",
            {"supported": list(VERSIONS), "requested": asked},
        )


def _check_envelope(request: web.Request, message: Message) -> None:
    """What a request without a handshake has to say of itself, in its body and, the same, in its headers."""
    meta = message.params.get("_meta")
    needed = [f"{_META}{name}" for name in ("protocolVersion", "clientCapabilities")]
    missing = needed if not isinstance(meta, dict) else [name for name in needed if name not in meta]
    if missing:
        raise _Refused(_INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    for header in (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER):
        if len(request.headers.getall(header, [])) > 1:
            raise _Refused(_HEADER_MISMATCH, f"the header {header} is given twice")
    if request.headers.get(_METHOD_HEADER) != message.method:
        raise _Refused(_HEADER_MISMATCH, f"the header {_METHOD_HEADER} is not the method of the body")
    if message.method == "tools/call" and request.headers.get(_NAME_HEADER) != message.params.get("name"):
        raise _Refused(_HEADER_MISMATCH, f"the header {_NAME_HEADER} is not the tool of the body")


def _bound(request: web.Request) -> _Bound:
    fixed = None
    if any(name in request.query for name in _SCOPE):
        given = {name: request.query[name] for name in _SCOPE if name in request.query}
        fixed = body.validate(given, scope.Scope)
    return _Bound(fixed, access.own(request))


def _where(bound: _Bound, given: Mapping[str, Any]) -> tuple[scope.Scope, dict[str, Any]]:
    """The scope of a call, and its other arguments. Raises `kb.errors.Invalid`."""
    rest = {name: value for name, value in given.items() if name != "scope"}
    if bound.fixed is not None:
        if "scope" in given:
            raise errors.Invalid("the URL names the scope", field="scope", remedy="Leave the argument scope out.")
        return bound.fixed, rest
    if "scope" in given:
        return body.validate({"scope": given["scope"]}, _Scoped).scope, rest
    if bound.own is None:
        raise errors.Invalid(
            "scope is missing",
            field="scope",
            remedy="Name it in the argument scope, or in the query of the URL as clientId, projectId and groupId.",
        )
    return bound.own, rest


class _Scoped(pydantic.BaseModel):
    scope: scope.Scope


def _description(tool: tools.Tool, bound: _Bound) -> dict[str, Any]:
    schema = tool.schema()
    if bound.fixed is None:
        identifier = {"type": "string"}
        own = "" if bound.own is None else " Left out, it is that of the token."
        schema["properties"]["scope"] = {
            "type": "object",
            "description": f"Whose knowledge: a client, and of it a project or a group.{own}",
            "properties": dict.fromkeys(_SCOPE, identifier),
            "required": ["clientId"],
            "additionalProperties": False,
        }
        if bound.own is None:
            schema["required"] = [*schema.get("required", []), "scope"]
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": not tool.writes,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


def _may(request: web.Request, tool: tools.Tool) -> bool:
    return access.may(request, tool.routes, writes=tool.writes)


def _headers(request: web.Request) -> CIMultiDict[str]:
    """Those of the tool's call. A person waits behind most agents, so without a priority it is as `jervis-kb ask`."""
    made = CIMultiDict(request.headers)
    made[hdrs.ACCEPT] = "application/json"
    made.setdefault(priority.HEADER, str(int(priority.Priority.P1)))
    return made


@web.middleware
async def enveloped(request: web.Request, handler: problems.Handler) -> web.StreamResponse:
    """Puts what is answered before or beside the endpoint, such as 401, into the envelope of JSON-RPC, too; `data` is
    the error as other routes answer it."""
    response = await handler(request)
    if request.path != PATH or response.status < 400 or not isinstance(response, web.Response):
        return response
    problem = _problem(response)
    if isinstance(problem["code"], int):
        return response
    code = _INTERNAL if response.status >= 500 else _INVALID_REQUEST
    error = {"code": code, "message": _spoken(problem), "data": problem}
    answer = _json({"jsonrpc": "2.0", "id": request.get(_ID), "error": error}, response.status)
    own = (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)
    answer.headers.update({name: value for name, value in response.headers.items() if name not in own})
    return answer


def _problem(response: web.Response) -> dict[str, Any]:
    """The error in an answer of this service."""
    assert isinstance(response.body, bytes)
    problem: dict[str, Any] = orjson.loads(response.body)["error"]
    return problem


def _spoken(problem: Mapping[str, Any]) -> str:
    return " ".join(part for part in (f"{problem['message'].rstrip('.')}.", problem.get("remedy", "")) if part)


def _error(request: web.Request, error: _Refused, *, stateless: bool) -> web.Response:
    problem = {"code": error.code, "message": str(error), **({"data": error.data} if error.data else {})}
    document = {"jsonrpc": "2.0", "id": request.get(_ID), "error": problem}
    # With a handshake, 404 says that the session is over; what a method says is no matter of HTTP there.
    handled = not stateless and error.code in (_UNKNOWN_METHOD, _INVALID_PARAMS)
    return _json(document, 200 if handled else _STATUS.get(error.code, 400))


def _json(document: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(document), content_type="application/json")
