"""What a call of another server's tool leaves in the ledger, by what the server answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from clients import toolservers
from crds import tools
from orchestrator_job import errors
from orchestrator_job.effects.tools import mcp, port
from tests.fakes import tool_server
from tests.fakes.tool_server import ToolServer
from tests.orchestrator_job.effects.tools import parts


@pytest.fixture
async def server() -> AsyncIterator[ToolServer]:
    async with tool_server.running() as made:
        yield made


async def performed(server: ToolServer) -> dict[str, Any]:
    """The receipt of one call."""
    entry = tools.Server.model_validate({"name": "w", "url": server.url, "clients": ["*"], "tools": ["*"]})
    tool = mcp.ActingTool(toolservers.Offered(entry, "book", "Books.", {"type": "object"}))
    return await tool.effect(port.parse(tool, {"city": "Brno"}), parts.place()).perform("k")


def status(number: int, **headers: str) -> tool_server.Respond:
    async def respond(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=number, headers={name.replace("_", "-"): text for name, text in headers.items()})

    return respond


async def test_a_refusal_is_the_result_and_is_not_sent_again(server: ToolServer) -> None:
    server.answer = {"code": -32602, "message": "q must not be empty"}
    assert await performed(server) == {"text": "The server w refuses it: q must not be empty", "failed": True}
    server.before["tools/call"] = status(403)
    assert "403 Forbidden" in (await performed(server))["text"]
    assert len(server.calls) == 2


async def test_an_answer_that_cannot_be_read_is_the_result_and_says_so(server: ToolServer) -> None:
    server.answer = {"content": [{"type": "text", "text": "made \ud83d"}], "structuredContent": "no object"}
    assert await performed(server) == {"text": 'made ?\n"no object"', "failed": False}
    server.before["tools/call"] = status(200, Content_Type="text/html")
    receipt = await performed(server)
    assert receipt["failed"]
    assert receipt["text"].endswith("Whether it was done has to be looked up there.")


async def test_what_was_turned_away_unread_is_not_begun(server: ToolServer) -> None:
    server.before["tools/call"] = status(429, Retry_After="3")
    with pytest.raises(errors.NotBegun, match="asks to wait 3 seconds") as caught:
        await performed(server)
    assert caught.value.retry_after == 3
    server.before = {"initialize": status(503)}
    with pytest.raises(errors.NotBegun, match="Nothing was sent"):
        await performed(server)
    assert len(server.calls) == 1


@pytest.mark.parametrize("number", [202, 500, 504])
async def test_silence_is_neither_done_nor_not_begun(server: ToolServer, number: int) -> None:
    server.before["tools/call"] = status(number)
    with pytest.raises(toolservers.Away):
        await performed(server)
    assert len(server.calls) == 1
