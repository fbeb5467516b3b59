"""`/api/v1/meetings` of the sources process: meetings, uploads of their recordings, and the pods that transcribe.

An upload follows the core of tus 1.0.0: HEAD says where the recording ends (Upload-Offset), PATCH appends there and
nowhere else (409), Upload-Length says how long it will be. The part that completes it has `Repr-Digest:
sha-256=:BASE64:` of the whole (RFC 9530). 423: another upload writes. The pod of a meeting's Job shows the token of its
attempt, which opens its recording and takes its transcript, and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import pydantic
from aiohttp import web

from contracts.api import meeting
from contracts.tokens import token_file
from sources.api import app, gate, problems, routes
from sources.providers.meetings import audio, metrics, store

T = TypeVar("T", bound=pydantic.BaseModel)
TUS = {"Tus-Resumable": "1.0.0"}
PART_TYPE = "application/offset+octet-stream"
SILENCE = 60.0
"""Seconds without a byte, after which an upload ends; what has arrived is stored."""
_PROBLEM_BYTES = 16 << 10
_MOST_LISTED = 500
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):")
_ONE = "/api/v1/meetings/{id}"
_TAKEN = ((409, "It does not fit the state of the meeting, or the part does not begin where the recording ends."),)
_LOCKED = (
    (423, "Another upload writes to the recording; see Retry-After."),
    (507, "The recordings of the namespace have as many bytes as they may have."),
)


class Serving:
    """`correct`: transcripts are corrected before they are indexed. `wall` is UTC."""

    def __init__(
        self,
        meetings: store.Meetings,
        recordings: audio.Audio,
        measured: metrics.Metrics,
        *,
        correct: bool,
        wall: Callable[[], datetime],
    ) -> None:
        self._meetings, self._audio, self._metrics = meetings, recordings, measured
        self._correct, self._wall = correct, wall

    def served(self) -> Sequence[routes.Served]:
        """The routes of meetings."""
        route, kind = routes.Route, meeting.Meeting
        listing = ("connection", "state", "limit")
        return (
            (
                route(
                    "POST",
                    "/api/v1/meetings",
                    "Make a meeting of a Connection.",
                    201,
                    meeting.Draft,
                    kind,
                    errors=_TAKEN,
                ),
                self._create,
            ),
            (
                route(
                    "GET",
                    "/api/v1/meetings",
                    "Meetings of a namespace, the newest first.",
                    reply=meeting.Page,
                    whole=True,
                    query=("namespace",),
                    optional=listing,
                ),
                self._list,
            ),
            (route("GET", _ONE, "A meeting.", reply=kind, whole=True), self._get),
            (route("DELETE", _ONE, "Forget a meeting, its recording and its transcript.", 204), self._delete),
            (
                route("POST", f"{_ONE}/retry", "Transcribe a FAILED meeting again.", reply=kind, errors=_TAKEN),
                self._retry,
            ),
            (route("HEAD", f"{_ONE}/audio", "Where the recording ends (Upload-Offset)."), self._offset),
            (
                route(
                    "PATCH",
                    f"{_ONE}/audio",
                    "Append to the recording at Upload-Offset.",
                    204,
                    raw_body=True,
                    errors=(*_TAKEN, *_LOCKED),
                ),
                self._append,
            ),
            (
                route(
                    "GET",
                    f"{_ONE}/transcript",
                    "What was heard, and what is indexed.",
                    reply=meeting.Told,
                    whole=True,
                ),
                self._transcript,
            ),
            (
                route(
                    "GET", f"{_ONE}/audio", "The recording, for the pod that transcribes it.", raw_reply=True, open=True
                ),
                self._recording,
            ),
            (
                route("PUT", f"{_ONE}/transcript", "What its pod heard.", 204, meeting.Transcript, open=True),
                self._heard,
            ),
            (
                route("POST", f"{_ONE}/problem", "Why its pod heard nothing.", 204, meeting.Problem, open=True),
                self._problem,
            ),
        )

    # -- people and programs ---------------------------------------------------------------------------------------

    async def _create(self, request: web.Request) -> web.Response:
        draft = await app.read(request, meeting.Draft)
        allows = partial(gate.caller(request).allows, writing=True)
        place = await self._meetings.place(draft.namespace, draft.connection, allows)
        row = await self._meetings.create(draft, place, self._wall())
        self._metrics.meetings.labels(meeting.State.RECORDING.value).inc()
        return app.reply(store.shown(row), 201)

    async def _list(self, request: web.Request) -> web.Response:
        query, caller = request.query, gate.caller(request)
        wanted: dict[str, Any] = {"namespace": query["namespace"]}
        if query.get("connection"):
            wanted["connection"] = query["connection"]
        if query.get("state"):
            states = [one.value for one in meeting.State]
            if query["state"] not in states:
                raise problems.Invalid(
                    f"{query['state']!r} is no state", field="state", remedy=f"One of {', '.join(states)}."
                )
            wanted["state"] = query["state"]
        text = query.get("limit", "100")
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_LISTED):
            raise problems.Invalid(f"limit {text!r} is no number from 1 to {_MOST_LISTED}", field="limit")
        clients = {one.client_id for one in caller.grant.scopes} if caller.grant is not None else set()
        if clients and token_file.EVERY not in clients:
            wanted["clientId"] = {"$in": sorted(clients)}
        rows = await self._meetings.listed(wanted, int(text) + 1, partial(caller.allows, writing=False))
        shown = tuple(store.shown(row) for row in rows[: int(text)])
        return app.reply(meeting.Page(meetings=shown, truncated=len(rows) > int(text)))

    async def _get(self, request: web.Request) -> web.Response:
        return app.reply(store.shown(await self._mine(request, writing=False)))

    async def _delete(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=True)
        # The row goes last: after a kill in between the meeting is found and forgotten again.
        await self._audio.delete(row)
        await self._meetings.drop(row["_id"])
        return web.Response(status=204)

    async def _retry(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=True)
        return app.reply(store.shown(await self._meetings.retry(row["_id"])))

    async def _offset(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=False)
        length = (
            {"Upload-Length": str(row["length"])} if row.get("length") is not None else {"Upload-Defer-Length": "1"}
        )
        said = {"Upload-Offset": str(row["offset"]), **length, "Cache-Control": "no-store", **TUS}
        return web.Response(headers=said)

    async def _append(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=True)
        if request.content_type != PART_TYPE:
            raise problems.Invalid(
                f"a part has the type {PART_TYPE}, not {request.content_type}",
                field="Content-Type",
                remedy=f"Send Content-Type: {PART_TYPE}.",
            )
        offset, length = _whole(request, "Upload-Offset"), _whole(request, "Upload-Length")
        if offset is None:
            raise problems.Invalid(
                "Upload-Offset is missing", field="Upload-Offset", remedy="Ask with HEAD where to go on."
            )
        try:
            async with aclosing(_pieces(request)) as pieces:
                row = await self._audio.write(row["_id"], offset, length, pieces, _digest(request))
        except audio.Full:
            self._metrics.full.inc()
            raise
        if row["state"] == meeting.State.UPLOADED.value:
            self._metrics.meetings.labels(meeting.State.UPLOADED.value).inc()
            self._metrics.bytes.inc(row["offset"])
        return web.Response(status=204, headers={"Upload-Offset": str(row["offset"]), **TUS})

    async def _transcript(self, request: web.Request) -> web.Response:
        row = await self._mine(request, writing=False)
        told = await self._meetings.told(row["_id"])
        if told is None:
            raise store.Unknown(f"The meeting has no transcript yet, it is {row['state']}.", field="id")
        return app.reply(told)

    async def _mine(self, request: web.Request, *, writing: bool) -> store.Row:
        """The meeting of the path, if the caller may."""
        row = await self._meetings.get(request.match_info["id"])
        if not gate.caller(request).allows(store.owner(row), writing=writing):
            raise store.absent(row["_id"])
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
        transcript = await _body(request, meeting.Transcript, meeting.MOST_TRANSCRIPT_BYTES)
        await self._meetings.transcribed(row, transcript, self._correct)
        self._metrics.meetings.labels(meeting.State.TRANSCRIBED.value).inc()
        if not self._correct:
            await self._meetings.due(row)
        return web.Response(status=204)

    async def _problem(self, request: web.Request) -> web.Response:
        row = await self._opened(request)
        problem = await _body(request, meeting.Problem, _PROBLEM_BYTES)
        state = await self._meetings.missed(row, problem.reason, self._wall(), permanent=problem.permanent)
        self._metrics.meetings.labels(state.value).inc()
        return web.Response(status=204)

    async def _opened(self, request: web.Request) -> store.Row:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return await self._meetings.opened(request.match_info["id"], token.strip() if kind.lower() == "bearer" else "")


async def _body(request: web.Request, kind: type[T], most: int) -> T:
    """A body that may be larger than those of other routes."""
    found = bytearray()
    async with aclosing(_pieces(request)) as pieces:
        async for piece in pieces:
            found += piece
            if len(found) > most:
                raise problems.TooLarge(f"the body has more than {most} bytes", field="body")
    try:
        return kind.model_validate_json(bytes(found))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise problems.Invalid(f"{field}: {first['msg']}", field=field) from error


async def _pieces(request: web.Request) -> AsyncGenerator[bytes]:
    """The body as it arrives, in pieces of at most a chunk. Raises `problems.TooSlow`."""
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                piece = await request.content.read(audio.CHUNK)
        except TimeoutError as error:
            raise problems.TooSlow(f"nothing arrived for {SILENCE:.0f} seconds", field="body") from error
        if not piece:
            return
        yield piece


def _whole(request: web.Request, name: str) -> int | None:
    said = request.headers.get(name)
    if said is None:
        return None
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise problems.Invalid(f"{name} {said[:40]!r} is no number of bytes", field=name)
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
        raise problems.Invalid(
            "Repr-Digest has no SHA-256", field="Repr-Digest", remedy="Send sha-256=:BASE64: (RFC 9530)."
        )
    return raw.hex()
