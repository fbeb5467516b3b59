"""From the backend's connection to the client's: the pump of one exchange."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog

from router import metrics
from router.proxy import hygiene, refusal, stall
from router.proxy.answer import Answer
from router.proxy.call import Call
from router.proxy.connection import Broken, Connection, Late, Leaving, Preempted

_log = structlog.get_logger("router.relay")

_TAIL = 4
# Where the last record of an answer states its tokens: Ollama's names, then OpenAI's. Only the end is looked at.
_COUNTS = 512
_PROMPT = re.compile(rb'"(?:prompt_eval_count|prompt_tokens)":\s*(\d{1,9})\b')
_TOKENS = re.compile(rb'"(?:eval_count|completion_tokens)":\s*(\d{1,9})\b')


class Relay:
    """`begun` turns True at the one place where it is decided that the answer comes from this backend; `spoiled` says
    how the backend broke off after that. `complete` is called when the backend has done its part, before the client
    has taken the last bytes."""

    def __init__(
        self,
        call: Call,
        backend: str,
        watch: stall.Watch,
        limits: stall.Limits,
        counters: metrics.Metrics,
        *,
        now: Callable[[], float],
        complete: Callable[[], None],
    ) -> None:
        self.begun = False
        self.spoiled = ""
        self._gave_way = False
        self._complete = complete
        self._tail = b""
        self.connection: Connection | None = None
        self._call = call
        self._backend = backend
        self._watch = watch
        self._limits = limits
        self._metrics = counters
        self._now = now
        self._guard = watch.open(self._cut)

    def close(self) -> None:
        """The exchange is over."""
        self._watch.close(self._guard)
        self._guard.forget()
        self.connection = None

    def ask(self, connection: Connection, head: bytes, body: bytes) -> None:
        """Send the request; the answer is awaited with `connection.arrived`. Raises Preempted."""
        if self._gave_way:
            raise _preempted()
        self.connection = connection
        limit = self._limits.first if self._call.streams else self._limits.whole
        self._guard.move(self._now(), limit, self._silent)
        connection.send(head, body, head_only=self._call.request.method == b"HEAD")

    async def run(
        self, connection: Connection, counters: metrics.Exchange, *, queue_ms: int, last: bool, model_set: str = ""
    ) -> Answer:
        """Relay the answer that has begun to arrive. `last` closes the client's connection after it."""
        call = self._call
        answer = Answer(
            call.request,
            connection.status,
            connection.reason,
            connection.passing(),
            hygiene.own_lines(self._backend, queue_ms, call.request_id, model_set),
            last=last,
        )
        self.begun = True
        call.request.drop_body()
        self._metrics.answered("backend", connection.status)
        try:
            rest = b"" if connection.complete else await self._pump(connection, answer, counters)
            if not self._finish(connection, answer, counters, rest):
                self._writing()
                await answer.room()
        except Broken as error:
            await self._show(error, answer)
        except ConnectionError:
            # The client was gone before its hang-up reached us as a cancellation; the caller closes the backend's side.
            self._metrics.hangups.labels("streaming").inc()
            answer.tear()
        return answer

    async def _pump(self, connection: Connection, answer: Answer, counters: metrics.Exchange) -> bytes:
        """Relay until the backend has sent everything; returns the piece that was not handed over yet."""
        guard, now, limits = self._guard, self._now, self._limits

        def sink(piece: bytes) -> bool:
            guard.since = now()
            self._tail = piece
            counters.sent += len(piece)
            try:
                return answer.pour(piece)
            except ConnectionResetError:
                return False  # the client is gone: `room` says so to the task

        data = connection.take()
        while not connection.complete:
            if data:
                connection.congested = not sink(data)
                data = b""
            if connection.congested:
                guard.move(now(), limits.write, self._stalled)
                await answer.room()
            guard.move(now(), limits.between, self._silent)
            await connection.flow(sink)
        return data

    def _finish(self, connection: Connection, answer: Answer, counters: metrics.Exchange, data: bytes) -> bool:
        """The backend has done its part; False when the client's connection is full."""
        data += connection.take()
        self._complete()
        counters.sent += len(data)
        end = self._tail[-_COUNTS:] + data if len(data) < _COUNTS else data[-_COUNTS:]
        if b'_count"' in end or b'_tokens"' in end:
            _count(counters, end)
        return answer.end(data)

    async def _show(self, error: Broken, answer: Answer) -> None:
        """The backend died in the middle: say so, and end in a way that nobody takes for the end of an answer."""
        if not isinstance(error, Leaving):
            self.spoiled = error.message
            self._metrics.broken.labels(self._backend, "silent" if isinstance(error, Late) else "stream").inc()
        _log.warning("answer broke off", backend=self._backend, reason=error.message, id=self._call.request_id)
        try:
            message = f"backend {self._backend!r}: {error.message}"
            line = refusal.late(message, answer.content_type, self._tail[-_TAIL:])
            # Inside a declared length an error line would be taken for content.
            if line and not answer.declared:
                self._writing()
                answer.pour(line)
                await answer.room()
        except ConnectionError:
            self._metrics.hangups.labels("streaming").inc()
        finally:
            answer.tear()

    def give_way(self) -> None:
        """A more urgent request needs the slot: let go of the backend."""
        self._gave_way = True
        if self.connection is not None:
            self.connection.fail(_preempted())

    def _writing(self) -> None:
        self._guard.move(self._now(), self._limits.write, self._stalled)

    def _silent(self) -> None:
        if self.connection is not None:
            waited = self._guard.limit
            self.connection.fail(Late(f"the backend was silent for {waited:g} s"))

    def _cut(self) -> None:
        if self.connection is not None:
            self.connection.fail(Leaving("the router is shutting down; try again"))

    def _stalled(self) -> None:
        """The client takes nothing: its connection goes, which cancels the handler and frees the slot."""
        self._metrics.stalled.inc()
        self._call.request.link.abort()


def _preempted() -> Preempted:
    return Preempted("preempted by a more urgent request; try again")


def _count(counters: metrics.Exchange, end: bytes) -> None:
    """Add the tokens that the end of an answer states."""
    if prompt := _PROMPT.search(end):
        counters.prompt_tokens += int(prompt.group(1))
    if tokens := _TOKENS.search(end):
        counters.tokens += int(tokens.group(1))
