"""What a call through each HTTP client costs its process: httpx's own pool, ours (`router.client.transport`), aiohttp.

    python -m bench.router.calls --calls 3000 --at-once 10

Microseconds of CPU a call, least of `--rounds`, all three in turn against the same backend: an embedding of 4 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp
import httpx
import uvloop

from bench.router import run
from router import client

_BODY = json.dumps({"model": "embed", "input": "x" * 1500}).encode()
_HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer x"}


async def _cost(call: Callable[[], Awaitable[object]], calls: int, at_once: int) -> float:
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await call()

    before = time.process_time()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return 1e6 * (time.process_time() - before) / calls


async def _measure(url: str, calls: int, at_once: int, rounds: int) -> dict[str, int]:
    async with (
        httpx.AsyncClient(trust_env=False) as plain,
        httpx.AsyncClient(transport=client.transport()) as pooled,
        aiohttp.ClientSession() as session,
    ):

        async def bare() -> bytes:
            async with session.post(url, data=_BODY, headers=_HEADERS) as answer:
                return await answer.read()

        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "httpx": lambda: plain.post(url, content=_BODY, headers=_HEADERS),
            "transport": lambda: pooled.post(url, content=_BODY, headers=_HEADERS),
            "aiohttp": bare,
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, call in ways.items():
                await _cost(call, 100, at_once)
                found[name].append(await _cost(call, calls, at_once))
        return {name: round(min(each)) for name, each in found.items()}


def main() -> int:
    """0 when ours costs less than httpx's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    server, port = run.start(["-m", "bench.router.backend"], {}, "listening")
    try:
        url = f"http://127.0.0.1:{port}/api/embed"
        found = uvloop.run(_measure(url, given.calls, given.at_once, given.rounds))
    finally:
        server.kill()
    print(json.dumps({"cpuMicrosecondsPerCall": found, "load_average": os.getloadavg()}, indent=2))
    return 0 if found["transport"] < found["httpx"] else 1


if __name__ == "__main__":
    sys.exit(main())
