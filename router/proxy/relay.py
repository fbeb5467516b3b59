"""One attempt at one backend: the slot, the connection that uses it, and the pump of the answer to the client."""

from __future__ import annotations

import structlog

from router import metrics
from router.proxy import counts, hygiene, refusal, signs, stall, summary
from router.proxy.answer import Answer
from router.proxy.call import Call
from router.proxy.connection import Broken, Connection, Exceeded, Late, Leaving, Lost, Piece, Preempted
from router.proxy.parts import Parts
from router.proxy.paths import EMBEDDING
from router.proxy.pool import Pool
from router.proxy.refusal import Cause
from router.proxy.step import DONE, MORE, WAIT, Step

_log = structlog.get_logger("router.relay")

SUCCESSOR = "(next router)"
"""Instead of a backend's name, which has no brackets, for what was passed on to the router after this one."""
_TAIL = 4
_MOST_PIECES = 16
"""Pieces of the end of an answer that are kept before they are joined."""
_ENDS = {b"text/event-stream": (b"\n\n", b"\r\n\r\n"), b"application/x-ndjson": (b"\n",)}
"""By content type: how an event ends."""


class Relay:
    """`begun` turns True at the one place where it is decided that the answer comes from this backend, `whole` when the
    backend has done its part (the client may still have to take the last bytes); `spoiled` says how the backend broke
    off in between. Made with the slot taken; `close` gives that and the connection back. Watched as `stall.Guarded`.

    As long as the client takes what it is sent, the answer flows from one connection's callbacks to the other without a
    task: `begin`, then `go_on` whenever the backend's connection calls. `run` waits for what cannot be had at once."""

    __slots__ = (
        "_answer",
        "_backend",
        "_between",
        "_call",
        "_counters",
        "_ended",
        "_hold",
        "_kept",
        "_last",
        "_number",
        "_parts",
        "_to_client",
        "begun",
        "body",
        "connection",
        "ends",
        "first",
        "gave_way",
        "head",
        "limit",
        "pool",
        "sent_again",
        "since",
        "slow",
        "spoiled",
        "status",
        "tail",
        "whole",
    )

    def __init__(
        self, call: Call, number: int | None, backend: str, pool: Pool, parts: Parts, *, slow: bool = False
    ) -> None:
        """`number` is the request's id at the dispatcher, None for one that took no slot. `slow`: the backend is a CPU,
        and that it is late says nothing about it."""
        limits = parts.limits
        self.slow = slow
        self.connection: Connection | None = None
        """The one on which it was sent last, be it broken."""
        self.sent_again = False
        """A kept connection broke under it, and it was sent once more on a new one."""
        self.head = b""
        self.body: tuple[Piece, ...] = ()
        """What is sent, until the answer has begun."""
        self.begun = False
        self.whole = False
        self.status = 0
        """Of the answer, once that has begun."""
        self.tail = b""
        """The end of the answer, once it is whole."""
        self.spoiled: Broken | None = None
        self.since = 0.0
        self.limit = stall.NEVER
        self._to_client = False  # what is waited for is the client, not the backend
        self.gave_way = False
        first = limits.cpu_first if slow else limits.first
        self.first = first if call.streams else limits.embedding if call.path in EMBEDDING else limits.whole
        """Seconds of silence until the first byte."""
        self._hold = stall.NEVER if slow or number is None else limits.held(internal=call.internal)
        self.ends = stall.NEVER
        self._between = limits.whole if call.tools else limits.cpu_between if slow else limits.between
        self._ended = False
        self._last: list[bytes] = []  # pieces: joined for each of them, the end would be copied for each token
        self._call = call
        self._number = number
        self._backend = backend
        self.pool = pool
        self._parts = parts
        parts.watch.open(self)

    def close(self) -> None:
        """The exchange is over."""
        self._parts.watch.close(self)
        if not self._ended:
            self.end()

    def end(self) -> None:
        """The answer is complete, or is not wanted any more: give back the connection and the slot, once."""
        self._ended = True
        connection, self.connection = self.connection, None
        if connection is None:
            self._release()
            return
        complete = connection.complete
        self.pool.give_back(connection, self._parts.now())
        if complete:
            self._release()
        else:
            # The backend's slot is busy until it has stopped, see `Connection.part`.
            connection.when_lost(self._release)

    def ask(self, connection: Connection) -> None:
        """Send the request; the answer is awaited with `connection.arrived`, or by its `listener`. Raises Preempted."""
        if self.gave_way:
            connection.abort()
            raise preempted()
        self.connection = connection
        connection.send(self.head, *self.body, head_only=self._call.request.method == b"HEAD")
        self.since, self.limit = self._parts.now(), self.first

    def begin(self, counters: metrics.Exchange, *, queue_ms: int, last: bool, model_set: str = "") -> Step:
        """Relay the answer that has begun to arrive, as `go_on` does. `last` closes the client's connection after
        it."""
        call, connection = self._call, self.connection
        assert connection is not None
        self._counters, self._kept = counters, call.request.summary
        early, call.early = call.early, None
        status = self.status = connection.status
        if early is None:
            self._answer = Answer(
                call.request,
                status,
                connection.reason,
                connection.passing(),
                hygiene.own_lines(self._backend, queue_ms, call.request_id, model_set),
                last=last,
            )
        elif signs.fits(early, status, connection.content_type):
            self._answer = early
        else:
            self._answer = signs.Misfit(early, status, call.path)
            self._outcome(summary.ERROR)
        self.begun = True
        # The client has the first piece before anything is counted.
        if not connection.complete:
            self.limit = self._between
            self.ends = self._parts.now() + self._hold
            connection.pour(self._sink)
        step = self.go_on()
        self.head, self.body = b"", ()
        call.request.drop_body()
        self._parts.metrics.answered("backend", status)
        if self._kept is not None:
            self._kept.began(status)
        return step

    def go_on(self) -> Step:
        """Relay what can be had at once. After WAIT go on with `run`."""
        connection = self.connection
        if connection is None or connection.error is not None or connection.congested:
            return WAIT
        if not connection.complete:
            return MORE
        try:
            return DONE if self._finish(connection) else WAIT
        except ConnectionError:
            self._lost()
            return DONE

    def pausing(self, since: float) -> Answer | None:
        """The answer, if the backend has sent nothing since then and something may be said between its events."""
        answer, connection = self._answer, self.connection
        if self.whole or connection is None or connection.error is not None or self._to_client or self.since > since:
            return None
        ends = _ENDS.get(answer.content_type)
        may = ends is not None and not answer.declared and answer.status == 200 and self._end().endswith(ends)
        return answer if may else None

    async def run(self) -> None:
        """Relay what is left."""
        answer = self._answer
        try:
            if not self.whole:
                connection = self.connection
                assert connection is not None
                await self._pump(connection)
                if self._finish(connection):
                    return
            self._writing()
            await answer.room()
        except Broken as error:
            await self._show(error)
        except ConnectionError:
            # The client was gone before its hang-up reached us as a cancellation; the caller closes the backend's side.
            self._lost()

    async def _pump(self, connection: Connection) -> None:
        """Relay until the backend has sent everything; the last piece may be left at the connection."""
        answer, between = self._answer, self._between
        while not connection.complete:
            if connection.congested:
                self._writing()
                await answer.room()
            self._silence(between)
            await connection.flow(self._sink)

    def _sink(self, piece: bytes) -> bool:
        """A piece of the answer; False when the client takes no more for now."""
        try:
            goes_on = self._answer.pour(piece)
        except ConnectionResetError:
            goes_on = False  # the client is gone: `room` says so to the task
        self.since = self._parts.now()
        size = len(piece)
        self._counters.sent += size
        last = self._last
        last.append(piece if size <= counts.MOST else piece[-counts.MOST :])
        if len(last) == _MOST_PIECES:
            self._last = [self._end()]
        if self._kept is not None:
            self._kept.piece(piece)
        return goes_on

    def _end(self) -> bytes:
        """The last bytes that came: the counts may stand some pieces before the end of the stream."""
        return b"".join(self._last)[-counts.MOST :]

    def _finish(self, connection: Connection) -> bool:
        """The backend has done its part; False when the client's connection is full."""
        data = connection.take()
        self.whole = True
        self.limit = stall.NEVER
        self.end()
        counters = self._counters
        counters.sent += len(data)
        end = self.tail = self._end() + data if len(data) < counts.MOST else data[-counts.MOST :]
        stated = counts.read(end)
        if stated is not counts.NOTHING:
            counters.prompt_tokens += stated.prompt or 0
            counters.tokens += stated.answer or 0
        if self._kept is not None:
            self._kept.piece(data)
            self._kept.tail = end
        return self._answer.end(data)

    async def _show(self, error: Broken) -> None:
        """The backend died in the middle: say so, and end in a way that no client takes for the end of an answer."""
        answer = self._answer
        self._outcome(summary.BROKEN)
        if not isinstance(error, Leaving):
            if not (self.slow and isinstance(error, Late)):
                self.spoiled = error
            self._parts.metrics.broken.labels(self._backend, "silent" if isinstance(error, Late) else "stream").inc()
        _log.warning("answer broke off", backend=self._backend, reason=error.message, id=self._call.request_id)
        try:
            message = f"backend {self._backend!r}: {error.message}"
            path = self._call.path
            end = self._end()
            line = refusal.late(refusal.body(message, 502, path), answer.content_type, end[-_TAIL:], path)
            if self._backend == SUCCESSOR and refusal.reported(end):
                line = b""  # the other router has said why
            # Inside a declared length an error line would be taken for content.
            if line and not answer.declared:
                self._writing()
                answer.pour(line)
                await answer.room()
        except ConnectionError:
            self._parts.metrics.hangups.labels("streaming").inc()
        finally:
            answer.tear()

    def give_way(self) -> None:
        """A more urgent request needs the slot: let go of the backend."""
        self.gave_way = True
        if self.connection is not None:
            self.connection.fail(preempted())

    # stall.Guarded

    def expire(self, limit: float) -> None:
        """Nothing has moved for too long. A client that takes nothing loses its connection, which cancels the handler
        and frees the slot."""
        if self._to_client:
            self._parts.metrics.stalled.inc()
            self._call.request.link.abort()
        elif self.connection is not None:
            self.connection.fail(Late(f"the backend was silent for {limit:g} s"))

    def exceed(self) -> None:
        """The answer has held its GPU for as long as it may."""
        connection, call = self.connection, self._call
        if connection is None or connection.complete or connection.error is not None:
            return
        self._parts.metrics.exceeded.labels("internal" if call.internal else "foreign").inc()
        if self._kept is not None:
            self._kept.reason = Cause.HELD_TOO_LONG
        setting = "holdSeconds" if call.internal else "foreignHoldSeconds"
        connection.fail(
            Exceeded(
                f"the answer went on for {self._hold:g} s after its first byte, longer than a request may hold a GPU "
                f"(router.settings.{setting}); ask for fewer tokens (num_predict, max_tokens)"
            )
        )

    def cut(self) -> None:
        """The process goes."""
        if self.connection is not None:
            self.connection.fail(Leaving("the router is shutting down; try again"))

    def lose(self, backend: str) -> None:
        """A backend answers nothing any more. An answer that has begun is left to the socket's own timeouts: nothing
        can be done for it but to show that it broke off."""
        if backend == self._backend and not self.begun and self.connection is not None:
            self.connection.fail(Lost("the backend does not answer any more"))

    # Inside

    def _release(self) -> None:
        if self._number is not None:
            self._parts.dispatcher.release(self._number)

    def _silence(self, limit: float) -> None:
        self.since, self.limit, self._to_client = self._parts.now(), limit, False

    def _writing(self) -> None:
        self.since, self.limit, self._to_client = self._parts.now(), self._parts.limits.write, True

    def _outcome(self, word: str) -> None:
        if (kept := self._call.request.summary) is not None:
            kept.outcome = word

    def _lost(self) -> None:
        self._outcome(summary.HANGUP)
        self._parts.metrics.hangups.labels("streaming").inc()
        self._answer.tear()


def preempted() -> Preempted:
    """What ends a request that gives way."""
    return Preempted("preempted by a more urgent request; try again")
