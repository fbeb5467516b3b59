"""How an attempt is sent: the request as its backend gets it, and the connection that it goes by."""

from __future__ import annotations

from router import scheduler
from router.proxy import hygiene, rewrite
from router.proxy.call import Call
from router.proxy.connection import Broken, Late, Leaving, Lost, Piece
from router.proxy.parts import Parts
from router.proxy.paths import Kind
from router.proxy.relay import Relay
from router.proxy.summary import Summary


def pack(parts: Parts, relay: Relay, call: Call, body: tuple[Piece, ...], *, claim: bytes = b"") -> None:
    """The request as the relay's backend gets it. With a `claim` that is another router, which needs the client's
    own token."""
    pool, request = relay.pool, call.request
    authorization = pool.authorization
    if authorization is None and (parts.guarded or request.identity.run):
        authorization = b""  # the caller's token is the router's business alone
    relay.body = body
    relay.head = hygiene.request_head(
        request,
        pool.base_path,
        pool.authority,
        length=(len(body[0]) if len(body) == 1 else sum(map(len, body))) if request.has_body else None,
        request_id=call.request_id,
        claim=claim,
        trace=b"" if request.summary is None else _trace(request.summary),
        authorization=None if claim else authorization,
    )


def owned(parts: Parts, call: Call, setting: scheduler.Owned) -> tuple[Piece, ...]:
    """The body as that backend gets it: the router decides how long a model that it owns stays in memory, and with
    which options of its runner, or one client's request would unload or reload every client's model. `setting` is that
    decision."""
    body = call.request.body
    if not (parts.own_parameters and body and call.kind is Kind.INFERENCE):
        return (body,)
    if not call.path.startswith("/api/"):
        if setting.num_ctx is not None:
            parts.metrics.context_unset.inc()
        return (body,)
    if call.outline is None:
        changed = rewrite.rewrite(body, setting.keep_alive, setting.num_ctx)
    else:
        changed = rewrite.pieces(body, call.outline, setting.keep_alive, setting.num_ctx)
    for option in changed.dropped:
        parts.metrics.dropped.labels(option).inc()
    if len(changed.pieces) > 1:
        parts.metrics.rewritten.inc()
    return changed.pieces


async def first_bytes(parts: Parts, relay: Relay) -> None:
    """Wait for the first body byte, or the whole of an answer without a body. A request that was not sent yet, or
    on a connection that was closing in that very moment, is sent on a new one."""
    reused = relay.connection
    if reused is not None:
        try:
            await reused.arrived()
        except Broken as error:
            if reused.received or isinstance(error, Late | Leaving | Lost):
                raise
            parts.metrics.retries.labels("keepalive").inc()
        else:
            return
    connection = await relay.pool.connect()
    relay.sent_again = reused is not None
    relay.ask(connection)
    try:
        await connection.arrived()
    except Broken as error:
        if not connection.received and not isinstance(error, Late | Leaving | Lost):
            # Has the server itself ended? Then that is what to say, and the request may wait for it.
            (await relay.pool.connect()).abort()
        raise


def _trace(kept: Summary) -> bytes:
    """The traceparent for the backend, empty when this router makes no spans."""
    return b"" if kept.spans is None else kept.spans.traceparent.encode()
