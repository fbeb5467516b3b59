"""Clients of agents that others wrote, before `/mcp`; what the product's own dependency does is in test_mcp.py.

`make test-tool-servers` fetches them once and names their folder in JERVIS_TEST_TOOL_SERVERS.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kb import metrics
from tests.kb import world
from tests.kb.service import callers, serving

PLACE = Path(os.environ.get("JERVIS_TEST_TOOL_SERVERS", ""))
pytestmark = pytest.mark.skipif(
    not os.environ.get("JERVIS_TEST_TOOL_SERVERS"),
    reason="JERVIS_TEST_TOOL_SERVERS names no folder: see make test-tool-servers",
)
PYTHON_CLIENT = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, token, query):
    async with streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as (read, write, _):
        async with ClientSession(read, write) as session:
            version = (await session.initialize()).protocolVersion
            names = [tool.name for tool in (await session.list_tools()).tools]
            answer = await session.call_tool("ask", {"query": query})
            wrong = await session.call_tool("ask", {})
            print(json.dumps([version, names, answer.content[0].text, wrong.isError]))

asyncio.run(main(*sys.argv[1:]))
"""
TYPESCRIPT_CLIENT = """
const [, modules, url, token, query] = process.argv;
const imported = modules.split(" ").map((name) => import(name));
const [{ Client }, { StreamableHTTPClientTransport }] = await Promise.all(imported);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const names = (await client.listTools()).tools.map((tool) => tool.name);
const answer = await client.callTool({ name: "ask", arguments: { query } });
const wrong = await client.callTool({ name: "ask", arguments: {} });
console.log(JSON.stringify([transport.protocolVersion ?? null, names, answer.content[0].text, wrong.isError]));
await client.close();
"""


@pytest.fixture
async def url(kb: world.ObservedState, meters: metrics.Metrics, tokens: Path) -> AsyncIterator[str]:
    await kb.ingest(world.request(world.MAIL))
    async with serving.over(kb, meters, gate=callers.gate(tokens)) as (_, http):
        yield f"{http.base_url}/mcp?clientId=acme&projectId=shop&groupId=retail"


async def ran(*command: str | Path, folder: Path = PLACE) -> Any:
    """What a client prints, as JSON."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()[-2_000:]
    return json.loads(output)


QUESTION = "Who wrote UserService.kt?"


async def test_the_sdk_of_python_of_protocol_2025_03(url: str) -> None:
    python = PLACE / "client" / "bin" / "python"
    version, names, text, wrong = await ran(python, "-c", PYTHON_CLIENT, url, "reader-token", QUESTION)
    assert version == "2025-03-26"
    assert names == ["ask", "search", "graph", "searchHybrid"]
    assert ("email::<m1@acme.com>" in text, wrong) == (True, True)


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        (("mcp-sdk-earlier/client/index.js", "mcp-sdk-earlier/client/streamableHttp.js"), "2025-03-26"),
        (
            ("@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/streamableHttp.js"),
            "2025-11-25",
        ),
        (("@modelcontextprotocol/client", "@modelcontextprotocol/client"), "2025-11-25"),
    ],
    ids=["earlier", "sdk", "newest"],
)
async def test_the_sdk_of_typescript(url: str, modules: tuple[str, str], expected: str) -> None:
    node = ("node", "--input-type=module", "-e", TYPESCRIPT_CLIENT, "--", " ".join(modules))
    version, names, text, wrong = await ran(*node, url, "reader-token", QUESTION)
    assert version in (expected, None)
    assert names == ["ask", "search", "graph", "searchHybrid"]
    assert ("email::<m1@acme.com>" in text, wrong) == (True, True)


async def test_the_inspector(url: str) -> None:
    # It finds its own name from where it is started.
    folder = PLACE / "node_modules" / "@modelcontextprotocol" / "inspector-cli" / "build"
    inspect = (
        "node",
        folder / "index.js",
        url,
        "--transport",
        "http",
        "--header",
        "Authorization: Bearer reader-token",
    )
    listed = await ran(*inspect, "--method", "tools/list", folder=folder)
    assert [tool["name"] for tool in listed["tools"]] == ["ask", "search", "graph", "searchHybrid"]
    asked = ("--method", "tools/call", "--tool-name", "ask", "--tool-arg", f"query={QUESTION}")
    answer = await ran(*inspect, *asked, folder=folder)
    assert "email::<m1@acme.com>" in answer["content"][0]["text"]
