"""Ask the knowledge base as an agent does, over the Model Context Protocol. Needs `pip install mcp`.

    python examples/mcp/client.py 'http://127.0.0.1:8080/mcp?clientId=acme&projectId=shop' "Who wrote the parser?"

The token, where the knowledge base asks for one, is read from JERVIS_KB_TOKEN.
"""

from __future__ import annotations

import asyncio
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def ask(url: str, token: str, question: str) -> str:
    """The evidence as text; the scope is the one that the URL names."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=90) as http,
        Client(streamable_http_client(url, http_client=http)) as agent,
    ):
        answer = await agent.call_tool("ask", {"query": question, "maxResults": 3})
    return "\n".join(part.text for part in answer.content if part.type == "text")


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(ask(sys.argv[1], os.environ.get("JERVIS_KB_TOKEN", ""), sys.argv[2])) + "\n")
