"""tests/accepting.py: a server that is closed while a connection comes in leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

from aiohttp import web


async def _closed_after(rounds: int) -> None:
    runner = web.AppRunner(web.Application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with socket.create_connection(runner.addresses[0]):
        for _ in range(rounds):
            await asyncio.sleep(0)
        await runner.cleanup()


def test_a_connection_that_comes_while_its_server_closes_is_closed() -> None:
    for rounds in range(6):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            asyncio.run(_closed_after(rounds))
            gc.collect()
        assert [str(each.message) for each in seen if each.category is ResourceWarning] == []
