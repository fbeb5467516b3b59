"""Several processes that answer on one port, so that a reading pod uses more than one core (decision 0073).

    parent     opens the port, forks the workers, starts one again that has ended; it answers nothing itself
    worker     a whole process of `kb.service.serving` that takes connections from the port that it was given

SIGTERM goes to all of them and the parent ends after the last one. A worker whose parent has gone stops by itself.
Each of them answers GET /metrics with the figures of all, which carry the label `worker`: a worker that is started
again begins at 0, and Prometheus knows that of a series, not of a sum.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Metric, exposition, parser
from prometheus_client.registry import Collector

log = structlog.get_logger("kb")
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
BACKLOG = 1024
# Between the end of a worker and the start of the next one.
_PAUSE = 1.0
# So many ends within so many seconds, for each worker: it is no accident any more, and the pod should say so.
_ENDS, _WITHIN = 5, 60.0
# Beyond the time that requests are given at the end.
_GRACE = 30.0
_MISCONFIGURED = 2
# A signal that ended a worker, as a shell reports it.
_SIGNALLED = 128
_PATIENCE = 1.0


@dataclass(frozen=True)
class Worker:
    """What a worker is given: its number, the port, the end of a pipe that closes with the parent, and the folder in
    which each worker has a socket for its figures."""

    number: int
    listening: socket.socket
    parent: int
    folder: Path


def listening(host: str, port: int) -> socket.socket:
    """The open port of this pod. Raises OSError when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.create_server((host, port), family=family, backlog=BACKLOG)
    opened.setblocking(False)
    return opened


def run(host: str, port: int, count: int, serve: Callable[[Worker], int], *, grace: float) -> int:
    """Keep `count` workers until a signal; the exit status of the first that failed.

    `grace`: seconds that `serve` takes to stop.
    Raises OSError when the port cannot be opened. Call it before threads and event loops are there.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    reading, writing = os.pipe()
    with listening(host, port) as opened, tempfile.TemporaryDirectory(prefix="kb-workers-") as folder:

        def start(number: int) -> int:
            child = os.fork()
            if child:
                return child
            status = 1
            try:
                os.close(writing)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
                status = serve(Worker(number, opened, reading, Path(folder)))
            except BaseException:  # noqa: BLE001 -- the edge of a process: it is written down, and the process ends
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                # The parent's `with` above is not this process's to leave.
                os._exit(status)

        return _keep(count, start, grace + _GRACE)


def _keep(count: int, start: Callable[[int], int], grace: float) -> int:
    alive = {start(number): number for number in range(count)}
    waiting: dict[int, float] = {}
    ends: list[float] = []
    stopping: float | None = None
    worst = 0

    def stop() -> None:
        nonlocal stopping
        if stopping is None:
            stopping = time.monotonic() + grace
            waiting.clear()
            _tell(alive, signal.SIGTERM)

    while alive or waiting:
        found = signal.sigtimedwait(_SIGNALS, 0.5)
        now = time.monotonic()
        if found is not None and found.si_signo != signal.SIGCHLD:
            stop()
        for pid, status in _ended():
            number = alive.pop(pid, None)
            if number is None:
                continue
            if stopping is not None:
                # One that had not begun yet ends by the signal.
                if status not in (0, -signal.SIGTERM):
                    worst = worst or (status if status > 0 else _SIGNALLED - status)
                continue
            ends = [one for one in (*ends, now) if one > now - _WITHIN]
            if status == _MISCONFIGURED or len(ends) >= _ENDS * count:
                worst = status if status > 0 else 1
                stop()
                continue
            sys.stderr.write(f"worker {number} ended with {status}; it is started again\n")
            waiting[number] = now + _PAUSE
        for number in [one for one, at in waiting.items() if at <= now]:
            del waiting[number]
            alive[start(number)] = number
        if stopping is not None and now > stopping:
            _tell(alive, signal.SIGKILL)
    return worst


def _tell(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _ended() -> Iterable[tuple[int, int]]:
    """The children that have ended, with their exit status; a signal's number below zero."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, os.waitstatus_to_exitcode(status)


class Figures:
    """The metrics of all workers, asked of each at its socket in the folder."""

    def __init__(self, worker: Worker, registry: CollectorRegistry) -> None:
        self._worker = worker
        self._registry = registry

    @contextlib.asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Answer the other workers meanwhile."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                writer.write(exposition.generate_latest(self._registry))
                await writer.drain()
                writer.close()
                await writer.wait_closed()

        path = self._path(self._worker.number)
        # Of the one before it, which was killed.
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(answer, path)
        try:
            yield
        finally:
            server.close()

    async def text(self) -> bytes:
        """The exposition of all; a worker that does not answer is absent, as one that is being started again."""
        numbers = sorted(int(one.stem) for one in self._worker.folder.glob("*.sock"))
        texts = dict(zip(numbers, await asyncio.gather(*map(self._ask, numbers)), strict=True))
        return exposition.generate_latest(_All({number: text for number, text in texts.items() if text}))

    async def _ask(self, number: int) -> str:
        if number == self._worker.number:
            return exposition.generate_latest(self._registry).decode()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await asyncio.open_unix_connection(self._path(number))
                try:
                    return (await reader.read()).decode()
                finally:
                    writer.close()
        return ""

    def _path(self, number: int) -> Path:
        return self._worker.folder / f"{number}.sock"


class _All(CollectorRegistry, Collector):
    """The families of several expositions, each once, with the label `worker`."""

    def __init__(self, texts: dict[int, str]) -> None:
        super().__init__()
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for number, text in self._texts.items():
            for one in parser.text_string_to_metric_families(text):
                known = families.setdefault(one.name, Metric(one.name, one.documentation, one.type))
                for sample in one.samples:
                    known.samples.append(sample._replace(labels={**sample.labels, "worker": str(number)}))
        return families.values()
