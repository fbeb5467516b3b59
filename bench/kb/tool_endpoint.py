"""CPU of one call at `/mcp`: the endpoint of the knowledge base, and the server of the protocol's library.

`python -m bench.kb.tool_endpoint [CALLS]` prints JSON: milliseconds of CPU of the serving process for one `tools/call`
of a tool that does nothing, in both generations of the protocol, and its memory. Both answer with JSON and without
sessions, over kept connections; the library's runs on uvicorn, as it runs by itself. The processes alternate.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests import ports, waiting

SIDES = ("endpoint", "library")
ROUNDS = 5
STATELESS = "2026-07-28"
_META = "io.modelcontextprotocol/"


def serve(side: str, port: int) -> None:
    """Serve until killed."""
    if side == "library":
        from mcp.server.mcpserver import MCPServer

        server = MCPServer("bench", log_level="ERROR")

        @server.tool(description="Says it again.")
        def echo(text: str) -> str:
            return text

        server.run("streamable-http", port=port, json_response=True, stateless_http=True)
        return
    import prometheus_client
    import pydantic
    from aiohttp import web

    from kb import metrics
    from kb.service.http import mcp, problems, tool

    class Echo(pydantic.BaseModel):
        text: str

    async def work(asked: Any, _: tool.Call) -> tool.Answer:
        return tool.Answer(asked.text, {"result": asked.text})

    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    endpoint = mcp.Endpoint({}, meters, version="1", seconds=60)
    endpoint._tools["echo"] = tool.Tool("echo", "Echo", "Says it again.", Echo, (), work)
    application = web.Application(middlewares=[mcp.enveloped, problems.middleware(meters)])
    application.router.add_post(mcp.PATH, endpoint.post)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


def request(version: str, number: int) -> tuple[dict[str, Any], dict[str, str]]:
    """A call, and its headers."""
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": f"text {number}"}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    if version == STATELESS:
        params["_meta"] = {f"{_META}protocolVersion": version, f"{_META}clientCapabilities": {}}
        params["_meta"][f"{_META}clientInfo"] = {"name": "bench", "version": "1"}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, headers


def used(pid: int) -> tuple[float, int]:
    """Milliseconds of CPU of a process so far, and its resident memory in MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10.0, int(fields[21]) * 4096 >> 20


@contextlib.contextmanager
def _serving(side: str, port: int) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-m", __spec__.name, side, str(port)]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


async def measured(calls: int) -> dict[str, Any]:
    """CPU in milliseconds a call, by side and version: the median of the rounds."""
    costs: dict[str, list[float]] = {}
    memory: dict[str, int] = {}
    for _ in range(ROUNDS):
        for side in SIDES:
            port = ports.free()
            base = f"http://127.0.0.1:{port}"
            with _serving(side, port) as pid:
                async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
                    for version in ("2025-11-25", STATELESS):
                        cost = await _round(client, pid, version, calls)
                        costs.setdefault(f"{side} {version}", []).append(cost)
                memory[side] = used(pid)[1]
    medians = {key: sorted(values)[len(values) // 2] for key, values in costs.items()}
    return {"calls": calls, "msCpuPerCall": medians, "MiB": memory}


async def _round(client: httpx.AsyncClient, pid: int, version: str, calls: int) -> float:
    async def one(number: int) -> None:
        message, headers = request(version, number)
        answer = await client.post("/mcp?clientId=acme", json=message, headers=headers)
        assert answer.json()["result"]["content"][0]["text"] == f"text {number}", answer.text

    async def ready() -> bool:
        try:
            await one(0)
        except httpx.TransportError:
            return False
        return True

    await waiting.eventually(ready)
    for number in range(50):
        await one(number)
    before = used(pid)[0]
    for number in range(calls):
        await one(number)
    return round((used(pid)[0] - before) / calls, 3)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SIDES:
        serve(sys.argv[1], int(sys.argv[2]))
    else:
        print(json.dumps(asyncio.run(measured(int(sys.argv[1]) if sys.argv[1:] else 1_000)), indent=1))
