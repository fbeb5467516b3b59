"""Two thousand mixed requests: through the router and directly, byte for byte the same (bench/router runs 100,000)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.router import identity
from tests.router import process


async def test_answers_and_requests_are_identical(tmp_path: Path) -> None:
    backend = identity.Backend(2000)
    server = await asyncio.start_server(backend.accept, "127.0.0.1", 0, limit=1 << 24)
    port = server.sockets[0].getsockname()[1]
    try:
        specs = [process.spec("b", f"http://127.0.0.1:{port}")]
        async with process.running(tmp_path, specs, extra_paths='["/api/experimental"]') as router:
            assert await identity.compare(router.port, port, range(2000)) == []
            assert set(backend.bodies.values()) == {2}
            # Errors of every kind were among them, and none of them counted against what works.
            await router.until(
                lambda s: s["backends"][0]["circuit"] != "Open" and not s["backends"][0]["modelsFailing"]
            )
            assert await router.metric('jervis_router_backend_failures_total{backend="b",phase="first_byte"}') == 0
    finally:
        server.close()
        await backend.close()
