"""`POST /router/announce` and `POST /router/release`: an orchestrator reserves a GPU before it needs it.

Announcing waits until the GPU is ready (background has given way, the orchestrator's models are in its memory). A
client that stops waiting keeps the reservation and may announce again with the lease's id, which also renews it.

Source: seed 000 "Orchestrator Pre-announcement Protocol".
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pydantic
from pydantic import BaseModel

from contracts import openapi
from crds.priority import Priority
from router import dispatch
from router.aliases import NONE, Aliases
from router.announcement import Announce, Ready, Release, Released
from router.ceilings import Ceilings
from router.priority import Level
from router.proxy import permit, refusal
from router.proxy.message import Reply, Request
from router.proxy.refusal import Cause
from router.reservation import Reservation, Verdict

_RETRY = 5
_LONGEST_OWNER = 253
"""As in the GpuBackend's status."""


_Body = TypeVar("_Body", Announce, Release)
_Handler = Callable[[Request], Awaitable[Reply | None]]


def routes(
    dispatcher: dispatch.Dispatcher,
    *,
    ids: Callable[[], str],
    now: Callable[[], float],
    wall: Callable[[], datetime],
    patience: float,
    ceilings: Callable[[], Ceilings],
    aliases: Aliases = NONE,
) -> Mapping[str, _Handler]:
    """Handlers by path. `ids` makes lease ids that cannot be guessed; `patience` bounds the wait, in seconds; a client
    whose ceiling (of `ceilings`, or of its token) is below P0 reserves nothing."""

    def moment(held: Reservation) -> datetime:
        return (wall() + timedelta(seconds=held.until - now())).astimezone(UTC)

    def taken(held: Reservation | None, why: str = "") -> refusal.Refusal:
        # Not by whom: with that name a stranger could pretend to be the owner.
        if held is None:
            text = why or "every GPU that may be reserved is"
            return refusal.Refusal(409, text, retry_after=_RETRY, reason=Cause.RESERVED)
        left = max(1, round(held.until - now()))
        text = f"backend {held.backend!r} is reserved by another owner until {moment(held):%FT%TZ} at most"
        return refusal.Refusal(409, text, retry_after=min(left, 60), reason=Cause.RESERVED)

    async def announce(request: Request) -> Reply:
        body = _read(request, Announce)
        owner = _owner(request, body.owner)
        client = request.identity.name or request.link.peer
        given = ceilings().clamp(client, Level.P0)
        if given is not Level.P0 or request.identity.ceiling not in (None, Priority.P0):
            raise refusal.Refusal(403, "a reservation is for P0 requests, and this client's ceiling is below P0")
        model = aliases.resolve(body.model)
        if (rights := request.identity.rights) is not None:
            permit.model_of(rights, request, body.model, model)
        try:
            async with asyncio.timeout(patience):
                # A run is in nothing's way, whatever it asks for: what it shows may be in the wrong hands.
                answer, error = await dispatcher.announce(
                    owner, model, body.lease_id, ids(), spare_only=body.spare_only or bool(request.identity.run)
                )
        except TimeoutError as late:
            raise refusal.Refusal(
                503,
                f"the GPU is reserved for {body.owner!r} but not ready within {patience:g} s; announce again",
                retry_after=_RETRY,
                reason=Cause.NOT_READY,
            ) from late
        if answer.verdict is Verdict.TAKEN:
            raise taken(answer.reservation, answer.reason)
        if answer.reservation is None or error:
            raise refusal.Refusal(503, error or answer.reason, retry_after=_RETRY, reason=Cause.NOT_READY)
        held = answer.reservation
        ready = Ready(
            lease_id=held.id,
            backend=held.backend,
            model_set=held.model_set,
            until=moment(held),
            renew_seconds=answer.idle / 3,
        )
        return _reply(ready)

    async def release(request: Request) -> Reply:
        body = _read(request, Release)
        owner = _owner(request, body.owner)
        if not (body.lease_id or request.identity.name):
            raise refusal.Refusal(400, "leaseId: a caller without a token of its own must give the announcement's")
        answer = dispatcher.unreserve(owner, body.lease_id)
        if answer.verdict is Verdict.TAKEN:
            raise taken(answer.reservation)
        return _reply(Released(released=answer.verdict is Verdict.RELEASED))

    return {"/router/announce": announce, "/router/release": release}


def operations() -> list[openapi.Operation]:
    """For the OpenAPI document."""
    wrong, taken = "A field is wrong", openapi.Answer("Another owner holds it")
    return [
        openapi.Operation(
            "POST",
            "/router/announce",
            "Reserve a GPU for an orchestrator and wait until its models are loaded",
            {
                200: openapi.Answer(inspect.cleandoc(Ready.__doc__ or ""), openapi.json(Ready)),
                400: openapi.Answer(wrong),
                403: openapi.Answer("The client's ceiling is below P0"),
                409: taken,
                503: openapi.Answer("No GPU, or it is not ready yet"),
            },
            body=openapi.json(Announce),
        ),
        openapi.Operation(
            "POST",
            "/router/release",
            "Give the GPU back; the background models are loaded again",
            {
                200: openapi.Answer(inspect.cleandoc(Released.__doc__ or ""), openapi.json(Released)),
                400: openapi.Answer(f"{wrong}, or leaseId is missing"),
                409: taken,
            },
            body=openapi.json(Release),
        ),
    ]


def _read(request: Request, shape: type[_Body]) -> _Body:
    """The body. Raises Refusal with the field and the remedy."""
    if request.method != b"POST":
        raise refusal.Refusal(405, f"{request.path} takes POST", headers=(("Allow", "POST"),))
    try:
        return shape.model_validate_json(request.body or b"{}")
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        example = '{"owner": "job-1"}'
        raise refusal.Refusal(400, f"{field}: {first['msg']}; send for example {example}") from error


def _owner(request: Request, owner: str) -> str:
    """The reservation's owner: the caller's identity, for a run its own one, and the name that it chose. Raises
    Refusal."""
    identity = request.identity
    name = f"{identity.name}/{identity.run}" if identity.run else identity.name
    if not name and "/" in owner:
        raise refusal.Refusal(400, "owner: the part before a slash is the name of a caller with a token")
    whole = f"{name}/{owner}" if name else owner
    if len(whole) > _LONGEST_OWNER:
        raise refusal.Refusal(400, f"owner: with the caller's name it has more than {_LONGEST_OWNER} characters")
    return whole


def _reply(document: BaseModel) -> Reply:
    return Reply(body=document.model_dump_json(by_alias=True).encode())
