"""A web page that is not the service's own, on every path of the knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import metrics
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.service import serving

EVIL = {"Origin": "https://evil.example.com"}
AGENT = {"Origin": "https://agent.example.com"}


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[world.ObservedState]:
    async with world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content()) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/erasures"),
        ("POST", "/api/v1/retrieve"),
        ("POST", "/api/v1/content?clientId=acme"),
        ("DELETE", "/api/v1/documents?sourceUrn=u:1&clientId=acme&projectId=&groupId="),
        ("GET", "/api/v1/content/k?clientId=acme&projectId=&groupId="),
        ("POST", "/mcp"),
        ("GET", "/metrics"),
        ("OPTIONS", "/api/v1/retrieve"),
        ("GET", "/api/v1/nothing"),
    ],
)
async def test_a_page_of_another_origin_reaches_nothing(
    kb: world.ObservedState, meters: metrics.Metrics, method: str, path: str
) -> None:
    async with serving.over(kb, meters, origins=["https://agent.example.com"]) as (_, http):
        for origin in (EVIL, {"Origin": "null"}):
            # What a form can send, and what a script that asks before it sends can.
            for kind in ("text/plain", "application/json"):
                answer = await http.request(method, path, content=b"{}", headers={**origin, "Content-Type": kind})
                assert (answer.status_code, _problem(answer)["field"]) == (403, "Origin")
                assert "Access-Control-Allow-Origin" not in answer.headers
        rebound = await http.request(method, path, headers={"Host": "rebound.evil.com"})
        assert (rebound.status_code, _problem(rebound)["field"]) == (403, "Host")
        assert "JERVIS_KB_ALLOWED_HOSTS" in _problem(rebound)["remedy"]


def _problem(answer: httpx.Response) -> dict[str, Any]:
    """What is wrong, which /mcp says within an envelope of JSON-RPC."""
    error: dict[str, Any] = answer.json()["error"]
    return error["data"] if "jsonrpc" in answer.json() else error


async def test_json_is_said_to_be_json(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    async with serving.over(kb, meters) as (_, http):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", None):
            headers = {} if kind is None else {"Content-Type": kind}
            answer = await http.post("/api/v1/retrieve", content=b"{}", headers=headers)
            problem = answer.json()["error"]
            assert (answer.status_code, problem["code"], problem["field"]) == (
                415, "unsupported_media_type", "Content-Type",
            )  # fmt: skip
        fine = await http.post(
            "/api/v1/retrieve", content=b"{", headers={"Content-Type": "Application/JSON; charset=utf-8"}
        )
        assert fine.status_code == 400


async def test_a_page_that_a_setting_names_may_call_and_read(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    async with serving.over(kb, meters, origins=["https://agent.example.com"]) as (_, http):
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        preflight = await http.options("/api/v1/retrieve", headers=AGENT | asked)
        assert preflight.status_code == 204
        assert preflight.headers["Access-Control-Allow-Origin"] == AGENT["Origin"]
        assert preflight.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
        for answer in (
            await http.post("/api/v1/retrieve", json={}, headers=AGENT),
            await http.get("/api/v1/openapi.json", headers=AGENT),
            await http.get("/api/v1/nothing", headers=AGENT),
        ):
            assert answer.headers["Access-Control-Allow-Origin"] == AGENT["Origin"]
            assert answer.headers["Vary"] == "Origin"
        own = await http.get("/api/v1/openapi.json", headers={"Origin": _origin(http)})
        assert own.status_code == 200
        assert "Access-Control-Allow-Origin" not in own.headers


def _origin(http: httpx.AsyncClient) -> str:
    return str(http.base_url).rstrip("/")
