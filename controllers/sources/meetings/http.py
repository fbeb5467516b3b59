"""`/api/v1/meetings` of the sources process.

    POST   /api/v1/meetings                       a new meeting of a Connection
    GET    /api/v1/meetings?namespace=            the newest first; also connection=, state=, limit=
    GET    /api/v1/meetings/{id}                  one
    DELETE /api/v1/meetings/{id}                  forget it, its recording and its transcript
    POST   /api/v1/meetings/{id}/retry            transcribe a FAILED one again
    HEAD   /api/v1/meetings/{id}/audio            how much of the recording is stored (Upload-Offset)
    PATCH  /api/v1/meetings/{id}/audio            append at Upload-Offset
    GET    /api/v1/meetings/{id}/transcript       as heard, as indexed, and what differs

and for the pod of its Job, by the token of the attempt:

    GET    /api/v1/meetings/{id}/audio            the recording
    PUT    /api/v1/meetings/{id}/transcript       what was heard
    POST   /api/v1/meetings/{id}/problem          why nothing was

An upload follows the core of tus 1.0.0 (HEAD, PATCH, Upload-Offset, Upload-Length, 409 for another offset); the part
that completes it has `Repr-Digest: sha-256=:BASE64:` of the whole (RFC 9530). 423: another upload writes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, TypeVar

import orjson
import pydantic
import structlog
from aiohttp import web

from controllers.sources.meetings import audio, metrics, store
from crds import errors, meeting, model, scope

log = structlog.get_logger("sources")
T = TypeVar("T", bound=model.Model)
Allows = Callable[[scope.Scope, bool], bool]
"""(where, writing) -> whether the caller may."""
Gate = Callable[[web.Request], Allows]
"""What the caller may do; raises what the API answers with 401."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TUS = {"Tus-Resumable": "1.0.0"}
PART_TYPE = "application/offset+octet-stream"
RETRY_SECONDS = 5
_DRAFT_BYTES = 64 << 10
_PROBLEM_BYTES = 16 << 10
_MOST_LISTED = 500
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):")
_STATUS: Mapping[type[errors.JervisError], tuple[int, str]] = {
    store.Unknown: (404, "not_found"),
    store.Unfit: (409, "conflict"),
    audio.Moved: (409, "conflict"),
    audio.Busy: (423, "locked"),
    audio.TooLarge: (413, "too_large"),
    audio.Unusable: (422, "unusable"),
}


class Malformed(errors.Permanent):
    """A header, a query or a body that cannot be read."""


class Http:
    """`gate` bounds people and programs, `correct` says whether transcripts are corrected."""

    def __init__(
        self,
        meetings: store.Meetings,
        recordings: audio.Audio,
        gate: Gate,
        measured: metrics.Metrics,
        *,
        correct: bool,
        wall: Callable[[], datetime],
    ) -> None:
        self._meetings, self._audio, self._gate, self._metrics = meetings, recordings, gate, measured
        self._correct, self._wall = correct, wall

    def serve(self, application: web.Application) -> None:
        """Add the paths."""
        one = "/api/v1/meetings/{id}"
        for method, path, handler in (
            ("POST", "/api/v1/meetings", self._create),
            ("GET", "/api/v1/meetings", self._list),
            ("GET", one, self._get),
            ("DELETE", one, self._delete),
            ("POST", f"{one}/retry", self._retry),
            ("HEAD", f"{one}/audio", self._offset),
            ("PATCH", f"{one}/audio", self._append),
            ("GET", f"{one}/audio", self._recording),
            ("GET", f"{one}/transcript", self._transcript),
            ("PUT", f"{one}/transcript", self._heard),
            ("POST", f"{one}/problem", self._problem),
        ):
            application.router.add_route(method, path, answering(handler))

    # -- people and programs ---------------------------------------------------------------------------------------

    async def _create(self, request: web.Request) -> web.Response:
        allows = self._gate(request)
        draft = _read(meeting.Draft, await _body(request, _DRAFT_BYTES))
        place = await self._meetings.place(draft.namespace, draft.connection)
        if not allows(place.owner, True):
            # Whoever may not write there is not told what is there.
            raise store.Unknown(f"No Connection {draft.connection!r} is yours to write to.", field="connection")
        row = await self._meetings.create(draft, place, self._wall())
        self._metrics.meetings.labels(meeting.State.RECORDING.value).inc()
        return _reply(store.shown(row), 201, {"Location": f"/api/v1/meetings/{row['_id']}", **TUS})

    async def _list(self, request: web.Request) -> web.Response:
        allows, query = self._gate(request), request.query
        namespace = query.get("namespace", "")
        if not namespace:
            raise Malformed("namespace is missing", field="namespace", remedy="Add ?namespace=NAME.")
        wanted: dict[str, Any] = {"namespace": namespace}
        if query.get("connection"):
            wanted["connection"] = query["connection"]
        if query.get("state"):
            states = [one.value for one in meeting.State]
            if query["state"] not in states:
                raise Malformed(f"{query['state']!r} is no state", field="state", remedy=f"One of {', '.join(states)}.")
            wanted["state"] = query["state"]
        text = query.get("limit", "100")
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_LISTED):
            raise Malformed(f"limit {text!r} is no number from 1 to {_MOST_LISTED}", field="limit")
        rows = await self._meetings.listed(wanted, int(text) + 1)
        shown = tuple(store.shown(row) for row in rows[: int(text)] if allows(store.owner(row), False))
        return _reply(meeting.Page(meetings=shown, truncated=len(rows) > int(text)))

    async def _get(self, request: web.Request) -> web.Response:
        return _reply(store.shown(await self._mine(request, writing=False)))

    async def _delete(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=True)
        # The row goes last: after a kill in between the meeting is found and forgotten again.
        await self._audio.delete(row)
        await self._meetings.drop(row["_id"])
        return web.Response(status=204)

    async def _retry(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=True)
        return _reply(store.shown(await self._meetings.retry(row["_id"])))

    async def _offset(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=False)
        length = {"Upload-Length": str(row["length"])} if row.get("length") is not None else {"Upload-Defer-Length": "1"}
        said = {"Upload-Offset": str(row["offset"]), **length, "Cache-Control": "no-store", **TUS}
        return web.Response(headers=said)

    async def _append(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=True)
        if request.content_type != PART_TYPE:
            raise Malformed(
                f"a part has the type {PART_TYPE}, not {request.content_type}",
                field="Content-Type",
                remedy=f"Send Content-Type: {PART_TYPE}.",
            )
        offset, length = _whole(request, "Upload-Offset"), _whole(request, "Upload-Length")
        if offset is None:
            raise Malformed("Upload-Offset is missing", field="Upload-Offset", remedy="Ask with HEAD where to go on.")
        body = request.content.iter_chunked(audio.CHUNK)
        row = await self._audio.write(row["_id"], offset, length, body, _digest(request))
        if row["state"] == meeting.State.UPLOADED.value:
            self._metrics.meetings.labels(meeting.State.UPLOADED.value).inc()
            self._metrics.bytes.inc(row["offset"])
        return web.Response(status=204, headers={"Upload-Offset": str(row["offset"]), **TUS})

    async def _transcript(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=False)
        told = await self._meetings.told(row["_id"])
        if told is None:
            raise store.Unknown(f"The meeting has no transcript yet, it is {row['state']}.", field="id")
        return _reply(told)

    async def _mine(self, request: web.Request, *, writing: bool) -> store.Row:
        """The meeting of the path, if the caller may."""
        allows = self._gate(request)
        row = await self._meetings.get(request.match_info["id"])
        if not allows(store.owner(row), writing):
            raise store.Unknown(f"There is no meeting {row['_id']!r}.", field="id")
        return row

    # -- the pod of its Job ----------------------------------------------------------------------------------------

    async def _recording(self, request: web.Request) -> web.StreamResponse:
        row = await self._opened(request)
        response = web.StreamResponse(headers={"Content-Type": row["mediaType"]})
        response.content_length = row["offset"]
        await response.prepare(request)
        async with aclosing(self._audio.read(row)) as pieces:
            async for piece in pieces:
                await response.write(piece)
        await response.write_eof()
        return response

    async def _heard(self, request: web.Request) -> web.Response:
        row = await self._opened(request)
        transcript = _read(meeting.Transcript, await _body(request, meeting.MOST_TRANSCRIPT_BYTES))
        await self._meetings.transcribed(row, transcript, self._correct)
        self._metrics.meetings.labels(meeting.State.TRANSCRIBED.value).inc()
        if not self._correct:
            await self._meetings.due(row)
        return web.Response(status=204)

    async def _problem(self, request: web.Request) -> web.Response:
        row = await self._opened(request)
        problem = _read(meeting.Problem, await _body(request, _PROBLEM_BYTES))
        state = await self._meetings.missed(row, problem.reason, self._wall(), permanent=problem.permanent)
        self._metrics.meetings.labels(state.value).inc()
        return web.Response(status=204)

    async def _opened(self, request: web.Request) -> store.Row:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return await self._meetings.opened(request.match_info["id"], token.strip() if kind.lower() == "bearer" else "")


def answering(handler: Handler) -> Handler:
    """`handler`, with our errors as {error: {code, message, field, remedy}} and their status code."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except errors.Permanent as error:
            status, code = _STATUS.get(type(error), (400, "bad_request"))
            response = _failure(status, code, error.message, error.field, error.remedy)
            if isinstance(error, audio.Moved):
                response.headers["Upload-Offset"] = str(error.offset)
            return response
        except errors.Operational as error:
            status, code = _STATUS.get(type(error), (503, "unavailable"))
            response = _failure(status, code, error.message)
            response.headers["Retry-After"] = str(int(error.retry_after or RETRY_SECONDS))
            return response

    return answer


def _reply(said: model.Model, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    body = orjson.dumps(said.model_dump(mode="json", by_alias=True))
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _failure(status: int, code: str, message: str, field: str | None = None, remedy: str | None = None) -> web.Response:
    error = {"code": code, "message": message, "field": field, "remedy": remedy}
    return web.Response(body=orjson.dumps({"error": error}), status=status, content_type="application/json")


async def _body(request: web.Request, most: int) -> bytes:
    found = bytearray()
    async for piece in request.content.iter_chunked(64 << 10):
        found += piece
        if len(found) > most:
            raise audio.TooLarge(f"The body has more than {most} bytes.")
    return bytes(found)


def _read(kind: type[T], body: bytes) -> T:
    try:
        return kind.model_validate_json(body)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise Malformed(f"{field}: {first['msg']}", field=field, remedy="See /openapi.json.") from None


def _whole(request: web.Request, name: str) -> int | None:
    said = request.headers.get(name)
    if said is None:
        return None
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise Malformed(f"{name} {said[:40]!r} is no number of bytes", field=name)
    return int(said)


def _digest(request: web.Request) -> str:
    said = request.headers.get("Repr-Digest", "")
    if not said:
        return ""
    found = _DIGEST.search(said)
    try:
        raw = base64.b64decode(found[1], validate=True) if found else b""
    except binascii.Error:
        raw = b""
    if len(raw) != 32:
        raise Malformed("Repr-Digest has no SHA-256", field="Repr-Digest", remedy="Send sha-256=:BASE64: (RFC 9530).")
    return raw.hex()
