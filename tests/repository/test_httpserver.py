"""The servers that the tests open."""

from __future__ import annotations

import asyncio

import httpx

from tests import httpserver


def test_a_recorder_keeps_requests_and_answers_by_its_table_in_a_thread() -> None:
    table = {"/a": httpserver.fixed({"b": 1}), "/c": httpserver.fixed(b"d", 503, {"Retry-After": "7"})}
    with httpserver.Recorder(table).in_thread() as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        assert client.post("/a?q=1", json={"e": 2}).json() == {"b": 1}
        refused = client.get("/c")
        assert (refused.status_code, refused.content, refused.headers["Retry-After"]) == (503, b"d", "7")
        assert client.get("/elsewhere").status_code == 404
    assert server.calls() == [("POST", "/a?q=1"), ("GET", "/c"), ("GET", "/elsewhere")]
    first = server.requests[0]
    assert (first.query["q"], first.headers["content-type"], first.json()) == ("1", "application/json", {"e": 2})


async def test_a_handler_of_one_method_refuses_others() -> None:
    serving = httpserver.serving(httpserver.fixed({}), method="GET")
    async with serving as url, httpx.AsyncClient(trust_env=False) as client:
        assert [(await client.request(method, url)).status_code for method in ("GET", "POST")] == [200, 405]


async def test_connections_that_are_left_are_cut_at_the_end() -> None:
    ended: list[str] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"hello\n")
            await asyncio.Event().wait()
        finally:
            ended.append("cut")

    async with httpserver.tcp(converse) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.readline() == b"hello\n"
    assert ended == ["cut"]
    writer.close()
