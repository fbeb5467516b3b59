"""Does the router keep its size and lose nothing? Many mixed requests on three models that share slots.

    python -m bench.router.soak --requests 1000000
    python -m bench.router.soak --requests 1000000 --restart-every 15    # a backend is killed and started again

Seven in ten requests are embeddings, a quarter are short /v1 streams of a second model, and one in twenty is a stream
of a third model whose client hangs up: before the first byte, or somewhere inside. Two backends serve all models. With
restarts they are killed in turns (SIGKILL); what an answer had begun for is cut with them (`cut`), all else has to be
answered. A line of progress goes to standard error every 30 seconds. Printed at the end are requests, hang-ups, the
rate, CPU seconds of each process, resident memory after the warm-up and at the end, and whether all was given back.

The CPU limits it: about a millisecond of all processes for each request, half of it the router's. On two cores that do
nothing else a million should take 10 to 20 minutes; beside other work the rate falls with the share of the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from typing import Any

import uvloop

from bench.router import load, run

_HANG_UP = 0.05
_STREAM = 0.25
_WARM = 0.1
_BACKENDS = 2
_TELL = 30.0
_STUCK = 120.0
"""Seconds without a single request that ends: the run is given up."""
_KINDS = ("answered", "streamed", "hung_up", "cut", "errors")
_HEAD_END = b"\r\n\r\n"
_STREAM_END = b"0\r\n\r\n"

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _RefusedError(Exception):
    """An answer that is not 200; the text is its status line."""


class _CutError(Exception):
    """The connection ended inside an answer that had begun."""


class _Client:
    """One connection, one request after the other; a new connection where the old one ended."""

    def __init__(self, port: int, chance: random.Random, seen: Counter[str]) -> None:
        self._port, self._chance, self._seen = port, chance, seen
        self._streams: _Streams | None = None

    async def run(self, numbers: itertools.count[int], requests: int) -> None:
        """Until the numbers reach `requests`."""
        while next(numbers) < requests:
            try:
                await self._one()
            except _CutError:
                self._seen["cut"] += 1
                self._close()
            except (_RefusedError, asyncio.IncompleteReadError, ConnectionError) as error:
                self._seen["errors"] += 1
                print(f"soak: {error!r}", file=sys.stderr)
                self._close()
        self._close()

    async def _one(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        kind = self._chance.random()
        if kind < _HANG_UP:
            writer.write(load.GENERATE)
            for _ in range(self._chance.randint(0, 3)):
                await reader.read(200)
            self._seen["hung_up"] += 1
            self._close()
            return
        stream = kind < _HANG_UP + _STREAM
        writer.write(load.COMPLETE if stream else load.EMBED)
        head = await reader.readuntil(_HEAD_END)
        if not head.startswith(b"HTTP/1.1 200"):
            raise _RefusedError(head.split(b"\r\n", 1)[0].decode("latin-1"))
        try:
            if not stream:
                at = head.lower().index(b"content-length:")
                await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)]))
                self._seen["answered"] += 1
            elif b"[DONE]" in await reader.readuntil(_STREAM_END):
                self._seen["streamed"] += 1
            else:  # ended by the router's error event
                self._seen["cut"] += 1
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise _CutError from error

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class _Servers:
    """The backends; those that were killed are remembered with their CPU seconds."""

    def __init__(self) -> None:
        self.all = [run.start(["-m", "bench.router.backend"], {}, "listening") for _ in range(_BACKENDS)]
        self._spent = 0.0

    def cpu(self) -> float:
        """Seconds of all backends so far."""
        return self._spent + sum(run.usage(server.pid)[0] for server, _ in self.all)

    async def restart(self, every: float, seen: Counter[str], ended: asyncio.Event) -> None:
        """Kill one backend after the other, and start it again on its port, until `ended`."""
        for which in itertools.cycle(range(len(self.all))):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), every)
            if ended.is_set():
                return
            server, port = self.all[which]
            self._spent += run.usage(server.pid)[0]
            server.kill()
            server.wait()
            await asyncio.sleep(1)  # as long as a server takes to start
            self.all[which] = await asyncio.to_thread(run.start, _backend(port), {}, "listening")
            seen["restarts"] += 1


def _backend(port: int) -> list[str]:
    return ["-m", "bench.router.backend", str(port)]


def _done(seen: Counter[str]) -> int:
    return sum(seen[kind] for kind in _KINDS)


async def _tell(router: subprocess.Popen[bytes], seen: Counter[str], requests: int) -> None:
    """Progress, for ever. Raises TimeoutError when nothing moves."""
    begun = moved = time.monotonic()
    before = 0
    while True:
        await asyncio.sleep(_TELL)
        now, done = time.monotonic(), _done(seen)
        moved = now if done > before else moved
        rate = done / (now - begun)
        left = (requests - done) / rate / 60 if rate else float("inf")
        print(
            f"soak: {done:,} of {requests:,} requests, {(done - before) / _TELL:.0f}/s, {left:.0f} min left,"
            f" {run.usage(router.pid)[1]:.1f} MiB, {dict(seen)}",
            file=sys.stderr,
            flush=True,
        )
        before = done
        if now - moved >= _STUCK:
            raise TimeoutError(f"no request ended for {_STUCK:g} s; {done} of {requests} had")


async def _soak(requests: int, connections: int, every: float) -> dict[str, Any]:
    servers = _Servers()
    specs = json.dumps(
        [
            {"name": f"b{number}", "url": f"http://127.0.0.1:{port}", "numParallel": 16, "maxInFlight": 24}
            for number, (_, port) in enumerate(servers.all)
        ]
    )
    environment = {"GPU_BACKENDS": specs, "JERVIS_ROUTER_PORT": "0", "JERVIS_ROUTER_HOST": "127.0.0.1"}
    router, front = run.start(["-m", "router"], environment, "serving")
    seen, ended = Counter[str](), asyncio.Event()
    restarts = asyncio.ensure_future(servers.restart(every, seen, ended)) if every else None
    try:

        async def part(first: int, count: int) -> None:
            numbers = itertools.count()
            await asyncio.gather(
                *(_Client(front, random.Random(first + one), seen).run(numbers, count) for one in range(connections))
            )
            await asyncio.sleep(1)  # let hang-ups arrive

        async def parts() -> dict[str, Any]:
            warming = round(requests * _WARM)
            await part(0, warming)
            warm = run.usage(router.pid)[1]
            begun = time.monotonic()
            await part(connections, requests - warming)
            elapsed = time.monotonic() - begun - 1
            ended.set()
            if restarts is not None:
                await restarts
            spent, after = run.usage(router.pid)
            in_flight, waiting = await _left(front)
            return {
                **seen,
                "requests": _done(seen),
                "errors": seen["errors"],
                "per_second": round((requests - warming) / elapsed),
                "cpu_seconds": {
                    "router": round(spent, 1),
                    "backends": round(servers.cpu(), 1),
                    "clients": round(time.process_time(), 1),
                },
                "rss_mib_warm": round(warm, 1),
                "rss_mib_after": round(after, 1),
                "growth_mib": round(after - warm, 1),
                "in_flight": in_flight,
                "waiting": waiting,
                "load_average": os.getloadavg(),
            }

        telling = asyncio.ensure_future(_tell(router, seen, requests))
        working = asyncio.ensure_future(parts())
        await asyncio.wait({telling, working}, return_when=asyncio.FIRST_COMPLETED)
        telling.cancel()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await telling
        return working.result()
    finally:
        ended.set()
        if restarts is not None:
            await asyncio.gather(restarts, return_exceptions=True)  # or a server that is being started would stay
        for process in (router, *(server for server, _ in servers.all)):
            process.terminate()
            process.wait(30)


async def _left(front: int) -> tuple[int, int]:
    """Requests in flight and waiting, once they are none or ten seconds have passed."""
    for _ in range(20):
        status = json.loads(await asyncio.to_thread(_read, f"http://127.0.0.1:{front}/router/status"))
        left = sum(one["inFlight"] for one in status["backends"]), status["queue"]["waiting"]
        if left == (0, 0):
            break
        await asyncio.sleep(0.5)
    return left


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        data: bytes = answer.read()
    return data


def main() -> int:
    """0 when memory grew by less than 5 MiB, everything was given back and every request that could be was answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--restart-every", type=float, default=0, metavar="SECONDS", help="0: no restarts")
    arguments = parser.parse_args()
    document = uvloop.run(_soak(arguments.requests, arguments.connections, arguments.restart_every))
    print(json.dumps(document, indent=2))
    kept = document["growth_mib"] < 5 and not document["in_flight"] and not document["waiting"]
    return 0 if kept and not document["errors"] else 1


if __name__ == "__main__":
    sys.exit(main())
