"""The Kubernetes API is gone for seconds and no other router takes over: requests go on waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.router import apiserver, process, wire

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


class Leases:
    """An apiserver that keeps one Lease. While it is `away` it answers nothing."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] | None = None
        self.version = 0
        self.away = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if self.away:
            return web.json_response({"message": "away"}, status=503)
        if request.method == "GET":
            return web.json_response(self.kept or {"message": "none"}, status=200 if self.kept else 404)
        body = await request.json()
        if self.kept is not None and body["metadata"].get("resourceVersion") != str(self.version):
            return web.json_response({"message": "conflict"}, status=409)
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version), "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.kept = body
        return web.json_response(body)


async def test_requests_are_offered_again_when_the_router_goes_on_to_decide(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def hold(message: wire.Message, reader: Any, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(wire.plain(b"{}"))

    api = Leases()
    async with (
        apiserver.serving(api.serve, tmp_path) as kubeconfig,
        wire.backend(hold) as backend,
        process.running(
            tmp_path,
            [process.spec("raw", backend.url, numParallel=1)],
            lease="router",
            namespace="here",
            kubeconfig=kubeconfig,
        ) as router,
    ):
        await router.until(lambda s: s["active"])
        asks = [asyncio.create_task(wire.ask(router.port, wire.post("/api/chat", _CHAT))) for _ in range(3)]
        await router.until(lambda s: (s["backends"][0]["inFlight"], s["queue"]["waiting"]) == (1, 2))
        api.away = True
        await router.until(lambda s: not s["active"])
        api.away = False
        await router.until(lambda s: s["active"])
        gate.set()
        assert [(await ask).status for ask in asks] == [200] * 3
