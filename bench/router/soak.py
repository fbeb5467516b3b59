"""Does the router keep its size and lose nothing? Many mixed requests on three models that share slots.

    python -m bench.router.soak --requests 1000000
    python -m bench.router.soak --requests 1000000 --restart-every 15    # a backend is killed and started again

Seven in ten requests are embeddings, a quarter are short /v1 streams of a second model, and one in twenty is a stream
of a third model whose client hangs up: before the first byte, or somewhere inside. Two backends serve all models. With
restarts they are killed in turns; what an answer had begun for is cut with them (`cut`), all else has to be answered.
Printed are requests, hang-ups, resident memory after the warm-up and at the end, and whether all was given back.
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
import urllib.request
from collections import Counter
from typing import Any

from bench.router import load, run

_HANG_UP = 0.05
_STREAM = 0.25
_WARM = 0.1
_BACKENDS = 2


async def _events(reader: asyncio.StreamReader) -> bool:
    """Read a chunked answer to its end; whether it is whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ValueError(head.split(b"\r\n", 1)[0].decode("latin-1"))
    whole = False
    while (line := await reader.readuntil(b"\r\n")) != b"0\r\n":
        piece = await reader.readexactly(int(line, 16) + 2)
        whole = whole or b"[DONE]" in piece
    await reader.readexactly(2)
    return whole


async def _client(port: int, numbers: itertools.count[int], requests: int, seen: Counter[str]) -> None:
    chance = random.Random(next(numbers))
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while next(numbers) < requests:
        if streams is None:
            streams = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = streams
        kind, begun = chance.random(), False
        try:
            if kind < _HANG_UP:
                writer.write(load.GENERATE)
                for _ in range(chance.randint(0, 3)):
                    await reader.read(200)
                seen["hung_up"] += 1
                writer.close()
                streams = None
            elif kind < _HANG_UP + _STREAM:
                writer.write(load.COMPLETE)
                begun = True
                seen["streamed" if await _events(reader) else "cut"] += 1
            else:
                writer.write(load.EMBED)
                await load.whole(reader)
                seen["answered"] += 1
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            seen["cut" if begun and not isinstance(error, ValueError) else "errors"] += 1
            writer.close()
            streams = None
    if streams is not None:
        streams[1].close()


async def _restart(servers: list[tuple[subprocess.Popen[bytes], int]], every: float, seen: Counter[str]) -> None:
    """Kill one backend after the other, and start it again on its port; for ever."""
    for which in itertools.cycle(range(len(servers))):
        await asyncio.sleep(every)
        server, port = servers[which]
        server.kill()
        server.wait()
        await asyncio.sleep(1)  # as long as a server takes to start
        servers[which] = await asyncio.to_thread(run.start, ["-m", "bench.router.backend", str(port)], {}, "listening")
        seen["restarts"] += 1


async def _soak(requests: int, connections: int, every: float) -> dict[str, Any]:
    servers = [run.start(["-m", "bench.router.backend"], {}, "listening") for _ in range(_BACKENDS)]
    specs = json.dumps(
        [
            {"name": f"b{number}", "url": f"http://127.0.0.1:{port}", "numParallel": 16, "maxInFlight": 24}
            for number, (_, port) in enumerate(servers)
        ]
    )
    environment = {"GPU_BACKENDS": specs, "JERVIS_ROUTER_PORT": "0", "JERVIS_ROUTER_HOST": "127.0.0.1"}
    router, front = run.start(["-m", "router"], environment, "serving")
    seen = Counter[str]()
    restarts = asyncio.ensure_future(_restart(servers, every, seen)) if every else None
    try:

        async def part(count: int) -> None:
            numbers = itertools.count()
            await asyncio.gather(*(_client(front, numbers, count, seen) for _ in range(connections)))
            await asyncio.sleep(1)  # let hang-ups arrive

        await part(round(requests * _WARM))
        warm = run.usage(router.pid)[1]
        await part(requests - round(requests * _WARM))
        if restarts is not None:
            restarts.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await restarts
        after = run.usage(router.pid)[1]
        in_flight, waiting = await _left(front)
        return {
            **seen,
            "errors": seen["errors"],
            "rss_mib_warm": round(warm, 1),
            "rss_mib_after": round(after, 1),
            "growth_mib": round(after - warm, 1),
            "in_flight": in_flight,
            "waiting": waiting,
            "load_average": os.getloadavg(),
        }
    finally:
        if restarts is not None:
            restarts.cancel()
        for process in (router, *(server for server, _ in servers)):
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
    document = asyncio.run(_soak(arguments.requests, arguments.connections, arguments.restart_every))
    print(json.dumps(document, indent=2))
    kept = document["growth_mib"] < 5 and not document["in_flight"] and not document["waiting"]
    return 0 if kept and not document["errors"] else 1


if __name__ == "__main__":
    sys.exit(main())
