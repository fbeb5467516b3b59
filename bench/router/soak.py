"""Does the router keep its size? Many embeddings, some of whose clients hang up in the middle.

    python -m bench.router.soak --requests 1000000

One in twenty asks for a stream instead and hangs up: before the first byte, or somewhere inside. Printed are requests,
hang-ups, resident memory after the warm-up and at the end, and whether slots and bodies were all given back.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import urllib.request
from typing import Any

from bench.router import load, run

_HANG_UP = 0.05
_WARM = 0.1


async def _client(port: int, numbers: itertools.count[int], requests: int, seen: dict[str, int]) -> None:
    chance = random.Random(next(numbers))
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while next(numbers) < requests:
        if streams is None:
            streams = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = streams
        try:
            if chance.random() < _HANG_UP:
                writer.write(load.GENERATE)
                for _ in range(chance.randint(0, 3)):
                    await reader.read(200)
                seen["hung_up"] += 1
                writer.close()
                streams = None
            else:
                writer.write(load.EMBED)
                await load.whole(reader)
                seen["answered"] += 1
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            seen["errors"] += 1
            writer.close()
            streams = None
    if streams is not None:
        streams[1].close()


async def _soak(requests: int, connections: int) -> dict[str, Any]:
    server, port = run.start(["-m", "bench.router.backend"], {}, "listening")
    specs = json.dumps([{"name": "b", "url": f"http://127.0.0.1:{port}", "numParallel": 4096}])
    environment = {"GPU_BACKENDS": specs, "JERVIS_ROUTER_PORT": "0", "JERVIS_ROUTER_HOST": "127.0.0.1"}
    router, front = run.start(["-m", "router"], environment, "serving")
    seen = dict.fromkeys(("answered", "hung_up", "errors"), 0)
    try:

        async def part(count: int) -> None:
            numbers = itertools.count()
            await asyncio.gather(*(_client(front, numbers, count, seen) for _ in range(connections)))
            await asyncio.sleep(1)  # let hang-ups arrive

        await part(round(requests * _WARM))
        warm = run.usage(router.pid)[1]
        await part(requests - round(requests * _WARM))
        after = run.usage(router.pid)[1]
        status = json.loads(await asyncio.to_thread(_read, f"http://127.0.0.1:{front}/router/status"))
        return {
            **seen,
            "rss_mib_warm": round(warm, 1),
            "rss_mib_after": round(after, 1),
            "growth_mib": round(after - warm, 1),
            "in_flight": status["backends"][0]["inFlight"],
            "waiting": status["queue"]["waiting"],
            "circuit": status["backends"][0]["circuit"],
            "load_average": os.getloadavg(),
        }
    finally:
        for process in (router, server):
            process.terminate()
            process.wait(30)


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        data: bytes = answer.read()
    return data


def main() -> int:
    """0 when memory grew by less than 5 MiB and everything was given back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=64)
    arguments = parser.parse_args()
    document = asyncio.run(_soak(arguments.requests, arguments.connections))
    print(json.dumps(document, indent=2))
    return 0 if document["growth_mib"] < 5 and not document["in_flight"] and not document["waiting"] else 1


if __name__ == "__main__":
    sys.exit(main())
